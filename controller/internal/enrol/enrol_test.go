package enrol

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

var day = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// rig plays the shell: what is decided is written, read back and applied.
type rig struct {
	t rapid.TB
	*State
	now     time.Time
	records []line
}

type line struct {
	at   time.Time
	who  string
	typ  record.Type
	data []byte
}

func newRig(t rapid.TB) *rig { return &rig{t: t, State: New(), now: day} }

func (r *rig) do(who string, ev Event) Decision {
	r.t.Helper()
	if e, ok := ev.(Renew); ok && e.Shown == "" { // who renews has the key that was certified
		if sub := r.Lookup(e.Subject); sub != nil {
			for _, c := range sub.Certificates {
				if c.Serial == e.Serial {
					e.Shown = c.Key
				}
			}
		}
		ev = e
	}
	d := r.Decide(r.now, ev)
	if d.Record != nil {
		r.records = append(r.records, line{r.now, who, d.Record.Type(), record.Encode(d.Record)})
		r.Apply(uint64(len(r.records)), r.now, who, d.Record)
	}
	return d
}

// replayed is a new state from the records.
func (r *rig) replayed() *State {
	r.t.Helper()
	s := New()
	for i, l := range r.records {
		data, err := record.Decode(l.typ, l.data)
		d, ok := data.(record.Enrolment)
		if err != nil || !ok || Check(d) != nil {
			r.t.Fatalf("%s %s: %v %v", l.typ, l.data, ok, err)
		}
		s.Apply(uint64(i+1), l.at, l.who, d)
	}
	return s
}

func join(node, secret, key, serial string) Join {
	return Join{Subject: "node/" + node, Hash: secret, Key: key, Serial: serial, Expires: day.AddDate(0, 3, 0),
		CA: "sha256:ca", From: "10.0.0.9"}
}

func renew(node, serial, key, next string) Renew {
	return Renew{Subject: "node/" + node, Serial: serial, Key: key, Next: next, Expires: day.AddDate(0, 6, 0),
		CA: "sha256:ca", From: "10.0.0.9"}
}

func (r *rig) want(what string, d Decision, code wire.Code) {
	r.t.Helper()
	got := wire.Code("")
	if d.Err != nil {
		got = d.Err.Code
	}
	if got != code {
		r.t.Errorf("%s: %v, want code %q", what, d.Err, code)
	}
	if d.Err != nil && d.Record != nil {
		if _, ok := d.Record.(record.JoinRefusedData); !ok {
			r.t.Errorf("%s: refused, and yet %T is written", what, d.Record)
		}
	}
}

func (r *rig) counts(subject string, serials ...string) {
	r.t.Helper()
	got := ""
	if sub := r.Lookup(subject); sub != nil {
		got = strings.Join(sub.Serials(), " ")
	}
	if want := strings.Join(serials, " "); got != want {
		r.t.Errorf("%s: serials %q count, want %q", subject, got, want)
	}
}

// A lost answer costs a repetition, and repetitions are bounded: each is a record of the journal.
func TestRepeatedJoinsAreBounded(t *testing.T) {
	r := newRig(t)
	r.do("ann", Enrol{Subject: "node/n1", Hash: "h1"})
	r.want("join", r.do("", join("n1", "h1", "k1", "s")), "")
	for i := range maxAgain {
		r.want("again", r.do("", join("n1", "h1", "k1", fmt.Sprint("s", i))), "")
	}
	last := fmt.Sprint("s", maxAgain-1)
	restored, err := Restored(r.Checkpoint())
	if err != nil {
		t.Fatal(err)
	}
	for what, s := range map[string]*State{"at once": r.State, "after a replay": r.replayed(),
		"from a checkpoint": restored} {
		r.want(what, s.Decide(r.now, join("n1", "h1", "k1", "t")), wire.CodeWrongState)
	}
	r.counts("node/n1", last)
	r.do("ann", Enrol{Subject: "node/n1", Hash: "h2"})
	r.want("with a new token", r.do("", join("n1", "h2", "k1", "u")), "")
	r.want("and again", r.do("", join("n1", "h2", "k1", "v")), "")
	r.counts("node/n1", "v")
}

