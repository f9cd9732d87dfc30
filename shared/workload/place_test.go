package workload

import (
	"fmt"
	"strings"
	"testing"
)

// What is found only when several files are together names the file and line of the entry that is to be
// mended, and the places of others that it is about.
func TestPlaces(t *testing.T) {
	bad := start + `,"x":{"@class":"Resource","uuid":"x","urls":["@{prop(\"p\")}://h/"],"size":0,"verification":{}}`
	sum := func(digit string) string {
		return start + `,"x":{"@class":"Resource","uuid":"u","urls":["http://h/"],"size":0,` +
			`"verification":{"checksum":"MD5:` + strings.Repeat(digit, 32) + `"}}`
	}
	for name, c := range map[string]struct {
		one, two []string // entries, each on a line of its own
		want     string
	}{
		"two slots": {[]string{topo("a@n")}, []string{filler("f", "", "", start), topo("a@n")}, "two:3:3 the " +
			"slot a@n has two entries, the first one at one:2:3"},
		"two fillers": {[]string{filler("f", "", "", start)}, []string{topo("a@n"), filler("f", "", "", start)},
			`two:3:3 two fillers are called "f", the first one at one:2:3`},
		"a circle": {[]string{filler("f", `"parentFillers":"g"`, "", "")},
			[]string{filler("g", `"parentFillers":"f"`, "", "")}, "one:2:3 fillers are each other's parents: f " +
				"← g ← f"},
		"no parent": {[]string{topo("a@n")}, []string{filler("f", `"parentFillers":"g"`, "", start)},
			`two:2:3 the filler "f" names a parent "g" that is not there`},
		"two parents": {[]string{filler("p", "", "", start), filler("q", "", "", start)},
			[]string{topo("a@n"), filler("f", `"parentFillers":["p","q"]`, "", start)},
			`two:3:3 the parents of filler "f" disagree: "p" (one:2:3) and "q" (one:3:3) both set this`},
		"disagree": {[]string{filler("f", "", "", start), topo("a@n")},
			[]string{filler("g", "", "", res("iss_hook_start", "t"))},
			`one:3:3 two fillers apply to the slot a@n and disagree: "f" (one:2:3) and "g" (two:2:3)`},
		"none applies": {[]string{filler("f", `"filter":"instance[p]"`, "", start)},
			[]string{topo("b@n", `"p":"1"`), topo("a@n")},
			`two:3:3 no filler applies to the slot a@n; "f": its filter does not hold`},
		"a template": {[]string{topo("a@n")}, []string{filler("f", "", `"p":"@{prop(\"q\")}"`, start)},
			`two:2:3 filler "f", slot a@n: the template`},
		"a bad URL": {[]string{topo("a@n", `"p":"ftp"`)},
			[]string{topo("b@n", `"p":"http"`), filler("f", "", "", bad)}, "two:3:3 slot a@n: "},
		"no start": {[]string{filler("f", "", "", "")}, []string{topo("a@n")}, "two:2:3 slot a@n: a resource " +
			"called iss_hook_start is needed"},
		"a limit": {[]string{topo("a@n")},
			[]string{filler("f", "", "", start, `"timeLimits":{"iss_hook_stop":{}}`)}, "two:2:3 slot a@n: "},
		"two checksums": {[]string{filler("f", "", `"p":"1"`, sum("0")), filler("g", "", `"p":"2"`, sum("1"))},
			[]string{topo("a@n", `"p":"1"`), topo("b@n", `"p":"2"`)}, "two:3:3 slot b@n: the uuid"},
		"within one file": {[]string{filler("f", "", "", start), filler("g", "", "", res("iss_hook_start", "t")),
			topo("a@n")}, nil, `one:4:3 two fillers apply to the slot a@n and disagree: "f" (one:2:3) and "g" ` +
			`(one:3:3)`},
	} {
		set := &Set{}
		set.Add(mustParse(t, "[\n  "+strings.Join(c.one, ",\n  ")+"]"), "one")
		set.Add(mustParse(t, "[\n  "+strings.Join(c.two, ",\n  ")+"]"), "two")
		_, ps, files := FillFiles(set, false)
		if len(ps) != 1 || len(files) != 1 {
			t.Errorf("%s: %v in %q", name, ps, files)
			continue
		}
		if got := fmt.Sprintf("%s:%d:%d %s", files[0], ps[0].Line, ps[0].Column, ps[0].Message); !strings.HasPrefix(got,
			c.want) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// TestUnproved: a resource needs proof that may come by plain HTTP from another machine.
func TestUnproved(t *testing.T) {
	const sum = "SHA256:66102cc18b13724bc5cce85b78fa49f37bbbead6aa52708a394fc6c336951101"
	for _, c := range []struct {
		urls []string
		sum  string
		want bool
	}{
		{[]string{"http://h/x"}, "", true},
		{[]string{"http://h/x"}, "EMPTY:", true},
		{[]string{"http://h/x"}, "MD5:d41d8cd98f00b204e9800998ecf8427e", true},
		{[]string{"http://h/x"}, sum, false},
		{[]string{"http://h/x"}, "sha256:" + sum[7:], true}, // no checksum of the seed's
		{[]string{"https://h/x"}, "", false},
		{[]string{"https://h/x", "http://h/x"}, "", true},
		{[]string{"rbtorrent:9c3f48a7610df11c9eaefaecd72591a39c3f48a7"}, "", false},
		{[]string{"http://127.0.0.1:80/x", "http://[::1]/x", "http://localhost/x"}, "", false},
		{[]string{"http://[::ffff:127.0.0.1]/"}, "", false},
		{[]string{"http://127.0.0.1.example/x"}, "", true},
		{[]string{"HTTP://10.0.0.1/x"}, "", true},
	} {
		if got := (Artifact{URLs: c.urls, Verification: Verification{Checksum: c.sum}}).Unproved(); got != c.want {
			t.Errorf("%v %q: %v", c.urls, c.sum, got)
		}
	}
}
