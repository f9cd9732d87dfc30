package node

import (
	"testing"
)

func TestLastLines(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"", 1, ""}, {"a", 1, "a"}, {"a\n", 1, "a\n"}, {"a\nb\nc\n", 2, "b\nc\n"}, {"a\nb\nc", 2, "b\nc"},
		{"a\nb\n", 5, "a\nb\n"}, {"\n\n\n", 2, "\n\n"},
	} {
		if got := string(lastLines([]byte(c.text), c.n)); got != c.want {
			t.Errorf("%d of %q: %q, want %q", c.n, c.text, got, c.want)
		}
	}
}
