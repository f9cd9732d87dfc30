package items_test

import (
	"strings"
	"testing"

	"tandem.internal/shared/items"
)

// What a file leaves out is set.
func TestDefaults(t *testing.T) {
	m, problems := items.Parse([]byte(`{"codename": "s", "type": "service", "ports": [{"port": 80}],
		"dependencies": [{"type": "layer", "codename": "l"}]}`))
	if problems != nil || m.Dependencies[0].Condition != items.Started || m.Ports[0].Protocol != items.TCP ||
		m.Priority != 0 || m.Version != "" {
		t.Errorf("%+v, %v", m, problems)
	}
	s, problems := items.ParseSubject([]byte(`{"codename": "S", "type": "group",
		"items": [{"type": "service", "codename": "s"}, {"type": "component", "codename": "k"}]}`))
	if problems != nil || s.Items[0].Instances != 1 || s.Items[1].Instances != 0 || !s.Items[0].Versions.IsZero() {
		t.Errorf("%+v, %v", s, problems)
	}
	n, problems := items.ParseNode([]byte(`{"node": "a", "cpu": 1, "ram": 0}`))
	if problems != nil || n.State != items.Provisioned || n.OfflineFor != 0 {
		t.Errorf("%+v, %v", n, problems)
	}
}

// What reads each format.
var ofMeta, ofItem, ofSubject, ofNode, ofCurrent, ofLoad = as(items.Parse), as(items.ParseItem),
	as(items.ParseSubject), as(items.ParseNode), as(items.ParseCurrent), as(items.ParseLoad)

