package acl

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

var (
	rules      = Rules{Unit: "u1"}
	n1         = Identity{Node, "n1"}
	controller = Identity{Role: Controller}
	cloud      = Identity{Cloud, "eu"}
	operator   = Identity{Operator, "ann"}
	everybody  = []Identity{n1, controller, cloud, operator, {}}
)

// mayPublish reports whether id may write a topic, as a message or as a last will.
func mayPublish(rules Rules, id Identity, name string) bool {
	_, ok := rules.For(id).Publish(name)
	return ok
}

// TestOneWriter is the writer column of the wire contract, row by row: the named identity may
// write the topic and nobody else may.
func TestOneWriter(t *testing.T) {
	n := topic.ForNode("u1", "n1")
	rows := []struct {
		name   string
		writer Identity
	}{
		{topic.ForController("u1"), controller},
		{n.Desired(wire.KindConfig), controller},
		{n.Request(), controller},
		{n.Reply(), n1},
		{n.Reported(wire.KindConfig), n1},
		{n.Reported(wire.KindInfo), n1},
		{n.Live(), n1},
		{n.Event(), n1},
		{topic.ForInbox("u1", "config"), cloud},
		{topic.ForOutbox("u1", "unit"), controller},
	}
	for _, r := range rows {
		for _, id := range everybody {
			if got, want := mayPublish(rules, id, r.name), id == r.writer; got != want {
				t.Errorf("publishing(%v, %s) = %v, want %v", id, r.name, got, want)
			}
		}
	}
}

// The controller clears what nodes left retained, and nobody else clears what is another one's.
func TestClear(t *testing.T) {
	n, other := topic.ForNode("u1", "n1"), topic.ForNode("u2", "n1")
	for name, may := range map[string]bool{
		n.Live(): true, n.Reported(wire.KindConfig): true, n.Reported("other"): true,
		n.Event(): false, n.Reply(): false, n.Desired(wire.KindConfig): false, topic.ForInbox("u1", "config"): false,
		other.Live(): false, "tandem/1/u1/node/00/n1/live": false, strings.Repeat("x", MaxFilter+1): false,
	} {
		for _, id := range everybody {
			leaf, ok := rules.For(id).Clear(name)
			if want := may && id == controller; ok != want || ok != (leaf != "") {
				t.Errorf("Clear(%v, %.80q) = %q, %v, want %v", id, name, leaf, ok, want)
			}
		}
	}
}

func TestPublishRefused(t *testing.T) {
	own := topic.ForNode("u1", "n1")
	foreign := topic.ForNode("u1", "n2")
	prefix := strings.TrimSuffix(own.Live(), "live")
	for _, name := range []string{
		"", "/", "#", "+", "$SYS/broker/version", "$share/g/" + own.Live(), "$SYS/" + own.Live(),
		foreign.Live(), foreign.Reported(wire.KindConfig), foreign.Event(), foreign.Reply(),
		topic.ForNode("u2", "n1").Live(), topic.ForNode("u1", "n1.x").Live(),
		own.Live() + "/", own.Live() + "/x", own.Live() + "\x00", "/" + own.Live(), own.Live()[1:],
		prefix, prefix + "reported", prefix + "reported/", prefix + "reported/+", prefix + "reported/#",
		prefix + "reported/a/b", prefix + "reported/\xff", prefix + "reported/" + strings.Repeat("k", 64),
		prefix + "liv\xff", prefix + "LIVE", prefix + "desired/config",
		"tandem/1/u1/node/00/n1/live", "tandem/2" + strings.TrimPrefix(own.Live(), "tandem/1"),
		prefix + "reported/" + strings.Repeat("k", 70000),
		topic.ForInbox("u2", "config"), topic.ForOutbox("u2", "unit"), topic.ForController("u2"),
		"tandem/1/u1/inbox/", "tandem/1/u1/inbox/a/b", "tandem/1/u1/inbox/+", "tandem/1/u1/controller/x",
	} {
		for _, id := range everybody {
			foreignOK := id == controller && name == prefix+"desired/config"
			if mayPublish(rules, id, name) != foreignOK {
				t.Errorf("publishing(%v, %.80q) = %v", id, name, !foreignOK)
			}
		}
	}
}

