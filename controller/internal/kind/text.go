package kind

import "fmt"

// MaxNamed bounds the nodes that a verdict or a status names in one list: verdicts are kept for ever.
const MaxNamed = 200

// Clip shortens a list to n and returns how many were left out.
func Clip[T any](list *[]T, n int) int {
	over := max(0, len(*list)-n)
	*list = (*list)[:len(*list)-over]
	return over
}

// Many is "1 node", "2 nodes".
func Many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
