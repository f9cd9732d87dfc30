package distribute

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// setLine sets the property line of the nodes that a filter selects.
func setLine(where string) op.NodesOrder {
	return op.NodesOrder{Where: where, Set: &op.NamedValue{NamedProperty: op.NamedProperty{Name: "line"},
		PropertyValue: op.PropertyValue{Value: []byte("4")}}}
}

// joins has so many nodes join: press-000 and so on.
func (r *faulty) joins(n int) {
	r.Helper()
	for i := range n {
		r.join(fmt.Sprintf("press-%03d", i))
	}
}

// withLine counts the nodes of which the property is set, each once.
func (r *faulty) withLine() int {
	r.Helper()
	nodes := map[string]bool{}
	for _, rec := range r.records(record.Settings) {
		d, err := dataOf[record.PropertyData](&rec)
		if err != nil || rec.Who != "ann" {
			r.Errorf("%+v: %v", rec, err)
		}
		nodes[d.Node] = true
	}
	return len(nodes)
}

// of names the nodes of an answer, those at which nothing was done with the code.
func of(v op.NodesOrdered) string {
	var all []string
	for _, n := range v.Nodes {
		text := n.Node
		if n.Error != nil {
			text += " " + string(n.Error.Code)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// TestOrderToMany: an order reaches the nodes that a filter selects, each with a record of its own and who gave it; a
// dry run none, nor one that expects another number, nor one to all nodes without their being meant.
func TestOrderToMany(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.joins(3)
		r.leaves("pump-1")
		ctx := caller.Named(r.Context(), "ann", "http")
		order := func(in op.NodesOrder) op.NodesOrdered {
			t.Helper()
			v, err := r.core.OrderNodes(ctx, in)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		dry := setLine("name:p*")
		dry.DryRun = true
		if v := order(dry); v.Selected != 4 || !v.AllNodes || v.Offline != 1 || v.Done+v.Failed != 0 ||
			of(v) != "press-000, press-001, press-002, pump-1" {
			t.Errorf("a dry run: %+v", v)
		}
		for _, c := range []struct {
			in   op.NodesOrder
			want string
		}{
			{setLine(""), "not-allowed: the filter selects every node: 4 of 4; set this if that is meant " +
				"(at /allNodes)"},
			{setLine("name:p*"), "not-allowed: the filter selects every node: 4 of 4; set this if that is meant " +
				"(at /allNodes)"},
			{op.NodesOrder{Where: "press", Expect: "4", Set: setLine("").Set}, "wrong-state: the filter selects " +
				"3 nodes now, not 4: nothing was ordered; look at them with a dry run again (at /expect)"},
			{op.NodesOrder{Where: "none", Expect: "1", Set: setLine("").Set}, "wrong-state: the filter selects " +
				"0 nodes now, not 1: nothing was ordered; look at them with a dry run again (at /expect)"},
		} {
			_, err := r.core.OrderNodes(ctx, c.in)
			if err == nil || err.Error() != c.want {
				t.Errorf("%q: %v", c.in.Where, err)
			} else if e := wire.AsError(err); e.Path == wire.PathAllNodes && e.Nodes != 4 {
				t.Errorf("%q: %d nodes are meant", c.in.Where, e.Nodes)
			}
		}
		if n := r.withLine(); n != 0 {
			t.Fatalf("%d were ordered all the same", n)
		}
		some := setLine("press")
		some.Expect = "3"
		if v := order(some); v.Done != 3 || v.Failed != 0 || v.AllNodes || of(v) != "press-000, press-001, press-002" ||
			r.withLine() != 3 {
			t.Errorf("%+v", v)
		}
		all := setLine("")
		all.AllNodes = true
		if v := order(all); v.Done != 4 || r.withLine() != 4 {
			t.Errorf("%+v", v)
		}
		if v := order(setLine("name:none")); v.Selected != 0 || v.AllNodes || v.Nodes == nil {
			t.Errorf("%+v", v)
		}
		if v := order(op.NodesOrder{Where: "pump", Revoke: &op.Revoke{Reason: "sold"}}); v.Done != 1 ||
			len(r.records(record.Revoked)) != 1 ||
			!bytes.Contains(r.records(record.Revoked)[0].Data, []byte(`"sold"`)) {
			t.Errorf("%+v", v)
		}
		r.whole()
	})
}

// TestOrderToManyOfThose: what a dry run had as expect has an order be for those nodes alone: not for others, though
// they are as many.
func TestOrderToManyOfThose(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.joins(2)
		r.leaves("pump-1")
		dry := setLine("online:yes")
		dry.DryRun = true
		seen, err := r.core.OrderNodes(r.Context(), dry)
		if err != nil || of(seen) != "press-000, press-001" || seen.Expect != "2-6b8fcfac35a5c2bb" {
			t.Fatalf("%+v %v", seen, err)
		}
		in := setLine("online:yes")
		in.Expect = seen.Expect
		r.leaves("press-001")
		r.mustRefuse(in, "the filter selects 1 node now, not 2: nothing was ordered; look at them with a dry run again")
		r.join("press-002")
		r.mustRefuse(in, "the filter selects 2 nodes as before, but not the same: nothing was ordered; look at them "+
			"with a dry run again")
		if n := len(r.records(record.Settings)); n != 0 {
			t.Errorf("%d were ordered all the same", n)
		}
		r.leaves("press-002")
		if err := r.hear(live("press-001", 2)); err != nil {
			t.Fatal(err)
		}
		if v, err := r.core.OrderNodes(r.Context(), in); err != nil || v.Done != 2 || v.Expect != "" {
			t.Errorf("those again: %+v %v", v, err)
		}
	})
}

