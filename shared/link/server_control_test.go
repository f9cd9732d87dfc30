package link_test

import (
	"maps"
	"slices"
	"strings"
	"time"

	"tandem.internal/shared/link"
	"tandem.internal/shared/link/linktest"
)

func (s *server) peer(id string) *peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peers[id]
}

func (s *server) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// The methods below are those of linktest.Rig.

func (s *server) Link(o linktest.Options, h link.Handler) link.Link {
	l, err := link.Dial(link.Config{
		ClientID: o.ID, OpenConn: s.open(o.ID), Filters: o.Filters, Will: o.Will, Goodbye: o.Goodbye,
		Window: o.Window, Backoff: s.backoff,
	}, h)
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

func (s *server) Publish(topic string, payload []byte, retain bool) error {
	s.route(topic, payload, retain)
	return nil
}

func (s *server) Retained(topic string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.retained[topic]
	return p, ok
}

func (s *server) Cut(id string) {
	if p := s.peer(id); p != nil {
		p.end(true)
	}
}

func (s *server) Partition(id string) {
	s.set(func() { s.apart[id] = true })
	s.Cut(id)
}

func (s *server) Heal(id string)       { s.set(func() { delete(s.apart, id) }) }
func (s *server) Refuse(filter string) { s.set(func() { s.refused[filter] = true }) }
func (s *server) Freeze(id string)     { s.set(func() { s.frozen[id] = true }) }

func (s *server) Thaw(id string) {
	s.set(func() {
		delete(s.frozen, id)
		close(s.thawed)
		s.thawed = make(chan struct{})
	})
}

func (s *server) Wipe() {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.peers))
	s.mu.Unlock()
	for _, p := range all {
		p.end(false)
	}
	s.set(func() { clear(s.retained) })
}

// Close waits for the goroutines of all connections; the links must have been stopped.
func (s *server) Close() {
	done := make(chan struct{})
	go func() { s.wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		s.mu.Lock()
		ids := slices.Collect(maps.Keys(s.peers))
		s.mu.Unlock()
		s.t.Errorf("connections left open: %s", strings.Join(ids, ", "))
	}
}
