package acl

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// unitOf returns the identities for tests of the export: names with dots, the longest name, a node named as the
// controller and one named as an operator.
var unitOf = []Identity{
	{Role: Controller}, {Cloud, "eu"}, {Operator, "n1"},
	{Node, "n1"}, {Node, "n2"}, {Node, "ecu.left-1_a"}, {Node, "controller"},
	{Node, strings.Repeat("n", topic.MaxName)},
}

func TestExportGolden(t *testing.T) {
	few := []Identity{{Node, "ecu-left_1"}, {Operator, "ann"}, {Role: Controller}, {Cloud, "eu"}, {Node, "n1"}}
	dotted := Rules{"plant.4"}
	passwords := NATSUsers{Passwords: map[Identity]string{}}
	for _, id := range few {
		passwords.Passwords[id] = "$2a$11$not.a.real.hash"
	}
	for _, c := range []struct {
		file string
		make func() ([]byte, error)
	}{
		{"mosquitto.acl", func() ([]byte, error) { return dotted.Mosquitto(append(few, Identity{Node, "ecu.right"})) }},
		{"nats-certificates.conf", func() ([]byte, error) { return dotted.NATS(few, NATSUsers{}) }},
		{"nats-passwords.conf", func() ([]byte, error) { return dotted.NATS(few, passwords) }},
	} {
		got, err := c.make()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", c.file)
		if *rewrite {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s differs; if that is meant, run with -rewrite. Now it is:\n%s", c.file, got)
		}
	}
}

func TestExportRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		r    Rules
		who  []Identity
	}{
		{"nobody", rules, nil},
		{"bad unit", Rules{"+"}, []Identity{n1}},
		{"no unit", Rules{}, []Identity{n1}},
		{"anonymous", rules, []Identity{{}}},
		{"node without a name", rules, []Identity{{Role: Node}}},
		{"wildcard", rules, []Identity{{Node, "+"}}},
		{"two lines", rules, []Identity{{Node, "n1\nuser controller"}}},
		{"controller with a name", rules, []Identity{{Controller, "x"}}},
		{"unknown role", rules, []Identity{{99, "x"}}},
		{"twice", rules, []Identity{n1, operator, n1}},
	} {
		if out, err := c.r.Mosquitto(c.who); err == nil {
			t.Errorf("%s: Mosquitto gave %s", c.name, out)
		}
		if out, err := c.r.NATS(c.who, NATSUsers{}); err == nil {
			t.Errorf("%s: NATS gave %s", c.name, out)
		}
	}
	if out, err := rules.NATS([]Identity{{Node, "a.b"}}, NATSUsers{}); err == nil {
		t.Errorf("a name with a dot: %s", out)
	}
	for _, password := range []string{"", "it's", "a\nb", `a\b`, "a\"b", "ä"} {
		if out, err := rules.NATS([]Identity{n1}, NATSUsers{Passwords: map[Identity]string{n1: password}}); err == nil {
			t.Errorf("password %q: %s", password, out)
		}
	}
}

// subset reports whether pattern matches all topics that the MQTT filter matches.
func subset(filter, pattern string) bool {
	f, p := strings.Split(filter, "/"), strings.Split(pattern, "/")
	for i, level := range p {
		switch {
		case level == "#":
			return i <= len(f)
		case i >= len(f) || f[i] == "#":
			return false
		case level != "+" && level != f[i]:
			return false
		}
	}
	return len(f) == len(p)
}

// dotless returns the identities without a dot in their name, which NATS accepts.
func dotless(who []Identity) []Identity {
	return slices.DeleteFunc(slices.Clone(who), func(id Identity) bool { return strings.Contains(id.Name, ".") })
}

// judge returns what an exported text permits. It is a small parser of the format, written from its manual.
type judge func(text string, id Identity) (may func(write bool, s string) bool)

