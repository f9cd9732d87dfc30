// Package slottest does what the launcher does with the slots of a node, for tests that start agents without it.
package slottest

import (
	"context"
	"path/filepath"

	"tandem.internal/nodeagent/app"
	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/wire"
)

// Slots are the slots of a node.
type Slots struct {
	cfg   slot.Config
	store *slot.Store
}

// Open takes the slots of a state directory. What is staged says of itself which version it is, by selfTest; the other
// seams are those of app.Deps.
func Open(stateDir string, machine func() app.Evidence, steps durable.Steps,
	selfTest func(ctx context.Context, path string) (string, error)) Slots {
	cfg := slot.Config{Dir: filepath.Join(stateDir, slot.Dir), Machine: machine, Steps: steps, SelfTest: selfTest}
	return Slots{cfg, slot.Open(cfg)}
}

// Start decides which slot starts now and writes it down. path is the file that is to be started, "" for the installed
// binary; env is what the agent is to find in its environment.
func (s Slots) Start() (path string, env []string, err error) {
	l, err := s.store.Starting().Next(nil)
	return l.Path, l.Env(), err
}

// Stage writes a file to the free slot and verifies it, but for who has signed it.
func (s Slots) Stage(ctx context.Context, file string) error { return s.StageSigned(ctx, file, "") }

// StageSigned is Stage with a publisher's signature; "": none.
func (s Slots) StageSigned(ctx context.Context, file, signature string) error {
	_, err := s.store.Stage(ctx, slot.Source{File: file, Signature: signature})
	return err
}

// TryOnce stages and arms a version as one does who demands signatures by these keys, and gives it up before it starts:
// what the node remembers of it stays.
func (s Slots) TryOnce(ctx context.Context, file, signature string, keys publisher.Keys) error {
	cfg := s.cfg
	cfg.Publishers = keys
	store := slot.Open(cfg)
	got, err := store.Stage(ctx, slot.Source{File: file, Signature: signature})
	if err != nil {
		return err
	}
	if err := store.Arm(got.Slot, slot.DefaultTries); err != nil {
		return err
	}
	_, err = store.Rollback(got.Slot, wire.BootFallback, "given up by a test")
	return err
}
