package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"math/rand/v2"
	"os"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/kinds/policies"
	"tandem.internal/nodeagent/internal/policy"
	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/settings"
	"tandem.internal/shared/wire"
)

func (a *Agent) policiesKind(dir string) policies.Config {
	chance := rand.New(rand.NewPCG(a.deps.Rand.Uint64(), a.deps.Rand.Uint64())) // of the kind's own goroutine
	return policies.Config{
		Dir: dir, Now: a.now, Chance: chance.Float64, Log: a.kindLog(wire.KindPolicies), Steps: a.deps.Steps,
		Open: func(dir string) (policies.Store, error) {
			return a.openFiles(wire.KindPolicies, dir, "releases", a.torrents)
		},
		Serves: a.torrents != nil && a.cfg.PeerListen != "",
		Stage:  a.stageRelease,
	}
}

// maxNodePolicy bounds the file of --node-policy: the report of the node has it whole.
const maxNodePolicy = 16 << 10

// nodePolicy reads the file of --node-policy. What it says is the controller's to read: only that it is one JSON object
// is looked at here. The error is a *UsageError.
func (c Config) nodePolicy() (jsontext.Value, error) {
	const setting = "node-policy"
	if c.NodePolicy == "" {
		return nil, nil
	}
	data, err := durable.ReadFile(c.NodePolicy, maxNodePolicy)
	if err != nil {
		return nil, bad(setting, "%v", err)
	}
	v := jsontext.Value(data)
	if err := v.Compact(); err != nil {
		return nil, bad(setting, "file %s is no JSON: %v", c.NodePolicy, err)
	}
	if v.Kind() != '{' {
		return nil, bad(setting, "file %s has no object; tandem policy match --node FILE says what is wrong with one",
			c.NodePolicy)
	}
	return v, nil
}

// describeMachine says which machine this is, and whether the agent is in a container of its own.
func describeMachine(info *wire.NodeInfo) {
	attributes := maps.Clone(info.Attributes)
	if attributes == nil {
		attributes = map[string]string{}
	}
	if id, err := durable.ReadFile("/etc/machine-id", 256); err == nil { // which others must not learn as it is
		sum := sha256.Sum256(append([]byte("tandem "), bytes.TrimSpace(id)...))
		attributes[wire.AttributeHardware] = hex.EncodeToString(sum[:16])
	}
	for _, mark := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(mark); err == nil {
			attributes[wire.AttributeContainer] = "true"
		}
	}
	if len(attributes) <= wire.MaxAttributes {
		info.Attributes = attributes
	}
}

// own returns the agent's own update, nil if it was not started by the launcher.
func (a *Agent) own() *part {
	for _, p := range a.node.parts {
		if p.own {
			return p
		}
	}
	return nil
}

// updatePolicies says to the policies how the agent's own update stands.
func (a *Agent) updatePolicies() {
	u := policy.Update{Running: settings.Version}
	if p := a.own(); p != nil {
		if !p.state.Answered() {
			return
		}
		r := p.state.Record
		u = policy.Update{Running: r.Has.Active, Slots: true, Number: r.Number, Note: r.Note, Quarantine: r.Quarantine,
			GivenUp: r.Phase == update.RollingBack || r.Phase == update.Leaving}
		for _, o := range []update.Outcome{r.Last, r.Before} {
			if o.Number != 0 {
				u.Ended = append(u.Ended, policy.Outcome{Number: o.Number, Kept: o.Committed, Tried: o.Tried,
					Version: o.Version, Why: o.Why.Detail})
			}
		}
	}
	var err error
	if u.Floor, err = a.node.slots.Floor(); err != nil { // whoever stages says so again
		a.log.Warn("what a policy wants may turn out to be too low", zap.Error(err))
	}
	a.policies.Updated(u)
}

// stageRelease stages a release of the agent, and has it tried. It is called in the background.
func (a *Agent) stageRelease(ctx context.Context, r wire.AgentRelease, path, by string) (
	number uint64, err *wire.Error, final bool) {

	if _, err := a.node.slots.Stage(ctx, slot.Source{File: path, Version: r.Version, Hash: r.Hash,
		Signature: r.Minisign}); err != nil {
		return 0, failed(err), errors.Is(err, slot.ErrRefused)
	}
	type answer struct {
		number uint64
		err    *wire.Error
	}
	done := make(chan answer, 1)
	host{a}.Do(func() {
		err := a.tryPart(&wire.TryParams{Version: r.Version}, by)
		ans := answer{err: err}
		if p := a.own(); p != nil {
			ans.number = p.state.Number
		}
		done <- ans
	})
	select {
	case ans := <-done:
		return ans.number, ans.err, ans.err != nil && ans.err.Code == wire.CodeQuarantined
	case <-ctx.Done():
		return 0, wire.New(wire.CodeInterrupted, "", "the agent stops"), false
	}
}
