package seal

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/shared/wire"
)

func TestSubmissionPreimage(t *testing.T) {
	s := &wire.Submission{V: wire.Version, ID: "s-9", From: "fleet", Mode: wire.ModeTry, ConfirmWithin: "PT2M",
		Force: true, Name: "p", AllNodes: true, Time: time.Date(2026, 11, 20, 10, 0, 0, 5000, time.UTC),
		Document: []byte(`{"a":1}`)}
	want := "tandem/1/submission\nunit u1\nwhat config\nid s-9\nfrom fleet\ntime 2026-11-20T10:00:00.000005Z\n" +
		"mode try\nconfirmWithin PT2M\nforce true\ndocument " + wire.Hash([]byte(`{"a":1}`)) +
		"\nname p\nallNodes true\n"
	if got := string(SubmissionPreimage("u1", "config", s)); got != want {
		t.Errorf("%s", got)
	}
	s.Rollout = []byte(`{"waves":[]}`)
	want += "rollout " + wire.Hash(s.Rollout) + "\n"
	if got := string(SubmissionPreimage("u1", "config", s)); got != want {
		t.Errorf("%s", got)
	}
	a := &wire.Answer{ID: "s-9", Version: "2.0.0", State: "refused", Error: wire.New(wire.CodeExpired, "/time", "text"),
		Time: s.Time, Of: wire.Hash([]byte("payload"))}
	want = "tandem/1/answer\nunit u1\nwhat config\nid s-9\nversion 2.0.0\nstate refused\nerror expired\n" +
		"time 2026-11-20T10:00:00.000005Z\nof " + wire.Hash([]byte("payload")) + "\n"
	if got := string(AnswerPreimage("u1", "config", a)); got != want {
		t.Errorf("%s", got)
	}
}

func TestStatusPreimage(t *testing.T) {
	at := time.Date(2026, 11, 20, 10, 0, 0, 5000, time.UTC)
	s := &wire.UnitStatus{State: "failed", Version: "1.9.0", Error: wire.New(wire.CodeHashMismatch, "", "text"), At: at,
		Epoch: 3, Rev: 43, Time: at.Add(time.Second)}
	want := "tandem/1/status\nunit u1\nepoch 3\nrev 43\ntime 2026-11-20T10:00:01.000005Z\nstate failed\n" +
		"version 1.9.0\nerror hash-mismatch\nat 2026-11-20T10:00:00.000005Z\n"
	if got := string(StatusPreimage("u1", s)); got != want {
		t.Errorf("%s", got)
	}
	s.Trial = &wire.StatusTrial{Version: "2.0.0", Rev: 42, Deadline: at}
	want += "trial 2.0.0\ntrialRev 42\ndeadline 2026-11-20T10:00:00.000005Z\n"
	if got := string(StatusPreimage("u1", s)); got != want {
		t.Errorf("%s", got)
	}
	s.Part = &wire.StatusPart{Part: 2, Of: 3, Data: []byte("piece")}
	whole := want + "prev 0\npart 2\nof 3\ndata " + wire.Hash([]byte("piece")) + "\n"
	if got := string(StatusPreimage("u1", s)); got != whole {
		t.Errorf("%s", got)
	}
	s.Part.Prev, s.Part.PrevTime = 41, at
	want += "prev 41\nprevTime 2026-11-20T10:00:00.000005Z\npart 2\nof 3\ndata " + wire.Hash([]byte("piece")) + "\n"
	if got := string(StatusPreimage("u1", s)); got != want {
		t.Errorf("%s", got)
	}
}

// No two submissions that differ have the same preimage.
func TestSubmissionPreimagesAreInjective(t *testing.T) {
	type all struct{ unit, what, id, from, at, mode, within, force, document, name, allNodes, plan string }
	seen := map[string]all{}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-c \n]{0,3}`)
		s := &wire.Submission{ID: text.Draw(t, "id"), From: text.Draw(t, "from"),
			Mode: wire.Mode(text.Draw(t, "mode")), ConfirmWithin: text.Draw(t, "within"),
			Force: rapid.Bool().Draw(t, "force"), Name: text.Draw(t, "name"),
			AllNodes: rapid.Bool().Draw(t, "allNodes"), Document: []byte(text.Draw(t, "document")),
			Time: time.Unix(rapid.Int64Range(0, 2).Draw(t, "time"), 0).UTC()}
		if rapid.Bool().Draw(t, "rolled out") {
			s.Rollout = []byte(text.Draw(t, "plan") + ".")
		}
		clean := func(s string) string { return strings.ReplaceAll(s, "\n", "\x00") }
		unit, what := text.Draw(t, "unit"), text.Draw(t, "what")
		force, allNodes := "", strconv.FormatBool(s.AllNodes)
		if s.Force {
			force = "true"
		}
		is := all{clean(unit), clean(what), clean(s.ID), clean(s.From), s.Time.String(), clean(string(s.Mode)),
			clean(s.ConfirmWithin), force, string(s.Document), clean(s.Name), allNodes, string(s.Rollout)}
		p := string(SubmissionPreimage(unit, what, s))
		if before, ok := seen[p]; ok && before != is {
			t.Fatalf("%+v and %+v: %q", before, is, p)
		}
		seen[p] = is
	})
}
