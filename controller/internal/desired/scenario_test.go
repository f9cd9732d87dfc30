package desired_test

import (
	"strings"
	"testing"
)

// ab are the two nodes of the fixture.
const ab = "node a\nnode b\n"

// scenarios are those of desired status and placement, by their numbers. 17 is a story of rebalance; 27 has its pure
// half in TestOrderDoesNotCount; 28 and 29 are of what comes in, and not for this package.
var scenarios = []struct {
	name, input, want string
}{
	{"1 half of the quota", ab + "item service s 1.0.0 cpu=400\nsubject S items=service:s", `
a: s@1.0.0/S/0=200
start a s@1.0.0
`},
	{"2 ratio 0", "node a ratio=0\nitem service s 1.0.0 cpu=400\nsubject S items=service:s", `
a: s@1.0.0/S/0
start a s@1.0.0
`},
	{"2 ratio 100", "node a ratio=100\nitem service s 1.0.0 cpu=400\nsubject S items=service:s", `
a: s@1.0.0/S/0=400
start a s@1.0.0
`},
	{"3 asks for more than its quota", ab + "item service s 1.0.0 cpu=400 asks=600\nsubject S items=service:s", `
a: s@1.0.0/S/0=400
start a s@1.0.0
`},
	{"3 asks for less", ab + "item service s 1.0.0 cpu=400 asks=10\nsubject S items=service:s", `
a: s@1.0.0/S/0=10
start a s@1.0.0
`},
	{"4 rounded half up", ab + "item service s 1.0.0 cpu=401\nsubject S items=service:s", `
a: s@1.0.0/S/0=201
start a s@1.0.0
`},
	{"5 labels", "node a labels=x\nnode b labels=x,y\nitem service s 1.0.0\nsubject S labels=y,x items=service:s", `
b: s@1.0.0/S/0
start b s@1.0.0
`},
	{"5 labels, nowhere", "node a labels=x\nitem service s 1.0.0\nsubject S labels=y,x items=service:s", `
unplaced s@1.0.0/S/0 emptied by labels; a labels y
`},
	{"6 a resource of one", "node a res=cam:1\nitem service s 1.0.0 res=cam\nsubject S items=service:s::2", `
a: s@1.0.0/S/0
start a s@1.0.0
unplaced s@1.0.0/S/1 emptied by resources; a resources cam 1/0 [s/S/0]
`},
	{"6 a device of one", "node a dev=can0:1\nitem service s 1.0.0 dev=can0\nsubject S items=service:s::2", `
a: s@1.0.0/S/0
start a s@1.0.0
unplaced s@1.0.0/S/1 emptied by devices; a devices can0 1/0 [s/S/0]
`},
	{"7 a resource of many", "node a res=cam:0\nitem service s 1.0.0 res=cam\nsubject S items=service:s::2", `
a: s@1.0.0/S/0 s@1.0.0/S/1
start a s@1.0.0
start a s@1.0.0
`},
	{"8 priority after capacity", "node a prio=5 used=900\nnode b\nitem service s 1.0.0 cpu=400\n" +
		"subject S items=service:s", `
b: s@1.0.0/S/0=200
start b s@1.0.0
`},
	{"9 priority before what is free", "node a prio=5 used=700\nnode b\nitem service s 1.0.0 cpu=400\n" +
		"subject S items=service:s", `
a: s@1.0.0/S/0=200
start a s@1.0.0
`},
	{"10 one instance", "node a max=1\nitem service s 1.0.0\nsubject S items=service:s::2", `
a: s@1.0.0/S/0
start a s@1.0.0
unplaced s@1.0.0/S/1 emptied by instances; a instances 1/0 [s/S/0]
`},
	{"11 it stays",
		"node a\nnode b used=900\nitem service s 1.0.0\nsubject S items=service:s\nruns service s 1.0.0 S/0 b", `
b: s@1.0.0/S/0
`},
	{"12 a node goes", "node b\nitem service s 1.0.0 cpu=800\nsubject S items=service:s::3\n" +
		"runs service s 1.0.0 S/0 a\nruns service s 1.0.0 S/1 a\nruns service s 1.0.0 S/2 b", `
b: s@1.0.0/S/0=400 s@1.0.0/S/2=400
move b s@1.0.0 from 1.0.0 a>
unplaced s@1.0.0/S/1 emptied by cpu; b cpu 400/200 [s/S/0] [s/S/2]
`},
	{"13 offline for ten seconds",
		"evict 5m\nnode a\nnode b off=PT10S\nitem service s 1.0.0\nsubject S items=service:s\n" +
			"runs service s 1.0.0 S/0 b", `
b: s@1.0.0/S/0
`},
	{"13 offline for too long", "evict 5m\nnode a\nnode b off=PT6M\nitem service s 1.0.0\nsubject S items=service:s\n" +
		"runs service s 1.0.0 S/0 b", `
a: s@1.0.0/S/0
move a s@1.0.0 from 1.0.0 b>
stop b s@1.0.0 >a
`},
	{"13 offline, nothing new", "node a off=PT1S\nitem service s 1.0.0\nsubject S items=service:s", `
unplaced s@1.0.0/S/0 emptied by online; a online
`},
	{"14 no room",
		ab + "item service low 1.0.0 cpu=600 asks=600 prio=1\nitem service s 1.0.0 cpu=600 asks=600 prio=9\n" +
			"subject S items=service:low::2|service:s\nruns service low 1.0.0 S/0 a\nruns service low 1.0.0 S/1 b", `
a: low@1.0.0/S/0=600
b: low@1.0.0/S/1=600
unplaced s@1.0.0/S/0 emptied by cpu; a cpu 600/400 [low/S/0]; b cpu 600/400 [low/S/1]
`},
	{"14 others make room", "preempt\n" + ab + "item service low 1.0.0 cpu=600 asks=600 prio=1\n" +
		"item service s 1.0.0 cpu=600 asks=600 prio=9\n" +
		"subject S items=service:low::2|service:s\nruns service low 1.0.0 S/0 a\nruns service low 1.0.0 S/1 b", `
a: s@1.0.0/S/0=600
b: low@1.0.0/S/1=600
stop a low@1.0.0
start a s@1.0.0
unplaced low@1.0.0/S/0 by s@1.0.0/S emptied by cpu; a cpu 600/400 [s/S/0]; b cpu 600/400 [low/S/1]
`},
	{"15 the node before the manifest", "node a prio=5\nnode b arch=arm64\nitem service s 1.0.0 arch=arm64,amd64\n" +
		"subject S items=service:s", `
a: s@1.0.0/S/0,amd64
start a s@1.0.0
`},
	{"16 a component", ab + "node c rt=other\nitem component k 1.0.0 rt=crun\nsubject S items=component:k", `
a: k@1.0.0/S/0
b: k@1.0.0/S/0
start a k@1.0.0
start b k@1.0.0
`},
	{"18 the higher subject", "node a\nitem component k 1.0.0\nitem component k 2.0.0\n" +
		"subject S1 prio=2 items=component:k:=1.0.0\nsubject S2 prio=1 items=component:k:=2.0.0", `
a: k@1.0.0/S1/0
start a k@1.0.0
outranked k@2.0.0/S2 by k@1.0.0/S1
`},
	{"19 a suppressed default", "node a\nitem service r 1.0.0 prio=5 not=service:d\nitem service d 1.0.0\n" +
		"subject S items=service:r|service:d", `
a: r@1.0.0/S/0
start a r@1.0.0
suppressed d@1.0.0/S by r@1.0.0/S
`},
	{"19 and back", "node a\nitem service r 1.0.0 prio=5 not=service:d state=deprecated\nitem service d 1.0.0\n" +
		"subject S items=service:r|service:d", `
a: d@1.0.0/S/0
start a d@1.0.0
deprecated r@/S
`},
	{"20 what is suppressed suppresses nothing", "node a\nitem service a 1.0.0 prio=5 not=service:b\n" +
		"item service b 1.0.0 prio=3 not=service:c\nitem service c 1.0.0 prio=1\n" +
		"subject S items=service:a|service:b|service:c", `
a: a@1.0.0/S/0 c@1.0.0/S/0
start a a@1.0.0
start a c@1.0.0
suppressed b@1.0.0/S by a@1.0.0/S
`},
	{"21 each other", "node a\nitem service a 1.0.0 not=service:b\nitem service b 1.0.0 not=service:a\n" +
		"subject S items=service:a|service:b", `
a: a@1.0.0/S/0
start a a@1.0.0
suppressed b@1.0.0/S by a@1.0.0/S
`},
	{"21 the higher one stays", "node a\nitem service a 1.0.0 prio=1\nitem service b 1.0.0 not=service:a\n" +
		"subject S items=service:a|service:b", `
a: a@1.0.0/S/0 b@1.0.0/S/0
start a a@1.0.0
start a b@1.0.0
ineffective b@1.0.0/S by a@1.0.0/S
`},
	{"22 one port, two nodes", ab + "item service s 1.0.0 ports=80\nitem service t 1.0.0 ports=80\n" +
		"subject S items=service:s|service:t", `
a: s@1.0.0/S/0
b: t@1.0.0/S/0
start a s@1.0.0
start b t@1.0.0
`},
	{"22 one port, one node", "node a\nitem service s 1.0.0 ports=80\nitem service t 1.0.0 ports=80 prio=1\n" +
		"subject S items=service:s|service:t", `
a: t@1.0.0/S/0
start a t@1.0.0
unplaced s@1.0.0/S/0 emptied by ports; a ports 80/tcp 1/0 [t/S/0]
`},
}

