package rollout_test

import (
	"fmt"
	"slices"
	"strings"

	"tandem.internal/controller/internal/rollout"
)

func (s *sim) phase(id string) rollout.Phase {
	v, _ := s.set.Show(s.now, id)
	return v.Phase
}

// reach lets time pass until a rollout is in a phase.
func (s *sim) reach(id string, p rollout.Phase) {
	s.Helper()
	s.until(id+" "+string(p), func() bool { return s.phase(id) == p })
}

func (s *sim) status(id string, n *simNode) rollout.Status {
	st, _ := s.set.Status(id, n.name)
	return st
}

func (s *sim) reachStatus(id string, n *simNode, want rollout.Status) {
	s.Helper()
	s.until(n.name+" "+string(want), func() bool { return s.status(id, n) == want })
}

// wave are the nodes that were issued to in a wave, from 1, each once, in order.
func (s *sim) wave(id string, wave int) (all []string) {
	for _, r := range s.log {
		if d, ok := r.Data.(rollout.IssuedData); ok && r.ID == id && d.Wave == wave-1 {
			for _, n := range d.Nodes {
				if !slices.Contains(all, n.Node) {
					all = append(all, n.Node)
				}
			}
		}
	}
	return all
}

// waves are how many nodes each wave has issued to.
func (s *sim) waves(id string) string {
	var all []string
	for i := 1; i <= 3; i++ {
		all = append(all, fmt.Sprint(len(s.wave(id, i))))
	}
	return strings.Join(all, " ")
}

// takenBack are the nodes that were taken back, in order.
func (s *sim) takenBack(id string) (all []string) {
	for _, r := range s.log {
		if d, ok := r.Data.(rollout.TakenBackData); ok && r.ID == id {
			for _, n := range d.Nodes {
				all = append(all, n.Node)
			}
		}
	}
	return all
}

func (s *sim) want(what string, got, want any) {
	s.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.Fatalf("%s: %v, want %v; %s", what, got, want, s.story())
	}
}

// held checks what holds a rollout up.
func (s *sim) held(id string, reason rollout.Reason, nodes ...*simNode) *rollout.Held {
	s.Helper()
	h := s.set.Why(s.now, id)
	if h == nil {
		s.Fatalf("nothing holds %s up, want %s; %s", id, reason, s.story())
	}
	var names []string
	for _, n := range nodes {
		names = append(names, n.name)
	}
	slices.Sort(names)
	if h.Reason != reason || nodes != nil && !slices.Equal(h.Nodes, names) {
		s.Fatalf("%s is held by %s of %v, want %s of %v; %s", id, h.Reason, h.Nodes, reason, names, s.story())
	}
	return h
}

// story is the journal, for a failing test.
func (s *sim) story() string {
	var b strings.Builder
	fmt.Fprintf(&b, "at %s, killed at %d\n", s.now.Format("02 15:04:05"), s.killAt)
	for _, r := range s.log {
		if _, ok := r.Data.(rollout.BegunData); ok {
			fmt.Fprintf(&b, "  %2d %s %s begun\n", r.Seq, r.At.Format("02 15:04:05"), r.ID)
			continue
		}
		name := strings.TrimPrefix(fmt.Sprintf("%T", r.Data), "rollout.")
		fmt.Fprintf(&b, "  %2d %s %s %s%+v\n", r.Seq, r.At.Format("02 15:04:05"), r.ID, name, r.Data)
	}
	return b.String()
}
