package fleet

import (
	"container/heap"
	"time"
)

// agenda is a heap of the nodes that something is due for, soonest first.
type agenda []*Node

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	if a[i].due.Equal(a[j].due) {
		return a[i].Name < a[j].Name // the order of equal times is not left to chance
	}
	return a[i].due.Before(a[j].due)
}
func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = i, j
}

// Push and Pop are for package heap.
func (a *agenda) Push(x any) {
	n := x.(*Node)
	n.index = len(*a)
	*a = append(*a, n)
}
func (a *agenda) Pop() any {
	old := *a
	n := old[len(old)-1]
	old[len(old)-1] = nil
	*a = old[:len(old)-1]
	n.index = -1
	return n
}

func (a *agenda) set(n *Node, due time.Time) {
	n.due = due
	if n.index >= 0 {
		heap.Fix(a, n.index)
	} else {
		heap.Push(a, n)
	}
}

func (a *agenda) remove(n *Node) {
	if n.index >= 0 {
		heap.Remove(a, n.index)
	}
}