func TestSubscribe(t *testing.T) {
	n := topic.ForNode("u1", "n1")
	prefix := strings.TrimSuffix(n.Live(), "live")
	readers := func(ids ...Identity) []Identity { return append(ids, controller, operator) }
	rows := []struct {
		filter string
		may    []Identity
	}{
		{topic.ForController("u1"), readers(n1, cloud)},
		{n.DesiredFilter(), readers(n1)},
		{n.Desired(wire.KindConfig), readers(n1)},
		{n.Desired("future-kind"), readers(n1)},
		{n.Request(), readers(n1)},
		{topic.ForOutbox("u1", "unit"), readers(cloud)},
		{"tandem/1/u1/outbox/+", readers(cloud)},
		{"tandem/1/u1/outbox/#", readers()},
		{"tandem/1/u1/inbox/+", readers()},
		{"tandem/1/u1/#", readers()},
		{"tandem/1/u1/+/+/+/live", readers()},
		{topic.ShardFilters("u1", "ab")[1], readers()},
		{topic.ShardDesired("u1", "ab"), readers()},
		{n.Live(), readers()},
		{n.Reply(), readers()},
		{n.Reported(wire.KindConfig), readers()},
		{prefix + "#", readers()},
		{prefix + "+", readers()},
		{prefix + "desired/#", readers()},
		{prefix + "+/config", readers()},
		{prefix + "desired/+/x", readers()},
		{topic.ForNode("u1", "n2").Desired(wire.KindConfig), readers()},
		{topic.ForNode("u1", "n2").Request(), readers()},
		{"tandem/1/u1/+", readers()},
		{"tandem/1/u1/node/+/n1/desired/+", readers()},

		{"", nil}, {"#", nil}, {"+/#", nil}, {"tandem/#", nil}, {"tandem/1/#", nil}, {"tandem/1/+/#", nil},
		{"tandem/1/+/controller", nil}, {"tandem/+/u1/controller", nil}, {"tandem/1/u1", nil}, {"tandem/1/u1/", nil},
		{"tandem/1/u2/#", nil}, {"tandem/1/u12/controller", nil}, {"$SYS/#", nil}, {"$SYS/broker/version", nil},
		{"$share/g/" + n.DesiredFilter(), nil}, {"$SHARE/g/tandem/1/u1/#", nil}, {"$share/g", nil},
		{"tandem/1/u1/#/live", nil}, {"tandem/1/u1/a#", nil}, {"tandem/1/u1/a+", nil}, {"tandem/1/u1/+a/b", nil},
		{"tandem/1/u1//live", nil}, {"tandem/1/u1/live/", nil},
		{"tandem/1/u1/a\x00b", nil}, {"tandem/1/u1/\xff", nil}, {prefix + "desired/\x00", nil},
		{"tandem/1/u1/" + strings.Repeat("+/", 40000) + "#", nil},
		{"tandem/1/u1/" + strings.Repeat("a", MaxFilter), nil},
	}
	for _, r := range rows {
		for _, id := range everybody {
			want := false
			for _, m := range r.may {
				want = want || m == id
			}
			if got := rules.For(id).Subscribe(r.filter); got != want {
				t.Errorf("subscribing(%v, %.80q) = %v, want %v", id, r.filter, got, want)
			}
		}
	}
}

// TestInvalidNamesMayNothing: a bad unit or node name must not turn into a prefix that matches.
func TestInvalidNamesMayNothing(t *testing.T) {
	for _, c := range []struct {
		r  Rules
		id Identity
	}{
		{Rules{}, controller}, {Rules{"+"}, controller}, {Rules{"u/1"}, controller}, {Rules{"#"}, operator},
		{rules, Identity{Node, ""}}, {rules, Identity{Node, "+"}}, {rules, Identity{Node, "a/b"}},
		{rules, Identity{Role: 99}},
	} {
		if g := c.r.For(c.id); g.Subscribe("tandem/1/u1/controller") || g.Subscribe("tandem/1/+/controller") ||
			g.Subscribe("") {
			t.Errorf("%v for %v may subscribe", c.r, c.id)
		}
		if _, ok := c.r.For(c.id).Publish(topic.ForController("u1")); ok {
			t.Errorf("%v for %v may publish", c.r, c.id)
		}
	}
}

func TestIdentityOf(t *testing.T) {
	for _, id := range []Identity{n1, controller, cloud, operator} {
		if got, err := IdentityOf(id.String(), id.String()); err != nil || got != id {
			t.Errorf("IdentityOf(%s) = %v, %v", id, got, err)
		}
	}
	for _, c := range [][2]string{
		{"", ""}, {"node/n1", ""}, {"", "node/n1"}, {"node/n2", "node/n1"}, {"node/", "node/"}, {"node", "node"},
		{"n1", "n1"}, {"node/a/b", "node/a/b"}, {"node/+", "node/+"}, {"Node/n1", "Node/n1"},
		{"anonymous/x", "anonymous/x"},
		{"controller/x", "controller/x"}, {"cloud", "cloud"}, {"operator", "operator"}, {"node/\x00", "node/\x00"},
		{"node/" + strings.Repeat("n", 64), "node/" + strings.Repeat("n", 64)}, {"inline", "inline"},
	} {
		if got, err := IdentityOf(c[0], c[1]); err == nil || got != (Identity{}) {
			t.Errorf("IdentityOf(%q, %q) = %v, %v; want an error", c[0], c[1], got, err)
		}
	}
}

