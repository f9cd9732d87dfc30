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
		d := r.do("", TakeOver{Subject: "node/" + name, Serial: serial, Key: key, Expires: day.Add(time.Hour),
			CA: "ca"})
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
