package rootlist

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tandem.internal/shared/publisher"
	"tandem.internal/shared/publisher/publishertest"
	"tandem.internal/shared/wire"
)

func keys(numbers ...byte) (all []string) {
	for _, n := range numbers {
		all = append(all, publishertest.New(n).Public())
	}
	return all
}

func list(number uint64, named ...byte) *List {
	der := []byte{1, 2, byte(number)}
	sum := sha256.Sum256(der)
	return &List{Unit: "u1", Number: number, CAs: [][]byte{der}, Signs: "sha256:" + hex.EncodeToString(sum[:]),
		UnitKeys: []wire.Key{{ID: "k1", Ed25519: make([]byte, 32)}}, Roots: keys(named...)}
}

func sign(t testing.TB, l *List, by byte) Signed {
	t.Helper()
	b, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return Signed{b, publishertest.New(by).SignAs(b, l.Comment())}
}

func signed(t testing.TB, number uint64, by byte, named ...byte) Signed {
	t.Helper()
	return sign(t, list(number, named...), by)
}

// What counts, and why not.
func TestFollow(t *testing.T) {
	odd := func(change func(*List)) Signed {
		l := list(9, 1)
		change(l)
		return sign(t, l, 1)
	}
	good := signed(t, 9, 1, 1)
	comment := Signed{good.List, publishertest.New(1).SignAs(good.List, "tandem-node 1.0.0")}
	borrowed := Signed{good.List, publishertest.New(2).As(publishertest.New(1)).SignAs(good.List, list(9, 1).Comment())}
	more := bytes.Replace(good.List, []byte("{"), []byte(`{"later": 1,`), 1)
	for _, c := range []struct {
		name  string
		chain []Signed
		want  string // in the error; "": the newest is taken
	}{
		{"a good one", []Signed{good}, ""},
		{"nothing", nil, "no newer"},
		{"the one before", []Signed{signed(t, 5, 1, 1)}, "no newer"},
		{"an older one", []Signed{signed(t, 4, 1, 1)}, "no newer"},
		{"an older one behind it", []Signed{good, signed(t, 4, 1, 1)}, ""},
		{"an unknown key", []Signed{signed(t, 9, 2, 2)}, publisher.ErrUnknown.Error()},
		{"an unknown key that names the known one", []Signed{signed(t, 9, 2, 1, 2)}, publisher.ErrUnknown.Error()},
		{"another key under its ID", []Signed{borrowed}, publisher.ErrForged.Error()},
		{"another list under its signature", []Signed{{signed(t, 8, 1, 1).List, good.Signature}},
			publisher.ErrOther.Error()},
		{"a signature for something else", []Signed{comment}, ErrComment.Error()},
		{"no signature", []Signed{{good.List, ""}}, "its signature"},
		{"it does not name who signed", []Signed{signed(t, 9, 1, 2)}, ErrUnnamed.Error()},
		{"another unit", []Signed{odd(func(l *List) { l.Unit = "u2" })}, ErrUnit.Error()},
		{"no unit", []Signed{odd(func(l *List) { l.Unit = "" })}, "names no unit"},
		{"no number", []Signed{odd(func(l *List) { l.Number = 0 })}, "no number"},
		{"no CA", []Signed{odd(func(l *List) { l.CAs = nil })}, "not 1 to 4 CAs"},
		{"too many CAs", []Signed{odd(func(l *List) { l.CAs = slices.Repeat(l.CAs, 5) })}, "not 1 to 4 CAs"},
		{"no CA certifies", []Signed{odd(func(l *List) { l.Signs = "sha256:" })}, "does not have the CA"},
		{"no signing key", []Signed{odd(func(l *List) { l.UnitKeys = nil })}, "not 1 to 16 signing keys"},
		{"a signing key twice", []Signed{odd(func(l *List) { l.UnitKeys = slices.Repeat(l.UnitKeys, 2) })}, "twice"},
		{"half a signing key", []Signed{odd(func(l *List) { l.UnitKeys[0].Ed25519 = []byte{1} })}, "Ed25519"},
		{"no root", []Signed{odd(func(l *List) { l.Roots = nil })}, "not 1 to 4 root keys"},
		{"a root twice", []Signed{odd(func(l *List) { l.Roots = keys(1, 1) })}, "twice"},
		{"too large", []Signed{odd(func(l *List) { l.CAs[0] = make([]byte, MaxList) })}, "more than 6144"},
		{"no list", []Signed{{[]byte("[]"), good.Signature}}, "not a list of CAs"},
		{"of a later program", []Signed{{more, publishertest.New(1).SignAs(more, list(9, 1).Comment())}}, ""},
		{"the next root", []Signed{signed(t, 7, 1, 1, 2), signed(t, 9, 2, 2)}, ""},
		{"the next root at once", []Signed{signed(t, 9, 2, 2)}, publisher.ErrUnknown.Error()},
		{"what is forged does not hide the next", []Signed{{good.List, comment.Signature}, good}, ""},
		{"the root of before", []Signed{signed(t, 6, 1, 1, 2), signed(t, 7, 2, 2), signed(t, 9, 1, 1)}, "7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			known := Known{Roots: keys(1), Number: 5}
			next, newest, err := known.Follow("u1", c.chain)
			switch {
			case c.want == "":
				if err != nil || newest == nil || newest.Number != 9 || next.Number != 9 {
					t.Errorf("%+v %+v %v", next, newest, err)
				}
			case newest != nil:
				if fmt.Sprint(newest.Number) != c.want {
					t.Errorf("%+v is taken", newest)
				}
			case err == nil || !strings.Contains(err.Error(), c.want) || next.Number != 5 ||
				!slices.Equal(next.Roots, keys(1)):
				t.Errorf("%+v, %v; want %q", next, err, c.want)
			}
		})
	}
}

