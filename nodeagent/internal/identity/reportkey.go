package identity

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/signer"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// reportKeyFile holds the report key: a file of its own, which an older agent leaves alone.
const reportKeyFile = "report-key.json"

// ReportKey is the key with which the node proves what it says; see wire.Prove.
type ReportKey []byte

// savedReportKey is a report key as its file has it.
type savedReportKey struct {
	Join   string `json:"join"`   // that it belongs to
	Serial string `json:"serial"` // of the certificate that it was given for
	Key    []byte `json:"key"`
}

// loadReportKey reads the report key of this join; none if there is none, or one that cannot be read: the controller
// gives it again. The error says that the key program, which may have it, does not answer.
func (k *Renewer) loadReportKey() (s savedReportKey, err error) {
	if k.cfg.Program != nil {
		var label string
		label, s.Key, err = k.cfg.Program.Read(context.Background())
		if err == nil {
			s.Serial, s.Join, _ = strings.Cut(label, " ")
			return k.ofThisJoin(s), nil
		}
		if !errors.Is(err, &wire.Error{Code: wire.CodeNotFound}) {
			return savedReportKey{}, err
		}
	}
	data, err := os.ReadFile(filepath.Join(k.cfg.Dir, reportKeyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return savedReportKey{}, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &s, json.RejectUnknownMembers(true))
	}
	if err != nil {
		k.cfg.Log.Warn("the report key cannot be read, and is asked for again", zap.Error(err))
		return savedReportKey{}, nil
	}
	return k.ofThisJoin(s), nil
}

func (k *Renewer) ofThisJoin(s savedReportKey) savedReportKey {
	if s.Join == k.Current().join && len(s.Key) == wire.ReportKeySize {
		return s
	}
	return savedReportKey{}
}

// saveReportKey keeps a report key: with the key program if there is one, else in its file.
func (k *Renewer) saveReportKey(s savedReportKey) error {
	path := filepath.Join(k.cfg.Dir, reportKeyFile)
	if k.cfg.Program != nil {
		if err := k.cfg.Program.Store(context.Background(), s.Serial+" "+s.Join, s.Key); err != nil {
			return fmt.Errorf("keep the report key: %w", err)
		}
		if err := durable.Remove(path); err != nil { // of before there was a key program
			return fmt.Errorf("identity: %w", err)
		}
		return nil
	}
	data, err := json.Marshal(&s)
	if err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	if err := durable.WriteFile(path, data, 0o600, k.cfg.Steps); err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	return nil
}

// ReportKey returns the report key that is kept; none if the node has not got one yet, or the key program does not
// answer: then no connection comes about before OnReportKey was called.
func (k *Renewer) ReportKey() ReportKey {
	s, err := k.loadReportKey()
	if err != nil {
		k.cfg.Log.Warn("the report key is not there yet", zap.Error(err))
		return nil
	}
	k.setReportKey(s)
	return ReportKey(s.Key)
}

func (k *Renewer) setReportKey(s savedReportKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.have, k.known = s, true
}

func (k *Renewer) currentReportKey() (s savedReportKey, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.have, k.known
}

// fetchReportKey has the report key from the key program before the first connection: once the controller has seen a
// proof, it believes nothing without one.
func (k *Renewer) fetchReportKey() error {
	if _, known := k.currentReportKey(); known || k.cfg.Program == nil {
		return nil
	}
	s, err := k.loadReportKey()
	if err != nil {
		return err
	}
	k.setReportKey(s)
	if s.Key != nil && k.cfg.OnReportKey != nil {
		k.cfg.OnReportKey(ReportKey(s.Key))
	}
	return nil
}

// RunReportKey asks the controller for the report key of each new certificate, keeps it, and hands it to OnReportKey,
// until ctx ends. first is whether it may ask for the first one: an agent on trial may not, since the agent that it may
// go back to might not know how to use it, and would not be believed any more.
func (k *Renewer) RunReportKey(ctx context.Context, first bool) {
	beat := k.cfg.Watch.Start("report key", timeout+signer.Limit)
	defer beat.End()
	if _, known := k.currentReportKey(); !known {
		k.ReportKey()
	}
	vain := 0
	for ctx.Err() == nil {
		have, _ := k.currentReportKey()
		if serial := k.Current().cert.Leaf.SerialNumber.Text(16); serial == have.Serial || !first && have.Key == nil {
			select {
			case <-ctx.Done():
			case <-k.next: // until it has the next one, the key of the certificate before counts
			case <-beat.C:
				beat.Beat()
			}
			continue
		}
		got, err := k.reportKey(ctx)
		if err == nil {
			vain = 0
			k.setReportKey(got)
			if k.cfg.OnReportKey != nil {
				k.cfg.OnReportKey(ReportKey(got.Key))
			}
			continue
		}
		if ctx.Err() == nil {
			k.cfg.Log.Warn("the controller was asked in vain for the report key", zap.Error(err))
		}
		p := min(keysPause<<min(vain, 16), maxKeysPause)
		vain++
		beat.Sleep(ctx, p/2+rand.N(p/2))
	}
}

// reportKey asks for the report key of the certificate in use. It is on the disk before it is used.
func (k *Renewer) reportKey(ctx context.Context) (savedReportKey, error) {
	id := k.Current()
	a, err := post(ctx, k.cfg.Dial, k.TLS(jointoken.ServerName), k.door(id)+jointoken.ReportKeyPath, []byte("{}"),
		jointoken.DecodeReportKey)
	if err != nil {
		return savedReportKey{}, err
	}
	if a.Unit != id.Unit || a.Node != id.Node {
		return savedReportKey{}, fmt.Errorf("the key is for node %q of unit %q; this is %q of %q", a.Node, a.Unit,
			id.Node, id.Unit)
	}
	s := savedReportKey{Join: id.join, Serial: a.Serial, Key: a.Key}
	return s, k.saveReportKey(s)
}
