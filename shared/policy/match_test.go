package policy

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tandem.internal/shared/policy/constraint"
)

func policyOf(t testing.TB, in string) *Policy {
	t.Helper()
	p, problems := Parse([]byte("{"+in+"}"), nil)
	if problems != nil {
		t.Fatalf("%s: %v", in, problems)
	}
	return p
}

func nodeOf(t testing.TB, in string) *Node {
	t.Helper()
	n, problems := ParseNode([]byte("{" + in + "}"))
	if problems != nil {
		t.Fatalf("%s: %v", in, problems)
	}
	return n
}

// Whom a policy hits, by which side, and what is said of it.
func TestMatch(t *testing.T) {
	const (
		lab      = `"properties":[{"name":"site","value":"lab"}]`
		builtIns = `"properties":[{"name":"openhorizon.arch","value":"arm64"}]`
		inLab    = `"constraints":["site == lab"]`
		inPlant  = `"constraints":["site == plant"]`
		gold     = `"properties":[{"name":"ring","value":"gold"}]`
		wantGold = `"constraints":["ring == gold"]`
	)
	for _, c := range []struct {
		name, policy, node string
		by                 By
		why                string
	}{
		// constraints, both ways
		{"nothing said", ``, ``, ByConstraints, "the policy has neither constraints nor patterns"},
		{"the policy's are true", inLab, lab, ByConstraints, ""},
		{"the policy's are false", inPlant, lab, ByPolicySide, "the policy's constraint site == plant is not true"},
		{"of a node without properties", inLab, ``, ByPolicySide, "is not true of the node"},
		{"the node's are true", gold, wantGold, ByConstraints, "properties, which choose no nodes"},
		{"the node's are false", `"properties":[{"name":"ring","value":"red"}]`, wantGold, ByNodeSide,
			"the node's constraint ring == gold is not true of the policy"},
		{"of a policy without properties", ``, wantGold, ByNodeSide, ""},
		{"both are true", inLab + "," + gold, lab + "," + wantGold, ByConstraints,
			"the policy's constraints are true of the node, and the node's of the policy"},
		{"one way only", inLab, lab + "," + wantGold, ByNodeSide, ""},
		{"the second of two is false", `"constraints":["site == lab","x == y"]`, lab, ByPolicySide, "x == y"},
		// the section of management
		{"a property for management", inPlant, lab + `,"management":{"properties":[{"name":"site","value":"plant"}]}`,
			ByConstraints, ""},
		{"beside others", inLab, lab +
			`,"management":{"properties":[{"name":"x","value":"plant"}]}`, ByConstraints, ""},
		{"constraints for management", gold,
			`"constraints":["a == b"],"management":{` + wantGold + `}`, ByConstraints, ""},
		{"none for management", gold, `"constraints":["a == b"],"management":{}`, ByNodeSide, ""},
		// patterns
		{"the pattern", `"patterns":["p"]`, `"pattern":"p"`, ByPattern,
			"the policy lists the pattern that the node uses, p"},
		{"another pattern", `"patterns":["p"]`, `"pattern":"q"`, ByNoSide,
			"the node uses the pattern q; the policy lists p"},
		{"one of several", `"patterns":["p","q"]`, `"pattern":"q"`, ByPattern, ""},
		{"any pattern", `"patterns":["*"]`, `"org":"o","pattern":"q"`, ByPattern, "o/q"},
		{"any pattern, and the node has none", `"patterns":["*"]`, lab, ByNoSide, "the node uses none"},
		{"a part of it", `"patterns":["p"]`, `"pattern":"pp"`, ByNoSide, ""},
		// organisations
		{"with the organisation", `"patterns":["o/p"]`, `"org":"o","pattern":"p"`, ByPattern, "o/p"},
		{"with another", `"patterns":["x/p"]`, `"org":"o","pattern":"p"`, ByNoSide, ""},
		{"that of the owner", `"owner":"o/ann","patterns":["p"]`, `"org":"o","pattern":"p"`, ByPattern, ""},
		{"not that of the owner", `"owner":"x/ann","patterns":["p"]`, `"org":"o","pattern":"p"`, ByNoSide, ""},
		{"that of the owner, of a public pattern", `"owner":"x/ann","patterns":["p"]`, `"org":"o","pattern":"x/p"`,
			ByPattern, "x/p"},
		{"an owner without one", `"owner":"ann","patterns":["p"]`, `"org":"o","pattern":"p"`, ByPattern, ""},
		{"the node's, of a public pattern", `"patterns":["p"]`, `"org":"o","pattern":"x/p"`, ByNoSide, ""},
		{"a pattern with one on a node without", `"patterns":["o/p"]`, `"pattern":"p"`, ByNoSide, ""},
		{"the other has it", `"patterns":["o/p"]`, `"pattern":"o/p"`, ByPattern, ""},
		// policies of both sides, nodes of both sides
		{"both, a node with the pattern", inPlant + `,"patterns":["p"]`, `"pattern":"p"`, ByPattern, ""},
		{"both, a node with constraints", inLab + `,"patterns":["p"]`, lab, ByConstraints, ""},
		{"both, of neither", inPlant + `,"patterns":["p"]`, lab, ByPolicySide, ""},
		{"constraints, a node with a pattern only", inLab, `"pattern":"p"`, ByNoSide, "the policy lists no pattern"},
		{"no constraints, a node with a pattern only", ``, `"pattern":"p"`, ByNoSide, ""},
		{"no constraints, built-ins do not count", ``, `"pattern":"p",` + builtIns, ByNoSide, ""},
		{"constraints, a node of both", inLab, `"pattern":"p",` + lab, ByConstraints, ""},
		{"another pattern, a node of both", inLab + `,"patterns":["q"]`, `"pattern":"p",` + lab, ByConstraints, ""},
		{"the pattern, a node of both", inPlant + `,"patterns":["p"]`, `"pattern":"p",` + lab, ByPattern, ""},
		{"nothing fits a node of both", inPlant + `,"patterns":["q"]`, `"pattern":"p",` + lab, ByPolicySide, ""},
		{"patterns only, a node of both", `"patterns":["q"]`, `"pattern":"p",` + lab, ByNoSide, ""},
		{"patterns only, a node of constraints", `"patterns":["q"]`, lab, ByNoSide,
			"the policy chooses by patterns only"},
		{"patterns and properties", `"patterns":["q"],` + gold, wantGold, ByConstraints,
			"has properties and no constraints, so beside its patterns"},
		{"the pattern, though the node refuses", `"patterns":["p"],` + inPlant,
			`"pattern":"p",` + wantGold, ByPattern, ""},
		// a policy need not be enabled
		{"disabled", `"enabled":false,` + inLab, lab, ByConstraints, ""},
		{"enabled", `"enabled":true,` + inLab, lab, ByConstraints, ""},
	} {
		p, n := policyOf(t, c.policy), nodeOf(t, c.node)
		hits := c.by == ByPattern || c.by == ByConstraints
		if got := Match(p, n); got != (Verdict{hits, c.by}) {
			t.Errorf("%s: %v, want %s", c.name, got, c.by)
		}
		if x := Explain(p, n); x.Hits != hits || x.By != c.by || !strings.Contains(x.Why, c.why) {
			t.Errorf("%s: %+v, want %s", c.name, x, c.why)
		}
	}
}