// scenariosOfDependencies are the others.
var scenariosOfDependencies = []struct {
	name, input, want string
}{
	{"23 one version for all", "node a\nitem layer l 1.4.0\nitem layer l 1.6.0\nitem layer l 2.0.0\n" +
		"item service s 1.0.0 needs=layer:l:>=1.0.0,<2.0.0\nitem service t 1.0.0 needs=layer:l:>=1.5.0\n" +
		"subject S items=service:s|service:t", `
a: s@1.0.0/S/0 t@1.0.0/S/0 layer l@1.6.0
fetch a l@1.6.0
start a s@1.0.0
start a t@1.0.0
`},
	{"24 two versions side by side", "node a\nitem layer l 1.4.0\nitem layer l 1.6.0\nitem layer l 2.0.0\n" +
		"item service s 1.0.0 needs=layer:l:<1.5.0\nitem service t 1.0.0 needs=layer:l:>=1.5.0,<2.0.0\n" +
		"subject S items=service:s|service:t", `
a: s@1.0.0/S/0 t@1.0.0/S/0 layer l@1.4.0 layer l@1.6.0
fetch a l@1.4.0
fetch a l@1.6.0
start a s@1.0.0
start a t@1.0.0
`},
	{"25 a pre-release is not meant",
		"node a\nitem layer l 1.0.0-rc.1\nitem service s 1.0.0 needs=layer:l:>=1.0.0-0\n" +
			"subject S items=service:s", `
unmet s@1.0.0/S needs l >=1.0.0-0 (notReady)
`},
	{"25 a pre-release is taken", "node a\nitem layer l 1.0.0-rc.1\n" +
		"item service s 1.0.0 pre=1 needs=layer:l:>=1.0.0-0\nsubject S items=service:s", `
a: s@1.0.0/S/0 layer l@1.0.0-rc.1
fetch a l@1.0.0-rc.1
start a s@1.0.0
`},
	{"25 nor is that of what comes after", "node a\nitem layer l 2.0.0-rc.1\n" +
		"item service s 1.0.0 pre=1 needs=layer:l:<2.0.0\nsubject S items=service:s", `
unmet s@1.0.0/S needs l <2.0.0 (notReady)
`},
	{"26 a cycle", "node a\nitem layer l 1.0.0 needs=layer:m\nitem layer m 1.0.0 needs=layer:l\n" +
		"item service s 1.0.0 needs=layer:l\nitem service t 1.0.0 needs=service:s\nitem service u 1.0.0\n" +
		"subject S items=service:s|service:t|service:u", `
a: u@1.0.0/S/0
start a u@1.0.0
cycle s@1.0.0/S -> l -> m
cycle t@1.0.0/S -> l -> m
`},
	{"30 two versions for two subjects", "node a\nitem service s 1.0.0\nitem service s 2.0.0\n" +
		"subject S1 items=service:s:=1.0.0\nsubject S2 items=service:s:=2.0.0", `
a: s@1.0.0/S1/0 s@2.0.0/S2/0
start a s@1.0.0
start a s@2.0.0
`},
}

func TestUnitScenarios(t *testing.T) {
	for _, c := range append(scenarios, scenariosOfDependencies...) {
		t.Run(c.name, func(t *testing.T) {
			if got := render(decide(t, parseInput(t, c.input))); got != strings.TrimPrefix(c.want, "\n") {
				t.Errorf("got\n%s\nwant%s", got, c.want)
			}
		})
	}
}
