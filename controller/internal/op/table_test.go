package op_test

import (
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/kinds"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// TestTable: every operation is whole, and what its tags say can be kept.
func TestTable(t *testing.T) {
	names, chosen, roles := map[string]bool{}, map[string]bool{}, map[string]op.Role{}
	for _, s := range append(op.All(), kinds.All().Specs()...) {
		if names[s.Name] || s.Name == "" {
			t.Errorf("%s: the name %q is not its own", s.Route, s.Name)
		}
		names[s.Name] = true
		if !strings.HasSuffix(s.About, ".") {
			t.Errorf("%s: no description: %q", s.Name, s.About)
		}
		if role, ok := roles[s.Route]; ok && role != s.Role {
			t.Errorf("%s: other operations of its route need the role %q", s.Name, role)
		}
		roles[s.Route] = s.Role
		if key := s.Route + "?" + s.When; chosen[key] {
			t.Errorf("%s: another operation of its route has the same When", s.Name)
		} else {
			chosen[key] = true
		}
		if s.Role != op.Anybody && !s.Role.Valid() {
			t.Errorf("%s: the role %q", s.Name, s.Role)
		}
		if (s.Form == op.File) != (s.Type != "") ||
			(s.Form == op.Verdict) != (s.Out == reflect.TypeFor[view.Result]()) ||
			(s.Form == op.Raw) != (s.Out == reflect.TypeFor[[]byte]()) {
			t.Errorf("%s: form %d, type %q and answer %s do not go together", s.Name, s.Form, s.Type, s.Out)
		}
		checkInput(t, s)
	}
	if len(names) < 45 {
		t.Errorf("only %d operations", len(names))
	}
}

func checkInput(t *testing.T, s op.Spec) {
	in := s.Input()
	var parts []string
	for _, p := range in.Path {
		parts = append(parts, p.Name)
	}
	for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(s.Path(), -1) {
		if !slices.Contains(parts, m[1]) {
			t.Errorf("%s: no field has {%s}", s.Name, m[1])
		}
	}
	if n := strings.Count(s.Path(), "{"); n != len(parts) {
		t.Errorf("%s: %d parts in the path, fields for %v", s.Name, n, parts)
	}
	if s.When != "" && !slices.ContainsFunc(in.Query, func(p op.Param) bool { return p.Name == s.When }) {
		t.Errorf("%s: no field has the parameter %s", s.Name, s.When)
	}
	if (in.Body || in.Text != nil) != (s.Method() == "POST") && in.Body {
		t.Errorf("%s: a body with %s", s.Name, s.Method())
	}
	if s.Optional && !in.Body {
		t.Errorf("%s: no body that may be left out", s.Name)
	}
	for _, p := range slices.Concat(in.Path, in.Query, in.Header) {
		if p.Field.Tag.Get("json") != "-" {
			t.Errorf("%s: the parameter %s is a member of the body as well", s.Name, p.Name)
		}
		for _, tag := range []string{"min", "max"} {
			if text, ok := p.Field.Tag.Lookup(tag); ok {
				if _, err := strconv.ParseUint(text, 10, 64); err != nil {
					t.Errorf("%s: %s of %s: %v", s.Name, tag, p.Name, err)
				}
			}
		}
		if !slices.Contains([]string{"", "name", "pointer", "version", "json"}, p.Is) {
			t.Errorf("%s: %s is a %q", s.Name, p.Name, p.Is)
		}
	}
}

// TestBoundsOfTheWire: a tag cannot name a constant.
func TestBoundsOfTheWire(t *testing.T) {
	for _, p := range op.SlotLogs.Spec().Input().Query {
		if p.Name == "tail" && p.Max != wire.MaxLogs {
			t.Errorf("tail has at most %d, the wire %d", p.Max, wire.MaxLogs)
		}
	}
}

// TestRequest: what a client writes is what a controller reads.
func TestRequest(t *testing.T) {
	for _, c := range []struct {
		spec        op.Spec
		in          any
		path, query string
	}{
		{op.ListNodes.Spec(), &op.NodesIn{}, "/v1/nodes", ""},
		{op.PickNodes.Spec(), &op.PickIn{NodesIn: op.NodesIn{Name: "n*", Behind: true, Limit: 2}, Fields: "node,state"},
			"/v1/nodes", "behind=1&fields=node%2Cstate&limit=2&name=n%2A"},
		{op.WatchNodes.Spec(), &op.Watched{}, "/v1/nodes", "watch=1"},
		{op.SlotLogs.Spec(), &op.LogsIn{SlotIn: op.SlotIn{Node: "n{service}", Service: "a/b"}, Tail: 7},
			"/v1/nodes/n%7Bservice%7D/slots/a%2Fb/logs", "tail=7"},
		{op.Events.Spec(), &op.EventsIn{Types: []string{"b", "a"}, After: 18446744073709551614, Follow: true},
			"/v1/events", "after=18446744073709551614&follow=1&type=b&type=a"},
		{op.VerbsOf(op.Subject{Name: "config", Trial: true}).Apply.Spec(), &op.Submit{
			Mode: wire.ModeTry, ConfirmWithin: 90 * time.Second, ID: "é&", DryRun: true,
		}, "/v1/config", "confirmWithin=PT1M30S&dryRun=1&id=%C3%A9%26&mode=try"},
	} {
		path, query := c.spec.Request(c.in)
		if path != c.path || query.Encode() != c.query {
			t.Errorf("%s: %s?%s", c.spec.Name, path, query.Encode())
		}
		back := reflect.New(c.spec.In)
		for _, p := range c.spec.Input().Query {
			if err := p.FromQuery(back.Elem(), query); err != nil {
				t.Errorf("%s: %v", c.spec.Name, err)
			}
		}
		for _, p := range c.spec.Input().Path {
			part := reflect.ValueOf(c.in).Elem().FieldByIndex(p.Index).String()
			if err := p.FromPath(back.Elem(), part); err != nil {
				t.Errorf("%s: %v", c.spec.Name, err)
			}
		}
		if w, ok := back.Interface().(*op.Watched); ok {
			w.Watch = false // the query has what chooses the operation, whether the input says so or not
		}
		if !reflect.DeepEqual(back.Interface(), c.in) {
			t.Errorf("%s: read back %+v, written %+v", c.spec.Name, back.Interface(), c.in)
		}
	}
}

// TestParameters: what a parameter may be.
func TestParameters(t *testing.T) {
	for query, want := range map[string]string{
		"":                           "",
		"node=n1&limit=100000":       "",
		"node=":                      "node's name",
		"node=a%2Fb":                 "cannot name a node",
		"limit=0":                    "from 1 to 100000",
		"limit=100001":               "from 1 to 100000",
		"limit=":                     "from 1 to 100000",
		"after=18446744073709551615": "from 0 to 18446744073709551614",
		"after=-1":                   "from 0 to",
		"follow=":                    "is 1 or 0",
		"follow=yes":                 "is 1 or 0",
		"follow=false":               "",
		"follow=0":                   "",
		"follow=1":                   "",
		"follow=true":                "",
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		in, got := reflect.New(reflect.TypeFor[op.EventsIn]()), ""
		for _, p := range op.Events.Spec().Input().Query {
			if err := p.FromQuery(in.Elem(), q); err != nil {
				got = err.Message
				if err.Code != wire.CodeInvalidArgument {
					t.Errorf("%s: %v", query, err)
				}
				break
			}
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}
