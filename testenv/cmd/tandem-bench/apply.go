package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// side is a host and the nodes that talk to it.
type side struct {
	host  *host
	nodes *host
	n     int
	next  int  // of the product's versions
	echo  bool // bare clients
	kept  bool // every node has a document retained

	used []use // by each timed operation
}

// use is what one operation used.
type use struct {
	cpu         [2]int64  // of host and nodes, nanoseconds
	allocations [2]uint64 // of the host: how many, and their bytes
}

func (u use) minus(v use) use {
	for i := range u.cpu {
		u.cpu[i] -= v.cpu[i]
		u.allocations[i] -= v.allocations[i]
	}
	return u
}

// perNode are the uses of an operation, by node; processor time in µs.
type perNode struct{ host, nodes, allocations, bytes []float64 }

// usedBy returns what the operations with index which of every round of two used, without the first round's.
func (s *side) usedBy(which int) (p perNode) {
	for i := which + 2; i < len(s.used); i += 2 {
		p.add(s.used[i], s.n)
	}
	return p
}

func (p *perNode) add(u use, n int) {
	p.host = append(p.host, float64(u.cpu[0])/1e3/float64(n))
	p.nodes = append(p.nodes, float64(u.cpu[1])/1e3/float64(n))
	p.allocations = append(p.allocations, float64(u.allocations[0])/float64(n))
	p.bytes = append(p.bytes, float64(u.allocations[1])/float64(n))
}

// side starts a host and n nodes, bare clients if echo is not 0, and connects them.
func (b *session) side(cfg hostConfig, n, echo int) (*side, error) {
	var err error
	if cfg.Dir, err = b.folder(); err != nil {
		return nil, err
	}
	h, err := start(cfg)
	if err != nil {
		return nil, err
	}
	s, err := crew(h, n, echo)
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	if err := s.online(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// crew makes the nodes for a host.
func crew(h *host, n, echo int) (s *side, err error) {
	s = &side{host: h, n: n, echo: echo > 0}
	cfg := hostConfig{Role: "nodes", Nodes: n, Echo: echo, Connect: h.at}
	if h.pipe != nil {
		s.nodes, err = inside(cfg, h.pipe)
	} else {
		s.nodes, err = start(cfg)
	}
	return s, err
}

// online connects every node and waits until all they said was acknowledged; bare clients also
// greet a document that is retained for them like a new one.
func (s *side) online() error {
	for _, step := range []struct {
		op   string
		args any
		skip bool
	}{{"expect", s.n, false}, {"start", 0, false}, {"online", s.n, false}, {"await", 0, !s.kept || !s.echo}} {
		if step.skip {
			continue
		}
		if err := s.nodes.do(step.op, step.args, nil); err != nil {
			return err
		}
	}
	return nil
}

// away breaks every connection and waits until the controller knows, if there is one.
func (s *side) away(product bool) error {
	if err := s.nodes.do("drop", 0, nil); err != nil {
		return err
	}
	if err := s.nodes.do("online", 0, nil); err != nil || !product {
		return err
	}
	return s.wait(func(v *fleetView) bool { return v.Online == 0 })
}

// until looks at the controller's view until it is as wanted.
func (s *side) until(ctx context.Context, ok func(*fleetView) bool) error {
	var v fleetView
	for {
		if err := s.host.do("view", nil, &v); err != nil {
			return err
		}
		if ok(&v) {
			return nil
		}
		if !pause(ctx, viewEvery) {
			return fmt.Errorf("the controller's view is %+v after %v: %w", v, patience, ctx.Err())
		}
	}
}

// wait is until with patience.
func (s *side) wait(ok func(*fleetView) bool) error {
	ctx, cancel := patient()
	defer cancel()
	return s.until(ctx, ok)
}

// viewEvery is how often the controller is asked: it is busy while it answers.
const viewEvery = 20 * time.Millisecond

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *side) close() error { return errors.Join(s.nodes.close(), s.host.close()) }

// timed runs one operation on the host and returns the seconds until all nodes have their status
// acknowledged, which both hosts do when it is durable.
func (s *side) timed(op string, args any) (float64, error) {
	if err := s.nodes.do("expect", s.n, nil); err != nil {
		return 0, err
	}
	before, err := s.usage()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := s.host.do(op, args, nil); err != nil {
		return 0, err
	}
	s.kept = true
	t, err := s.since(began)
	if err != nil {
		return 0, err
	}
	after, err := s.usage()
	s.used = append(s.used, after.minus(before))
	return t, err
}

// usage is what host and nodes have used so far.
func (s *side) usage() (u use, err error) {
	return u, errors.Join(s.host.do("allocations", nil, &u.allocations), s.host.do("cpu", nil, &u.cpu[0]),
		s.nodes.do("cpu", 0, &u.cpu[1]))
}

// startProfiles begins a profile of the host and one of the nodes; stopProfiles ends them.
func (s *side) startProfiles(dir, name string) error {
	return errors.Join(s.host.do("profile", filepath.Join(dir, name+".cpu"), nil),
		s.nodes.do("profile", filepath.Join(dir, "nodes-"+name+".cpu"), nil))
}

func (s *side) stopProfiles() error {
	return errors.Join(s.host.do("profile", "", nil), s.nodes.do("profile", "", nil))
}

// since waits for the statuses that are expected and returns the seconds until then.
func (s *side) since(began time.Time) (float64, error) {
	var at int64
	err := s.nodes.do("await", 0, &at)
	return time.Duration(at - began.UnixNano()).Seconds(), err
}

func (s *side) stats() (st nodeStats, err error) {
	err = s.nodes.do("stats", 0, &st)
	return st, err
}

// apply submits the next version and makes sure that the controller's view is complete after it.
func (s *side) apply(offline bool) (float64, error) {
	s.next++
	t, err := s.timed("submit", submission{fmt.Sprintf("1.0.%d", s.next), offline})
	if err != nil {
		return 0, err
	}
	return t, s.complete()
}

// complete makes sure that the controller knows every node to run what it should.
func (s *side) complete() error {
	var v fleetView
	if err := s.host.do("view", nil, &v); err != nil {
		return err
	}
	st, err := s.stats()
	if err == nil && (v.Installed != s.n || v.Online != s.n || st.Refused != 0) {
		err = fmt.Errorf("the controller's view is %+v, the nodes' %+v", v, st)
	}
	return err
}

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
			u := who.side.usedBy(i)
			b.add(add(fmt.Sprintf(name, "processor time of the host"), "µs/node", u.host))
			b.add(add(fmt.Sprintf(name, "processor time of the nodes"), "µs/node", u.nodes))
			b.add(add(fmt.Sprintf(name, "allocations of the host"), "/node", u.allocations))
			b.add(add(fmt.Sprintf(name, "allocated by the host"), "B/node", u.bytes))
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