// The life of a node, with everything that may go wrong at each point of it.
func TestLifeOfANode(t *testing.T) {
	r := newRig(t)
	r.want("joining unasked", r.do("", join("n1", "h1", "k1", "s1")), wire.CodeNotAllowed)
	r.want("enrol", r.do("ann", Enrol{Subject: "node/n1", Hash: "h1"}), "")
	if got := r.Lookup("node/n1").Standing(r.now); got != "enrolled" {
		t.Errorf("standing %q", got)
	}
	r.want("another's token", r.do("", join("n2", "h1", "k2", "s2")), wire.CodeWrongTarget)
	r.want("join", r.do("", join("n1", "h1", "k1", "s1")), "")
	r.counts("node/n1", "s1")
	if got := r.Lookup("node/n1").Standing(r.now); got != "joined" || r.CA() != "sha256:ca" {
		t.Errorf("standing %q, CA %q", got, r.CA())
	}
	r.want("used by somebody else", r.do("", join("n1", "h1", "k9", "s9")), wire.CodeWrongState)
	d := r.do("", join("n1", "h1", "k1", "s2"))
	r.want("the answer was lost, the same key again", d, "")
	if j := d.Record.(record.JoinedData); !j.Again {
		t.Errorf("not told as a repetition: %+v", j)
	}
	r.counts("node/n1", "s2")

	r.want("renewed at once", r.do("", renew("n1", "s2", "k3", "s3")), wire.CodeUnavailable)
	r.now = r.now.Add(60 * 24 * time.Hour)
	r.want("with a certificate that does not count", r.do("", renew("n1", "s1", "k3", "s3")), wire.CodeNotAllowed)
	r.want("renewed", r.do("", renew("n1", "s2", "k3", "s3")), "")
	r.counts("node/n1", "s2", "s3")
	r.now = r.now.Add(time.Hour)
	r.want("the answer was lost: again with the old one", r.do("", renew("n1", "s2", "k4", "s4")), "")
	r.counts("node/n1", "s2", "s4")
	r.now = r.now.Add(time.Hour)
	r.want("the answer was lost twice", r.do("", renew("n1", "s2", "k5", "s5")), "")
	r.counts("node/n1", "s2", "s5")
	r.now = r.now.Add(time.Hour)
	r.want("a key that was given up", r.do("", renew("n1", "s5", "k4", "s6")), wire.CodeBadValue)
	r.want("the next", r.do("", renew("n1", "s5", "k6", "s6")), "")
	r.counts("node/n1", "s5", "s6")

	r.want("a new token", r.do("ann", Enrol{Subject: "node/n1", Hash: "h2"}), "")
	r.want("revoke", r.do("ann", Revoke{Subject: "node/n1", Reason: "stolen"}), "")
	r.counts("node/n1")
	if sub := r.Lookup("node/n1"); sub.Standing(r.now) != "revoked" || sub.RevokedBy != "ann" {
		t.Errorf("%+v", sub)
	}
	r.want("a revoked certificate", r.do("", renew("n1", "s6", "k7", "s7")), wire.CodeNotAllowed)
	r.want("a token from before", r.do("", join("n1", "h2", "k7", "s7")), wire.CodeNotAllowed)
	if d := r.do("ann", Revoke{Subject: "node/n1"}); d.Err != nil || d.Record != nil {
		t.Errorf("revoked twice: %+v", d)
	}

	r.want("enrolled anew", r.do("ann", Enrol{Subject: "node/n1", Hash: "h3", Life: time.Hour}), "")
	r.want("with the key that was revoked", r.do("", join("n1", "h3", "k6", "s7")), wire.CodeBadValue)
	r.now = r.now.Add(time.Hour)
	r.want("too late", r.do("", join("n1", "h3", "k7", "s7")), wire.CodeExpired)
	r.want("enrolled once more", r.do("ann", Enrol{Subject: "node/n1", Hash: "h4"}), "")
	r.want("the token before", r.do("", join("n1", "h3", "k7", "s7")), wire.CodeNotAllowed)
	r.want("joined anew", r.do("", join("n1", "h4", "k7", "s7")), "")
	r.counts("node/n1", "s7")
	if sub := r.Lookup("node/n1"); sub.Standing(r.now) != "joined" {
		t.Errorf("%+v", sub)
	}

	r.want("other hardware", r.do("ann", Enrol{Subject: "node/n1", Hash: "h5"}), "")
	r.want("the old one still counts", r.do("ann", Enrol{Subject: "node/n1", Hash: "h6"}), "")
	r.counts("node/n1", "s7")
	r.want("the new one takes its place", r.do("", join("n1", "h6", "k8", "s8")), "")
	r.counts("node/n1", "s8")
	if got, want := string(r.replayed().Checkpoint()), string(r.Checkpoint()); got != want {
		t.Errorf("replay leads to\n%s, live is\n%s", got, want)
	}
}

