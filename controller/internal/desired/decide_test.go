package desired_test

import (
	"strings"
	"testing"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/shared/unitconfig"
)

// What the scenarios leave open.
func TestDecisions(t *testing.T) {
	for _, c := range []struct{ name, input, want string }{
		{"not ready", "node a\nitem service s 1.0.0 state=preparation\nsubject S items=service:s|service:gone", `
notReady gone@/S
notReady s@/S
`},
		{"a higher one is not ready", "node a\nitem service s 1.0.0\nitem service s 1.1.0 state=preparation\n" +
			"item service s 0.9.0\nitem service s 0.8.0 state=preparation\nsubject S items=service:s", `
a: s@1.0.0/S/0
start a s@1.0.0
superseded s@0.9.0/S by s@1.0.0/S
notReady s@1.1.0/S by s@1.0.0/S
`},
		{"no version in the range", "node a\nitem service s 1.0.0\nsubject S items=service:s:>=2.0.0", `
unmet s@/S needs s >=2.0.0
`},
		{"deprecated and running", "node a\nitem service s 1.0.0 state=deprecated\nsubject S items=service:s::2\n" +
			"runs service s 1.0.0 S/1 a", `
a: s@1.0.0/S/1
deprecated s@1.0.0/S/0
`},
		{"deprecated, running, and still suppressing", "node a\nitem service d 1.0.0\n" +
			"item service r 1.0.0 prio=5 not=service:d state=deprecated\nsubject S items=service:r|service:d\n" +
			"runs service r 1.0.0 S/0 a", `
a: r@1.0.0/S/0
suppressed d@1.0.0/S by r@1.0.0/S
`},
		{"deprecated, and its node is gone",
			"node a\nitem service s 1.0.0 state=deprecated\nsubject S items=service:s\n" +
				"runs service s 1.0.0 S/0 gone", `
deprecated s@1.0.0/S/0
`},
		{"deprecated, and there is a higher one",
			"node a\nitem service s 1.0.0 state=deprecated\nitem service s 1.1.0\n" +
				"subject S items=service:s\nruns service s 1.0.0 S/0 a", `
a: s@1.1.0/S/0
update a s@1.1.0 from 1.0.0
`},
		{"deprecated, and running elsewhere only", ab + "item component k 1.0.0 state=deprecated\n" +
			"subject S items=component:k\nruns component k 1.0.0 S/0 a", `
a: k@1.0.0/S/0
deprecated k@1.0.0/S
`},
		{"a deprecated layer stays",
			"node a\nitem layer l 1.0.0 state=deprecated\nitem service s 1.0.0 needs=layer:l\n" +
				"subject S items=service:s\nhas a l 1.0.0", `
a: s@1.0.0/S/0 layer l@1.0.0
start a s@1.0.0
`},
		{"a layer in preparation is not used where it is", "node a\nitem layer l 1.0.0 state=preparation\n" +
			"item service s 1.0.0 needs=layer:l\nsubject S items=service:s\nhas a l 1.0.0", `
remove a l@1.0.0
unmet s@1.0.0/S needs l  (notReady)
`},
		{"none for nothing", "node a\nitem layer l 1.0.0\nitem layer l 2.0.0\nitem layer l 3.0.0\n" +
			"item service s 1.0.0 needs=layer:l:>=1.0.0,<3.0.0\nitem service t 1.0.0 needs=layer:l:>=1.0.0,<3.0.0\n" +
			"item service u 1.0.0 needs=layer:l:>=2.0.0\nitem service v 1.0.0 needs=layer:l:=1.0.0\n" +
			"item service w 1.0.0 needs=layer:l:=3.0.0\n" +
			"subject S items=service:s|service:t|service:u|service:v|service:w\nhas a l 1.0.0\nhas a l 3.0.0\n" +
			"runs service s 1.0.0 S/0 a\nruns service t 1.0.0 S/0 a\nruns service u 1.0.0 S/0 a\n" +
			"runs service v 1.0.0 S/0 a\nruns service w 1.0.0 S/0 a", `
a: s@1.0.0/S/0 t@1.0.0/S/0 u@1.0.0/S/0 v@1.0.0/S/0 w@1.0.0/S/0 layer l@1.0.0 layer l@3.0.0
`},
		{"a deprecated layer is not fetched", "node a\nitem layer l 1.0.0 state=deprecated\n" +
			"item service s 1.0.0 needs=layer:l\nsubject S items=service:s\nhas a l 0.1.0", `
remove a l@0.1.0
unmet s@1.0.0/S needs l  (notReady)
`},
		{"updated where it is", ab + "item service s 1.1.0\nsubject S items=service:s\nruns service s 1.0.0 S/0 b", `
b: s@1.1.0/S/0
update b s@1.1.0 from 1.0.0
`},
		{"it runs twice", ab + "node c\nitem service s 1.1.0 cpu=100\nsubject S items=service:s\n" +
			"runs service s 1.0.0 S/0 a\nruns service s 1.1.0 S/0 c\nruns service s 1.1.0 S/0 b", `
b: s@1.1.0/S/0=50
stop a s@1.0.0
stop c s@1.1.0
`},
		{"it runs twice, where it may not", "node a cpu=10\nnode b cpu=10\nnode c\nitem service s 1.0.0 cpu=100\n" +
			"subject S items=service:s\nruns service s 1.0.0 S/0 b\nruns service s 1.0.0 S/0 a", `
c: s@1.0.0/S/0=50
stop a s@1.0.0 >c
stop b s@1.0.0
move c s@1.0.0 from 1.0.0 a>
`},
		{"not desired any more", "node a\nruns service s 1.0.0 S/0 a\nhas a l 1.0.0", `
remove a l@1.0.0
stop a s@1.0.0
`},
		{"nobody reports the subject", "node a\nitem service s 1.0.0\nsubject S reported=1 items=service:s", `
notReported s@/S
`},
		{"a node reports the subject", "node a\nnode b reports=S\nitem service s 1.0.0\n" +
			"subject S reported=1 items=service:s", `
a: s@1.0.0/S/0
start a s@1.0.0
`},
		{"a node type", "node a type=x\nnode b type=y\nitem component k 1.0.0\nitem service s 1.0.0\n" +
			"subject y type=nodeType items=component:k|service:s", `
b: k@1.0.0/y/0 s@1.0.0/y/0
start b k@1.0.0
start b s@1.0.0
`},
		{"a node type without nodes", "node a\nitem component k 1.0.0\nsubject y type=nodeType items=component:k", `
unplaced k@1.0.0/y
`},
		{"outranked on one node", ab + "item component k 1.0.0\nitem component k 2.0.0\n" +
			"subject S prio=1 nodes=a items=component:k:=1.0.0\nsubject T items=component:k:=2.0.0", `
a: k@1.0.0/S/0
b: k@2.0.0/T/0
start a k@1.0.0
start b k@2.0.0
outranked k@2.0.0/T by k@1.0.0/S
`},
		{"outranked everywhere, and desired", "node a\nitem component k 1.0.0\nitem component k 2.0.0\n" +
			"item service s 1.0.0 needs=component:k:>=2.0.0\nsubject S prio=1 items=component:k:=1.0.0|service:s\n" +
			"subject T nodes=a items=component:k:=2.0.0", `
a: k@1.0.0/S/0 s@1.0.0/S/0
start a k@1.0.0
start a s@1.0.0
outranked k@2.0.0/T by k@1.0.0/S
`},
		{"one hostname", ab + "item service s 1.0.0 host=h\nitem service t 1.0.0 host=h prio=1\n" +
			"subject S items=service:s|service:t::2", `
a: t@1.0.0/S/0 t@1.0.0/S/1
start a t@1.0.0
start a t@1.0.0
conflict s@1.0.0/S by t@1.0.0/S rule hostname h
`},
		{"needs another version", "node a\nitem service s 2.0.0\nitem service t 1.0.0 needs=service:s:<2.0.0\n" +
			"subject S items=service:s|service:t", `
a: s@2.0.0/S/0
start a s@2.0.0
conflict t@1.0.0/S by s@2.0.0/S rule versions service s needs s <2.0.0
`},
		{"needs what nobody desires", "node a\nitem service s 2.0.0\nitem service t 1.0.0 needs=service:s\n" +
			"subject S items=service:t", `
unmet t@1.0.0/S needs s 
`},
		{"needs what is suppressed", "node a\nitem service r 1.0.0 prio=5 not=service:d\nitem service d 1.0.0\n" +
			"item service t 1.0.0 needs=service:d:>=1.0.0\nsubject S items=service:r|service:d|service:t", `
a: r@1.0.0/S/0
start a r@1.0.0
suppressed d@1.0.0/S by r@1.0.0/S
unmet t@1.0.0/S needs d >=1.0.0 (suppressed)
`},
		{"a layer's layer is missing", "node a\nitem layer l 1.0.0 needs=layer:m:>=2.0.0\nitem layer m 1.0.0\n" +
			"item layer n 1.0.0\nitem service s 1.0.0 needs=layer:l|layer:n\nsubject S items=service:s", `
unmet s@1.0.0/S needs m >=2.0.0 (notReady) of l@1.0.0
`},
		{"what a refused one needs does not count", "node a\nitem layer l 1.0.0\nitem layer l 2.0.0\n" +
			"item service s 1.0.0 needs=layer:l:<2.0.0|layer:gone\nitem service t 1.0.0 needs=layer:l\n" +
			"subject S items=service:s|service:t", `
a: t@1.0.0/S/0 layer l@2.0.0
fetch a l@2.0.0
start a t@1.0.0
unmet s@1.0.0/S needs gone  (notReady)
`},
		{"before and after are weak", "node a\nitem service s 1.0.0 needs=service:gone::before|layer:l::after\n" +
			"item layer l 1.0.0\nsubject S items=service:s", `
a: s@1.0.0/S/0
start a s@1.0.0
`},
		{"before and after make cycles", "node a\nitem service s 1.0.0 needs=service:t::before\n" +
			"item service t 1.0.0 needs=service:s::before\nitem service u 1.0.0 needs=service:t::after\n" +
			"subject S items=service:s|service:t|service:u", `
a: u@1.0.0/S/0
start a u@1.0.0
cycle s@1.0.0/S -> s -> t
cycle t@1.0.0/S -> s -> t
`},
		{"before agrees with a need", "node a\nitem service s 1.0.0 needs=service:t::before\n" +
			"item service t 1.0.0 needs=service:s\nsubject S items=service:s|service:t", `
a: s@1.0.0/S/0 t@1.0.0/S/0
start a s@1.0.0
start a t@1.0.0
`},
		{"the smallest cycle", "node a\nitem service s 1.0.0 needs=service:t\n" +
			"item service t 1.0.0 needs=service:u|service:v\nitem service u 1.0.0 needs=service:s\n" +
			"item service v 1.0.0 needs=service:t\nsubject S items=service:s|service:t|service:u|service:v", `
cycle s@1.0.0/S -> t -> v
cycle t@1.0.0/S -> t -> v
cycle u@1.0.0/S -> t -> v
cycle v@1.0.0/S -> t -> v
`},
		{"layers that choose each other without an end",
			"node a\nitem layer l 1.0.0\nitem layer l 2.0.0 needs=layer:m\n" +
				"item layer m 1.0.0 needs=layer:l:<2.0.0\nitem service s 1.0.0 needs=layer:l\nitem service t 1.0.0\n" +
				"subject S items=service:s|service:t", `
a: t@1.0.0/S/0
start a t@1.0.0
cycle s@1.0.0/S -> l -> m
`},
		{"a layer for another platform", "node a arch=arm64\nitem layer l 1.0.0 arch=amd64\n" +
			"item service s 1.0.0 arch=arm64 needs=layer:l\nsubject S items=service:s", `
unplaced s@1.0.0/S/0 emptied by platform; a platform arm64, for the layer l
`},
		{"where the most CPU is free", "node a used=1\nnode b\nnode c\nitem service s 1.0.0 cpu=10\n" +
			"subject S items=service:s", `
b: s@1.0.0/S/0=5
start b s@1.0.0
`},
		{"where the most RAM is free", "node a\nnode b ram=2000\nnode c\nitem service s 1.0.0 cpu=10\n" +
			"subject S items=service:s", `
b: s@1.0.0/S/0=5
start b s@1.0.0
`},
		{"too little RAM", "node a ram=100\nitem service s 1.0.0 ram=400\nsubject S items=service:s", `
unplaced s@1.0.0/S/0 emptied by ram; a ram 200/100
`},
		{"too little storage", "node a disk=storage:100\nnode b disk=storage:1000\n" +
			"item service s 1.0.0 stores=400\nsubject S items=service:s", `
b: s@1.0.0/S/0,disk=200+0
start b s@1.0.0
`},
		{"storage and state on one partition", "node a disk=storage+state:299\n" +
			"item service s 1.0.0 stores=400 keeps=200\nsubject S items=service:s", `
unplaced s@1.0.0/S/0 emptied by stateStorage; a stateStorage 100/99
`},
		{"storage and state on two", "node a disk=storage:200,state:100 kept=1\nnode b disk=storage:400,state:200\n" +
			"item service s 1.0.0 stores=400 keeps=200\nsubject S items=service:s::2", `
b: s@1.0.0/S/0,disk=200+100 s@1.0.0/S/1,disk=200+100
start b s@1.0.0
start b s@1.0.0
`},
		{"who has the storage", "node a disk=storage+state:300\nitem service s 1.0.0 keeps=400\n" +
			"item service t 1.0.0 stores=400\nsubject S items=service:s|service:t", `
a: s@1.0.0/S/0,disk=0+200
start a s@1.0.0
unplaced t@1.0.0/S/0 emptied by storage; a storage 200/100 [s/S/0]
`},
		{"a node that does not tell its storage", "node a\nitem service s 1.0.0 stores=400\n" +
			"subject S items=service:s", `
a: s@1.0.0/S/0
start a s@1.0.0
`},
		{"what the subject says of the environment comes first", "node a\nitem service s 1.0.0 env=B:1,A:1\n" +
			"subject S items=service:s env=C:,B:2\nsubject T items=service:s", `
a: s@1.0.0/S/0,A=1(m),B=2(s),C=(s) s@1.0.0/T/0,A=1(m),B=1(m)
start a s@1.0.0
start a s@1.0.0
`},
		{"another environment", "node a\nitem service s 1.0.0 env=A:1\nitem service t 1.1.0 env=A:1\n" +
			"item service u 1.0.0\nitem service v 1.0.0 env=A:1\n" +
			"subject S items=service:s|service:t|service:u|service:v\n" +
			"runs service s 1.0.0 S/0 a env=A:1,B:2\nruns service t 1.0.0 S/0 a\nruns service u 1.0.0 S/0 a env=A:1\n" +
			"runs service v 1.0.0 S/0 a env=A:1", `
a: s@1.0.0/S/0,A=1(m) t@1.1.0/S/0,A=1(m) u@1.0.0/S/0 v@1.0.0/S/0,A=1(m)
update a s@1.0.0 from 1.0.0 env
update a t@1.1.0 from 1.0.0 env
update a u@1.0.0 from 1.0.0 env
`},
		{"the filter that left nothing", "node a\nnode b cpu=10 labels=x\nitem service s 1.0.0 cpu=100\n" +
			"subject S labels=x items=service:s\nnode c", `
unplaced s@1.0.0/S/0 emptied by cpu; b cpu 50/10; a labels x; c labels x
`},
		{"the runtime's own allowance",
			"node a rtcpu=100\nnode b\nitem service s 1.0.0 cpu=400\nsubject S items=service:s", `
b: s@1.0.0/S/0=200
start b s@1.0.0
`},
		{"a paused node keeps what it has",
			"node a state=paused\nitem service s 1.0.0\nsubject S items=service:s::2\n" +
				"runs service s 1.0.0 S/0 a", `
a: s@1.0.0/S/0
unplaced s@1.0.0/S/1 emptied by state; a state paused
`},
		{"an unprovisioned node keeps nothing", "node a state=unprovisioned\nnode b\nitem service s 1.0.0\n" +
			"subject S items=service:s\nruns service s 1.0.0 S/0 a", `
b: s@1.0.0/S/0
stop a s@1.0.0 >b
move b s@1.0.0 from 1.0.0 a>
`},
		{"a component waits for its node", "evict 1s\nnode a off=PT1H\nnode b off=PT1H\nitem component k 2.0.0\n" +
			"subject S items=component:k\nruns component k 1.0.0 S/0 a", `
a: k@2.0.0/S/0
update a k@2.0.0 from 1.0.0
unplaced k@2.0.0/S emptied by online; b online
`},
		{"who made room has its turn", "preempt\nnode a labels=x\nnode b\nitem service v 1.0.0 cpu=2000 prio=5\n" +
			"item service w 1.0.0 cpu=2000 prio=3\nitem service h 1.0.0 cpu=2000 prio=9\n" +
			"subject S items=service:v|service:w\nsubject T labels=x items=service:h\nruns service v 1.0.0 S/0 a", `
a: h@1.0.0/T/0=1000
b: v@1.0.0/S/0=1000
start a h@1.0.0
stop a v@1.0.0 >b
move b v@1.0.0 from 1.0.0 a>
unplaced w@1.0.0/S/0 emptied by cpu; a cpu 1000/0 [h/T/0]; b cpu 1000/0 [v/S/0]
`},
		{"two make room",
			"preempt\nnode a\nitem service low 1.0.0 cpu=800 prio=1\nitem service high 1.0.0 cpu=300 prio=9\n" +
				"item service s 1.0.0 cpu=1600 prio=5\nsubject S items=service:low::2|service:s|service:high\n" +
				"runs service low 1.0.0 S/0 a\nruns service low 1.0.0 S/1 a\nruns service high 1.0.0 S/0 a", `
a: high@1.0.0/S/0=150 s@1.0.0/S/0=800
stop a low@1.0.0
stop a low@1.0.0
start a s@1.0.0
unplaced low@1.0.0/S/0 by s@1.0.0/S emptied by cpu; a cpu 400/50 [high/S/0] [s/S/0]
unplaced low@1.0.0/S/1 by s@1.0.0/S emptied by cpu; a cpu 400/50 [high/S/0] [s/S/0]
`},
		{"nobody of equal priority makes room", "preempt\nnode a\nitem service low 1.0.0 cpu=1600\n" +
			"item service s 1.0.0 cpu=1600\nsubject S items=service:low|service:s\nruns service low 1.0.0 S/0 a", `
a: low@1.0.0/S/0=800
unplaced s@1.0.0/S/0 emptied by cpu; a cpu 800/200 [low/S/0]
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := render(decide(t, parseInput(t, c.input))); got != strings.TrimPrefix(c.want, "\n") {
				t.Errorf("got\n%s\nwant%s", got, c.want)
			}
		})
	}
}

// Labels, priority and ratios are those of the node's configuration; without ratios 50 %.
func TestNodeOf(t *testing.T) {
	half := unitconfig.ResourceRatios{CPU: 50, RAM: 50, Storage: 50, State: 50}
	if n := desired.NodeOf(nil, nil); n.Ratios != half {
		t.Errorf("%+v", n)
	}
	cpu := &unitconfig.FractionRule{MaxThreshold: 0.9}
	n := desired.NodeOf(nil, &unitconfig.NodeConfig{Labels: []string{"x"}, Priority: 3,
		AlertRules: unitconfig.AlertRules{CPU: cpu}})
	if n.CPURule != cpu || n.RAMRule != nil {
		t.Errorf("%+v", n)
	}
	if n.Ratios != half || n.Priority != 3 || n.Labels[0] != "x" {
		t.Errorf("%+v", n)
	}
	ratios := unitconfig.ResourceRatios{CPU: 0, RAM: 7, State: 9}
	if n = desired.NodeOf(nil, &unitconfig.NodeConfig{ResourceRatios: &ratios}); n.Ratios != ratios {
		t.Errorf("%+v", n)
	}
}

// What contradicts each other is refused; the same version twice does not.
func TestClashes(t *testing.T) {
	in := parseInput(t, "node a\nnode a\nsubject S\nsubject S\nitem service s 1.0.0\nitem service s 1.0.0\n"+
		"item service s 1.0.0 prio=1\nitem service t 1.0.0\nitem service t 1.1.0")
	in.Items[3].ID, in.Items[4].ID, in.Items[0].ID, in.Items[1].ID, in.Items[2].ID = "i", "i", "i", "i", "i"
	in.Items[3].URN, in.Items[0].URN, in.Items[1].URN, in.Items[2].URN = "u", "v", "v", "v"
	var got []string
	for _, c := range desired.Check(in) {
		got = append(got, string(c.List)+" "+c.Err.Error())
	}
	want := []string{"items already-exists: service s 1.0.0 is there already, with another content",
		"items already-exists: service s has the ID i (at /id)",
		"items already-exists: service t has another ID or URN in another version (at /id)",
		"items already-exists: service s has the ID i (at /id)",
		`subjects duplicate: the subject "S" is there already (at /codename)`,
		`nodes duplicate: the node "a" is there already (at /node)`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	if p, err := desired.Make(in); err == nil || p != nil {
		t.Errorf("%v, %v", p, err)
	}
}