func TestMatchExplained(t *testing.T) {
	p := policyOf(t, `"owner":"o/ann","constraints":["a == b"],"properties":[{"name":"c","value":5}],`+
		`"patterns":["p","x/q"]`)
	n := nodeOf(t, `"org":"o","pattern":"q","properties":[{"name":"a","value":"b"}],"constraints":["c > 5"]`)
	want := `{false node the node's constraint c > 5 is not true of the policy [{o/p false} {x/q false}] ` +
		`[{a == b true a is the string "b" []}] [{c > 5 false c is the int 5 []}]}`
	if got := fmt.Sprint(Explain(p, n)); got != want {
		t.Errorf("%s\n%s", got, want)
	}
}

// A policy that hits every node is known by what it means, and says why.
func TestHitsAll(t *testing.T) {
	const always = "always true"
	for in, want := range map[string]string{
		``:                                      "neither constraints nor patterns",
		`"constraints":[]`:                      "neither constraints nor patterns",
		`"constraints":["a == b || a != b"]`:    "",
		`"constraints":["openhorizon.cpu > 0"]`: "", // what is measured, the logic does not know
		`"constraints":["openhorizon.cpu >= 1 || openhorizon.cpu < 1"]`:                                 always,
		`"constraints":["openhorizon.cpu <= 1 || openhorizon.cpu >= 2"]`:                                always,
		`"constraints":["openhorizon.arch != x || openhorizon.arch == x"]`:                              always,
		`"constraints":["openhorizon.allowPrivileged == true || openhorizon.allowPrivileged == false"]`: always,
		`"constraints":["openhorizon.arch != x || openhorizon.arch == x","a == b"]`:                     "",
		`"patterns":["p"]`:                        "",
		`"patterns":["p","*"]`:                    "any pattern",
		`"patterns":["*"],"constraints":["a==b"]`: "any pattern",
		`"patterns":["p"],"constraints":["openhorizon.cpu < 5 || openhorizon.cpu >= 5"]`: always,
		`"patterns":["p"],"properties":[{"name":"a","value":1}]`:                         "beside its patterns",
		`"properties":[{"name":"a","value":1}]`:                                          "which choose no nodes",
	} {
		got := policyOf(t, in).HitsAll(BuiltIns())
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q", in, got)
		}
	}
}

