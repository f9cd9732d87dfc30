package notify

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/controller/internal/words"
	"tandem.internal/shared/wire"
)

func TestReceiverCheck(t *testing.T) {
	for _, c := range []struct {
		change func(*Receiver)
		path   string // of the error; "": there is none
	}{
		{func(*Receiver) {}, ""},
		{func(r *Receiver) { r.Name = "a/b" }, "/name"},
		{func(r *Receiver) { r.URL = "http://127.0.0.1:9/x" }, ""},
		{func(r *Receiver) { r.URL = "http://[::1]:9/x" }, ""},
		{func(r *Receiver) { r.URL = "http://localhost:9/x" }, ""},
		{func(r *Receiver) { r.URL = "http://10.0.0.9/x" }, "/url"},
		{func(r *Receiver) { r.URL, r.Insecure = "http://10.0.0.9/x", true }, ""},
		{func(r *Receiver) { r.URL, r.Insecure = "http://169.254.169.254/x", true }, "/url"},
		{func(r *Receiver) { r.URL = "https://[::ffff:169.254.1.1]/x" }, "/url"},
		{func(r *Receiver) { r.URL = "http://localhost.example.com/x" }, "/url"},
		{func(r *Receiver) { r.URL, r.CA = "http://127.0.0.1/x", "pem" }, "/url"},
		{func(r *Receiver) { r.URL = "http://[::ffff:127.0.0.1]:9/x" }, ""},
		{func(r *Receiver) { r.URL = "ftp://hooks.example.com" }, "/url"},
		{func(r *Receiver) { r.URL = "ftp://127.0.0.1/x" }, "/url"},
		{func(r *Receiver) { r.URL = "https:hooks.example.com" }, "/url"},
		{func(r *Receiver) { r.URL = "https://ann@hooks.example.com" }, "/url"},
		{func(r *Receiver) { r.URL = "https://hooks.example.com/#x" }, "/url"},
		{func(r *Receiver) { r.URL = "https:///x" }, "/url"},
		{func(r *Receiver) { r.URL = "https://:443/x" }, "/url"},
		{func(r *Receiver) { r.URL = "https://h/" + strings.Repeat("x", maxURL) }, "/url"},
		{func(r *Receiver) { r.CA = strings.Repeat("x", maxCA+1) }, "/ca"},
		{func(r *Receiver) { r.Filter.Level = "fatal" }, "/level"},
		{func(r *Receiver) { r.Filter.Where = "tpye:press" }, "/where"},
		{func(r *Receiver) { r.Filter.Types = []string{"alert", "nothing"} }, "/types/1"},
		{func(r *Receiver) { r.Filter.Nodes = []string{""} }, "/nodes/0"},
		{func(r *Receiver) { r.Filter.Nodes = []string{"a\x1b"} }, "/nodes/0"},
		{func(r *Receiver) { r.Filter.Nodes = []string{"a\xff"} }, "/nodes/0"},
		{func(r *Receiver) { r.Filter.Nodes = []string{strings.Repeat("n", maxPattern)} }, ""},
		{func(r *Receiver) { r.Filter.Nodes = []string{strings.Repeat("n", maxPattern+1)} }, "/nodes/0"},
		{func(r *Receiver) { r.Filter.Who = make([]string, maxPatterns+1) }, "/who"},
	} {
		r := Receiver{Name: "r", URL: "https://hooks.example.com/services/secret"}
		c.change(&r)
		if shown := r.Origin() + r.Shown().URL; strings.Contains(shown, "/x") || strings.Contains(shown, "secret") {
			t.Errorf("%s shows the address", shown)
		}
		err := r.Check()
		if err == nil && c.path != "" || err != nil && err.Path != c.path {
			t.Errorf("%.80v: %v, want one at %q", r.URL, err, c.path)
		}
		if err != nil && strings.Contains(err.Error(), "/x") {
			t.Errorf("the error shows the address: %v", err)
		}
	}
}

