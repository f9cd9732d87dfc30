package main

import (
	"errors"
	"fmt"
)

// The floor's messages.
const (
	documentSize = 1024
	statusSize   = 200
)

// applySection measures against two floors: the lean one, which shares nothing with the product but bbolt, and the
// embedded broker with bare clients, which shows what the controller adds to its own broker.
func applySection(b *session) error {
	for _, t := range b.transport {
		for _, n := range b.sizes {
			if err := b.applySize(t, n); err != nil {
				return fmt.Errorf("%s, %d nodes: %w", t, n, err)
			}
		}
	}
	return nil
}

// sides are what one size of apply is measured with.
type applySides struct{ lean, floor, product *side }

func (b *session) applySize(transport string, n int) (err error) {
	listen := "127.0.0.1:0"
	if transport == "pipe" {
		listen = "pipe"
	}
	var s applySides
	for _, at := range []struct {
		side *(*side)
		role string
		echo int
	}{{&s.lean, "lean", statusSize}, {&s.floor, "floor", statusSize}, {&s.product, "product", 0}} {
		cfg := hostConfig{Role: at.role, Durable: at.role != "product", Listen: listen}
		if *at.side, err = b.side(cfg, n, at.echo); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, (*at.side).close()) }()
	}
	t := map[string][]float64{}
	for i := range b.pairs + 1 { // the first round is not counted: it fills caches and files
		if b.profile != "" && i == 1 {
			if err := s.product.startProfiles(b.profile, fmt.Sprintf("apply-%s-%d", transport, n)); err != nil {
				return err
			}
		}
		if err := s.round(i, t); err != nil {
			return err
		}
	}
	if b.profile != "" {
		if err := s.product.stopProfiles(); err != nil {
			return err
		}
	}
	if err := s.product.host.do("verify", nil, nil); err != nil {
		return err
	}
	for what, all := range t {
		t[what] = all[1:]
	}
	b.applyFigures(s, t, transport, n)
	return b.mochi(listen, transport, n)
}

// What one round of apply times.
const (
	leanDocument  = "lean floor: document down, status up and durable"
	leanRequest   = "lean floor: request down, reply up"
	floorDocument = "floor: document down, status up and durable"
	floorRequest  = "floor: request down, reply up, nothing kept"
	applyOffline  = "product: apply, nodes not asked first"
	applyChecked  = "product: apply, nodes asked first"
)

// round times each side once, in an order that changes with i, and adds the seconds to t.
func (s applySides) round(i int, t map[string][]float64) error {
	bare := func(side *side, document, request string) func() error {
		return func() error {
			d, err := side.timed("publish", burst{Nodes: side.n, Size: documentSize})
			if err != nil {
				return err
			}
			q, err := side.timed("publish", burst{Nodes: side.n, Size: documentSize, Request: true})
			t[document], t[request] = append(t[document], d), append(t[request], q)
			return err
		}
	}
	all := []func() error{
		bare(s.lean, leanDocument, leanRequest),
		bare(s.floor, floorDocument, floorRequest),
		func() error {
			off, err := s.product.apply(true)
			if err != nil {
				return err
			}
			asked, err := s.product.apply(false)
			t[applyOffline], t[applyChecked] = append(t[applyOffline], off), append(t[applyChecked], asked)
			return err
		},
	}
	for k := range all {
		if err := all[(i+k)%len(all)](); err != nil {
			return err
		}
	}
	return nil
}

func (b *session) applyFigures(s applySides, t map[string][]float64, transport string, n int) {
	at := fmt.Sprintf(", %d nodes, %s", n, transport)
	add := func(name, unit string, samples []float64) figure {
		return figure{Section: "apply", Name: name + at, Unit: unit, Samples: samples}
	}
	for _, what := range []string{leanDocument, leanRequest, floorDocument, floorRequest, applyOffline, applyChecked} {
		b.add(add(what, "s", t[what]))
	}
	b.add(add("apply over one lean round trip", "×", ratios(t[applyOffline], t[leanDocument])).most(1.3))
	b.add(add("apply with check over two lean round trips", "×",
		ratios(t[applyChecked], sums(t[leanDocument], t[leanRequest]))).most(1.3))
	b.add(add("apply over one floor round trip", "×", ratios(t[applyOffline], t[floorDocument])).most(1.3))
	b.add(add("apply with check over two floor round trips", "×",
		ratios(t[applyChecked], sums(t[floorDocument], t[floorRequest]))).most(1.3))
	if transport != "tcp" { // in one process they cannot be told apart
		return
	}
	for _, who := range []struct {
		side  *side
		names [2]string
	}{
		{s.lean, [2]string{"lean floor: %s, document", "lean floor: %s, request"}},
		{s.floor, [2]string{"floor: %s, document", "floor: %s, request"}},
		{s.product, [2]string{"product: %s, apply, not asked first", "product: %s, apply, asked first"}},
	} {
		for i, name := range who.names {
			u := who.side.usedBy(i, 1)
			b.add(add(fmt.Sprintf(name, "processor time of the host"), "µs/node", u.host))
			b.add(add(fmt.Sprintf(name, "processor time of the nodes"), "µs/node", u.nodes))
			b.add(add(fmt.Sprintf(name, "allocations of the host"), "/node", u.allocations))
			b.add(add(fmt.Sprintf(name, "allocated by the host"), "B/node", u.bytes))
			b.add(add(fmt.Sprintf(name, "commits of the host"), "", u.commits))
		}
	}
}

// sums adds pair by pair.
func sums(a, b []float64) []float64 {
	all := make([]float64, len(a))
	for i := range all {
		all[i] = a[i] + b[i]
	}
	return all
}

// mochi shows what the embedded broker adds to the MQTT server that it is made of.
func (b *session) mochi(listen, transport string, n int) (err error) {
	s, err := b.side(hostConfig{Role: "floor", Mochi: true, Durable: true, Listen: listen}, n, statusSize)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	var all []float64
	for i := range b.pairs + 1 {
		t, err := s.timed("publish", burst{Nodes: n, Size: documentSize})
		if err != nil {
			return err
		}
		if i > 0 {
			all = append(all, t)
		}
	}
	b.add(figure{Section: "apply", Name: fmt.Sprintf("for reference: the floor on bare mochi, "+
		"%d nodes, %s", n, transport), Unit: "s", Samples: all})
	return nil
}