// mustRefuse gives an order to many that is refused for what it expects.
func (r *faulty) mustRefuse(in op.NodesOrder, want string) {
	r.Helper()
	_, err := r.core.OrderNodes(r.Context(), in)
	if err == nil || err.Error() != "wrong-state: "+want+" (at /expect)" {
		r.Errorf("%v, not %s", err, want)
	}
}

// TestOrderToManyWhoGo: what a node does not take is in its line of the answer: one that is offline, one that has gone
// since it was selected, one that refuses.
func TestOrderToManyWhoGo(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.joins(manyAtOnce + 2) // more than are ordered at once
		r.leaves("pump-1")
		last := fmt.Sprintf("press-%03d", manyAtOnce+1)
		gone := false
		r.broker.mu.Lock()
		r.broker.hears = func(to string, payload []byte) {
			q, err := wire.Decode[wire.Request](payload)
			if err != nil || q.Method != wire.MethodReboot {
				return
			}
			reply := wire.Reply{V: wire.Version, Node: q.Node, ID: q.ID}
			if q.Node == "press-001" {
				reply.Error = wire.New(wire.CodeNotAllowed, "", "it has no watchdog")
			}
			first := !gone
			gone = true
			go func() { // as a broker does, which does not wait for the core
				if first {
					down := wire.Live{V: wire.Version, Node: last, Boot: "b", Session: 1}
					r.deliver(topic.ForNode(faultyUnit, last).Live(), wire.Encode(&down))
				}
				r.deliver(topic.ForNode(faultyUnit, q.Node).Reply(), wire.Encode(&reply))
			}()
		}
		r.broker.mu.Unlock()
		v, err := r.core.OrderNodes(r.Context(), op.NodesOrder{Where: "name:p*", AllNodes: true,
			Reboot: &op.Reboot{Reason: "new kernel"}})
		v.Nodes = slices.DeleteFunc(v.Nodes, func(n op.NodeOrdered) bool { return n.Error == nil })
		if err != nil || v.Done != manyAtOnce || v.Failed != 3 ||
			of(v) != "press-001 not-allowed, "+last+" wrong-state, pump-1 wrong-state" {
			t.Errorf("%+v %v", v, err)
		}
		if n := len(r.records(record.Request)); n != manyAtOnce+1 {
			t.Errorf("%d requests in the journal", n)
		}
	})
}

