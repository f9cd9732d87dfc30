package identity

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tandem.internal/shared/durable"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/publisher/publishertest"
	"tandem.internal/shared/rootlist"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

// rooted is a list of CAs as a root key signs it.
func (c *controller) rooted(number, rev uint64, signs *authority, all ...*authority) *rootlist.List {
	l := &rootlist.List{Unit: "u1", Number: number, CAsRev: rev, KeysRev: number,
		Signs:    jointoken.FingerprintOf(signs.cert.Raw).String(),
		UnitKeys: []wire.Key{{ID: seal.KeyID(c.unitKey), Ed25519: c.unitKey}},
		Roots:    []string{publishertest.New(1).Public()}}
	for _, a := range all {
		l.CAs = append(l.CAs, a.cert.Raw)
	}
	return l
}

func signedBy(t testing.TB, number byte, l *rootlist.List) rootlist.Signed {
	t.Helper()
	b, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return rootlist.Signed{List: b, Signature: publishertest.New(number).SignAs(b, l.Comment())}
}

// change changes how the door answers.
func (c *controller) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// tellsRoot has a door answer a chain at RootPath, and refuse all else.
func (c *controller) tellsRoot(t testing.TB, chain ...rootlist.Signed) {
	t.Helper()
	b, err := rootlist.EncodeChain(chain)
	if err != nil {
		t.Fatal(err)
	}
	c.change(func() {
		c.raw = func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != jointoken.RootPath {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			if len(r.TLS.PeerCertificates) > 0 && c.stranger {
				c.t.Error("the node shows its certificate to whoever is there")
			}
			_, _ = w.Write(b)
		}
	})
}

// elsewhere is a controller of another CA at the same address: a new gateway, or somebody else.
func elsewhere(t *testing.T, cfg *JoinConfig) *controller {
	t.Helper()
	c := newController(t, atDay)
	c.stranger = true
	dial, stop := c.serve(t, c.serverTLS())
	t.Cleanup(stop)
	cfg.Dial = dial
	return c
}

func (k *Renewer) must(t *testing.T, vouched bool, chain ...rootlist.Signed) {
	t.Helper()
	if changed, err := k.takeRoot(chain, vouched); err != nil || !changed {
		t.Fatalf("changed %v, %v", changed, err)
	}
}

// A node learns of a root key from the controller, once; from then on the key's lists count whoever brings them, and
// nothing else does.
func TestRootIsLearned(t *testing.T) {
	c, cfg, k := joined(t)
	two := newAuthority(t, atDay())
	c.tellsRoot(t, signedBy(t, 1, c.rooted(5, 0, c.ca, c.ca)))
	if k.Rooted() || k.Root() != 0 {
		t.Fatal("it knows a root key")
	}
	if _, err := k.askRoot(t.Context()); err != nil || !k.Rooted() || k.Root() != 5 {
		t.Fatal(k.Root(), err)
	}
	if _, _, ok := k.RootKeys(); ok {
		t.Error("what a CA vouches for stands over its signing keys")
	}
	// Another root key, from the controller that the node believes.
	c.tellsRoot(t, signedBy(t, 2, &rootlist.List{Unit: "u1", Number: 9, CAs: [][]byte{two.cert.Raw},
		Signs: jointoken.FingerprintOf(two.cert.Raw).String(), UnitKeys: c.rooted(1, 1, two, two).UnitKeys,
		Roots: []string{publishertest.New(2).Public()}}))
	if _, err := k.askRoot(t.Context()); err == nil || k.Root() != 5 {
		t.Errorf("%d %v", k.Root(), err)
	}
	// A stranger: it follows the root key only, and shows him nothing.
	door := elsewhere(t, &cfg)
	k = renewerAt(t, cfg, nil)
	door.tellsRoot(t, signedBy(t, 1, c.rooted(6, 7, two, two)))
	if _, err := k.askRoot(t.Context()); err != nil || !slices.Equal(k.CAs(), []string{idOf(two)}) {
		t.Errorf("%v %v", k.CAs(), err)
	}
	if keys, number, ok := k.RootKeys(); !ok || number != 6 || len(keys.List) != 1 || keys.Rev != 6 {
		t.Errorf("%+v %d %v", keys, number, ok)
	}
	again := renewerAt(t, cfg, nil)
	if !slices.Equal(again.CAs(), []string{idOf(two)}) || again.Root() != 6 {
		t.Errorf("after a restart: %v %d", again.CAs(), again.Root())
	}
	again.RootKeysTaken(5)
	if err := again.finishRoot(); err != nil {
		t.Error(err)
	}
	if _, _, ok := again.RootKeys(); !ok {
		t.Error("the keys of another list were taken")
	}
	again.RootKeysTaken(6)
	if err := again.finishRoot(); err != nil {
		t.Error(err)
	}
	if _, _, ok := renewerAt(t, cfg, nil).RootKeys(); ok {
		t.Error("the keys are to be taken again")
	}
}

