package desired_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/shared/items"
)

// What a move changes, and that it changes nothing else.
func TestMoves(t *testing.T) {
	const s = "item service s 1.0.0 cpu=400\nsubject S items=service:s\n"
	for _, c := range []struct{ name, input, want string }{
		{"it moves, though it may stay", "node a prio=5\nnode b\n" + s + "runs service s 1.0.0 S/0 a\nmove s S/0 a b", `
b: s@1.0.0/S/0=200
stop a s@1.0.0 >b
move b s@1.0.0 from 1.0.0 a> relief
`},
		{"on its way it runs nowhere", "node a prio=5\nnode b\n" + s + "move s S/0 a b", `
b: s@1.0.0/S/0=200
start b s@1.0.0
`},
		{"it runs at both", "node a prio=5\nnode b\n" + s +
			"runs service s 1.0.0 S/0 a\nruns service s 1.0.0 S/0 b\nmove s S/0 a b", `
b: s@1.0.0/S/0=200
stop a s@1.0.0
`},
		{"it has arrived, and does not come back", "node a prio=5\nnode b\n" + s + "runs service s 1.0.0 S/0 b", `
b: s@1.0.0/S/0=200
`},
		{"it runs on a third node", ab + "node c\n" + s + "runs service s 1.0.0 S/0 c\nmove s S/0 a b", `
c: s@1.0.0/S/0=200
`},
		{"it has two moves", ab + "node c prio=5\n" + s +
			"runs service s 1.0.0 S/0 a\nmove s S/0 a c\nmove s S/0 a b", `
b: s@1.0.0/S/0=200
stop a s@1.0.0 >b
move b s@1.0.0 from 1.0.0 a> relief
`},
		{"there is no room", "node a\nnode b used=900\n" + s + "runs service s 1.0.0 S/0 a\nmove s S/0 a b", `
a: s@1.0.0/S/0=200
`},
		{"there is no such node", "node a\n" + s + "runs service s 1.0.0 S/0 a\nmove s S/0 a b", `
a: s@1.0.0/S/0=200
`},
		{"the other node is offline", "node a\nnode b off=PT1S\n" + s +
			"runs service s 1.0.0 S/0 a\nmove s S/0 a b", `
a: s@1.0.0/S/0=200
`},
		{"its own node is offline", "node a off=PT1S\nnode b\n" + s +
			"runs service s 1.0.0 S/0 a\nmove s S/0 a b", `
b: s@1.0.0/S/0=200
stop a s@1.0.0 >b
move b s@1.0.0 from 1.0.0 a> relief
`},
		{"it takes nobody's place", ab + "item service s 1.0.0 cpu=1200 prio=9\nitem service t 1.0.0 cpu=1200\n" +
			"subject S items=service:s|service:t\nruns service s 1.0.0 S/0 a\n" +
			"runs service t 1.0.0 S/0 b\nmove s S/0 a b", `
a: s@1.0.0/S/0=600
b: t@1.0.0/S/0=600
`},
		{"others have what it leaves", "node a\nnode b used=200\nitem service s 1.0.0 cpu=1200 prio=9\n" +
			"item service t 1.0.0 cpu=1800\nsubject S items=service:s|service:t\nruns service s 1.0.0 S/0 a\n" +
			"move s S/0 a b", `
a: t@1.0.0/S/0=900
b: s@1.0.0/S/0=600
stop a s@1.0.0 >b
start a t@1.0.0
move b s@1.0.0 from 1.0.0 a> relief
`},
		{"it is to stay", ab + "item service s 1.0.0 balancing=disabled\nsubject S items=service:s\n" +
			"runs service s 1.0.0 S/0 a\nmove s S/0 a b", `
a: s@1.0.0/S/0
`},
		{"it is not deployed anew", ab + "item service s 1.0.0 state=deprecated\nsubject S items=service:s\n" +
			"runs service s 1.0.0 S/0 a\nmove s S/0 a b", `
a: s@1.0.0/S/0
`},
		{"it may not be where it is, nor go there", "node a labels=y\nnode b labels=y\nnode c labels=x\n" +
			"item service s 1.0.0\nsubject S labels=x items=service:s\nruns service s 1.0.0 S/0 a\nmove s S/0 a b", `
c: s@1.0.0/S/0
stop a s@1.0.0 >c
move c s@1.0.0 from 1.0.0 a>
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := render(decide(t, parseInput(t, c.input))); got != strings.TrimPrefix(c.want, "\n") {
				t.Errorf("got\n%s\nwant%s", got, c.want)
			}
		})
	}
}

// One move moves one instance, or changes nothing; what stays without it stays with it.
func TestOneMoveMovesOne(t *testing.T) {
	carried, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		in := drawn{t}.settled()
		if len(in.Current.Instances) == 0 {
			return
		}
		without := decide(t, in)
		before := bytesOf(without)
		runs := rapid.SampledFrom(in.Current.Instances).Draw(t, "runs")
		for _, n := range in.Nodes {
			m := desired.ReliefMove{Codename: runs.Codename, Subject: runs.Subject, Index: runs.Index, From: runs.Node,
				To: n.Info.Node, Because: desired.Overload{Node: runs.Node}}
			in.Moves = []desired.ReliefMove{m}
			with := decide(t, in)
			relieved := oneMove(t, m, without, with)
			both := slices.ContainsFunc(in.Current.Instances, func(i items.Instance) bool {
				return i.Codename == m.Codename && i.Subject == m.Subject && i.Index == m.Index && i.Node == m.To
			})
			switch {
			case relieved:
				carried++
			case !both && bytesOf(with) != before:
				t.Fatalf("%+v is not carried out, and changes\n%s\nto\n%s", m, before, bytesOf(with))
			default:
				refused++
			}
		}
	})
	if carried == 0 || refused == 0 {
		t.Errorf("%d carried out, %d not", carried, refused)
	}
}

// oneMove reports whether a move is carried out, and fails if anything else moves.
func oneMove(t *rapid.T, m desired.ReliefMove, without, with *desired.Plan) (relieved bool) {
	isMoved := func(i desired.Placed) bool {
		return i.Type == items.Service && i.Codename == m.Codename && i.Subject == m.Subject && i.Index == m.Index
	}
	for k, n := range with.Nodes {
		for _, i := range n.Instances {
			if i.Chosen == desired.ByRelief {
				if relieved || !isMoved(i) || n.Node != m.To || *i.Relieves != m.Because {
					t.Fatalf("%+v moves to %s: %+v", m, n.Node, i)
				}
				relieved = true
			}
		}
		for _, i := range without.Nodes[k].Instances {
			if i.Chosen == desired.ByStaying && !isMoved(i) &&
				!slices.ContainsFunc(n.Instances, func(o desired.Placed) bool { return reflect.DeepEqual(o, i) }) {
				t.Fatalf("%+v moves %+v", m, i)
			}
		}
	}
	return relieved
}