func TestKeysBelongToOne(t *testing.T) {
	r := newRig(t)
	for _, n := range []string{"n1", "n2"} {
		r.want("enrol", r.do("ann", Enrol{Subject: "node/" + n, Hash: "h-" + n}), "")
	}
	r.want("join", r.do("", join("n1", "h-n1", "k1", "s1")), "")
	r.want("with n1's key", r.do("", join("n2", "h-n2", "k1", "s2")), wire.CodeBadValue)
	r.want("with its own", r.do("", join("n2", "h-n2", "k2", "s2")), "")
	r.now = r.now.Add(time.Hour)
	r.want("renewed with n1's key", r.do("", renew("n2", "s2", "k1", "s3")), wire.CodeBadValue)
	r.want("the same key again", r.do("", renew("n2", "s2", "k2", "s3")), "")
	r.counts("node/n2", "s2", "s3")
	r.now = r.now.Add(time.Hour)
	r.want("and again", r.do("", renew("n2", "s3", "k2", "s4")), "")
	r.counts("node/n2", "s3", "s4")
	r.want("n1's serial is not n2's", Decision{Err: r.Counts("node/n2", "s1")}, wire.CodeNotAllowed)
	r.want("nor is a stranger's", Decision{Err: r.Counts("node/n3", "s1")}, wire.CodeNotAllowed)
}

// Who renews has to have the key that was certified: a CA that was stolen certifies another one under the same serial
// number. After its end a certificate does not count, whoever vouches for it.
func TestRenewalNeedsTheKey(t *testing.T) {
	r := newRig(t)
	r.want("enrol", r.do("ann", Enrol{Subject: "node/n1", Hash: "h1"}), "")
	r.want("join", r.do("", join("n1", "h1", "k1", "s1")), "")
	r.now = r.now.Add(time.Hour)
	next := renew("n1", "s1", "k3", "s2")
	for _, shown := range []string{"k2", "k3", "K1", "-"} {
		next.Shown = shown
		r.want("with the key "+shown, r.do("", next), wire.CodeNotAllowed)
	}
	next.Shown = "k1"
	r.now = day.AddDate(0, 3, 0)
	r.want("after its end", r.do("", next), wire.CodeExpired)
	r.now = r.now.Add(-time.Second)
	r.want("before its end", r.do("", next), "")
	r.want("revoke", r.do("ann", Revoke{Subject: "node/n1"}), "")
	next = renew("n1", "s2", "k4", "s3")
	next.Shown = "k3"
	r.want("revoked", r.do("", next), wire.CodeNotAllowed)
}

func TestCertify(t *testing.T) {
	r := newRig(t)
	c := Certify{Subject: "cloud/eu", Key: "k1", Serial: "s1", Expires: day.AddDate(0, 3, 0), CA: "ca", Who: "ann"}
	r.want("cloud", r.do("ann", c), "")
	r.counts("cloud/eu", "s1")
	c.Subject, c.Serial = "operator/ann", "s2"
	r.want("with another's key", r.do("ann", c), wire.CodeBadValue)
	c.Subject, c.Key = "root", "k2"
	r.want("no such role", r.do("ann", c), wire.CodeInvalidArgument)
	r.want("revoke", r.do("ann", Revoke{Subject: "cloud/eu"}), "")
	r.counts("cloud/eu")
}

// TestCertifyBroker: a broker's certificate counts until the next but one is made, or until it is revoked.
func TestCertifyBroker(t *testing.T) {
	r := newRig(t)
	c := Certify{Subject: "broker/b1", Key: "k1", Serial: "s1", Expires: day.AddDate(0, 3, 0), CA: "ca", Who: "ann"}
	for _, step := range []struct {
		serial string
		want   []string
	}{{"s1", []string{"s1"}}, {"s2", []string{"s1", "s2"}}, {"s3", []string{"s2", "s3"}}} {
		c.Key, c.Serial = "k"+step.serial, step.serial
		r.want(step.serial, r.do("ann", c), "")
		r.counts("broker/b1", step.want...)
	}
	r.want("revoke", r.do("ann", Revoke{Subject: "broker/b1"}), "")
	r.counts("broker/b1")
	c.Key, c.Serial = "k4", "s4"
	r.want("after that", r.do("ann", c), "")
	r.counts("broker/b1", "s4")
}

func TestArguments(t *testing.T) {
	r := newRig(t)
	r.want("no identity", r.do("ann", Enrol{Subject: "n1", Hash: "h"}), wire.CodeInvalidArgument)
	r.want("too long", r.do("ann", Enrol{Subject: "node/n1", Hash: "h", Life: MaxTokenLife + 1}),
		wire.CodeInvalidArgument)
	r.want("too short", r.do("ann", Enrol{Subject: "node/n1", Hash: "h", Life: time.Second}), wire.CodeInvalidArgument)
	r.want("negative", r.do("ann", Enrol{Subject: "node/n1", Hash: "h", Life: -time.Hour}), wire.CodeInvalidArgument)
	r.want("nobody", r.do("ann", Revoke{Subject: "node/n9"}), wire.CodeNotFound)
	r.want("no identity", r.do("ann", Revoke{Subject: "+"}), wire.CodeInvalidArgument)
	r.want("known to the unit", r.do("ann", Revoke{Subject: "node/n9", Known: true}), "")
	if r.Lookup("node/n9").Standing(r.now) != "revoked" {
		t.Error("not revoked")
	}
}