// What hits all nodes by its logic hits each node of that side without constraints.
func TestHitsAllHolds(t *testing.T) {
	seen := 0
	rapid.Check(t, func(t *rapid.T) {
		arch := rapid.SampledFrom([]string{"arm64", "amd64"})
		p := &Policy{}
		for range rapid.IntRange(0, 2).Draw(t, "constraints") {
			text := fmt.Sprintf("openhorizon.arch %s %s || openhorizon.arch %s %s",
				rapid.SampledFrom([]string{"==", "!="}).Draw(t, "op"), arch.Draw(t, "value"),
				rapid.SampledFrom([]string{"==", "!="}).Draw(t, "op"), arch.Draw(t, "value"))
			e, err := constraint.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			p.constraints = append(p.constraints, e)
		}
		hitsAll := p.HitsAll(BuiltIns()) != ""
		for _, value := range []string{"arm64", "amd64", "riscv64"} {
			v, err := constraint.NewText(constraint.TypeString, value)
			if err != nil {
				t.Fatal(err)
			}
			n := &Node{properties: constraint.Properties{Arch: v}}
			if hits := Match(p, n).Hits; hitsAll && !hits {
				t.Fatalf("%v does not hit %s", p.constraints, value)
			}
		}
		if hitsAll {
			seen++
		}
	})
	if seen < 5 {
		t.Errorf("%d hit all", seen)
	}
}

// fleet are policies and nodes as large units have them.
func fleet(t testing.TB, policies, nodes int) ([]*Policy, []*Node) {
	random := rand.New(rand.NewPCG(1, 2))
	var ps []*Policy
	for i := range policies {
		ps = append(ps, policyOf(t, fmt.Sprintf(`"constraints":["openhorizon.arch == amd64 && `+
			`openhorizon.memory >= %d || site in \"s%d,s%d,s%d\"","firmware >= 1.%d.0 || labels == l%d"],`+
			`"properties":[{"name":"ring","value":%d}]`,
			i*100, i, i+1, i+2, i%20, i%7, i%5)))
	}
	var ns []*Node
	for i := range nodes {
		ns = append(ns, nodeOf(t, fmt.Sprintf(`"properties":[{"name":"openhorizon.arch","value":"%s"},`+
			`{"name":"openhorizon.memory","value":%d},{"name":"openhorizon.cpu","value":4},`+
			`{"name":"site","value":"s%d"},{"name":"firmware","type":"version","value":"1.%d.%d"},`+
			`{"name":"labels","value":["l%d","l%d"]}],`+
			`"constraints":["ring <= 3"]`, []string{"amd64", "arm64"}[i%2], random.IntN(8192), random.IntN(100),
			random.IntN(20), random.IntN(9), random.IntN(9), random.IntN(9))))
	}
	return ps, ns
}

// BenchmarkMatch: each of 100 policies against each of 10,000 nodes; the bound is 1 s. floor is a call that looks one
// property up.
func BenchmarkMatch(b *testing.B) {
	ps, ns := fleet(b, 100, 10_000)
	hits := 0
	for b.Loop() {
		hits = 0
		for _, n := range ns {
			for _, p := range ps {
				if Match(p, n).Hits {
					hits++
				}
			}
		}
	}
	if hits == 0 || hits == len(ps)*len(ns) {
		b.Errorf("%d hits", hits)
	}
	b.ReportMetric(float64(hits), "hits")
}

// BenchmarkMatchFloor is what no matching can go below: one property is looked up for each pair.
func BenchmarkMatchFloor(b *testing.B) {
	ps, ns := fleet(b, 100, 10_000)
	found := 0
	for b.Loop() {
		for _, n := range ns {
			for range ps {
				if _, ok := n.properties["openhorizon.arch"]; ok {
					found++
				}
			}
		}
	}
	if found == 0 {
		b.Error("nothing found")
	}
}

// BenchmarkNodeChange: one node is read again and judged by 100 policies; the bound is 5 ms.
func BenchmarkNodeChange(b *testing.B) {
	ps, ns := fleet(b, 100, 1)
	data := EncodeNode(ns[0])
	for b.Loop() {
		n, problems := ParseNode(data)
		if problems != nil {
			b.Fatal(problems)
		}
		for _, p := range ps {
			Match(p, n)
		}
	}
}
