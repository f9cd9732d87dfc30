package identity

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"time"

	"go.uber.org/zap"

	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

// Keys is a list of the unit's signing keys that the unit's CA vouches for.
type Keys struct {
	List []wire.Key // the oldest first
	Rev  uint64     // number of the list
}

// Pauses between two questions for the keys. Whoever can write at the broker can make a node ask; if
// that brings nothing new, the next question comes later.
const (
	keysPause    = 30 * time.Second
	maxKeysPause = time.Hour
)

// AskKeys has RunKeys ask the controller which keys sign: something was signed by one that the node does
// not believe. It returns at once.
func (k *Renewer) AskKeys() { signal(k.asked) }

// signal puts the one token into a channel.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// RunKeys asks the controller for the unit's signing keys whenever AskKeys was called, over a connection
// on which the unit's CA vouches for both, and hands the answer to OnKeys. It goes on until ctx ends.
func (k *Renewer) RunKeys(ctx context.Context) {
	beat := k.cfg.Watch.Start("keys", timeout)
	defer beat.End()
	vain := 0 // questions in a row that brought nothing new
	var last uint64
	for {
		beat.Beat()
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			continue
		case <-k.asked:
		}
		l, err := k.keys(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			k.cfg.Log.Warn("the controller was asked in vain which keys sign", zap.Error(err))
			vain++
			k.AskKeys()
		case err == nil:
			if vain++; l.Rev != last {
				vain = 0
			}
			last = l.Rev
			if k.cfg.OnKeys != nil {
				k.cfg.OnKeys(l)
			}
		}
		p := min(keysPause<<min(vain, 16), maxKeysPause)
		beat.Sleep(ctx, p/2+rand.N(p/2))
	}
}

func (k *Renewer) keys(ctx context.Context) (Keys, error) {
	id := k.Current()
	a, err := post(ctx, k.cfg.Dial, k.TLS(jointoken.ServerName), k.door(id)+jointoken.KeysPath, []byte("{}"),
		jointoken.DecodeKeys)
	if err != nil {
		return Keys{}, err
	}
	if a.Unit != id.Unit {
		return Keys{}, fmt.Errorf("the controller keeps unit %q, not %q", a.Unit, id.Unit)
	}
	for _, key := range a.UnitKeys {
		if seal.KeyID(key.Ed25519) != key.ID {
			return Keys{}, fmt.Errorf("key %s is not what its ID says", key.ID)
		}
	}
	return Keys{List: a.UnitKeys, Rev: a.KeysRev}, nil
}

// door is where the controller is asked.
func (k *Renewer) door(id *Identity) string {
	if k.cfg.Controller != "" {
		return k.cfg.Controller
	}
	return id.Controller
}

// Door is where the join door is, HOST:PORT.
func (k *Renewer) Door() (string, error) {
	u, err := url.Parse(k.door(k.Current()))
	if err != nil {
		return "", fmt.Errorf("identity: the controller's address: %w", err)
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443")), nil
}
