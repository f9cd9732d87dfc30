package kind

import (
	"cmp"
	"fmt"
	"slices"

	"tandem.internal/controller/internal/view"
)

// MaxNamed bounds the nodes that a verdict or a status names in one list: verdicts are kept for ever.
const MaxNamed = 200

// Clip shortens a list to n and returns how many were left out.
func Clip[T any](list *[]T, n int) int {
	over := max(0, len(*list)-n)
	*list = (*list)[:len(*list)-over]
	return over
}

// maxMissing bounds the slots and components that are named in a SlotProgress.
const maxMissing = 100

// ClipMissing puts what is missing on nodes that are online first, by node, and shortens it.
func ClipMissing(p *view.SlotProgress) {
	slices.SortStableFunc(p.Missing, func(a, b view.Slot) int {
		if a.Online != b.Online {
			if a.Online {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Node, b.Node)
	})
	p.Omitted = Clip(&p.Missing, maxMissing)
}

// Many is "1 node", "2 nodes".
func Many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