// The file has the secrets and nothing else shows them, and no other file is accepted.
func TestSetFile(t *testing.T) {
	var s Set
	for i := range MaxReceivers {
		r := Receiver{Name: fmt.Sprintf("r%02d", 20-i), URL: "https://h/secret", ID: "1", Secret: Secret{byte(i)}}
		if err := s.Check(&r); err != nil {
			t.Fatal(err)
		}
		s = s.With(r)
	}
	if err := s.Check(&Receiver{Name: "more", URL: "https://h"}); wire.AsError(err).Code != wire.CodeTooLarge {
		t.Errorf("one more: %v", err)
	}
	if err := s.Check(&s[3]); wire.AsError(err).Code != wire.CodeAlreadyExists {
		t.Errorf("twice: %v", err)
	}
	text := s.Encode()
	got, err := Decode(text)
	if err != nil || !slices.EqualFunc(s, got, func(a, b Receiver) bool {
		return a.Secret == b.Secret && a.Name == b.Name
	}) {
		t.Fatalf("%v %v", got, err)
	}
	for i := range text { // a bit anywhere
		damaged := slices.Clone(text)
		damaged[i] ^= 1
		if got, err := Decode(damaged); err == nil && string(got.Encode()) != string(text) {
			t.Fatalf("byte %d: another set was accepted", i)
		}
	}
	if !slices.IsSortedFunc(s, func(a, b Receiver) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the set is not sorted by name")
	}
	for _, new := range []string{`"format": 2,`, `"format": 1, "more": 1,`} {
		other := strings.Replace(string(text), `"format": 1,`, new, 1)
		if _, err := Decode([]byte(other)); err == nil || other == string(text) {
			t.Errorf("accepted with %s", new)
		}
	}
	if _, err := Decode(append(slices.Clone(s[:1]), s[0]).Encode()); wire.AsError(err).Code != wire.CodeAlreadyExists {
		t.Errorf("a file with one twice: %v", err)
	}
	if s = s.Without("r20"); len(s) != MaxReceivers-1 || s.Find("r20") != nil || s.Find("r19") == nil {
		t.Error("without one")
	}
	r := Receiver{Secret: Secret{1, 2, 3}}
	for _, text := range []string{fmt.Sprint(r), fmt.Sprintf("%+v %#v %x %q", r, r, r.Secret, r.Secret),
		r.Secret.String(), string(marshal(r)), string(marshal(r.Shown()))} {
		if strings.Contains(text, "AQID") || strings.Contains(text, "010203") || strings.Contains(text, "1, 2, 3") {
			t.Errorf("the secret shows: %s", text)
		}
	}
	for _, text := range []string{"", "whsec_", "whsec_AAAA", "AAAA", "whsec_" + strings.Repeat("?", 44),
		"whsec_" + strings.Repeat("A", 44)} {
		if _, err := ParseSecret(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func TestMatch(t *testing.T) {
	entry := func(typ, kind, node, who string) *Entry {
		return &Entry{Entry: view.Entry{Type: typ, Kind: kind, Node: node, Who: who}}
	}
	selected := entry("live", "", "press-1", "")
	selected.Selected = true
	for _, c := range []struct {
		f     Filter
		e     *Entry
		level Level
		want  bool
	}{
		{Filter{}, entry("live", "", "n1", ""), Warning, true},
		{Filter{}, entry("live", "", "n1", ""), Info, false},
		{Filter{Level: "error"}, entry("live", "", "n1", ""), Warning, false},
		{Filter{Types: []string{"live"}}, entry("live", "", "n1", ""), Info, true},
		{Filter{Types: []string{"live"}}, entry("report", "live", "n1", ""), Info, false},
		{Filter{Types: []string{"alert"}}, entry("event", "alert", "n1", ""), Info, true},
		{Filter{Types: []string{"event"}}, entry("event", "alert", "n1", ""), Info, true},
		{Filter{Types: []string{"alert"}, Level: "warning"}, entry("event", "alert", "n1", ""), Info, false},
		{Filter{Nodes: []string{"press-*"}}, entry("live", "", "press-1", ""), Error, true},
		{Filter{Nodes: []string{"press-*"}}, entry("live", "", "mill-1", ""), Error, false},
		{Filter{Nodes: []string{"mill-*", "*-1"}}, entry("live", "", "press-1", ""), Error, true},
		{Filter{Nodes: []string{"*"}}, entry("note", "", "", ""), Error, true},
		{Filter{Where: "type:press"}, selected, Error, true},
		{Filter{Where: "type:press"}, entry("live", "", "press-1", ""), Error, false},
		{Filter{Where: "type:press"}, entry("note", "", "", ""), Error, false},
		{Filter{Where: "type:press", Nodes: []string{"mill-*"}}, selected, Error, false},
		{Filter{}, entry("report", "config", "n1", ""), Error, false},
		{Filter{Level: "info"}, entry("report", "config", "n1", ""), Error, true},
		{Filter{Types: []string{"report"}, Level: "error"}, entry("report", "config", "n1", ""), Error, true},
		{Filter{Who: []string{"token/*"}}, entry("note", "", "", "token/press for bob"), Error, true},
		{Filter{Who: []string{"token/*"}}, entry("note", "", "", "uid:0(root)"), Error, false},
	} {
		f := c.f.Completed()
		if got := f.Match(c.e, c.level); got != c.want {
			t.Errorf("%+v %+v %s: %v", f, c.e, c.level, got)
		}
	}
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"*", "", true}, {"a*a", "a", false}, {"a*a", "aa", true},
		{"a*b*c", "a-b-c", true}, {"a*b*c", "acb", false}, {"**", "x", true}, {"*ab*ba*", "aba", false},
		{"*b*", "abc", true}, {"", "", true},
	} {
		if got := matches(c.pattern, c.name); got != c.want {
			t.Errorf("%q %q: %v", c.pattern, c.name, got)
		}
	}
}

// Whatever a filter lets pass is among what is read for it, and much else is not.
func TestReads(t *testing.T) {
	for _, level := range []string{"", "info", "warning", "error"} {
		for _, types := range [][]string{nil, {"alert"}, {"live", "boot"}} {
			f := Filter{Level: level, Types: types}.Completed()
			for _, typ := range record.Types() {
				for _, kind := range []string{"", "alert", "boot"} {
					e := Entry{Entry: view.Entry{Type: typ.String(), Kind: kind}}
					if f.Match(&e, words.Highest(typ)) && !slices.Contains(f.Reads(), typ) {
						t.Errorf("%+v lets %s pass, which is not read", f, typ)
					}
				}
			}
		}
	}
	f := Filter{}.Completed()
	if all := f.Reads(); slices.Contains(all, record.Report) || !slices.Contains(all, record.Maintenance) {
		t.Errorf("read: %v", all)
	}
}

// What is signed, and how: other programs depend on each byte (Standard Webhooks 1.0.0, CloudEvents 1.0.2).
func TestMessage(t *testing.T) {
	m := New(Receiver{}, "u1", Progress{}, Mark{}, true)
	at := time.Date(2026, 11, 20, 10, 0, 0, 500, time.UTC)
	e := Entry{Entry: view.Entry{Seq: 812, At: at, Type: "event", Node: "press-1", Kind: "alert",
		Data: jsontext.Value(`{"type":"alert"}`)}, Hash: "8c2d1f0a4b5e6978"}
	got := m.entry(&e, Warning, Progress{})
	const want = `{"specversion":"1.0","id":"812-8c2d1f0a4b5e6978","source":"/tandem/units/u1",` +
		`"type":"tandem.event.alert","subject":"press-1","time":"2026-11-20T10:00:00.0000005Z",` +
		`"datacontenttype":"application/json","sequence":"00000000000000000812","tandemlevel":"warning",` +
		`"data":{"level":"warning","seq":812,"at":"2026-11-20T10:00:00.0000005Z","type":"event","node":"press-1",` +
		`"kind":"alert","data":{"type":"alert"}}}`
	if string(got.Body) != want || got.ID != "812-8c2d1f0a4b5e6978" {
		t.Errorf("%s %s", got.ID, got.Body)
	}
	// Worked out by another program: hmac of Python.
	var s Secret
	copy(s[:], "0123456789abcdef0123456789abcdef")
	sig := s.Sign("msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if sig != "v1,hK4CWvngkaAwjY1pABLuUbOIkEJjW9tAapq1no4ojG0=" {
		t.Errorf("signature %s, not that of Python", sig)
	}
	e.Data = jsontext.Value(`"` + strings.Repeat("x", maxData) + `"`)
	got = m.entry(&e, Warning, Progress{})
	if len(got.Body) > 1000 || !strings.Contains(string(got.Body), fmt.Sprintf(`"dataBytes":%d`, maxData+2)) {
		t.Errorf("%.2000s", got.Body)
	}
}
