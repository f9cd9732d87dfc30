package distribute_test

import (
	"bytes"
	"fmt"
	"testing"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// The versions of a source can be compared, and one of them come back, also a set of workloads that was read as meant.
func TestWorkloadsCompareAndComeBack(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		ann := as(t.Context(), "ann")
		_, err := u.core.Rollback(ann, wire.KindWorkloads, op.Rollback{Version: "1.0.0", As: "2.0.0"})
		if wire.AsError(err).Code != wire.CodeNotFound {
			t.Errorf("nothing is there to come back: %v", err)
		}
		sloppy := bytes.TrimSuffix(setOf("web@n1:a"), []byte("]"))
		u.workloads(view.Submission{Document: sloppy, Lenient: true})
		u.workloads(view.Submission{Document: setOf("web@n1:b", "map@n1:b")})
		diff := func(in op.DiffIn, want string) {
			t.Helper()
			v, err := u.core.Diff(t.Context(), wire.KindWorkloads, in)
			got := fmt.Sprintf("%s %s %v", v.From, v.To, err)
			for _, c := range v.Changes {
				if c.Pointer == "/configurationId" {
					got += fmt.Sprintf(" %s %s>%s", c.Entry, c.Before, c.After)
				}
			}
			if got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		diff(op.DiffIn{From: "1.0.0"}, `1.0.0 1.0.1 <nil> map@n1 null>"b" web@n1 "a">"b"`)
		diff(op.DiffIn{From: "1.0.1", To: "1.0.0"}, `1.0.1 1.0.0 <nil> map@n1 "b">null web@n1 "b">"a"`)
		diff(op.DiffIn{From: "1.0.1", To: "1.0.1"}, "1.0.1 1.0.1 <nil>")
		diff(op.DiffIn{From: "0.0.9"}, `  not-found: version "0.0.9" was never accepted, or is not kept any more`)
		r, err := u.core.Rollback(ann, wire.KindWorkloads, op.Rollback{Version: "1.0.0", As: "1.1.0"})
		if err != nil || r.State != "accepted" || r.Version != "1.1.0" {
			t.Fatalf("%+v %v", r, err)
		}
		doc, err := u.core.Document(t.Context(), wire.KindWorkloads, "")
		if err != nil || !bytes.Equal(doc, strictly(t, sloppy)) {
			t.Errorf("%s %v", doc, err)
		}
		s, err := u.core.SourceStatus(t.Context(), wire.KindWorkloads)
		if err != nil || s.State != "installed" || s.Version != "1.1.0" || s.Who != "ann" {
			t.Errorf("%+v %v", s, err)
		}
		diff(op.DiffIn{From: "1.0.0"}, "1.0.0 1.1.0 <nil>")
		u.audit()
	})
}

// A source that is not known, or of which nothing is submitted whole, is refused by its name.
func TestVerbsOfNoSource(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		for _, source := range []wire.Kind{"toys", wire.KindHealth} {
			_, shown := u.core.Document(t.Context(), source, "")
			_, status := u.core.SourceStatus(t.Context(), source)
			_, diff := u.core.Diff(t.Context(), source, op.DiffIn{From: "1.0.0"})
			_, back := u.core.Rollback(as(t.Context(), "ann"), source, op.Rollback{Version: "1.0.0", As: "2.0.0"})
			for _, err := range []error{shown, status, diff, back} {
				if wire.AsError(err).Code != wire.CodeNotSupported {
					t.Errorf("%s: %v", source, err)
				}
			}
		}
	})
}
