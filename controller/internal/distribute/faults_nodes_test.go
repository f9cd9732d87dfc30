package distribute

import (
	"bytes"
	"context"
	"os"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

func live(node string, session uint64) (to string, payload []byte) {
	return topic.ForNode(faultyUnit, node).Live(),
		wire.Encode(&wire.Live{V: wire.Version, Node: node, Boot: "b", Session: session, Up: true})
}

func info(node string, seq uint64) (to string, payload []byte) {
	detail := wire.Encode(&wire.NodeInfo{Type: "m", OS: "linux", Arch: "arm64", AgentVersion: "1"})
	return topic.ForNode(faultyUnit, node).Reported(wire.KindInfo),
		wire.Encode(&wire.Reported{V: wire.Version, Node: node, Kind: wire.KindInfo, Boot: "b", Seq: seq,
			Detail: detail})
}

// join brings a node up; it must be heard.
func (r *faulty) join(node string) {
	r.Helper()
	for _, say := range []func(string, uint64) (string, []byte){live, info} {
		if err := r.hear(say(node, 1)); err != nil {
			r.Fatal(err)
		}
	}
}

// submit gives a configuration as an operator does, without asking the nodes.
func (r *faulty) submit(version string) (view.Result, error) {
	return r.core.Submit(r.Context(),
		view.Submission{Kind: "config", Document: faultyDoc(version), Who: "tester", Via: "http", Offline: true})
}

// install submits a configuration that must be accepted.
func (r *faulty) install(version string) {
	r.Helper()
	if got, err := r.submit(version); err != nil || got.State != "accepted" {
		r.Fatalf("%s: %+v %v", version, got, err)
	}
	synctest.Wait()
}

// mustBe checks an error's code; "" is none.
func (r *faulty) mustBe(what string, err error, code wire.Code) {
	r.Helper()
	switch {
	case err == nil && code != "":
		r.Errorf("%s: no error, want %s", what, code)
	case err != nil && (code == "" || wire.AsError(err).Code != code):
		r.Errorf("%s: %v, want code %q", what, err, code)
	}
}

// status returns the unit configuration's state, which must be there to be seen.
func (r *faulty) status() view.SourceStatus {
	r.Helper()
	s, err := r.core.SourceStatus(r.Context(), wire.KindConfig)
	if err != nil {
		r.Fatal(err)
	}
	return s
}

// recover waits until a broken journal is back.
func (r *faulty) recover() {
	r.Helper()
	for began := time.Now(); r.core.Refusing() != nil; time.Sleep(time.Second) {
		if time.Since(began) > 2*maxReopenPause {
			r.Fatalf("still refusing after %v: %v", time.Since(began), r.core.Refusing())
		}
	}
	synctest.Wait()
}

// records reads the journal's records of some types.
func (r *faulty) records(types ...record.Type) (all []record.Record) {
	r.Helper()
	err := r.core.journal.Load().Scan(journal.Filter{Types: types}, func(rec record.Record) error {
		rec.Data = bytes.Clone(rec.Data)
		all = append(all, rec)
		return nil
	})
	if err != nil {
		r.Fatal(err)
	}
	return all
}

// whole checks that what the journal holds is the live state and that no document is missing.
func (r *faulty) whole() {
	r.Helper()
	if err := r.core.Audit(r.Context()); err != nil {
		r.Error(err)
	}
	r.bodies()
}

// bodies checks that every document which nodes should have, or which was ever accepted, is there.
func (r *faulty) bodies() {
	r.Helper()
	used, err := r.core.bodiesInUse(r.Context(), r.core.journal.Load())
	if err != nil {
		r.Fatal(err)
	}
	for hash := range used {
		if _, err := r.core.body(hash); err != nil && hash != "" {
			r.Error(err)
		}
	}
}

func (r *faulty) look(f func(*fleet.Fleet)) {
	r.Helper()
	if err := r.core.look(r.Context(), f); err != nil {
		r.Fatal(err)
	}
}

func (r *faulty) file() string {
	r.Helper()
	data, err := os.ReadFile(r.core.cfg.Copy)
	if err != nil {
		r.Fatal(err)
	}
	return string(data)
}

func (r *faulty) write(data []byte) {
	r.Helper()
	if err := os.WriteFile(r.core.cfg.Copy, data, 0o600); err != nil {
		r.Fatal(err)
	}
}

// as returns a context in which somebody asks.
func as(ctx context.Context, who string) context.Context { return caller.Named(ctx, who, "http") }
