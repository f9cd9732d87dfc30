package enrol

import (
	"strings"
	"testing"
	"time"
)

// TestTakeOver: a certificate that is younger than the journal takes the place of the one before, or lets in whom the
// journal has never heard of. Who was revoked, and a key that does not count any more, stay out.
func TestTakeOver(t *testing.T) {
	r := newRig(t)
	takeOver := func(name, serial, key string) string {
		d := r.do("", TakeOver{Subject: "node/" + name, Serial: serial, Key: key, NotBefore: day,
			Expires: day.Add(time.Hour), CA: "ca", Restored: 3})
		if d.Err != nil {
			return d.Err.Message
		}
		return ""
	}
	certify := func(name, serial, key string) {
		r.do("ann", Certify{Subject: "node/" + name, Serial: serial, Key: key, Expires: day.Add(time.Hour), CA: "ca"})
	}
	certify("n1", "a1", "k1")
	certify("n2", "b1", "k2")
	r.do("ann", Revoke{Subject: "node/n2"})
	for _, c := range []struct{ name, serial, key, want string }{
		{"n1", "a2", "k3", ""},
		{"n1", "a2", "k3", ""}, // once more
		{"n1", "a1", "k1", "does not count any more"},
		{"n2", "b2", "k4", "it was revoked"},
		{"new", "c1", "k5", ""},
		{"other", "d1", "k5", "does not count any more"}, // the key of another
	} {
		if got := takeOver(c.name, c.serial, c.key); got != c.want && (c.want == "" || !strings.Contains(got, c.want)) {
			t.Errorf("%s with %s: %q, want %q", c.name, c.serial, got, c.want)
		}
	}
	for subject, serial := range map[string]string{"node/n1": "a2", "node/new": "c1"} {
		if err := r.Counts(subject, serial); err != nil {
			t.Errorf("%s: %v", subject, err)
		}
	}
	for subject, serial := range map[string]string{"node/n1": "a1", "node/n2": "b2", "node/other": "d1"} {
		if r.Counts(subject, serial) == nil {
			t.Errorf("%s counts with %s", subject, serial)
		}
	}
	before := len(r.records)
	if takeOver("n1", "a2", "k3"); len(r.records) != before {
		t.Error("it is in the journal twice")
	}
}

// TestTakeOverOnce: what the restored journal has of a subject is newer than any certificate of before. Of two of those
// the one that is valid from the newest time wins, whoever comes first, and neither is a record twice.
func TestTakeOverOnce(t *testing.T) {
	old, lost := day.Add(-time.Hour), day.Add(-time.Minute) // when the thief and the replacement got theirs
	thief := func(at time.Time) TakeOver {
		return TakeOver{Subject: "node/n1", Serial: "a2", Key: "k2", NotBefore: at, Expires: day.Add(time.Hour),
			CA: "ca", Restored: 2}
	}
	replacement := thief(lost)
	replacement.Serial, replacement.Key = "c1", "k3"
	same := thief(lost)
	same.Serial = "a3"
	certify := Certify{Subject: "node/n1", Serial: "b1", Key: "k9", Expires: day.Add(time.Hour), CA: "ca"}
	renewal := func(serial, key string) Renew { return renew("n1", serial, key, serial+"+") }
	for _, c := range []struct {
		name    string
		events  []Event
		counts  string
		records int // of the events
	}{
		{"revoked and joined anew", []Event{Revoke{Subject: "node/n1"}, certify, thief(old)}, "b1", 2},
		{"joined anew", []Event{certify, thief(old)}, "b1", 1},
		{"the certificate of the backup is renewed", []Event{renewal("a1", "k4"), thief(old)}, "a1+", 1},
		{"the thief comes first", []Event{thief(old), replacement, thief(old)}, "c1", 2},
		{"the replacement comes first", []Event{replacement, thief(old)}, "c1", 1},
		{"the thief renews first", []Event{thief(old), renewal("a2", "k5"), replacement, thief(old)}, "c1", 3},
		{"the replacement renews", []Event{replacement, renewal("c1", "k5"), thief(old)}, "c1+", 2},
		{"two of one key in turn", []Event{thief(old), same, thief(old), same, thief(old)}, "a3", 2},
		{"of the same second", []Event{thief(old), replacement, same}, "c1", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.do("ann", Certify{Subject: "node/n1", Serial: "a1", Key: "k1", Expires: day.Add(time.Hour), CA: "ca"})
			r.do("ann", Enrol{Subject: "node/other", Hash: "h"}) // the backup ends here
			for _, ev := range c.events {
				r.now = r.now.Add(-time.Hour) // the clock decides nothing
				r.do("ann", ev)
			}
			for _, s := range []*State{r.State, r.replayed(), restored(t, r.Checkpoint())} {
				if err := s.Counts("node/n1", c.counts); err != nil {
					t.Error(err)
				}
				if d := s.Decide(day, thief(old)); d.Err == nil && c.counts != "a2" || d.Record != nil {
					t.Errorf("the thief is let in at last: %+v", d)
				}
			}
			if got := len(r.records) - 2; got != c.records {
				t.Errorf("%d records, want %d", got, c.records)
			}
		})
	}
}

func restored(t *testing.T, checkpoint []byte) *State {
	t.Helper()
	s, err := Restored(checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestTakeOverHasItsType: who joined with a token since the backup has the type of the newest one, which was withdrawn
// by the restore.
func TestTakeOverHasItsType(t *testing.T) {
	r := newRig(t)
	r.do("ann", Certify{Subject: "node/n1", Serial: "a1", Key: "k1", Expires: day.Add(time.Hour), CA: "ca"})
	for _, name := range []string{"n1", "n2"} {
		r.do("ann", Enrol{Subject: "node/" + name, Hash: name, Type: "press"})
	}
	backup := uint64(len(r.records))
	for _, name := range []string{"n1", "n2"} {
		r.do("restore", WithdrawTokens{Subject: "node/" + name})
		r.do("", TakeOver{Subject: "node/" + name, Serial: name, Key: "k-" + name, NotBefore: day,
			Expires: day.Add(time.Hour), CA: "ca", Restored: backup})
		for _, s := range []*State{r.State, r.replayed()} {
			if got := s.Lookup("node/" + name).Type; got != "press" {
				t.Errorf("%s has the type %q", name, got)
			}
		}
	}
}
