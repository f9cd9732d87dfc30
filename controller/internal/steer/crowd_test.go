package steer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/shared/items"
	"tandem.internal/shared/workload"
)

// TestReckonedAsFilled: what is reckoned of a node's document is what the node gets.
func TestReckonedAsFilled(t *testing.T) {
	u, p := decided(t, map[string][]string{"n": {"process"}, "m": {"process"}}, []string{
		`{"codename":"a","type":"service","version":"1.0.0","runtimes":["process"],"env":{"X":"1"},
			"dependencies":[{"type":"service","codename":"b"}]}`,
		`{"codename":"b","type":"service","version":"1.0.0","runtimes":["process"]}`,
	}, []string{`{"codename":"x","type":"group","items":[{"type":"service","codename":"a","instances":2},
		{"type":"service","codename":"b","instances":3}]}`})
	all := placed(t, u, p)
	m := u.make(p)
	if len(m.configs) != 5 || len(all) != 5 {
		t.Fatalf("%d and %d slots", len(m.configs), len(all))
	}
	for _, c := range m.configs {
		want := all[c.Slot.String()]
		got := workload.Encode([]workload.Config{c.Identified()})
		if text := workload.Encode([]workload.Config{want.Identified()}); string(got) != string(text) {
			t.Errorf("%s\nis\n%s", got, text)
		}
	}
}

// TestCrowd: of what a document, or that of a node, has no room for, that of the lowest rank stays out.
func TestCrowd(t *testing.T) {
	u := &Unit{}
	u.Subjects = []items.Subject{{Codename: "high", Priority: 5}, {Codename: "low"}}
	add := func(c *crowd, node, name string, priority int, subject string, size int, with string) {
		c.add(part{node: node, placed: &desired.Placed{Type: items.Service, Codename: name, Priority: priority,
			Subject: subject}, size: size, with: with, weight: 1000})
	}
	out := func(c *crowd) string {
		var names []string
		for _, m := range c.misfits {
			names = append(names, m.Item.Codename+": "+m.Why)
		}
		slices.Sort(names)
		return strings.Join(names, "\n")
	}
	all := func([]part) bool { return true }
	for _, c := range []struct {
		name    string
		most    int
		entries int
		fits    func([]part) bool
		want    string
	}{
		{"all", 1 << 20, 8, all, ""},
		{"an entry too few", 1 << 20, 7, all, "d: the list has no room for it"},
		{"its filler is there already", 1 << 20, 6, all, "d: the list has no room for it"},
		{"bytes", 100 + 3*1001 + 4*20_001, 8, all, "d: the list has no room for it"},
		{"a node", 1 << 20, 8, func(p []part) bool { return len(p) < 3 },
			"d: what n gets has no room for it: a node's document has at most 65536 bytes\n" +
				"e: what n gets has no room for it: a node's document has at most 65536 bytes"},
	} {
		crowd := u.newCrowd("list", c.most)
		for _, p := range []struct {
			node, name string
			priority   int
			subject    string
			with       string
		}{{"n", "d", 0, "low", "z"}, {"n", "e", 0, "high", "x"}, {"n", "c", 1, "low", "y"}, {"n", "b", 2, "low", "x"},
			{"m", "a", 2, "low", "x"}} {
			add(crowd, p.node, p.name, p.priority, p.subject, 20_000, p.with)
		}
		crowd.keep(c.entries, c.fits)
		if got := out(crowd); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// TestTooMuchForANode: what a node cannot be given for want of room is left out, and the rest is accepted.
func TestTooMuchForANode(t *testing.T) {
	subjects := `{"codename":"x","type":"group","items":[`
	var metas []string
	for i := range 20 {
		metas = append(metas, fmt.Sprintf(`{"codename":"s%02d","type":"service","version":"1.0.0","priority":%d,
			"runtimes":["process"],"env":{"X":"%s"}}`, i, 20-i, noise(4000, i)))
		subjects += fmt.Sprintf(`{"type":"service","codename":"s%02d"},`, i)
	}
	u, _ := decided(t, map[string][]string{"n": {"process"}}, metas, []string{strings.TrimSuffix(subjects, ",") + "]}"})
	d, err := u.Decide()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(d.Nodes[0].Instances); n < 14 || n > 18 || len(d.Reasons) != 20-n ||
		d.Reasons[0].Codename != fmt.Sprintf("s%02d", n) {
		t.Fatalf("%d instances, %d reasons, the first: %s", n, len(d.Reasons), d.Reasons[0].Why)
	}
	set, problems := workload.Parse(d.Workloads)
	if problems != nil {
		t.Fatal(problems[0])
	}
	f, problems := workload.Fill(set)
	if problems != nil {
		t.Fatal(problems[0])
	}
	if _, err := workload.EncodeDocument(workload.ForNode(f.ByNode()["n"], "n")); err != nil {
		t.Error(err)
	}
}

// noise is a text that does not compress well.
func noise(n, seed int) string {
	b, x := make([]byte, n), uint32(seed)*2654435761+1
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+/"[x%64]
	}
	return string(b)
}
