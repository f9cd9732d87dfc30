package kind_test

import (
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
		changes, err := kind.Changes(one(c.from), one(c.to))
		var got []string
		for _, x := range changes {
			got = append(got, fmt.Sprintf("%s %s>%s", x.Pointer, x.Before, x.After))
			if x.Entry != "e" {
				t.Errorf("%s: entry %q", name, x.Entry)
			}
		}
		if text := strings.Join(got, ", "); err != nil || text != c.want {
			t.Errorf("%s: %q (%v), want %q", name, text, err, c.want)
		}
	}
	if _, err := kind.Changes(map[string]jsontext.Value{"e": jsontext.Value(`{"a"`)}, nil); err == nil {
		t.Error("what is no JSON was compared")
	}
}
