package distribute

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/op"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

func listOf(known string, names ...string) (in op.EnrolList) {
	in.Known = known
	for _, name := range names {
		in.Nodes = append(in.Nodes, op.ListedNode{Node: name, Enroll: op.Enroll{Type: "mainType"}})
	}
	return in
}

// awaited are the nodes with an open token.
func (r *faulty) awaited() (names []string) {
	r.Helper()
	nodes, err := r.core.Nodes(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	for _, n := range nodes.Nodes {
		if n.Identity != nil && n.Identity.State == "enrolled" {
			names = append(names, n.Node)
		}
	}
	return names
}

// The tokens of a list are made together or not at all, also when the disk fails or somebody is in the way.
func TestListIsEnrolledWhole(t *testing.T) {
	for _, late := range []bool{false, true} {
		withGate(t, func(t *testing.T, r *faulty, _ *gate) {
			if late {
				r.disk.fail(0, 1)
			} else {
				r.disk.fail(1, 0)
			}
			ctx := as(t.Context(), "ann")
			if _, err := r.core.EnrolNodes(ctx, listOf("", "n1", "n2", "n3")); !storageTrouble(err) {
				t.Errorf("a list on a bad disk: %v", err)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			want := 0
			if late { // they are on the disk, though nobody was told
				want = 3
			}
			if got := r.awaited(); len(got) != want {
				t.Errorf("late %v: %q", late, got)
			}
			v, err := r.core.EnrolNodes(ctx, listOf("replace", "n1", "n2", "n3"))
			if err != nil || len(v.Nodes) != 3 || len(v.Skipped) != 0 {
				t.Fatalf("%+v %v", v, err)
			}
			_, err = r.core.EnrolNodes(ctx, listOf("", "n4", "n2", "n5", "n1"))
			if !errors.Is(err, &wire.Error{Code: wire.CodeAlreadyExists}) || !strings.Contains(err.Error(), "n2, n1") {
				t.Errorf("known nodes: %v", err)
			}
			if got := r.awaited(); !slices.Equal(got, []string{"n1", "n2", "n3"}) {
				t.Errorf("a list that was refused made tokens: %q", got)
			}
			more, err := r.core.EnrolNodes(ctx, listOf("skip", "n4", "n2"))
			if err != nil || len(more.Nodes) != 1 || !slices.Equal(more.Skipped, []string{"n2"}) {
				t.Errorf("%+v %v", more, err)
			}
			tok, err := jointoken.Parse(v.Nodes[0].Token)
			if err != nil || tok.Node != "n1" {
				t.Fatal(tok, err)
			}
			if err := r.core.Enrolment(t.Context(), joinOf(tok.Secret.Hash(), "k1", "s1")); err != nil {
				t.Error(err)
			}
			if _, err := r.core.EnrolNodes(ctx, listOf("", "n1")); err == nil {
				t.Error("who has joined is not known")
			}
		})
	}
}

// A join by a batch counts when it is durable, once, and an approval holds over a restart.
func TestBatchOnABadDisk(t *testing.T) {
	for _, late := range []bool{false, true} {
		withGate(t, func(t *testing.T, r *faulty, _ *gate) {
			ctx := as(t.Context(), "ann")
			g, err := r.core.CreateBatch(ctx, op.NewBatch{Name: "line4", Count: 1, From: []string{"10.0.0.0/8"}})
			if err != nil {
				t.Fatal(err)
			}
			tok, err := jointoken.Parse(g.Token)
			if err != nil || tok.Batch != "line4" || tok.Node != "" {
				t.Fatal(tok, err)
			}
			join := func(serial string) error {
				ev := joinOf(tok.Secret.Hash(), "k1", serial)
				ev.From = "10.0.0.9"
				return r.core.Enrolment(t.Context(), ev)
			}
			joined := func(want int) {
				t.Helper()
				all, err := r.core.Batches(t.Context())
				if err != nil || len(all.Batches) != 1 || all.Batches[0].Joined != want {
					t.Errorf("%+v %v, want %d joined", all, err, want)
				}
			}
			if err := join("s0"); !errors.Is(err, &wire.Error{Code: wire.CodeUnavailable}) {
				t.Fatal(err)
			}
			order := op.JoinOrder{Nodes: []op.NodeKey{{Node: "n1", Key: "k1"}}}
			if _, err := r.core.ApproveJoin(ctx, order); err != nil {
				t.Fatal(err)
			}
			if err := r.stop(); err != nil { // the checkpoint has the approval
				t.Fatal(err)
			}
			r.start()
			if late {
				r.disk.fail(0, 1)
			} else {
				r.disk.fail(1, 0)
			}
			if err := join("s1"); !storageTrouble(err) {
				t.Errorf("join on a bad disk: %v", err)
			}
			r.certified("s1", false)
			time.Sleep(time.Minute)
			synctest.Wait()
			r.certified("s1", late)
			if err := join("s2"); err != nil {
				t.Errorf("the same join again: %v", err)
			}
			r.certified("s2", true)
			joined(1)
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			r.start()
			joined(1)
			if err := join("s3"); err != nil {
				t.Errorf("once more: %v", err)
			}
			joined(1)
			if err := r.core.Audit(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
