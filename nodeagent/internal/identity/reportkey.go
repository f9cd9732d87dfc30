package identity

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

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
// gives it again.
func (k *Renewer) loadReportKey() savedReportKey {
	var s savedReportKey
	data, err := os.ReadFile(filepath.Join(k.cfg.Dir, reportKeyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s
	}
	if err == nil {
		err = json.Unmarshal(data, &s, json.RejectUnknownMembers(true))
	}
	if err == nil && s.Join == k.Current().join && len(s.Key) == wire.ReportKeySize {
		return s
	}
	if err != nil {
		k.cfg.Log.Warn("the report key cannot be read, and is asked for again", zap.Error(err))
	}
	return savedReportKey{}
}

// ReportKey returns the report key that the disk has; none if the node has not got one yet.
func (k *Renewer) ReportKey() ReportKey { return ReportKey(k.loadReportKey().Key) }

// RunReportKey asks the controller for the report key of each new certificate, keeps it, and hands it to OnReportKey,
// until ctx ends. first is whether it may ask for the first one: an agent on trial may not, since the agent that it may
// go back to might not know how to use it, and would not be believed any more.
func (k *Renewer) RunReportKey(ctx context.Context, first bool) {
	beat := k.cfg.Watch.Start("report key", timeout)
	defer beat.End()
	have := k.loadReportKey()
	vain := 0
	for ctx.Err() == nil {
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
			have, vain = got, 0
			if k.cfg.OnReportKey != nil {
				k.cfg.OnReportKey(ReportKey(have.Key))
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
	data, err := json.Marshal(&s)
	if err != nil {
		return savedReportKey{}, fmt.Errorf("identity: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(k.cfg.Dir, reportKeyFile), data, 0o600, k.cfg.Steps); err != nil {
		return savedReportKey{}, fmt.Errorf("identity: %w", err)
	}
	return s, nil
}
