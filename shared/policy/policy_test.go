package policy

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/strictjson"
)

// whole has every field of the seed.
const whole = `{
  "owner": "acme/ann",
  "label": "cameras",
  "description": "Cameras in the lab",
  "constraints": ["openhorizon.arch == amd64 && site in \"lab,plant\"", "firmware >= 1.2.0"],
  "properties": [{"name": "ring", "value": 9007199254740993}, {"name": "v", "type": "version", "value": "1.2.0"},
    {"name": "l", "type": "list of strings", "value": "a, b"}, {"name": "l2", "value": ["a", "b"]},
    {"name": "b", "type": "boolean", "value": true}, {"name": "f", "type": "float", "value": 0.1},
    {"name": "s", "type": "string", "value": "a,b"}, {"name": "i", "type": "int", "value": 5}],
  "patterns": ["acme/camera", "gate", "*"],
  "enabled": true,
  "agentUpgradePolicy": {"autoUpgrade": false, "atLeastVersion": "1.2.0-rc.1", "start": "2027-01-31T22:00:00.5+03:00",
    "duration": 3600, "allowDowngrade": true},
  "rollout": {"waves": [1, "10%"]},
  "lastUpdated": "2021-05-05T10:00:00.000000Z[UTC]"
}`

func TestWholePolicy(t *testing.T) {
	p, problems := Parse([]byte(whole), nil)
	if problems != nil {
		t.Fatal(problems)
	}
	if p.Owner != "acme/ann" || p.Org != "acme" || p.Label != "cameras" || p.Description == "" || !p.Enabled ||
		len(p.Constraints) != 2 || len(p.Properties) != 8 || len(p.Patterns) != 3 || p.LastUpdated == "" ||
		string(p.Rollout) != `{"waves": [1, "10%"]}` {
		t.Errorf("%+v", p)
	}
	want := AgentUpgrade{AtLeastVersion: "1.2.0-rc.1", Start: "2027-01-31T22:00:00.5+03:00", Duration: 3600,
		AllowDowngrade: true}
	if *p.Upgrade != want || !p.Upgrade.StartTime().Equal(time.Date(2027, 1, 31, 19, 0, 0, 5e8, time.UTC)) {
		t.Errorf("%+v", p.Upgrade)
	}
	again, problems := Parse(Encode(p), nil)
	if problems != nil || !bytes.Equal(Encode(again), Encode(p)) {
		t.Errorf("%v\n%s", problems, Encode(again))
	}
	if v := p.properties["ring"]; v.String() != "int 9007199254740993" {
		t.Error(v)
	}
}

// What a policy means, though it is not said.
func TestPolicyDefaults(t *testing.T) {
	p, problems := Parse([]byte(`{}`), nil)
	if problems != nil || p.Enabled || p.Upgrade != nil || p.Org != "" {
		t.Errorf("%+v, %v", p, problems)
	}
	now := AgentUpgrade{AtLeastVersion: Current, Start: Now}
	for in, want := range map[string]AgentUpgrade{
		`"agentUpgradePolicy":{}`:                           now,
		`"agentUpgradePolicy":{"atLeastVersion":"latest"}`:  now,
		`"agentUpgradePolicy":{"atLeastVersion":"current"}`: now,
		`"agentUpgradePolicy":{"start":"now"}`:              now,
		`"agentUpgradePolicy":{"start":"1999-01-01T00:00:00Z","duration":1e3}`: {AtLeastVersion: Current,
			Start: "1999-01-01T00:00:00Z", Duration: 1000},
		`"agentUpgradePolicy":{"duration":0}`:     now,
		`"agentUpgradePolicy":{"startWindow":60}`: {AtLeastVersion: Current, Start: Now, Duration: 60},
		`"start":"now","startWindow":60,"agentUpgradePolicy":{"allowDowngrade":true}`: {AtLeastVersion: Current,
			Start: Now, Duration: 60, AllowDowngrade: true},
		`"agentUpgradePolicy":{"autoUpgrade":true,"atLeastVersion":"latest","duration":60}`: {AutoUpgrade: true,
			AtLeastVersion: Current, Start: Now},
	} {
		p, problems := Parse([]byte("{"+in+"}"), nil)
		if problems != nil || p.Upgrade.effective() != want {
			t.Errorf("%s: %+v, %v", in, p, problems)
		}
	}
	if at := (&AgentUpgrade{Start: Now}).StartTime(); !at.IsZero() {
		t.Error(at)
	}
}

