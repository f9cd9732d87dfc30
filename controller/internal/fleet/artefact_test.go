package fleet

import (
	"strings"
	"testing"

	"tandem.internal/controller/internal/artefact"
	"tandem.internal/controller/internal/kinds/policies"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// answered returns why a step was refused; nil: it was not.
func answered(t *testing.T, effects []Effect) *wire.Error {
	t.Helper()
	for _, e := range effects {
		if a, ok := e.(Answer); ok {
			if a.Err == nil {
				return nil
			}
			return wire.AsError(a.Err)
		}
	}
	t.Fatal("no answer")
	return nil
}

// TestRemovalMeetsRelease: an artefact stays that a version of the agent began to need after it was found that nothing
// refers to it, and goes when that is withdrawn.
func TestRemovalMeetsRelease(t *testing.T) {
	h := newRig(t)
	digest := wire.Hash([]byte("agent"))
	for _, ev := range []artefact.Event{
		artefact.Begin{Digest: digest, Size: 5, Quota: 10, Free: 10},
		artefact.Complete{Digest: digest, Chunks: digest},
	} {
		if err := answered(t, h.step(Artefact{Ticket: 1, Event: ev})); err != nil {
			t.Fatal(err)
		}
	}
	build := view.AgentBuild{Arch: "amd64", Hash: digest, Size: 5, Stored: true}
	change := func(d record.ReleaseData) *wire.Error {
		d.Version = "1.5.0"
		return answered(t, h.step(Change{Ticket: 1, Source: policies.KindReleases, Data: d, Who: "ann"}))
	}
	remove := Artefact{Ticket: 1, Event: artefact.Remove{Digest: digest}} // decided on before
	if err := change(record.ReleaseData{Builds: []view.AgentBuild{build}}); err != nil {
		t.Fatal(err)
	}
	err := answered(t, h.step(remove))
	if err == nil || err.Code != wire.CodeWrongState || !strings.Contains(err.Message, "version 1.5.0 of the agent") {
		t.Errorf("%v", err)
	}
	if _, there := h.f.Artefact(digest); !there {
		t.Error("it is removed")
	}
	if err := change(record.ReleaseData{Removed: true}); err != nil {
		t.Fatal(err)
	}
	if err := answered(t, h.step(remove)); err != nil {
		t.Error(err)
	}
	h.replays()
}
