package env_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/race"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/env"
	"tandem.internal/testenv/fault"
)

// TestControllerKilledAmongOrdersToMany kills the controller before each thing that it does while it orders a reboot of
// three nodes. An order to many is one to each: a node whose order is not in the journal does not reboot; one whose
// order is there reboots once at most, and did if its answer says so; none reboots after the controller has started
// again. Each order has an answer in the end. The same order once more is another one to each.
func TestControllerKilledAmongOrdersToMany(t *testing.T) {
	both(t, func(t *testing.T, s env.Setup) {
		if race.Enabled && s.External {
			t.Skip("takes minutes under the race detector; with the embedded broker it runs there, too")
		}
		for _, name := range []string{"n1", "n2", "n3"} {
			s.Nodes = append(s.Nodes, env.NodeSpec{Name: name, Tended: true})
		}
		seen := map[string]int{} // nodes, by what became of them
		for at := 1; !t.Failed(); at++ {
			s.Label = fmt.Sprintf("killed at %d: ", at)
			killed := false
			env.Run(t, s, func(e *env.Env) { killed = amongOrders(e, at, seen) })
			if !killed {
				break
			}
		}
		t.Logf("%v", seen)
		for _, what := range []string{"not ordered", "in the journal alone", "rebooted"} {
			if seen[what] == 0 {
				t.Errorf("no node of which the end is %q", what)
			}
		}
	})
}

// amongOrders is one run of it; it reports whether the controller was killed.
func amongOrders(e *env.Env, at int, seen map[string]int) (killed bool) {
	in := controller.NodesOrder{Where: "name:n*", AllNodes: true, DryRun: true,
		Reboot: &controller.Reboot{Reason: "new kernel"}}
	dry, err := e.OrderNodes(in)
	if err != nil || dry.Selected != 3 {
		e.Fatalf("%+v %v", dry, err)
	}
	in.DryRun, in.Expect = false, dry.Expect
	e.Controller.Machine.Arm(at, fault.Crash)
	v, err := e.OrderNodes(in)
	killed = e.Controller.Machine.Dead()
	e.Controller.Machine.Disarm()
	if !killed && (err != nil || v.Done != 3) {
		e.Wrong("nobody was killed: %+v %v", v, err)
	}
	e.Controller.Stop()
	tended(e, time.Minute)
	before := reboots(e)
	e.Controller.Start()
	e.Until(5*time.Minute, "all are online again", func() bool { return online(e) == 3 })
	tended(e, 2*time.Minute)
	orders, taken, answers := ordersOf(e)
	for name, n := range reboots(e) {
		switch {
		case n != before[name]:
			e.Wrong("%s reboots %d times after the controller has started again", name, n-before[name])
		case n > orders[name], orders[name] > 1, n < taken[name], answers[name] != orders[name], !killed && n != 1:
			e.Wrong("%s has rebooted %d times; in the journal are %d orders and %d answers, %d that it does", name,
				n, orders[name], answers[name], taken[name])
		case orders[name] == 0:
			seen["not ordered"]++
		case n == 0:
			seen["in the journal alone"]++
		default:
			seen["rebooted"]++
		}
	}
	if v, err = e.OrderNodes(in); err != nil || v.Done != 3 {
		e.Wrong("again: %+v %v", v, err)
	}
	tended(e, time.Minute)
	again, _, _ := ordersOf(e)
	for name, n := range reboots(e) {
		if n != before[name]+1 || again[name] != orders[name]+1 {
			e.Wrong("ordered again, %s has rebooted %d times after %d, with %d orders after %d in the journal", name, n,
				before[name], again[name], orders[name])
		}
	}
	return killed
}

// tended lets time pass, in which whoever has rebooted is started again.
func tended(e *env.Env, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); e.Pass(2 * time.Second) {
		for _, n := range e.Nodes() {
			if err := n.Tend(); err != nil {
				e.Wrong("%s does not start: %v", n.Name, err)
			}
		}
	}
}

func online(e *env.Env) (n int) {
	for _, node := range e.Nodes() {
		if v, ok := e.View(node.Name); ok && v.Online {
			n++
		}
	}
	return n
}

// reboots counts how often each node has rebooted by an order.
func reboots(e *env.Env) map[string]int {
	all := map[string]int{}
	for _, n := range e.Nodes() {
		all[n.Name] = 0
		for _, r := range n.Body().Reboots() {
			if r.Reason == wire.BootReboot {
				all[n.Name]++
			}
		}
	}
	return all
}

// ordersOf counts the entries of the journal about reboots, by node: that one was ordered, that the node does it, and
// all answers, also that there was none.
func ordersOf(e *env.Env) (orders, taken, answers map[string]int) {
	orders, taken, answers = map[string]int{}, map[string]int{}, map[string]int{}
	for _, entry := range e.Entries("request", "reply") {
		var data struct {
			Method wire.Method
			Error  *wire.Error
		}
		if err := json.Unmarshal(entry.Data, &data); err != nil {
			e.Fatal(err)
		}
		switch {
		case data.Method != wire.MethodReboot:
		case entry.Type == "request":
			orders[entry.Node]++
		default:
			answers[entry.Node]++
			if data.Error == nil {
				taken[entry.Node]++
			}
		}
	}
	return orders, taken, answers
}