// What is refused, with JSON pointer and reason.
func TestRefusedPolicies(t *testing.T) {
	for _, c := range []struct{ in, at, why string }{
		{`"constraints":[""]`, "/constraints/0", "an expression is not empty"},
		{`"constraints":[" "]`, "/constraints/0", "an expression is not empty"},
		{`"constraints":["a == b", "a == x || "]`, "/constraints/1",
			"expression 2, column 11: a name or ( is expected"},
		{`"constraints":[5]`, "/constraints/0", "must be a string"},
		{`"constraints":"a == b"`, "/constraints", "must be an array"},
		{`"properties":[{"value":1}]`, "/properties/0/name", `the required field "name" is missing`},
		{`"properties":[{"name":"a"}]`, "/properties/0/value", `the required field "value" is missing`},
		{`"properties":[{"name":"a","value":null}]`, "/properties/0/value", "is null, which is the same as missing"},
		{`"properties":[{"name":"a","value":1},{"name":"a","value":2}]`, "/properties/1/name",
			"a is property 1 already"},
		{`"properties":[{"name":"!a","value":1}]`, "/properties/0/name", "begins or ends with a !"},
		{`"properties":[{"name":"a b","value":1}]`, "/properties/0/name", "is no name"},
		{`"properties":[{"name":"a","value":{}}]`, "/properties/0/value", "a value is a text"},
		{`"properties":[{"name":"a","value":[1]}]`, "/properties/0/value", "an array has texts only"},
		{`"properties":[{"name":"a","value":["x",""]}]`, "/properties/0/value", "an element of the list is empty"},
		{`"properties":[{"name":"a","type":"int","value":"5"}]`, "/properties/0/value",
			"a value of type int has no quotes"},
		{`"properties":[{"name":"a","type":"int","value":5.5}]`, "/properties/0/value", "not a whole number"},
		{`"properties":[{"name":"a","type":"version","value":"x"}]`, "/properties/0/value", "not a version"},
		{`"properties":[{"name":"a","type":"integer","value":5}]`, "/properties/0/type", `there is no type "integer"`},
		{`"properties":[{"name":"a","type":"bolean","value":true}]`, "/properties/0/type", `did you mean "boolean"?`},
		{`"properties":[{"name":"a","type":"","value":true}]`, "/properties/0/type", "there is no type"},
		{`"properties":[{"name":"a","value":1,"valeu":1}]`, "/properties/0/valeu", `did you mean "value"?`},
		{`"patterns":[""]`, "/patterns/0", "a pattern is not empty"},
		{`"patterns":["a/b/c"]`, "/patterns/0", "a pattern is org/name or name"},
		{`"patterns":["/b"]`, "/patterns/0", "a pattern is org/name or name"},
		{`"patterns":["a/"]`, "/patterns/0", "a pattern is org/name or name"},
		{`"patterns":["a/*"]`, "/patterns/0", "a pattern is org/name or name"},
		{`"enabled":"true"`, "/enabled", "must be true or false"},
		{`"enabeld":true`, "/enabeld", `did you mean "enabled"?`},
		{`"agentUpgradePolicy":{"manifest":"m"}`, "/agentUpgradePolicy/manifest", "unknown field"},
		{`"agentUpgradePolicy":{"duration":-1}`, "/agentUpgradePolicy/duration", "must be whole seconds"},
		{`"agentUpgradePolicy":{"duration":1.5}`, "/agentUpgradePolicy/duration", "must be whole seconds"},
		{`"agentUpgradePolicy":{"duration":31622401}`, "/agentUpgradePolicy/duration", "0 to 31622400"},
		{`"agentUpgradePolicy":{"startWindow":-1}`, "/agentUpgradePolicy/startWindow", "must be whole seconds"},
		{`"agentUpgradePolicy":{"duration":1,"startWindow":1}`, "/agentUpgradePolicy/startWindow",
			"this is said already at /agentUpgradePolicy/duration"},
		{`"start":"now","agentUpgradePolicy":{"start":"now"}`, "/agentUpgradePolicy/start", "said already at /start"},
		{`"start":"now"`, "/start", "agentUpgradePolicy, which is missing"},
		{`"startWindow":5`, "/startWindow", "agentUpgradePolicy, which is missing"},
		{`"agentUpgradePolicy":{"start":"tomorrow"}`, "/agentUpgradePolicy/start", "must be a time of RFC 3339"},
		{`"agentUpgradePolicy":{"start":""}`, "/agentUpgradePolicy/start", "must be a time of RFC 3339"},
		{`"agentUpgradePolicy":{"start":"2027-01-31 22:00:00"}`, "/agentUpgradePolicy/start",
			"must be a time of RFC 3339"},
		{`"agentUpgradePolicy":{"start":"2027-01-31T22:00:00"}`, "/agentUpgradePolicy/start",
			"must be a time of RFC 3339"},
		{`"agentUpgradePolicy":{"start":"2027-02-30T22:00:00Z"}`, "/agentUpgradePolicy/start",
			"must be a time of RFC 3339"},
		{`"agentUpgradePolicy":{"start":"2027-01-31T22:00:00,5Z"}`, "/agentUpgradePolicy/start", "must be a time of"},
		{`"agentUpgradePolicy":{"atLeastVersion":""}`, "/agentUpgradePolicy/atLeastVersion",
			"must be current or a version"},
		{`"agentUpgradePolicy":{"atLeastVersion":"1.2"}`, "/agentUpgradePolicy/atLeastVersion", "is not three numbers"},
		{`"agentUpgradePolicy":{"autoUpgrade":true,"atLeastVersion":"1.2.0"}`, "/agentUpgradePolicy/atLeastVersion",
			"with autoUpgrade the version is current"},
		{`"lastUpdated":"<time-stamp>"`, "/lastUpdated", "must be a time of RFC 3339"},
		{`"rollout":5`, "/rollout", "must be an object"},
		{`"label":"` + strings.Repeat("x", MaxText+1) + `"`, "/label", "at most 4096 bytes"},
		{`"owner":"a","owner":"b"`, "/owner", "appears twice"},
	} {
		p, problems := Parse([]byte("{"+c.in+"}"), nil)
		if first := problems.First(); p != nil || len(problems) != 1 || first.Path != c.at ||
			!strings.Contains(first.Message, c.why) {
			t.Errorf("%.80s: %+v, %v; want %s at %s", c.in, p, problems, c.why, c.at)
		}
	}
}

