package enrol

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/controller/internal/record"
)

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
