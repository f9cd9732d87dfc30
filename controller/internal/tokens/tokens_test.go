package tokens

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/controller/internal/apitoken"
	"tandem.internal/shared/wire"
)

var now = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

func sample(names ...string) (s Set, secrets map[string]apitoken.Secret) {
	secrets = map[string]apitoken.Secret{}
	for i, n := range names {
		secrets[n] = apitoken.New()
		s = s.With(Token{Name: n, Role: Roles[i%len(Roles)], Hash: secrets[n].Hash(), Created: now, By: "uid:0(root)"})
	}
	return s, secrets
}

func TestSetFinds(t *testing.T) {
	s, secrets := sample("c", "a", "b")
	for name, secret := range secrets {
		if i := s.Find(secret.Hash()); i < 0 || s[i].Name != name {
			t.Errorf("%s is at %d", name, i)
		}
	}
	if i := s.Find(apitoken.New().Hash()); i != -1 {
		t.Errorf("found at %d", i)
	}
	if i := s.Find(Hash{}); i != -1 {
		t.Errorf("the empty hash is at %d", i)
	}
	if i := (Set)(nil).Find(Hash{}); i != -1 {
		t.Errorf("found among none: %d", i)
	}
	if names := []string{s[0].Name, s[1].Name, s[2].Name}; !slices.IsSorted(names) {
		t.Errorf("%v", names)
	}
	if less := s.Without("b"); len(less) != 2 || less.index("b") >= 0 || len(s) != 3 {
		t.Errorf("%v of %v", less, s)
	}
}

func TestCheck(t *testing.T) {
	s, _ := sample("ann")
	full := Set{}
	for i := range Max {
		full = append(full, Token{Name: fmt.Sprint("t", i)})
	}
	for _, c := range []struct {
		set  Set
		name string
		role Role
		code wire.Code
	}{
		{s, "bob", View, ""},
		{s, strings.Repeat("x", 63), Admin, ""},
		{s, "ann", View, wire.CodeAlreadyExists},
		{s, "", View, wire.CodeBadValue},
		{s, "a/b", View, wire.CodeBadValue},
		{s, "a b", View, wire.CodeBadValue},
		{s, "a\n", View, wire.CodeBadValue},
		{s, strings.Repeat("x", 64), View, wire.CodeBadValue},
		{s, "bob", "", wire.CodeBadValue},
		{s, "bob", "Admin", wire.CodeBadValue},
		{full, "bob", View, wire.CodeTooLarge},
	} {
		err := c.set.Check(Token{Name: c.name, Role: c.role})
		e, _ := errors.AsType[*wire.Error](err)
		if (err == nil) != (c.code == "") || e != nil && e.Code != c.code {
			t.Errorf("%q as %q: %v", c.name, c.role, err)
		}
	}
}

func TestDecodeIsStrict(t *testing.T) {
	s, _ := sample("ann", "bob")
	good := string(s.Encode())
	if got, err := Decode([]byte(good)); err != nil || !slices.Equal(got, s) {
		t.Fatalf("%v %v", got, err)
	}
	hash, err := s[0].Hash.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	other, err := s[1].Hash.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"nothing":           "",
		"half":              good[:len(good)/2],
		"no object":         "[]",
		"twice":             good + good,
		"another format":    strings.Replace(good, `"format": 1`, `"format": 2`, 1),
		"no format":         strings.Replace(good, `"format": 1,`, ``, 1),
		"unknown field":     strings.Replace(good, `"role"`, `"roles"`, 1),
		"unknown role":      strings.Replace(good, `"view"`, `"root"`, 1),
		"one name twice":    strings.Replace(good, `"bob"`, `"ann"`, 1),
		"one hash twice":    strings.Replace(good, string(other), string(hash), 1),
		"a short hash":      strings.Replace(good, string(hash), string(hash[:20]), 1),
		"a bare hash":       strings.Replace(good, string(hash), string(hash[7:]), 1),
		"no hash":           strings.Replace(good, `"hash": "`+string(hash)+`",`, ``, 1),
		"a name in a name":  strings.Replace(good, `"ann"`, `"a/nn"`, 1),
		"a key given twice": strings.Replace(good, `"format": 1,`, `"format": 1, "format": 1,`, 1),
	} {
		if bad == good {
			t.Errorf("%s: nothing was changed", name)
		}
		if _, err := Decode([]byte(bad)); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}

// TestSetIsAValue: what is made from a set leaves it as it was, and what is written is read back.
func TestSetIsAValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Set
		known := map[string]apitoken.Secret{}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			name := fmt.Sprint("t", rapid.IntRange(0, 9).Draw(t, "name"))
			before := slices.Clone(s)
			var next Set
			if rapid.Bool().Draw(t, "revoke") {
				next = s.Without(name)
				delete(known, name)
			} else {
				secret := apitoken.New()
				k := Token{Name: name, Role: rapid.SampledFrom(Roles).Draw(t, "role"), Hash: secret.Hash(),
					Created: now}
				if s.Check(k) != nil {
					continue
				}
				next, known[name] = s.With(k), secret
			}
			if !slices.Equal(s, before) {
				t.Fatal("the set has changed")
			}
			back, err := Decode(next.Encode())
			if err != nil || !slices.Equal(back, next) && len(next) > 0 {
				t.Fatalf("%v: %v, not %v", err, back, next)
			}
			s = next
		}
		if len(s) != len(known) {
			t.Fatalf("%d tokens, want %d", len(s), len(known))
		}
		for name, secret := range known {
			if i := s.Find(secret.Hash()); i < 0 || s[i].Name != name {
				t.Fatalf("%s is at %d", name, i)
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	s, _ := sample("ann", "bob", "eve")
	s[1].Expires = now.Add(time.Hour)
	f.Add(s.Encode())
	f.Add([]byte(`{"format":1,"tokens":[]}`))
	f.Add([]byte(`{"format":1,"tokens":[` +
		`{"name":"a","role":"admin","hash":"sha256:","created":"0001-01-01T00:00:00Z"}]}`))
	f.Add([]byte(`{"format":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Decode(data)
		if err != nil {
			return
		}
		for i := range s {
			if !s[i].Role.Valid() || !wire.ValidName(s[i].Name) || s.index(s[i].Name) != i || s.Find(s[i].Hash) != i {
				t.Fatalf("%+v", s[i])
			}
		}
		if len(s) > Max {
			t.Fatalf("%d tokens", len(s))
		}
		if back, err := Decode(s.Encode()); err != nil || len(back) != len(s) {
			t.Fatalf("%v %v", back, err)
		}
	})
}
