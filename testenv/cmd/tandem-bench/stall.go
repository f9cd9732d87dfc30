package main

import (
	"errors"
	"fmt"
	"time"
)

// stallSection compares how long the nodes wait for their document and its acknowledgement while
// all read, and while one does not: over the in-memory connection, which holds no byte for it.
func stallSection(b *session) (err error) {
	n, rounds := min(1000, b.large), 10
	s, err := b.side(hostConfig{Role: "product", Listen: "pipe"}, n, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	const stalled = 0
	var with, without []float64
	round := func(into *[]float64, expect int) error {
		if err := s.nodes.do("expect", expect, nil); err != nil {
			return err
		}
		began := time.Now().UnixNano()
		s.next++
		if err := s.host.do("submit", submission{fmt.Sprintf("1.0.%d", s.next), true}, nil); err != nil {
			return err
		}
		if err := s.nodes.do("await", 0, nil); err != nil {
			return err
		}
		at := []int64{}
		if err := s.nodes.do("acked", n, &at); err != nil {
			return err
		}
		for i, t := range at {
			if i != stalled && into != nil {
				*into = append(*into, float64(t-began)/1e6)
			}
		}
		return nil
	}
	if err := round(nil, n); err != nil {
		return err
	}
	for range 2 {
		for range rounds {
			if err := round(&without, n); err != nil {
				return err
			}
		}
		before, err := s.stats()
		if err != nil {
			return err
		}
		if err := s.nodes.do("stall", stalled, nil); err != nil {
			return err
		}
		for range rounds {
			if err := round(&with, n-1); err != nil {
				return err
			}
		}
		after, err := s.stats()
		if err != nil {
			return err
		}
		if after.Disconnects != before.Disconnects {
			return errors.New("the stalled node was cut before the measurement was over: too slow a machine for this " +
				"many rounds")
		}
		// Documents were not waited for by anybody else; now it takes its newest one.
		if err := s.nodes.do("resume", 0, nil); err != nil {
			return err
		}
		if err = s.wait(func(v *fleetView) bool { return v.Installed == n }); err != nil {
			return err
		}
	}
	p50, p99 := percentile(without, 0.5), percentile(without, 0.99)
	q50, q99 := percentile(with, 0.5), percentile(with, 0.99)
	b.add(figure{Section: "stall", Name: "status journaled, all nodes read, median", Unit: "ms", Value: p50})
	b.add(figure{Section: "stall", Name: "status journaled, all nodes read, p99", Unit: "ms", Value: p99})
	b.add(figure{Section: "stall", Name: "status journaled, one node stalls, the " +
		"others' median", Unit: "ms", Value: q50})
	b.add(figure{Section: "stall", Name: "status journaled, one node stalls, the others' p99", Unit: "ms", Value: q99})
	f := figure{Section: "stall", Name: "p99 of the others, with over without", Unit: "×", Value: q99 / p99}.most(1.3)
	f.Note = "unchanged but for this machine's noise; a stall that is felt would be seconds"
	b.add(f)
	return nil
}