// The place of a mistake in an expression is that in the document, where the expression stands there just so.
func TestPlaceOfAnExpression(t *testing.T) {
	for in, column := range map[string]int{`{"constraints":["a => 5"]}`: 20, `{"constraints":["a == \"я\" && b"]}`: 17,
		`{"constraints":["a == b", "ю"]}`: 28} {
		_, problems := Parse([]byte(in), nil)
		if e := problems.First(); e == nil || e.Line != 1 || e.Column != column {
			t.Errorf("%s: %v, want column %d", in, problems, column)
		}
	}
}

// The shape of a rollout is checked by whoever knows it.
func TestRolloutHook(t *testing.T) {
	hook := func(r *strictjson.Reader, a strictjson.At) {
		r.Object(a, strictjson.Required("waves", func(a strictjson.At) {
			r.Array(a, 9, func(int, strictjson.At) { r.Skip() })
		}))
	}
	p, problems := Parse([]byte(`{"rollout":{"waves":[1]},"enabled":true}`), hook)
	if problems != nil || string(p.Rollout) != `{"waves":[1]}` || !p.Enabled {
		t.Errorf("%+v, %v", p, problems)
	}
	_, problems = Parse([]byte(`{"rollout":{"wave":[1]}}`), hook)
	if len(problems) != 2 || problems[0].Path != "/rollout/waves" || problems[1].Path != "/rollout/wave" {
		t.Error(problems)
	}
}

