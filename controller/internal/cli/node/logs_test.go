package node

import (
	"errors"
	"io"
	"strings"
	"testing"

	"tandem.internal/controller/internal/cli/command"
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

// What -f waits for is said once, however long it lasts, and again when it has become something else or had gone.
func TestWaitingIsNotRepeated(t *testing.T) {
	var errs strings.Builder
	a := command.New(command.IO{Out: io.Discard, Err: &errs, Env: func(string) (string, bool) { return "", false }})
	var w waiting
	away, offline := errors.New("nobody listens"), errors.New("offline")
	for _, err := range []error{away, away, away, offline, offline} {
		w.on(a, err)
	}
	w = waiting{}
	w.on(a, offline)
	if got := errs.String(); strings.Count(got, "nobody listens") != 1 || strings.Count(got, "offline") != 2 {
		t.Error(got)
	}
}
