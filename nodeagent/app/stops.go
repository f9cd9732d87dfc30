package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"tandem.internal/shared/pulse"
)

// What one stop takes at most; the watchdog names the one that takes longer, and ends the agent in the end.
const (
	stopTime     = 10 * time.Second
	stopTimeDisk = 30 * time.Second // where a disk or a command may have to be waited for
)

// stops are what ends the parts of a run, in the order in which the parts began. They are ended in the reverse order,
// so that nobody loses what it still needs.
type stops struct {
	list  []stop
	watch pulse.Watch
}

type stop struct {
	name   string
	within time.Duration
	end    func() error // returns when the part has ended
}

// add says how the part that begins now is ended.
func (s *stops) add(name string, within time.Duration, end func() error) {
	s.list = append(s.list, stop{name, within, end})
}

// start runs a part of the agent on goroutines of its own, one for each function, until it is its turn to stop.
func (s *stops) start(name string, within time.Duration, parts ...func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range parts {
		running.Go(func() { run(ctx) })
	}
	s.add(name, within, func() error {
		cancel()
		running.Wait()
		return nil
	})
}

// end ends everything, the newest part first.
func (s *stops) end() error {
	var errs []error
	for i := len(s.list) - 1; i >= 0; i-- {
		_, done := s.watch("stop: "+s.list[i].name, s.list[i].within)
		errs = append(errs, s.list[i].end())
		done()
	}
	s.list = nil
	return errors.Join(errs...)
}