// refusals are mistakes, with their places and reasons.
var refusals = map[string]struct {
	read                  func([]byte) (any, items.Problems)
	text, pointer, reason string
}{
	"unknown": {ofMeta, `{"codename": "s", "type": "service", "sufix": 1}`,
		"/sufix", "unknown field"},
	"near": {ofMeta, `{"codename": "s", "type": "service", "quota": {}}`,
		"/quota", `did you mean "quotas"`},
	"twice": {ofMeta, `{"codename": "s", "codename": "t", "type": "service"}`,
		"/codename", "appears twice"},
	"no type":  {ofMeta, `{"codename": "s"}`, "/type", "missing"},
	"type":     {ofMeta, `{"codename": "s", "type": "servise"}`, "/type", `did you mean "service"`},
	"codename": {ofMeta, `{"codename": "a b", "type": "service"}`, "/codename", "is no name"},
	"long codename": {ofMeta, `{"codename": "` + strings.Repeat("a", 64) + `", "type": "service"}`,
		"/codename", "is no name"},
	"version":        {ofMeta, meta(`"version": "1.0"`), "/version", "semantic version"},
	"build metadata": {ofMeta, meta(`"version": "1.0.0+b"`), "/version", "build metadata"},
	"priority":       {ofMeta, meta(`"priority": -1`), "/priority", "from 0 to 4294967295, not -1"},
	"description": {ofMeta, meta(`"description": "` + strings.Repeat("a", 4097) + `"`),
		"/description", "1 to 4096 bytes, not 4097"},
	"owner": {ofMeta, meta(`"owner": "a\u0007"`), "/owner", "cannot be printed"},
	"platform": {ofMeta, meta(`"platforms": [{"os": "linux"}]`),
		"/platforms/0/architecture", "missing"},
	"same platform": {ofMeta, meta(`"platforms": [{"architecture": "a"}, {"architecture": "a"}]`),
		"/platforms/1", "already there, at index 0"},
	"same runtime": {ofMeta, meta(`"runtimes": ["a", "a"]`), "/runtimes/1", "already there"},
	"range": {ofMeta, need(`"versions": "1.0.0"`),
		"/dependencies/0/versions", "one version is =1.0.0"},
	"range of none": {ofMeta, need(`"versions": ">=2.0.0,<1.0.0"`),
		"/dependencies/0/versions", "no version can be"},
	"range between": {ofMeta, need(`"versions": ">1.0.0,<1.0.1"`),
		"/dependencies/0/versions", "no version can be"},
	"range of rc": {ofMeta, need(`"versions": ">=1.0.0-rc.1,<1.0.0-rc.3"`),
		"/dependencies/0/versions", "only pre-releases"},
	"empty range": {ofMeta, need(`"versions": ""`),
		"/dependencies/0/versions", "a comparison is missing"},
	"condition": {ofMeta, need(`"condition": "ready"`),
		"/dependencies/0/condition", "must be after, before"},
	"needed twice": {ofMeta, meta(`"dependencies": [{"type": "layer", "codename": "l"},
		{"type": "layer", "codename": "l"}]`),
		"/dependencies/1", "layer l"},
	"needs itself": {ofMeta, meta(`"dependencies": [{"type": "service", "codename": "s"}]`),
		"/dependencies/0", "depends on itself"},
	"suppresses itself": {ofMeta, meta(`"suppressItems": [{"type": "service", "codename": "s"}]`),
		"/suppressItems/0", "suppresses itself"},
	"suppresses layer": {ofMeta, meta(`"suppressItems": [{"type": "layer", "codename": "l"}]`),
		"/suppressItems/0", "not suppressed"},
	"layer suppresses": {ofMeta, `{"codename": "l", "type": "layer",
		"suppressItems": [{"type": "service", "codename": "s"}]}`,
		"/suppressItems", "suppresses nothing"},
	"layer with quotas": {ofMeta, `{"codename": "l", "type": "layer", "quotas": {"cpu": 1}}`,
		"/quotas", "this is a layer"},
	"component's port": {ofMeta, `{"codename": "k", "type": "component", "ports": [{"port": 1}]}`,
		"/ports", "this is a component"},
	"cpu":         {ofMeta, meta(`"quotas": {"cpu": 1073741825}`), "/quotas/cpu", "DMIPS"},
	"half a byte": {ofMeta, meta(`"quotas": {"ram": 0.5}`), "/quotas/ram", "not 0.5"},
	"no quota of storage": {ofMeta, meta(`"requested": {"storage": 1}`), "/requested/storage",
		"needs a quota of storage"},
	"no quota of state": {ofMeta, meta(`"quotas": {"storage": 1}, "requested": {"state": 1}`), "/requested/state",
		"needs a quota of state"},
	"partition of no size": {ofNode, `{"node": "a", "cpu": 1, "ram": 1, "partitions": [{"name": "d", "types": []}]}`,
		"/partitions/0/totalSize", "missing"},
	"partition twice": {ofNode, partitions(`{"name": "d", "types": [], "totalSize": 1},
		{"name": "d", "types": [], "totalSize": 1}`), "/partitions/1", "already there"},
	"two for state": {ofNode, partitions(`{"name": "d", "types": ["storage", "state"], "totalSize": 1},
		{"name": "e", "types": ["state"], "totalSize": 1}`), "/partitions/1", `"d" is for state already`},
	"no quota": {ofMeta, meta(`"requested": {"ram": 1}`), "/requested/ram", "needs a quota of ram"},
	"port":     {ofMeta, meta(`"ports": [{"port": 65536}]`), "/ports/0/port", "not 65536"},
	"same port": {ofMeta, meta(`"ports": [{"port": 1}, {"port": 1, "protocol": "tcp"}]`),
		"/ports/1", "1/tcp"},
	"variable":        {ofMeta, meta(`"env": {"1A": ""}`), "/env/1A", "is no name of a variable"},
	"variable with =": {ofMeta, meta(`"env": {"A=B": ""}`), "/env/A=B", "is no name of a variable"},
	"long variable": {ofMeta, meta(`"env": {"` + strings.Repeat("A", 129) + `": ""}`),
		"/env/" + strings.Repeat("A", 129), "1 to 128 characters"},
	"variable of ours":      {ofMeta, meta(`"env": {"TANDEM_X": ""}`), "/env/TANDEM_X", "is set by the node"},
	"variable of the node":  {ofMeta, meta(`"env": {"HOME": "/"}`), "/env/HOME", "is set by the node"},
	"variable twice":        {ofMeta, meta(`"env": {"A": "1", "A": "1"}`), "/env/A", "appears twice"},
	"number as variable":    {ofMeta, meta(`"env": {"A": 1}`), "/env/A", "must be a string"},
	"zero byte in variable": {ofMeta, meta(`"env": {"A": "\u0000"}`), "/env/A", "cannot be printed"},
	"much environment": {ofMeta, meta(`"env": {"A": "` + strings.Repeat("a", 4096) + `"}`), "/env",
		"at most 4096 bytes of names and texts, not 4097"},
	"component's environment": {ofMeta, `{"codename": "k", "type": "component", "env": {}}`, "/env",
		"this is a component"},
	"component's own environment": {ofSubject, subject(`{"type": "component", "codename": "k", "env": {}}`),
		"/items/0/env", "this is a component"},
	"digest of an environment": {ofCurrent, `{"instances": [` + strings.Replace(instance("service", 0), "}",
		`, "envDigest": "1"}`, 1) + `]}`, "/instances/0/envDigest", "is no digest"},
	"component's digest": {ofCurrent, `{"instances": [` + strings.Replace(instance("component", 0), "}",
		`, "envDigest": "sha256:`+strings.Repeat("a", 64)+`"}`, 1) + `]}`, "/instances/0/envDigest",
		"no environment of its own"},
	"balancing": {ofMeta, meta(`"balancingPolicy": "off"`), "/balancingPolicy", "disabled, enabled"},
	"balancing of a component": {ofMeta, `{"codename": "k", "type": "component", "balancingPolicy": "enabled"}`,
		"/balancingPolicy", "this is a component"},
	"percent":             {ofLoad, `{"nodes": [{"node": "a", "cpu": 95}]}`, "/nodes/0/cpu", "not a percentage"},
	"negative share":      {ofLoad, `{"nodes": [{"node": "a", "ram": -0.1}]}`, "/nodes/0/ram", "from 0 to 1"},
	"node measured twice": {ofLoad, `{"nodes": [{"node": "a"}, {"node": "a"}]}`, "/nodes/1", "already there"},
	"for long":            {ofLoad, `{"nodes": [{"node": "a", "for": "5m"}]}`, "/nodes/0/for", "ISO 8601"},
	"instance measured twice": {ofLoad, `{"instances": [{"codename": "s", "subject": "S", "node": "a"},
		{"codename": "s", "subject": "S", "node": "a"}]}`, "/instances/1", "s of S, index 0, on a"},
	"hostname": {ofMeta, meta(`"hostname": ""`), "/hostname", "is no name"},
	"yaml":     {ofMeta, "codename: s\n", "", "YAML"},
	"no version": {ofItem, `{"state": "ready", "meta": {"codename": "s", "type": "service"}}`,
		"/meta/version", "has to have the version"},
	"state": {ofItem, `{"state": "depricated", "meta": ` + meta(`"version": "1.0.0"`) + `}`,
		"/state", `did you mean "deprecated"`},
	"id": {ofItem, `{"id": "6F1D2F0E-58a5-4d4e-9f65-0f6b1f6f2a01", "state": "ready",
		"meta": ` + meta(`"version": "1.0.0"`) + `}`, "/id", "not a UUID"},
	"urn": {ofItem, `{"urn": "uuid:x", "state": "ready", "meta": ` + meta(`"version": "1.0.0"`) + `}`,
		"/urn", "not a URN"},
	"digest": {ofItem, `{"digest": "sha256:1", "state": "ready", "meta": ` + meta(`"version": "1.0.0"`) + `}`,
		"/digest", "is no digest"},
	"itself, in an item": {ofItem, `{"state": "ready", "meta": {"codename": "s", "version": "1.0.0", "type": "service",
		"dependencies": [{"type": "service", "codename": "s"}]}}`, "/meta/dependencies/0", "depends on itself"},
	"subject of a layer": {ofSubject, subject(`{"type": "layer", "codename": "l"}`),
		"/items/0/type", "component, service"},
	"item twice": {ofSubject, subject(`{"type": "service", "codename": "s"}, {"type": "service", "codename": "s"}`),
		"/items/1", "already there"},
	"no instance": {ofSubject, subject(`{"type": "service", "codename": "s", "instances": 0}`),
		"/items/0/instances", "from 1 to 1000"},
	"components": {ofSubject, subject(`{"type": "component", "codename": "s", "instances": 1}`),
		"/items/0/instances", "once per node"},
	"no nodes": {ofSubject, `{"codename": "S", "type": "group", "nodes": []}`,
		"/nodes", "leave nodes out"},
	"nodes of a type": {ofSubject, `{"codename": "S", "type": "nodeType", "nodes": ["a"]}`,
		"/nodes", "has the nodes of that type"},
	"node":   {ofNode, `{"node": "", "cpu": 1, "ram": 1}`, "/node", "is no name"},
	"no cpu": {ofNode, `{"node": "a", "ram": 1}`, "/cpu", "missing"},
	"offline": {ofNode, `{"node": "a", "cpu": 1, "ram": 1, "offlineFor": "10s"}`,
		"/offlineFor", "ISO 8601"},
	"runtime twice": {ofNode, `{"node": "a", "cpu": 1, "ram": 1,
		"runtimes": [{"id": "c", "type": "c", "architecture": "x"},
		{"id": "c", "type": "d", "architecture": "x"}]}`, "/runtimes/1", "already there"},
	"resource twice": {ofNode, `{"node": "a", "cpu": 1, "ram": 1, "resources": [{"name": "c"}, {"name": "c"}]}`,
		"/resources/1", "already there"},
	"runs twice": {ofCurrent, `{"instances": [` + instance("service", 0) + `, ` + instance("service", 0) + `]}`,
		"/instances/1", "service s of S, index 0"},
	"component twice": {ofCurrent, `{"instances": [` + instance("component", 0) + `,
		` + instance("component", 0) + `]}`,
		"/instances/1", "on a/crun"},
	"component's index": {ofCurrent, `{"instances": [` + instance("component", 1) + `]}`, "/instances/0/index",
		"once per node"},
	"layer twice": {ofCurrent, `{"layers": [{"node": "a", "codename": "l", "version": "1.0.0"},
		{"node": "a", "codename": "l", "version": "1.0.0"}]}`, "/layers/1", "already there"},
}

