package distribute

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// filled is what a version of the set comes to; "" is the installed one.
func (r *faulty) filled(version string) string {
	r.Helper()
	doc, err := r.core.Filled(r.Context(), op.FilledIn{VersionIn: op.VersionIn{Version: version}})
	r.mustBe("filling", err, "")
	return string(doc)
}

// TestLenientJournal opens a journal that has sets as they were given with --lenient, 1.0.0 and 1.0.1: they mean what
// they meant. What is submitted of them again is journaled as the strict document, and is a new version only once.
func TestLenientJournal(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal.db")
	if err := os.WriteFile(path, unzipped(t, "lenient.db.gz"), 0o600); err != nil {
		t.Fatal(err)
	}
	now, want := newest(t, path), string(unzipped(t, "lenient.json"))
	tune := func(c *Config) {
		c.Unit, c.Now, c.Keyring = "line4", func() time.Time { return now }, anyKey{c.Signer}
	}
	var old []byte
	withFaultsIn(t, dir, tune, func(t *testing.T, r *faulty) {
		ann := as(t.Context(), "ann")
		old = r.submitted("")
		if _, ps := workload.Parse(old); ps == nil || r.filled("") != want {
			t.Errorf("%s\ncomes to %s", old, r.filled(""))
		}
		res, err := r.core.Rollback(ann, wire.KindWorkloads, op.Rollback{Version: "1.0.0", As: "1.0.2"})
		if err != nil || res.State != "accepted" || r.filled("") != r.filled("1.0.0") || r.filled("") == want {
			t.Fatalf("%+v %v %s", res, err, r.filled(""))
		}
		d, err := r.core.Diff(ann, wire.KindWorkloads, op.DiffIn{From: "1.0.0", To: "1.0.2"})
		if err != nil || len(d.Changes) > 0 {
			t.Errorf("%+v %v", d, err)
		}
		for range 2 {
			res, err := r.core.Submit(ann, view.Submission{Kind: wire.KindWorkloads, Document: old, Lenient: true,
				Mode: wire.ModeApply})
			if err != nil || res.Version != "1.0.3" || len(res.Warnings) != 12 {
				t.Fatalf("%+v %v", res, err)
			}
		}
	})
	withFaultsIn(t, dir, tune, func(t *testing.T, r *faulty) {
		for _, version := range []string{"1.0.2", "1.0.3"} {
			if _, ps := workload.Parse(r.submitted(version)); ps != nil {
				t.Errorf("%s: %v", version, ps)
			}
		}
		if r.filled("1.0.3") != want || !bytes.Equal(r.submitted("1.0.1"), old) {
			t.Errorf("%s", r.filled("1.0.3"))
		}
		h, err := r.core.History(t.Context(), wire.KindWorkloads)
		r.mustBe("the history", err, "")
		for i, v := range h.Versions {
			if v.Lenient != (i < 2) {
				t.Errorf("%+v", v)
			}
		}
	})
}

// submitted is a version of the set as the journal has it; "" is the installed one.
func (r *faulty) submitted(version string) []byte {
	r.Helper()
	doc, err := r.core.Document(r.Context(), wire.KindWorkloads, version)
	r.mustBe("the document", err, "")
	return doc
}
