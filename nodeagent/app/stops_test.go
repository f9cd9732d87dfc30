package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// Parts end in the reverse order of their start, each under its name and within its bound, whatever the others say.
func TestStopsLastFirst(t *testing.T) {
	var trace []string
	say := func(format string, a ...any) { trace = append(trace, fmt.Sprintf(format, a...)) }
	s := stops{watch: func(name string, within time.Duration) (beat, end func()) {
		say("%s within %v", name, within)
		return func() {}, func() { say("done") }
	}}
	bad := errors.New("disk full")
	s.add("first", time.Second, func() error { say("first ends"); return bad })
	started := make(chan struct{})
	s.start("second", time.Minute, func(ctx context.Context) {
		close(started)
		<-ctx.Done()
		say("second ends")
	}, func(ctx context.Context) { <-ctx.Done() })
	s.add("third", time.Hour, func() error { say("third ends"); return nil })
	<-started
	if err := s.end(); !errors.Is(err, bad) {
		t.Errorf("%v", err)
	}
	want := []string{"stop: third within 1h0m0s", "third ends", "done", "stop: second within 1m0s", "second ends",
		"done",
		"stop: first within 1s", "first ends", "done"}
	if !slices.Equal(trace, want) {
		t.Errorf("%q, want %q", trace, want)
	}
	if err := s.end(); err != nil || len(trace) != len(want) {
		t.Errorf("ended again: %v, %q", err, trace)
	}
}