func TestRefusedNodes(t *testing.T) {
	for _, c := range []struct{ in, at, why string }{
		{`"org":""`, "/org", "an organisation has a name"},
		{`"org":"a/b"`, "/org", "an organisation has a name"},
		{`"pattern":""`, "/pattern", "a pattern is org/name or name"},
		{`"pattern":"*"`, "/pattern", "a pattern is org/name or name"},
		{`"constraints":["a"]`, "/constraints/0", "expression 1, column 2"},
		{`"management":{"constraints":["()"]}`, "/management/constraints/0", "expression 1, column 2"},
		{`"management":{"properties":[{"name":"a"}]}`, "/management/properties/0/value", "is missing"},
		{`"managment":{}`, "/managment", `did you mean "management"?`},
		{`"deployment":{}`, "/deployment", "unknown field"},
	} {
		n, problems := ParseNode([]byte("{" + c.in + "}"))
		if first := problems.First(); n != nil || len(problems) != 1 || first.Path != c.at ||
			!strings.Contains(first.Message, c.why) {
			t.Errorf("%s: %+v, %v; want %s at %s", c.in, n, problems, c.why, c.at)
		}
	}
}

func TestParseProperties(t *testing.T) {
	p, problems := ParseProperties([]byte(`{"properties":[{"name":"a","value":"b"},` +
		`{"name":"n","type":"int","value":5}]}`))
	if problems != nil || len(p) != 2 || fmt.Sprint(p["a"], p["n"]) != `string "b" int 5` {
		t.Error(p, problems)
	}
	if _, problems := ParseProperties([]byte(`{}`)); len(problems) != 1 || problems[0].Path != "/properties" {
		t.Error(problems)
	}
}

// FuzzPolicies: nothing panics, each refusal has a place, and what is accepted is written so that it is read as the
// same.
func FuzzPolicies(f *testing.F) {
	for _, s := range []string{whole, `{}`, `{"constraints":["a == \"b\" &"]}`,
		`{"properties":[{"name":"a","value":1e9}]}`,
		`{"pattern":"a/b","management":{"properties":[{"name":"x","value":"y,z"}],"constraints":["a in \"b\""]}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, problems := Parse(data, nil)
		if (p == nil) != (problems != nil) {
			t.Fatal(p, problems)
		}
		n, more := ParseNode(data)
		if (n == nil) != (more != nil) {
			t.Fatal(n, more)
		}
		for _, e := range append(problems, more...) {
			if e.Line < 1 || e.Column < 1 || e.Message == "" {
				t.Fatalf("%+v", e)
			}
		}
		if p != nil {
			again, problems := Parse(Encode(p), nil)
			if problems != nil || !bytes.Equal(Encode(again), Encode(p)) ||
				!reflect.DeepEqual(again.constraints, p.constraints) {
				t.Fatalf("%s\nread again: %v", Encode(p), problems)
			}
		}
		if n != nil {
			again, problems := ParseNode(EncodeNode(n))
			if problems != nil || !bytes.Equal(EncodeNode(again), EncodeNode(n)) {
				t.Fatalf("%s\nread again: %v", EncodeNode(n), problems)
			}
			p, _ := Parse([]byte(whole), nil)
			if Match(p, n).Hits != Explain(p, again).Hits {
				t.Fatalf("%s", EncodeNode(n))
			}
		}
	})
}
