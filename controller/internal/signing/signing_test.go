package signing

import (
	"crypto/ed25519"
	"fmt"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

// The rules are tested with the nodes that they depend on in package fleet.

var now = time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)

func key(n int) wire.Key {
	seed := append([]byte{byte(n), byte(n >> 8)}, make([]byte, 30)...)
	return seal.NewSigner(ed25519.NewKeyFromSeed(seed)).Key()
}

// unit is a list of keys and the nodes that do not believe the newest one.
type unit struct {
	keys    record.SigningKeys
	unaware []string
}

func (u *unit) order(t *testing.T, do record.KeyStep, n int, force bool) (record.KeysData, error) {
	t.Helper()
	before := fmt.Sprint(u.keys)
	o := Order{Do: do, Key: key(n), First: key(1), Force: force, Who: "ann"}
	data, err := Change(now, u.keys, o, func(record.SigningKey) []string { return u.unaware })
	if fmt.Sprint(u.keys) != before {
		t.Errorf("%s %d changed the list before: %v, was %s", do, n, u.keys, before)
	}
	if err == nil {
		u.keys = data.Keys
		if err := u.keys.Check(); err != nil {
			t.Errorf("%s %d: %v", do, n, err)
		}
	}
	return data, err
}

func (u *unit) must(t *testing.T, do record.KeyStep, n int) record.KeysData {
	t.Helper()
	data, err := u.order(t, do, n, true)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A rotation: announce, sign, retire. Who is named is bounded, and no list that was given out is changed.
func TestChange(t *testing.T) {
	u := &unit{}
	u.must(t, record.AnnounceKey, 2)
	if first := u.keys.Find(key(1).ID); !first.Since.IsZero() || u.keys.Find(key(2).ID).Since.IsZero() {
		t.Errorf("the first key signs since it was joined by another: %+v", first)
	}
	for n := range 150 {
		u.unaware = append(u.unaware, fmt.Sprintf("n%03d", n))
	}
	_, err := u.order(t, record.SignWithKey, 2, false)
	if e := wire.AsError(err); err == nil || e.Code != wire.CodeWrongState ||
		!strings.Contains(e.Message, "n004 and 145 more are not known") {
		t.Errorf("%v", err)
	}
	data := u.must(t, record.SignWithKey, 2)
	if !data.Forced || len(data.Missing) != maxNamed || data.Did != record.SignWithKey || data.Key != key(2).ID {
		t.Errorf("%+v", data)
	}
	if s := u.keys.Signs(); s.ID != key(2).ID || u.keys.Find(key(1).ID).State != record.KeyLeaving {
		t.Errorf("%+v", u.keys)
	}
	v := View(u.keys, key(9), func(record.SigningKey) (int, []string) { return 7, u.unaware })
	if k := v.Keys[1]; len(v.Keys) != 2 || k.Nodes != 7 || len(k.Missing) != maxNamed || k.Omitted != 50 {
		t.Errorf("%+v", v)
	}
	u.unaware = nil
	if data = u.must(t, record.RetireKey, 1); data.Forced || data.Missing != nil || len(u.keys.List) != 1 {
		t.Errorf("%+v", data)
	}
	if u.keys.Rev != uint64(now.Unix())+2 {
		t.Errorf("the list has number %d", u.keys.Rev)
	}
}

// Of the keys that were retired the newest are remembered.
func TestRetiredAreBounded(t *testing.T) {
	u := &unit{}
	for n := 2; n < maxRetired+10; n++ {
		u.must(t, record.ReplaceKey, n)
	}
	newest := key(maxRetired + 8).ID
	if r := u.keys.Retired; len(r) != maxRetired || r[maxRetired-1] != newest {
		t.Errorf("%d are remembered, the newest %s, want %s", len(r), r[len(r)-1], newest)
	}
	if _, err := u.order(t, record.AnnounceKey, maxRetired+8, true); err == nil {
		t.Error("a retired key is announced again")
	}
}

// A unit without a list shows the key that it began with.
func TestViewWithoutAList(t *testing.T) {
	v := View(record.SigningKeys{}, key(1), func(record.SigningKey) (int, []string) { return 0, nil })
	if len(v.Keys) != 1 || v.Keys[0].ID != key(1).ID || v.Keys[0].State != record.KeySigning {
		t.Errorf("%+v", v)
	}
}