// A node that knows no root key asks nobody whom it does not believe.
func TestNobodyIsAskedWithoutARoot(t *testing.T) {
	c, cfg, _ := joined(t)
	door := elsewhere(t, &cfg)
	k := renewerAt(t, cfg, nil)
	asked := 0
	door.change(func() { door.raw = func(http.ResponseWriter, *http.Request) { asked++ } })
	if _, err := k.askRoot(t.Context()); err == nil || asked > 0 || !slices.Equal(k.CAs(), []string{idOf(c.ca)}) {
		t.Errorf("%v, %d, %v", err, asked, k.CAs())
	}
}

// What a thief, or a broken controller, may answer: the node keeps what it has, byte for byte.
func TestHostileRootLists(t *testing.T) {
	c, cfg, k := joined(t)
	one, two := c.ca, newAuthority(t, atDay())
	k.must(t, true, signedBy(t, 1, c.rooted(5, 3, one, one)))
	door := elsewhere(t, &cfg)
	k = renewerAt(t, cfg, nil)
	before, err := os.ReadFile(filepath.Join(cfg.Dir, rootFile))
	if err != nil {
		t.Fatal(err)
	}
	good := c.rooted(9, 7, two, two)
	own := *good
	own.Roots = []string{publishertest.New(2).Public()}
	stranger := *good
	stranger.Unit = "u2"
	leaf := *good
	leaf.CAs = [][]byte{k.Current().cert.Leaf.Raw}
	leaf.Signs = jointoken.FingerprintOf(leaf.CAs[0]).String()
	twice := *good
	twice.CAs = slices.Repeat(good.CAs, 2)
	signed := signedBy(t, 1, good)
	flipped := rootlist.Signed{List: bytes.Replace(signed.List, []byte("u1"), []byte("u9"), 1),
		Signature: signed.Signature}
	for what, chain := range map[string][]rootlist.Signed{
		"a replayed one":     {signedBy(t, 1, c.rooted(5, 9, two, two))},
		"an older one":       {signedBy(t, 1, c.rooted(4, 9, two, two))},
		"his own key":        {signedBy(t, 2, &own)},
		"his own key, named": {signedBy(t, 2, good)},
		"another unit's":     {signedBy(t, 1, &stranger)},
		"an altered one":     {flipped},
		"a node as a CA":     {signedBy(t, 1, &leaf)},
		"a CA twice":         {signedBy(t, 1, &twice)},
		"none":               {},
		"a publisher's":      {{List: signed.List, Signature: publishertest.New(1).SignAs(signed.List, "set 1.0.0")}},
		"too many":           slices.Repeat([]rootlist.Signed{signed}, rootlist.MaxLists+1),
		"too large":          {{List: bytes.Repeat([]byte(" "), rootlist.MaxList+1), Signature: signed.Signature}},
	} {
		door.tellsRoot(t, chain...)
		if changed, err := k.askRoot(t.Context()); changed {
			t.Errorf("%s is taken (%v)", what, err)
		}
		after, err := os.ReadFile(filepath.Join(cfg.Dir, rootFile))
		if err != nil || !bytes.Equal(before, after) || !slices.Equal(k.CAs(), []string{idOf(one)}) {
			t.Errorf("%s: %v, %v: %s", what, k.CAs(), err, after)
		}
	}
	for _, answer := range []string{"", "{", strings.Repeat(" ", rootlist.MaxAnswer+1), `{"lists":[{}]}`} {
		door.change(func() {
			door.raw = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) }
		})
		if changed, err := k.askRoot(t.Context()); changed || err == nil {
			t.Errorf("%.20q is taken: %v", answer, err)
		}
	}
	door.tellsRoot(t, signed)
	if _, err := k.askRoot(t.Context()); err != nil || !slices.Equal(k.CAs(), []string{idOf(two)}) {
		t.Errorf("the good one is not taken: %v", err)
	}
}

// A list that a CA vouches for and that is older than what that CA has said leads nowhere, now or later; one that
// nobody vouches for stands over any number that a thief may have told.
func TestRootAndCAs(t *testing.T) {
	c, _, k := joined(t)
	one, two, three := c.ca, newAuthority(t, atDay()), newAuthority(t, atDay())
	later := told(20, two, one, two)
	later.Join = k.Current().join
	if _, err := k.takeCAs(later); err != nil {
		t.Fatal(err)
	}
	k.must(t, true, signedBy(t, 1, c.rooted(5, 10, one, one)))
	if !slices.Equal(k.CAs(), []string{idOf(one), idOf(two)}) {
		t.Errorf("an older list has gone back: %v", k.CAs())
	}
	if changed, err := k.takeRoot([]rootlist.Signed{signedBy(t, 1, c.rooted(5, 10, one, one))}, false); changed ||
		err != nil {
		t.Errorf("the same list from a stranger: %v %v", changed, err)
	}
	thief := told(1<<62, three, three)
	thief.Join = k.Current().join
	if _, err := k.takeCAs(thief); err != nil {
		t.Fatal(err)
	}
	k.must(t, false, signedBy(t, 1, c.rooted(6, 11, two, two)))
	if !slices.Equal(k.CAs(), []string{idOf(two)}) {
		t.Errorf("the thief's number stands: %v", k.CAs())
	}
	next := told(12, one, one)
	next.Join = k.Current().join
	if changed, err := k.takeCAs(next); !changed || err != nil || !slices.Equal(k.CAs(), []string{idOf(one)}) {
		t.Errorf("what a CA says after it is not taken: %v %v", k.CAs(), err)
	}
}