// TestCrashAmongOrdersToMany: what was in the journal before a crash counts, the rest was not ordered, and to order it
// again does the rest.
func TestCrashAmongOrdersToMany(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		const n = 2*manyAtOnce + 10
		r.joins(n)
		ctx := caller.Named(r.Context(), "ann", "http")
		in := setLine("press")
		in.AllNodes = true
		r.disk.failAfter(1, 100, 0)
		v, err := r.core.OrderNodes(ctx, in)
		if err != nil || v.Done == 0 || v.Failed == 0 || v.Done+v.Failed != n {
			t.Fatalf("%d done, %d failed: %v", v.Done, v.Failed, err)
		}
		r.mustBe("stopping", r.stop(), wire.CodeStorage)
		r.disk.fail(0, 0)
		r.start()
		if got := r.withLine(); got != v.Done {
			t.Errorf("%d are set, not the %d of the answer", got, v.Done)
		}
		if v, err = r.core.OrderNodes(ctx, in); err != nil || v.Done != n || r.withLine() != n {
			t.Errorf("again: %d done, %d failed, %d set: %v", v.Done, v.Failed, r.withLine(), err)
		}
		r.whole()
	})
}

// TestOrderToManyIsLeft: when whoever orders has gone, those that come later are not ordered.
func TestOrderToManyIsLeft(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.joins(manyAtOnce + 5) // and will not answer
		ctx, leave := context.WithCancel(r.Context())
		left := make(chan error)
		go func() {
			_, err := r.core.OrderNodes(ctx, op.NodesOrder{Where: "press", AllNodes: true, Try: &op.Try{}})
			left <- err
		}()
		synctest.Wait()
		leave()
		if err := <-left; err == nil {
			t.Error("no error")
		}
		if n := len(r.records(record.Request)); n != manyAtOnce {
			t.Errorf("%d were ordered", n)
		}
	})
}

// limited has a role that is not enough.
type limited struct{ caller.Caller }

func (limited) May(role string) error {
	if role == "admin" {
		return wire.New(wire.CodeNotAllowed, "", "this needs the role admin")
	}
	return nil
}

// TestOrderToManyKeepsRoles: who may not order something of one node may not of many, dry run or not.
func TestOrderToManyKeepsRoles(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.joins(2)
		ctx := caller.With(r.Context(), limited{caller.From(r.Context())})
		for _, dry := range []bool{true, false} {
			in := op.NodesOrder{Where: "press-000", DryRun: dry, Revoke: &op.Revoke{}}
			_, err := r.core.OrderNodes(ctx, in)
			r.mustBe("to revoke", err, wire.CodeNotAllowed)
			in.Revoke, in.Set = nil, setLine("").Set
			if _, err := r.core.OrderNodes(ctx, in); err != nil {
				t.Error(err)
			}
		}
		if len(r.records(record.Revoked)) != 0 {
			t.Error("revoked all the same")
		}
	})
}

// TestBoundOfOrderToMany: of many nodes those are listed of which something was refused.
func TestBoundOfOrderToMany(t *testing.T) {
	var v op.NodesOrdered
	for i := range op.MaxOrdered + 500 {
		n := op.NodeOrdered{Node: fmt.Sprintf("n-%04d", i)}
		if i%3 == 2 {
			n.Error = wire.New(wire.CodeWrongState, "", "offline")
			v.Failed++
		}
		v.Nodes = append(v.Nodes, n)
	}
	v.Selected = len(v.Nodes)
	bound(&v)
	failed := 0
	for _, n := range v.Nodes {
		if n.Error != nil {
			failed++
		}
	}
	if len(v.Nodes) != op.MaxOrdered || v.Omitted != 500 || failed != 500 ||
		!slices.IsSortedFunc(v.Nodes, func(a, b op.NodeOrdered) int { return strings.Compare(a.Node, b.Node) }) {
		t.Errorf("%d listed, %d omitted, %d failed", len(v.Nodes), v.Omitted, failed)
	}
}

// TestOrderToManyOfNone: a unit without nodes has none that somebody could mean all of.
func TestOrderToManyOfNone(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		if v, err := r.core.OrderNodes(r.Context(), setLine("")); err != nil || v.AllNodes || v.Selected != 0 {
			t.Errorf("%+v %v", v, err)
		}
	})
}

// TestOrderToManyDryIsBounded: a dry run lists no more nodes than an order does.
func TestOrderToManyDryIsBounded(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.joins(op.MaxOrdered + 1)
		dry := setLine("press")
		dry.DryRun = true
		v, err := r.core.OrderNodes(r.Context(), dry)
		if err != nil || len(v.Nodes) != op.MaxOrdered || v.Omitted != 1 {
			t.Errorf("%d listed, %d omitted: %v", len(v.Nodes), v.Omitted, err)
		}
	})
}