// Each bit of a list and of its signature counts.
func TestBitsOfAList(t *testing.T) {
	good := signed(t, 9, 1, 1)
	known := Known{Roots: keys(1), Number: 5}
	for i := range len(good.List) * 8 {
		bad := bytes.Clone(good.List)
		bad[i/8] ^= 1 << (i % 8)
		if _, l, err := known.Follow("u1", []Signed{{bad, good.Signature}}); l != nil || err == nil {
			t.Fatalf("with bit %d of the list changed it is taken", i)
		}
	}
	for i := range len(good.Signature) * 8 {
		bad := []byte(good.Signature)
		bad[i/8] ^= 1 << (i % 8)
		if _, l, err := known.Follow("u1", []Signed{{good.List, string(bad)}}); l != nil || err == nil {
			t.Fatalf("with bit %d of the signature changed it is taken", i)
		}
	}
}

// Whoever knows no root begins with the newest list, not with one of before.
func TestBegin(t *testing.T) {
	k, l, err := Begin("u1", []Signed{signed(t, 6, 1, 1, 2), signed(t, 7, 2, 2)})
	if err != nil || l.Number != 7 || k.Number != 7 || !slices.Equal(k.Roots, keys(2)) {
		t.Errorf("%+v %+v %v", k, l, err)
	}
	if _, _, err := Begin("u1", nil); !errors.Is(err, ErrOld) {
		t.Error(err)
	}
	if _, l, err := Begin("u1", []Signed{signed(t, 7, 2, 3)}); l != nil || !errors.Is(err, publisher.ErrUnknown) {
		t.Errorf("%+v %v", l, err)
	}
	if _, l, err := Begin("u2", []Signed{signed(t, 7, 2, 2)}); l != nil || !errors.Is(err, ErrUnit) {
		t.Errorf("%+v %v", l, err)
	}
}

// Whatever happens to the root keys, somebody who was away for less than MaxLists changes of them gets to the newest
// list by the chain, and nobody goes back.
func TestChains(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type past struct {
			known   Known
			changes int
		}
		var chain []Signed
		named := []byte{1}
		away := []past{{Known{Roots: keys(1)}, 0}}
		changes := 0
		for n := uint64(1); n <= 10; n++ {
			by := rapid.SampledFrom(named).Draw(rt, "by")
			next := []byte{by}
			for _, k := range []byte{1, 2, 3, 4, 5} {
				if k != by && len(next) < MaxRoots && rapid.IntRange(0, 4).Draw(rt, "more") == 0 {
					next = append(next, k)
				}
			}
			if !slices.Equal(slices.Sorted(slices.Values(next)), slices.Sorted(slices.Values(named))) {
				changes++
			}
			named = next
			chain = Append(chain, signed(t, n, by, named...))
			if len(chain) > MaxLists {
				rt.Fatalf("%d lists", len(chain))
			}
			for _, p := range away {
				got, l, err := p.known.Follow("u1", chain)
				if l == nil && changes-p.changes < MaxLists || l != nil && got.Number < p.known.Number {
					rt.Fatalf("from %+v by %d lists: %+v %v", p.known, len(chain), got, err)
				}
				if changes-p.changes < MaxLists && got.Number != n {
					rt.Fatalf("%+v gets to %d, not to %d", p.known, got.Number, n)
				}
			}
			away = append(away, past{Known{Roots: keys(named...), Number: n}, changes})
		}
	})
}

// A chain is read within its bounds, and the largest one has room.
func TestChainsAreBounded(t *testing.T) {
	l := list(9, 1, 2, 3, 4)
	l.CAs = nil
	for i := range maxCAs {
		l.CAs = append(l.CAs, bytes.Repeat([]byte{byte(i)}, 700))
	}
	sum := sha256.Sum256(l.CAs[0])
	l.Signs, l.UnitKeys = "sha256:"+hex.EncodeToString(sum[:]), nil
	for i := range maxKeys {
		l.UnitKeys = append(l.UnitKeys, wire.Key{ID: fmt.Sprintf("%016d", i), Ed25519: make([]byte, 32)})
	}
	s := sign(t, l, 1)
	if _, newest, err := (Known{Roots: keys(1)}).Follow("u1", []Signed{s}); newest == nil {
		t.Fatal(err)
	}
	full := slices.Repeat([]Signed{{make([]byte, MaxList), strings.Repeat("x", publisher.MaxSignature)}}, MaxLists)
	b, err := EncodeChain(full)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := DecodeChain(b); err != nil || len(c.Lists) != MaxLists {
		t.Errorf("%v", err)
	}
	for what, bad := range map[string][]Signed{
		"lists":       slices.Repeat(full[:1], MaxLists+1),
		"a list":      {{make([]byte, MaxList+1), ""}},
		"a signature": {{nil, strings.Repeat("x", publisher.MaxSignature+1)}},
	} {
		b, err := EncodeChain(bad)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeChain(b); wire.AsError(err).Code != wire.CodeTooLarge {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := DecodeChain(make([]byte, MaxAnswer+1)); wire.AsError(err).Code != wire.CodeTooLarge {
		t.Error(err)
	}
	for _, bad := range []string{"", "[]", `{"lists":1}`, `{"more":1}`} {
		if _, err := DecodeChain([]byte(bad)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
	if b, err := EncodeChain(nil); err != nil || string(b) != `{"lists":[]}` {
		t.Errorf("%s %v", b, err)
	}
}