// What the settings say stands over what was learned, and a list leads on from there.
func TestGivenRoots(t *testing.T) {
	c, cfg, k := joined(t)
	k.must(t, true, signedBy(t, 1, c.rooted(5, 0, c.ca, c.ca)))
	given := func(roots ...byte) *Renewer {
		var texts []string
		for _, n := range roots {
			texts = append(texts, publishertest.New(n).Public())
		}
		k, err := NewRenewer(RenewerConfig{Dir: cfg.Dir, Now: atDay, Dial: cfg.Dial, Roots: texts})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	k = given(2)
	if k.Root() != 0 || !slices.Equal(k.currentRoot().Roots, []string{publishertest.New(2).Public()}) {
		t.Errorf("%+v", k.root)
	}
	if changed, err := k.takeRoot([]rootlist.Signed{signedBy(t, 1, c.rooted(9, 0, c.ca, c.ca))}, true); changed ||
		err == nil {
		t.Error("another root key than the given one counts")
	}
	both := c.rooted(6, 0, c.ca, c.ca)
	both.Roots = append(both.Roots, publishertest.New(2).Public())
	k.must(t, true, signedBy(t, 2, both))
	if k = given(2); k.Root() != 6 || len(k.currentRoot().Roots) != 2 {
		t.Errorf("a list does not lead on: %+v", k.root)
	}
	if k = given(); k.Root() != 0 || k.Rooted() {
		t.Errorf("what is not given any more counts: %+v", k.root)
	}
}

// A crash, or a disk that fails, at any step of following a list: the node believes the CAs of before or the new ones,
// and what was begun is done at the next start, or the list is taken again.
func TestCrashWhileFollowing(t *testing.T) {
	c, cfg, k := joined(t)
	two := newAuthority(t, atDay())
	k.must(t, true, signedBy(t, 1, c.rooted(5, 0, c.ca, c.ca)))
	begin, err := os.ReadFile(filepath.Join(cfg.Dir, rootFile))
	if err != nil {
		t.Fatal(err)
	}
	list := []rootlist.Signed{signedBy(t, 1, c.rooted(6, 7, two, two))}
	reset := func() {
		t.Helper()
		if err := errors.Join(os.RemoveAll(filepath.Join(cfg.Dir, casFile)),
			os.WriteFile(filepath.Join(cfg.Dir, rootFile), begin, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	full := errors.New("disk full")
	for _, fails := range []bool{false, true} {
		for n := 1; ; n++ {
			reset()
			steps, count := crashing(n)
			if fails {
				count = new(int)
				steps = func(durable.Step) error {
					if *count++; *count == n {
						return full
					}
					return nil
				}
			}
			k := renewerAt(t, cfg, steps)
			crashed := survive(t, func() {
				if _, err := k.takeRoot(list, false); err != nil && !errors.Is(err, full) {
					t.Error(err)
				}
			})
			what := fmt.Sprintf("step %d, a failure: %v", n, fails)
			again := k
			if crashed {
				again = renewerAt(t, cfg, nil)
			}
			if ids := again.CAs(); len(ids) != 1 || ids[0] != idOf(c.ca) && ids[0] != idOf(two) {
				t.Fatalf("%s: %v", what, ids)
			}
			if err := again.finishRoot(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if _, err := again.takeRoot(list, false); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			for _, k := range []*Renewer{again, renewerAt(t, cfg, nil)} {
				keys, number, ok := k.RootKeys()
				if !slices.Equal(k.CAs(), []string{idOf(two)}) || !ok || number != 6 || len(keys.List) != 1 ||
					k.currentRoot().CAs != nil {
					t.Fatalf("%s, in the end: %v, %+v", what, k.CAs(), k.currentRoot())
				}
			}
			if *count < n {
				if n < 12 {
					t.Fatalf("only %d steps", n)
				}
				break
			}
		}
	}
	if left, err := filepath.Glob(filepath.Join(cfg.Dir, ".*")); err != nil || len(left) > 0 {
		t.Fatalf("%v is left", left)
	}
}