func meta(more string) string { return `{"codename": "s", "type": "service", ` + more + `}` }

func need(more string) string {
	return meta(`"dependencies": [{"type": "layer", "codename": "l", ` + more + `}]`)
}

func partitions(list string) string {
	return `{"node": "a", "cpu": 1, "ram": 1, "partitions": [` + list + `]}`
}

func subject(list string) string {
	return `{"codename": "S", "type": "group", "items": [` + list + `]}`
}

func instance(typ string, index int) string {
	return `{"type": "` + typ + `", "codename": "s", "version": "1.0.0", "subject": "S", "index": ` +
		string(rune('0'+index)) + `, "node": "a", "runtime": "crun"}`
}

// Every mistake is refused with its place and reason.
func TestItemRefusals(t *testing.T) {
	for name, c := range refusals {
		_, problems := c.read([]byte(c.text))
		if problems == nil {
			t.Errorf("%s: taken", name)
			continue
		}
		if first := problems.First(); first.Path != c.pointer || !strings.Contains(first.Message, c.reason) {
			t.Errorf("%s: at %q %q, want %q %q", name, first.Path, first.Message, c.pointer, c.reason)
		}
	}
}

// Which versions are in a range, without and with pre-releases.
func TestRanges(t *testing.T) {
	for _, c := range []struct {
		of, version string
		without, in bool
	}{
		{">=1.0.0,<2.0.0", "1.0.0", true, true}, {">=1.0.0,<2.0.0", "2.0.0", false, false},
		{">=1.0.0,<2.0.0", "2.0.0-rc.1", false, false}, {"<2.0.0", "2.0.0-0", false, false},
		{"<2.0.0", "1.9.9-rc.1", false, true}, {"<=2.0.0", "2.0.0-rc.1", false, true},
		{"<2.0.0-rc.2", "2.0.0-rc.1", false, true}, {"<2.0.0-rc.2", "2.0.0-rc.2", false, false},
		{">=1.0.0-0", "1.0.0-rc.1", false, true}, {">=1.0.0", "1.0.0-rc.1", false, false},
		{">1.0.0", "1.0.1-rc.1", false, true}, {">1.0.0", "1.0.0", false, false},
		{"=1.2.3", "1.2.3", true, true}, {"=1.2.3", "1.2.4", false, false}, {"=1.2.3", "1.2.3-rc.1", false, false},
		{"^1.2.3", "1.9.0", true, true}, {"^1.2.3", "2.0.0", false, false}, {"^1.2.3", "2.0.0-rc.1", false, false},
		{"^1.2.3", "1.2.2", false, false}, {"^0.2.3", "0.3.0", false, false}, {"^0.2.3", "0.2.9", true, true},
		{"~1.2.3", "1.2.9", true, true}, {"~1.2.3", "1.3.0", false, false}, {"~1.2.3", "1.3.0-rc.1", false, false},
		{" >= 1.0.0 , < 1.1.0 ", "1.0.5", true, true},
	} {
		r, err := items.ParseRange(c.of)
		if err != nil {
			t.Errorf("%s: %v", c.of, err)
			continue
		}
		v, err := items.ParseVersion(c.version)
		if err != nil {
			t.Fatal(err)
		}
		if without, in := r.Has(v, false), r.Has(v, true); without != c.without || in != c.in {
			t.Errorf("%s has %s: %v, with pre-releases %v", c.of, c.version, without, in)
		}
	}
	for _, bad := range []string{"", ",", "1.0.0", ">=1.0", ">=v1.0.0", "!=1.0.0", ">=1.0.0 <2.0.0", ">=1.0.0||<2.0.0",
		"1.x",
		"<0.0.0", ">1.0.0,<1.0.0", strings.Repeat(">=1.0.0,", 8) + ">=1.0.0", ">=1.0.0-" + strings.Repeat("a", 256)} {
		if r, err := items.ParseRange(bad); err == nil {
			t.Errorf("%q is the range %v", bad, r)
		}
	}
}

// A digest tells environments apart, whatever their order; none has none.
func TestEnvDigest(t *testing.T) {
	seen := map[string]int{}
	for i, e := range []items.Env{nil, {"A": ""}, {"A": "1"}, {"A": "1", "B": "2"}, {"A": "1B=2"}, {"A": "1\nB=2"}} {
		d := e.Digest()
		if other, twice := seen[d]; twice {
			t.Errorf("%d and %d: %s", i, other, d)
		}
		seen[d] = i
		if again := (items.Env{}).With(e).Digest(); again != d {
			t.Errorf("%d: %s and %s", i, d, again)
		}
	}
	if (items.Env{}).Digest() != "" {
		t.Error("no environment has a digest")
	}
	// printf 'A=1\0B=2\0' | sha256sum
	const want = "sha256:22ee4d94a93a2f30a119c526110772278f3469e2e234c85c8c13b3c80d88989e"
	if got := (items.Env{"B": "1", "A": "1"}).With(items.Env{"B": "2"}).Digest(); got != want {
		t.Error(got)
	}
}
