package fleet

import (
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/view"
)

// The states of a view.Pending.
const (
	PendingWaiting  = "waiting"
	PendingApproved = "approved"
)

// Batches lists the batches, by name.
func (f *Fleet) Batches(now time.Time) []view.Batch {
	waiting := map[string]int{}
	for _, w := range f.enrolled.Waiting(now) {
		waiting[w.Batch]++
	}
	all := []view.Batch{}
	for _, b := range f.enrolled.Batches() {
		v := view.Batch{Batch: b.Name, State: batchState(b, now), Count: b.Count, Joined: b.Joined,
			Approved: len(b.Approved), Waiting: waiting[b.Name], Names: b.Names, Type: b.Type, OnSight: b.OnSight,
			Created: b.Created, By: b.Who, Expires: b.Until, Revoked: b.Revoked, RevokedBy: b.RevokedBy}
		for _, p := range b.From {
			v.From = append(v.From, p.String())
		}
		all = append(all, v)
	}
	return all
}

func batchState(b *enrol.Batch, now time.Time) string {
	switch {
	case !b.Revoked.IsZero():
		return "revoked"
	case b.Joined >= b.Count:
		return "full"
	case b.Over(now):
		return "expired"
	}
	return "open"
}

// Pending lists who waits for an approval, and who was approved and has not joined, by name.
func (f *Fleet) Pending(now time.Time) []view.Pending {
	all := []view.Pending{}
	for _, w := range f.enrolled.Waiting(now) {
		p := view.Pending{Node: w.Node, State: PendingWaiting, Batch: w.Batch, Key: w.Key, From: w.From, First: w.First,
			Last: w.Last}
		if w.Rival != nil {
			p.Rival = &view.Rival{Key: w.Rival.Key, Batch: w.Rival.Batch, From: w.Rival.From, Last: w.Rival.Last}
		}
		all = append(all, p)
	}
	for _, b := range f.enrolled.Batches() {
		if b.Over(now) {
			continue
		}
		for _, a := range b.Approved {
			all = append(all, view.Pending{Node: a.Node, State: PendingApproved, Batch: b.Name, Key: a.Key,
				From: a.From, Approved: a.At, By: a.Who})
		}
	}
	slices.SortStableFunc(all, func(a, b view.Pending) int { return strings.Compare(a.Node, b.Node) })
	return all
}

// OpenBatches returns the names of the batches by which somebody can join, if the clock lets them, sorted.
func (f *Fleet) OpenBatches() (names []string) {
	for _, b := range f.enrolled.Batches() {
		if !b.Closed() {
			names = append(names, b.Name)
		}
	}
	return names
}