// mosquittoJudge reads an ACL file (mosquitto.conf(5), acl_file). mosquitto asks about each topic;
// for filters it is asked here whether all of it may be read.
func mosquittoJudge(text string, id Identity) func(bool, string) bool {
	rules := map[bool][]string{}
	user := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		if name, ok := strings.CutPrefix(line, "user "); ok {
			user = name
		} else if rule, ok := strings.CutPrefix(line, "topic "); ok && user == id.String() {
			access, pattern, _ := strings.Cut(rule, " ")
			rules[access == "write"] = append(rules[access == "write"], pattern)
		}
	}
	return func(write bool, s string) bool {
		if strings.HasPrefix(s, "$") || s == "" || write && strings.ContainsAny(s, "+#") {
			return false
		}
		for _, pattern := range rules[write] {
			if subset(s, pattern) {
				return true
			}
		}
		return false
	}
}

// natsJudge reads the authorization block, of which it knows just what the export writes, and
// turns topics into subjects as the comment on mqttToNATSSubjectConversion in nats-server says.
func natsJudge(text string, id Identity) func(bool, string) bool {
	allow, deny := map[bool][]string{}, map[bool]bool{}
	mine, write := false, false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "{ user:"):
			mine = strings.HasPrefix(line, `{ user: "tandem://u1/`+id.String()+`"`)
		case strings.HasPrefix(line, "publish:"), strings.HasPrefix(line, "subscribe:"):
			write = strings.HasPrefix(line, "publish:")
			deny[write] = deny[write] || mine && strings.Contains(line, `deny: ">"`)
		case mine && strings.HasPrefix(line, `"`):
			allow[write] = append(allow[write], strings.Trim(line, `"`))
		}
	}
	return func(write bool, s string) bool {
		subject, ok := natsSubject(s, !write)
		if !ok || deny[write] || strings.HasPrefix(s, "$") {
			return false
		}
		if len(allow[write]) == 0 {
			return true // as NATS has it
		}
		match := func(subject string) bool {
			for _, a := range allow[write] {
				toMQTT := strings.NewReplacer(".", "/", "*", "+", ">", "#", "/", "%")
				if subset(toMQTT.Replace(subject), toMQTT.Replace(a)) {
					return true
				}
			}
			return false
		}
		parent, above := strings.CutSuffix(subject, ".>")
		return match(subject) && (!above || match(parent))
	}
}

func natsSubject(s string, wildcards bool) (string, bool) {
	if s == "" || strings.ContainsAny(s, " \t\n\r\f\x7f\x00") || !wildcards && strings.ContainsAny(s, "+#") {
		return "", false
	}
	levels := strings.Split(s, "/")
	for i, l := range levels {
		if l == "" {
			l = "/"
		}
		if wildcards {
			l = strings.NewReplacer("+", "*", "#", ">").Replace(l)
		}
		levels[i] = strings.ReplaceAll(l, ".", "//")
	}
	return strings.Join(levels, "."), true
}

// judges are the two formats with their texts for unitOf.
func judges(t testing.TB) map[string]func(Identity) func(bool, string) bool {
	acls, err := rules.Mosquitto(unitOf)
	if err != nil {
		t.Fatal(err)
	}
	nats, err := rules.NATS(dotless(unitOf), NATSUsers{})
	if err != nil {
		t.Fatal(err)
	}
	with := func(text []byte, j judge, who []Identity) func(Identity) func(bool, string) bool {
		made := map[Identity]func(bool, string) bool{}
		for _, id := range who {
			made[id] = j(string(text), id)
		}
		return func(id Identity) func(bool, string) bool { return made[id] }
	}
	return map[string]func(Identity) func(bool, string) bool{"mosquitto": with(acls, mosquittoJudge, unitOf),
		"nats": with(nats, natsJudge, dotless(unitOf))}
}

// canonical reports whether the wire names the topic: there, exports and rules must say the same.
func canonical(s string) bool {
	p, err := topic.Parse(s)
	return err == nil && (p.Kind == "" || p.Kind.Known())
}

