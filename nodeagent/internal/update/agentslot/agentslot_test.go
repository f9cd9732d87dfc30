package agentslot

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/shared/wire"
)

// verb runs a verb twice, and wants the same of both: "active trying staged restart", or the error.
func (w *world) verb(verb update.Verb, job update.Job, want string) {
	w.t.Helper()
	for range 2 {
		st, err := w.program().Run(w.t.Context(), verb, job)
		words := []string{st.Active, "trying " + st.Trying, "staged " + st.Staged, string(st.Restart), st.NoWayBack}
		got := strings.Join(words, ", ")
		switch {
		case errors.Is(err, update.ErrFailed):
			got = "failed"
		case err != nil:
			got = err.Error()
		}
		if got = strings.TrimRight(got, ", "); got != want {
			w.t.Errorf("%s %s: %s, want %s (%v)", verb, job.Version, got, want, err)
		}
	}
}

func TestVerbs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "two")
	if err := os.WriteFile(file, []byte("2"), 0o600); err != nil {
		t.Fatal(err)
	}
	two := update.Job{Version: "2", File: file, Hash: wire.Hash([]byte("2"))}
	two.Why = update.Why{Reason: wire.BootFallback, Detail: "no sound"}
	wrong := two
	wrong.Hash = wire.Hash([]byte("3"))
	w := newWorld(t, file)
	w.verb(update.Show, update.Job{}, "1, trying , staged")
	w.verb(update.Activate, two, "failed")
	w.verb(update.Install, wrong, "failed")
	w.verb(update.Install, two, "1, trying , staged 2")
	w.verb(update.Activate, wrong, "failed")
	w.verb(update.Rollback, two, "1, trying , staged")
	w.verb(update.Install, two, "1, trying , staged 2")
	w.verb(update.Activate, two, "1, trying 2, staged , agent")
	w.verb(update.Commit, two, "failed") // it was not started yet
	w.launch()
	w.verb(update.Verify, two, "1, trying 2, staged")
	w.verb(update.Rollback, two, "1, trying , staged , agent")
	if st, err := w.slots().Status(); err != nil || st.Next == nil || st.Next.Detail != "no sound" || !st.Next.Planned {
		t.Errorf("the reason of the restart: %+v, %v", st.Next, err)
	}
	w.launch()
	w.verb(update.Show, two, "1, trying , staged")
	w.verb(update.Install, two, "1, trying , staged 2")
	w.verb(update.Activate, two, "1, trying 2, staged , agent")
	w.launch()
	w.verb(update.Commit, two, "2, trying , staged")
}

// Somebody at the node has armed another version than the one that a verb is about.
func TestLeavesOtherVersionsAlone(t *testing.T) {
	w := newWorld(t, "")
	if _, err := w.slots().StageFrom(t.Context(), strings.NewReader("3"), slot.Source{}); err != nil {
		t.Fatal(err)
	}
	two := update.Job{Version: "2", Why: update.Why{Reason: wire.BootFallback}}
	w.verb(update.Rollback, two, "1, trying , staged 3")
	w.verb(update.Activate, two, "failed")
	if err := w.slots().Arm(record.B, 2); err != nil {
		t.Fatal(err)
	}
	w.launch()
	w.verb(update.Rollback, two, "1, trying 3, staged")
	w.verb(update.Commit, two, "failed")
	w.verb(update.Show, two, "1, trying 3, staged")
}

// Between a verb's look and its step somebody at the node is faster: what that one did stands, and the verb looks
// again.
func TestSomebodyIsFaster(t *testing.T) {
	two := update.Job{Version: "2", Why: update.Why{Reason: wire.BootFallback, Detail: "no sound"}}
	stage := func(w *world, version string) {
		if _, err := w.slots().StageFrom(t.Context(), strings.NewReader(version), slot.Source{}); err != nil {
			t.Fatal(err)
		}
	}
	try := func(w *world) {
		if err := w.slots().Arm(record.B, 2); err != nil {
			t.Fatal(err)
		}
		w.launch()
	}
	commit := func(w *world) {
		if err := w.slots().Commit(record.B); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name      string
		verb      update.Verb
		trial     bool
		meanwhile func(w *world)
		want      string
	}{
		{"rolls back what was committed", update.Rollback, true, commit, "2, trying , staged"},
		{"arms another version", update.Activate, false, func(w *world) { stage(w, "3") }, "1, trying , staged 3"},
		{"discards another version", update.Rollback, false, func(w *world) { stage(w, "3") },
			"1, trying , staged 3"},
		{"discards what was armed", update.Rollback, false, try, "1, trying 2, staged"},
	} {
		w := newWorld(t, "")
		stage(w, "2")
		if c.trial {
			try(w)
		}
		locks := 0
		w.disk.lock = func() {
			if locks++; locks == 2 { // the first is the look's
				c.meanwhile(w)
			}
		}
		if _, err := w.program().Run(t.Context(), c.verb, two); !errors.Is(err, update.ErrLater) {
			t.Errorf("%s: %v", c.name, err)
		}
		w.verb(update.Show, two, c.want)
	}
}
