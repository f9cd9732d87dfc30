package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// memorySection measures the controller's process with all nodes connected and idle, each with a
// document; the nodes are another process. What an empty controller takes is counted, too.
func memorySection(b *session) (err error) {
	s, err := b.side(hostConfig{Role: "product", Listen: "127.0.0.1:0"}, b.large, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for range 2 {
		if _, err := s.apply(true); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	pause(ctx, time.Second) // stacks shrink over a few collections
	var m memoryUse
	for range 3 {
		if err := s.host.do("memory", nil, &m); err != nil {
			return err
		}
	}
	if b.profile != "" {
		if err := s.host.do("heap", filepath.Join(b.profile, "memory.heap"), nil); err != nil {
			return err
		}
	}
	at, per := fmt.Sprintf("%d idle nodes", b.large),
		func(n uint64) float64 { return float64(n) / 1000 / float64(b.large) }
	b.add(figure{Section: "memory", Name: "controller's heap in use, " + at, Unit: "KB/node", Value: per(m.Heap)})
	b.add(figure{Section: "memory", Name: "controller's stacks in use, " + at, Unit: "KB/node", Value: per(m.Stack)})
	b.add(figure{Section: "memory", Name: "controller's heap and stacks, " + at, Unit: "KB/node",
		Value: per(m.Heap + m.Stack)}.most(45))
	b.add(figure{Section: "memory", Name: "controller's resident set, journal's " +
		"pages included, " + at, Unit: "KB/node", Value: per(m.RSS)})
	return nil
}