// TestExportAgrees: of every topic that the wire names, the exports say what the rules say; beyond
// those they give a node nothing that the rules do not, and nobody anything of another unit.
func TestExportAgrees(t *testing.T) {
	by := judges(t)
	names := []string{"n1", "n2", "ecu.left-1_a", "ecu/left-1_a", "controller", strings.Repeat("n", topic.MaxName),
		"stranger", "ecu"}
	leaves := []string{"live", "reply", "event", "request", "desired/config", "desired/+", "desired/#",
		"reported/config", "reported/info", "reported/+",
		"reported/nonsense", "reported", "reported/", "desired/*", "desired/>", "+", "#", "*", ">", "", "live/",
		"live/x"}
	odd := []string{"+", "#", "*", ">", "", "/", ".", "//", "$SYS", "$share", "u2", "node", "tandem", "1", "2", " ",
		"n1", "n2", "outbox", "inbox", "controller", "\x00", "Ω"}
	draw := func(t *rapid.T, id Identity) string {
		var s string
		switch shape := rapid.IntRange(0, 3).Draw(t, "shape"); shape {
		case 0:
			s = rapid.SampledFrom([]string{"controller", "inbox/a", "inbox/+", "outbox/a", "outbox/+", "outbox/#",
				"#", "+", "inbox/a/b", "*", ">", ""}).Draw(t, "unit's")
			s = rapid.SampledFrom([]string{"tandem/1/u1/", "tandem/1/u2/", "tandem/2/u1/", "$share/g/tandem/1/u1/",
				"/tandem/1/u1/"}).Draw(t, "root") + s
		default:
			name := id.Name
			if shape == 1 || name == "" {
				name = rapid.SampledFrom(names).Draw(t, "node")
			}
			s = topic.Root + "u1/node/" + topic.Shard(name) + "/" + name + "/" +
				rapid.SampledFrom(leaves).Draw(t, "leaf")
		}
		levels := strings.Split(s, "/")
		for range max(0, rapid.IntRange(-2, 2).Draw(t, "changes")) {
			levels[rapid.IntRange(0, len(levels)-1).Draw(t, "at")] = rapid.SampledFrom(odd).Draw(t, "level")
		}
		return strings.Join(levels, "/")
	}
	check := func(t *rapid.T, id Identity, s string) {
		for format, of := range by {
			may := of(id)
			if may == nil {
				continue
			}
			_, clears := rules.For(id).Clear(s)
			writes := mayPublish(rules, id, s) || clears
			for write, rule := range map[bool]bool{true: writes, false: rules.For(id).Subscribe(s)} {
				got := may(write, s)
				switch {
				case canonical(s) && got != rule:
					t.Fatalf("%s: %v, write %v, %q: the export says %v, the rules %v", format, id, write, s, got, rule)
				case got && write && id.Role == Node && !rule:
					t.Fatalf("%s lets %v write %q, the rules do not", format, id, s)
				case got && !rule && id.Role == Node && !ownDesired(id, s):
					t.Fatalf("%s lets %v read %q, the rules do not", format, id, s)
				case got && !strings.HasPrefix(s, "tandem/1/u1/") && s != "tandem/1/u1":
					t.Fatalf("%s lets %v have %q of another unit, write %v", format, id, s, write)
				}
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.SampledFrom(unitOf).Draw(t, "who")
		for range 40 {
			check(t, id, draw(t, id))
		}
	})
}

// ownDesired reports whether s is one level below the node's own desired branch: there "+" also
// matches what is no name, which only the controller could have written.
func ownDesired(id Identity, s string) bool {
	rest, ok := strings.CutPrefix(s, strings.TrimSuffix(topic.ForNode("u1", id.Name).DesiredFilter(), "+"))
	return ok && !strings.Contains(rest, "/")
}

// TestExportKinds: a kind that the wire gains must be in the exports, too.
func TestExportKinds(t *testing.T) {
	for _, k := range wire.Kinds() {
		if !k.Known() {
			t.Errorf("%s is exported but not known", k)
		}
	}
	for _, k := range []wire.Kind{wire.KindConfig, wire.KindPolicies, wire.KindComponents, wire.KindWorkloads,
		wire.KindInfo, wire.KindHealth} {
		for format, of := range judges(t) {
			if !of(n1)(true, topic.ForNode("u1", "n1").Reported(k)) {
				t.Errorf("%s does not let a node report %s", format, k)
			}
		}
	}
}
