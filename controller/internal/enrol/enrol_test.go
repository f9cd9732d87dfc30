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
	d := r.Decide(r.now, ev)
	if d.Record != nil {
		r.records = append(r.records, line{r.now, who, d.Record.Type(), record.Encode(d.Record)})
		r.Apply(r.now, who, d.Record)
	}
	return d
}

// replayed is a new state from the records.
func (r *rig) replayed() *State {
	r.t.Helper()
	s := New()
	for _, l := range r.records {
		data, err := record.Decode(l.typ, l.data)
		d, ok := data.(record.Enrolment)
		if err != nil || !ok || Check(d) != nil {
			r.t.Fatalf("%s %s: %v %v", l.typ, l.data, ok, err)
		}
		s.Apply(l.at, l.who, d)
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

// Who guesses learns nothing: not even whether the node or any token exists.
func TestGuessesAreAllTheSame(t *testing.T) {
	r := newRig(t)
	nothing := r.Decide(r.now, join("n1", "wrong", "k", "s")).Err.Error()
	r.do("ann", Enrol{Subject: "node/n1", Hash: "h1"})
	open := r.Decide(r.now, join("n1", "wrong", "k", "s")).Err.Error()
	r.do("", join("n1", "h1", "k1", "s1"))
	used := r.Decide(r.now, join("n1", "wrong", "k", "s")).Err.Error()
	r.do("ann", Revoke{Subject: "node/n1"})
	revoked := r.Decide(r.now, join("n1", "wrong", "k", "s")).Err.Error()
	if nothing != open || open != used || used != revoked {
		t.Errorf("differ:\n%s\n%s\n%s\n%s", nothing, open, used, revoked)
	}
	if !r.Decide(r.now, join("n1", "wrong", "k", "s")).Guess {
		t.Error("not called a guess")
	}
	if r.Decide(r.now, join("n1", "h1", "k", "s")).Guess {
		t.Error("who knows the secret does not guess")
	}
}

// Guessing does not fill the journal, and nothing of it is lost.
func TestRefusalsAreBounded(t *testing.T) {
	r := newRig(t)
	written, told := 0, 0
	const attempts = 100_000
	for range attempts {
		if d := r.do("", join("n1", "wrong", "k", "s")); d.Record != nil {
			written++
			told += d.Record.(record.JoinRefusedData).Count
		}
		r.now = r.now.Add(time.Millisecond)
	}
	if burst := int(refusalRate.Burst); written < burst ||
		written > burst+int(attempts*time.Millisecond/refusalRate.Every)+1 {
		t.Errorf("%d records of %d attempts, about %d at once and then one every %v are wanted",
			written, attempts, burst, refusalRate.Every)
	}
	r.now = r.now.Add(time.Hour)
	told += r.do("", join("n1", "wrong", "k", "s")).Record.(record.JoinRefusedData).Count
	if told != attempts+1 {
		t.Errorf("%d refusals are told of %d", told, attempts+1)
	}
	if r.Lookup("node/n1") != nil {
		t.Error("a refusal made a subject")
	}
}

func TestMemoryIsBounded(t *testing.T) {
	r := newRig(t)
	for i := range 200 {
		r.want("enrol", r.do("ann", Enrol{Subject: "node/n1", Hash: fmt.Sprint("h", i)}), "")
		r.want("join", r.do("", join("n1", fmt.Sprint("h", i), fmt.Sprint("k", i), fmt.Sprint("s", i))), "")
	}
	sub := r.Lookup("node/n1")
	if len(sub.Tokens) > maxTokens || len(sub.Burned) > maxBurned || len(sub.Certificates) != 1 ||
		len(r.tokens) > maxTokens || len(r.keys) != 1 {
		t.Errorf("%d tokens (%d), %d burned keys, %d certificates, %d keys", len(sub.Tokens), len(r.tokens),
			len(sub.Burned), len(sub.Certificates), len(r.keys))
	}
}

func TestCheckRefusesWhatIsNotItsOwn(t *testing.T) {
	for _, d := range []record.Enrolment{
		record.EnrolData{Subject: "node/n1"}, record.JoinedData{Subject: "node/n1", Serial: "s"},
		record.RenewedData{Subject: "node/n1", Key: "k"}, record.RevokedData{Subject: "n1"},
	} {
		if Check(d) == nil {
			t.Errorf("%T: a name, hash, serial number or key is missing, and it was taken", d)
		}
	}
	if err := Check(record.JoinRefusedData{Subject: "?"}); err != nil {
		t.Error("what somebody claimed to be was refused:", err)
	}
	for _, bad := range []string{"[]", `{"subjects":[null]}`, `{"subjects":[{"name":"a"},{"name":"a"}]}`,
		`{"subjects":[{"name":""}]}`} {
		if _, err := Restored([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// Whatever happens in whatever order: see the comments below.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t)
		nodes := []string{"n1", "n2", "n3"}
		keyOf := map[string]string{}                // token -> key that it was used for
		secrets := []string{"none"}                 // those issued
		var serials []string                        // those issued
		issuedAfter := map[string]map[string]bool{} // node -> tokens issued since it was revoked
		n := 0
		fresh := func(p string) string { n++; return fmt.Sprint(p, n) }
		pick := func(list []string, what string) string { return rapid.SampledFrom(list).Draw(t, what) }
		t.Repeat(map[string]func(*rapid.T){
			"time": func(t *rapid.T) {
				r.now = r.now.Add(time.Duration(rapid.Int64Range(0, int64(20*time.Hour)).Draw(t, "passed")))
			},
			"enrol": func(t *rapid.T) {
				node, h := pick(nodes, "node"), fresh("h")
				if d := r.do("ann", Enrol{Subject: "node/" + node, Hash: h}); d.Err == nil {
					secrets = append(secrets, h)
					if issuedAfter[node] == nil {
						issuedAfter[node] = map[string]bool{}
					}
					issuedAfter[node][h] = true
				}
			},
			"join": func(t *rapid.T) {
				node, h, key, serial := pick(nodes, "node"), pick(secrets, "token"),
					fmt.Sprint("k", rapid.IntRange(1, 6).Draw(t, "key")), fresh("s")
				before := string(r.Checkpoint())
				d := r.do("", join(node, h, key, serial))
				if d.Err != nil {
					if string(r.Checkpoint()) != before {
						t.Fatal("a refusal changed something")
					}
					return
				}
				// A token helps one node, with one key, and never after a revocation.
				if old, ok := keyOf[h]; ok && old != key {
					t.Fatalf("token %s was used for %s and for %s", h, old, key)
				}
				if !issuedAfter[node][h] {
					t.Fatalf("token %s of before the revocation let %s in", h, node)
				}
				keyOf[h] = key
				serials = append(serials, serial)
			},
			"renew": func(t *rapid.T) {
				if len(serials) == 0 {
					t.Skip("nobody joined")
				}
				node, serial, next := pick(nodes, "node"), pick(serials, "serial"), fresh("s")
				counted := r.Counts("node/"+node, serial) == nil
				before := string(r.Checkpoint())
				d := r.do("", renew(node, serial, fmt.Sprint("k", rapid.IntRange(1, 6).Draw(t, "key")), next))
				if d.Err != nil && string(r.Checkpoint()) != before {
					t.Fatal("a refusal changed something")
				}
				if d.Err == nil {
					if !counted {
						t.Fatalf("%s renewed with %s, which did not count", node, serial)
					}
					if r.Counts("node/"+node, serial) != nil || r.Counts("node/"+node, next) != nil {
						t.Fatal("after a renewal both certificates count")
					}
					serials = append(serials, next)
				}
			},
			"revoke": func(t *rapid.T) {
				node := pick(nodes, "node")
				if d := r.do("ann", Revoke{Subject: "node/" + node}); d.Err == nil {
					issuedAfter[node] = nil
					if got := r.Lookup("node/" + node).Serials(); len(got) != 0 {
						t.Fatalf("%v count after the revocation", got)
					}
				}
			},
			"restart": func(t *rapid.T) {
				r.State = r.replayed()
			},
			"": func(t *rapid.T) {
				held := map[string]string{}
				r.Each(func(sub *Subject) {
					if len(sub.Certificates) > 2 {
						t.Fatalf("%d certificates of %s count", len(sub.Certificates), sub.Name)
					}
					for _, c := range sub.Certificates {
						if other, ok := held[c.Key]; ok && other != sub.Name {
							t.Fatalf("%s and %s have the key %s", other, sub.Name, c.Key)
						}
						held[c.Key] = sub.Name
						for _, b := range sub.Burned {
							if b == c.Key {
								t.Fatalf("%s counts and is burned", b)
							}
						}
					}
				})
				cp := string(r.Checkpoint())
				if got := string(r.replayed().Checkpoint()); got != cp {
					t.Fatalf("replay leads to\n%s, live is\n%s", got, cp)
				}
				again, err := Restored([]byte(cp))
				if err != nil || string(again.Checkpoint()) != cp {
					t.Fatalf("a checkpoint came back as %v, %v", again, err)
				}
				if len(again.keys) != len(r.keys) || len(again.tokens) != len(r.tokens) {
					t.Fatal("a checkpoint lost an index")
				}
			},
		})
	})
}