func TestRetained(t *testing.T) {
	for leaf, want := range map[topic.Leaf]bool{
		topic.Beacon: true, topic.Desired: true, topic.Reported: true, topic.Live: true, topic.Outbox: true,
		topic.Request: false, topic.Reply: false, topic.Event: false, topic.Inbox: false, "": false,
	} {
		if Retained(leaf) != want {
			t.Errorf("Retained(%s) = %v", leaf, !want)
		}
	}
}

// matches is MQTT's own rule (3.1.1, 4.7), written down naively as the judge of what a permitted
// filter can reach.
func matches(filter, name string) bool {
	f, n := strings.Split(filter, "/"), strings.Split(name, "/")
	for i, level := range f {
		if level == "#" {
			return i <= len(n)
		}
		if i >= len(n) || level != "+" && level != n[i] {
			return false
		}
	}
	return len(f) == len(n)
}

// TestNodeReadsOnlyItsOwn: whatever filter a node gets through, it never matches a topic that
// belongs to another node, another unit or the node's own reporting side.
func TestNodeReadsOnlyItsOwn(t *testing.T) {
	own, other, unit2 := topic.ForNode("u1", "n1"), topic.ForNode("u1", "n2"), topic.ForNode("u2", "n1")
	forbidden := []string{
		own.Live(), own.Reported("config"), own.Reply(), own.Event(),
		other.Desired("config"), other.Request(), other.Live(), unit2.Desired("config"), unit2.Request(),
		topic.ForController("u2"), topic.ForInbox("u1", "config"), topic.ForOutbox("u1", "unit"), "$SYS/broker/time",
	}
	levels := []string{"tandem", "1", "u1", "u2", "node", topic.Shard("n1"), topic.Shard("n2"), "n1", "n2", "desired",
		"config",
		"request", "live", "reported", "controller", "+", "#", "", "$share", "g", "$SYS", "inbox", "outbox"}
	rapid.Check(t, func(t *rapid.T) {
		base := strings.Split(rapid.SampledFrom(append(forbidden, own.Desired("config"), own.Request(),
			topic.ForController("u1"))).Draw(t, "base"), "/")
		for i := range base {
			if rapid.IntRange(0, 3).Draw(t, "change") == 0 {
				base[i] = rapid.SampledFrom(levels).Draw(t, "level")
			}
		}
		base = append(base, rapid.SliceOfN(rapid.SampledFrom(levels), 0, 2).Draw(t, "tail")...)
		filter := strings.Join(base, "/")
		if !rules.For(n1).Subscribe(filter) {
			return
		}
		for _, name := range forbidden {
			if matches(filter, name) {
				t.Fatalf("%q is allowed and reaches %q", filter, name)
			}
		}
	})
}

// FuzzRules checks, for any topic and filter, what the package promises of all of them.
func FuzzRules(f *testing.F) {
	n := topic.ForNode("u1", "n1")
	for _, s := range []string{"", "#", "+", "$share/g/#", "$SYS/#", n.Live(), n.DesiredFilter(), n.Request(),
		n.Reported("config"),
		topic.ForController("u1"), topic.ForInbox("u1", "a"), topic.ForOutbox("u1", "b"), "tandem/1/u1/#",
		"tandem/1/u1/a\x00", "tandem/1/u1/\xff/+",
		strings.Repeat("a/", 200)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		writers := 0
		for _, id := range everybody {
			if mayPublish(rules, id, s) {
				writers++
				p, err := topic.Parse(s)
				if err != nil || p.Unit != "u1" || id.Role == Node && p.Node != "n1" {
					t.Fatalf("%v may write %q: %+v, %v", id, s, p, err)
				}
			}
			if rules.For(id).Subscribe(s) {
				if !strings.HasPrefix(s, "tandem/1/u1/") || len(s) > MaxFilter || id.Role == Node &&
					(strings.ContainsAny(s, "\x00$") || !utf8.ValidString(s)) {
					t.Fatalf("%v may read %q", id, s)
				}
				if id.Role == Node && strings.Contains(s, "#") {
					t.Fatalf("a node may read %q", s)
				}
			}
		}
		if writers > 1 {
			t.Fatalf("%d identities may write %q", writers, s)
		}
		if id, err := IdentityOf(s, s); err == nil && id.String() != s {
			t.Fatalf("%q reads as %v", s, id)
		}
	})
}
