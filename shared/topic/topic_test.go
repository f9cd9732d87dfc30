package topic

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tandem.internal/shared/wire"
)

// build makes the topic that Parse took apart.
func build(p Topic) string {
	n := ForNode(p.Unit, p.Node)
	switch p.Leaf {
	case Beacon:
		return ForController(p.Unit)
	case Inbox:
		return ForInbox(p.Unit, p.What)
	case Outbox:
		return ForOutbox(p.Unit, p.What)
	case Desired:
		return n.Desired(p.Kind)
	case Reported:
		return n.Reported(p.Kind)
	case Request:
		return n.Request()
	case Reply:
		return n.Reply()
	case Live:
		return n.Live()
	case Event:
		return n.Event()
	}
	return ""
}

var names = rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,62}`)

func draw(t *rapid.T) Topic {
	p := Topic{Unit: names.Draw(t, "unit"),
		Leaf: rapid.SampledFrom([]Leaf{Beacon, Desired, Request, Reply, Reported, Live, Event, Inbox, Outbox}).Draw(t,
			"leaf")}
	switch p.Leaf {
	case Beacon:
	case Inbox, Outbox:
		p.What = names.Draw(t, "what")
	case Desired, Reported:
		p.Kind = wire.Kind(names.Draw(t, "kind"))
		p.Node = names.Draw(t, "node")
	default:
		p.Node = names.Draw(t, "node")
	}
	return p
}

func TestParseUndoesBuild(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := draw(t)
		if got, err := Parse(build(want)); err != nil || got != want {
			t.Fatalf("%s: %+v %v, want %+v", build(want), got, err, want)
		}
	})
}

func TestTable(t *testing.T) {
	// The first two digits of printf n1 | sha256sum, and so on.
	n := "tandem/1/u1/node/" + fmt.Sprintf("%x", sha256.Sum256([]byte("n1")))[:2] + "/n1/"
	for s, want := range map[string]Topic{
		"tandem/1/u1/controller":    {Unit: "u1", Leaf: Beacon},
		"tandem/1/u1/inbox/config":  {Unit: "u1", Leaf: Inbox, What: "config"},
		"tandem/1/u1/outbox/status": {Unit: "u1", Leaf: Outbox, What: "status"},
		n + "desired/config":        {Unit: "u1", Node: "n1", Leaf: Desired, Kind: "config"},
		n + "reported/info":         {Unit: "u1", Node: "n1", Leaf: Reported, Kind: "info"},
		n + "request":               {Unit: "u1", Node: "n1", Leaf: Request},
		n + "reply":                 {Unit: "u1", Node: "n1", Leaf: Reply},
		n + "live":                  {Unit: "u1", Node: "n1", Leaf: Live},
		n + "event":                 {Unit: "u1", Node: "n1", Leaf: Event},
	} {
		if got, err := Parse(s); err != nil || got != want || build(got) != s {
			t.Errorf("%s: %+v %v", s, got, err)
		}
	}
	shard := Shard("n1")
	wrong := "00"
	if shard == wrong {
		wrong = "01"
	}
	for _, s := range []string{"", "/", "tandem", "tandem/1", "tandem/1/", "tandem/2/u1/controller",
		"Tandem/1/u1/controller", "tandem/1//controller", "tandem/1/u1",
		"tandem/1/u1/", "tandem/1/u1/controller/", "tandem/1/u1/controller/x", "tandem/1/u 1/controller",
		"tandem/1/+/controller", "tandem/1/u1/#", "tandem/1/u1/inbox",
		"tandem/1/u1/inbox/", "tandem/1/u1/inbox/a/b", "tandem/1/u1/inbox/+", "tandem/1/u1/node", "tandem/1/u1/node/",
		"tandem/1/u1/node/" + shard,
		"tandem/1/u1/node/" + wrong + "/n1/live", "tandem/1/u1/node/" + strings.ToUpper(shard) + "x/n1/live",
		"tandem/1/u1/node//n1/live", "tandem/1/u1/node/n1/live",
		n, n + "/", n + "live/", n + "live/x", n + "Live", n + "desired", n + "desired/", n + "desired/+",
		n + "desired/a/b", n + "desired/config/", n + "other",
		" " + n + "live", n + "live\n", n + "live\x00", "tandem/1/u1/node/" + Shard("") + "//live", "$SYS/x"} {
		if got, err := Parse(s); err == nil || got != (Topic{}) || len(err.Error()) > 1000 {
			t.Errorf("%q is accepted: %+v", s, got)
		}
	}
	if _, err := Parse(strings.Repeat("x", 100_000)); err == nil || len(err.Error()) > 1000 {
		t.Error("a long topic makes a long error")
	}
}

func TestNames(t *testing.T) {
	grammar := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(names, rapid.String(), rapid.StringMatching(`[A-Za-z0-9._-]{0,70}`),
			rapid.StringMatching(`[A-Za-z0-9._/+#$ -]{0,8}`)).Draw(t, "s")
		if ValidName(s) != (grammar.MatchString(s) && !strings.HasSuffix(s, "\n")) {
			t.Fatalf("%q: %v", s, ValidName(s))
		}
	})
	if len(strings.Repeat("a", MaxName)) != 63 || !ValidName(strings.Repeat("a", MaxName)) ||
		ValidName(strings.Repeat("a", MaxName+1)) {
		t.Error("MaxName is not the longest name")
	}
}

// match is MQTT's rule for filters without a leading $.
func match(filter, topic string) bool {
	f, s := strings.Split(filter, "/"), strings.Split(topic, "/")
	for i, level := range f {
		if level == "#" {
			return true
		}
		if i >= len(s) || level != "+" && level != s[i] {
			return false
		}
	}
	return len(f) == len(s)
}

// A controller's filters catch exactly what nodes write; a node's filter what it is told.
func TestFilters(t *testing.T) {
	shards := Shards()
	if len(shards) != 256 || shards[0] != "00" || shards[255] != "ff" {
		t.Fatal(shards)
	}
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		s := build(p)
		hits := 0
		for _, shard := range shards {
			for _, f := range ShardFilters(p.Unit, shard) {
				if match(f, s) {
					hits++
				}
			}
		}
		written := p.Leaf == Live || p.Leaf == Reported || p.Leaf == Reply || p.Leaf == Event
		if written && hits != 1 || !written && hits != 0 {
			t.Fatalf("%s: %d hits", s, hits)
		}
		if p.Node != "" && match(ForNode(p.Unit, p.Node).DesiredFilter(), s) != (p.Leaf == Desired) {
			t.Fatalf("DesiredFilter and %s", s)
		}
		if p.Node != "" && match(ShardDesired(p.Unit, Shard(p.Node)), s) != (p.Leaf == Desired) {
			t.Fatalf("ShardDesired and %s", s)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("tandem/1/u1/controller")
	f.Add("tandem/1/u1/inbox/config")
	f.Add(ForNode("u1", "n1").Desired("config"))
	f.Add(ForNode("u1", "n.1").Live())
	f.Fuzz(func(t *testing.T, s string) {
		p, err := Parse(s)
		if err != nil {
			if p != (Topic{}) {
				t.Fatalf("%q: an error and %+v", s, p)
			}
			return
		}
		if build(p) != s {
			t.Fatalf("%q is accepted, but is written %q", s, build(p))
		}
	})
}
