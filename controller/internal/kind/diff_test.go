package kind_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/kind"
)

// Values are compared by entry and pointer; empty containers are values.
func TestChanges(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"equal":           {`{"a":1}`, `{"a":1}`, ""},
		"another":         {`{"a":1,"b":[1,2]}`, `{"a":2,"b":[1,3]}`, "/a 1>2, /b/1 2>3"},
		"more and fewer":  {`{"a":{"x":1}}`, `{"b":{"y/z":"t"}}`, `/a/x 1>null, /b/y~1z null>"t"`},
		"empty":           {`{"a":{}}`, `{"a":{"x":1}}`, "/a {}>null, /a/x null>1"},
		"not a container": {`1`, `2`, " 1>2"},
	} {
		one := func(v string) map[string]jsontext.Value { return map[string]jsontext.Value{"e": jsontext.Value(v)} }
		changes, err := kind.Changes(one(c.from), one(c.to), nil)
		var got []string
		for _, x := range changes.List {
			got = append(got, fmt.Sprintf("%s %s>%s", x.Pointer, x.Before, x.After))
			if x.Entry != "e" {
				t.Errorf("%s: entry %q", name, x.Entry)
			}
		}
		if text := strings.Join(got, ", "); err != nil || text != c.want {
			t.Errorf("%s: %q (%v), want %q", name, text, err, c.want)
		}
	}
	if _, err := kind.Changes(map[string]jsontext.Value{"e": jsontext.Value(`{"a"`)}, nil, nil); err == nil {
		t.Error("what is no JSON was compared")
	}
}

// What is beyond the bound is counted, and the work ends as soon as nobody wants it.
func TestChangesAreBoundedAndStop(t *testing.T) {
	entries := map[string]jsontext.Value{}
	for i := range kind.MaxChanges/2 + 1 {
		entries[fmt.Sprint(i)] = jsontext.Value(`{"a":1,"b":2}`)
	}
	all, err := kind.Changes(nil, entries, func() error { return nil })
	if err != nil || len(all.List) != kind.MaxChanges || all.Omitted != 2 {
		t.Errorf("%d listed, %d omitted (%v)", len(all.List), all.Omitted, err)
	}
	over, asked := errors.New("over"), 0
	all, err = kind.Changes(nil, entries, func() error {
		if asked++; asked == 3 {
			return over
		}
		return nil
	})
	if !errors.Is(err, over) || asked != 3 || all.List != nil {
		t.Errorf("asked %d times, then %v, with %d changes", asked, err, len(all.List))
	}
}
