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

	used [2][]float64 // processor time of each timed operation, µs a node: host, nodes
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
	before, err := s.cpu()
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
	after, err := s.cpu()
	for i := range after {
		s.used[i] = append(s.used[i], float64(after[i]-before[i])/1e3/float64(s.n))
	}
	return t, err
}

// cpu is the processor time that host and nodes have used, nanoseconds.
func (s *side) cpu() (t [2]int64, err error) {
	return t, errors.Join(s.host.do("cpu", nil, &t[0]), s.nodes.do("cpu", 0, &t[1]))
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

func (b *session) applySize(transport string, n int) (err error) {
	listen := "127.0.0.1:0"
	if transport == "pipe" {
		listen = "pipe"
	}
	floor, err := b.side(hostConfig{Role: "floor", Durable: true, Listen: listen}, n, statusSize)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, floor.close()) }()
	product, err := b.side(hostConfig{Role: "product", Listen: listen}, n, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, product.close()) }()
	var docs, checks, offline, whole []float64
	for i := range b.pairs + 1 { // the first round is not counted: it fills caches and files
		doc, err := floor.timed("publish", burst{Nodes: n, Size: documentSize})
		if err != nil {
			return err
		}
		check, err := floor.timed("publish", burst{Nodes: n, Size: documentSize, Request: true})
		if err != nil {
			return err
		}
		if b.profile != "" && i == 1 {
			if err := product.nodes.do("profile",
				filepath.Join(b.profile, fmt.Sprintf("nodes-%s-%d.cpu", transport, n)), nil); err != nil {
				return err
			}
			if err := product.host.do("profile", filepath.Join(b.profile, fmt.Sprintf("apply-%s-%d.cpu", transport, n)),
				nil); err != nil {
				return err
			}
		}
		off, err := product.apply(true)
		if err != nil {
			return err
		}
		all, err := product.apply(false)
		if err != nil {
			return err
		}
		if i > 0 {
			docs, checks, offline, whole = append(docs, doc), append(checks, check), append(offline, off),
				append(whole, all)
		}
	}
	if b.profile != "" {
		if err := errors.Join(product.host.do("profile", "", nil), product.nodes.do("profile", "", nil)); err != nil {
			return err
		}
	}
	if err := product.host.do("verify", nil, nil); err != nil {
		return err
	}
	two := make([]float64, len(docs))
	for i := range two {
		two[i] = docs[i] + checks[i]
	}
	at := fmt.Sprintf("%d nodes, %s", n, transport)
	b.add(figure{Section: "apply", Name: "floor: document down, status up " +
		"and durable, " + at, Unit: "s", Samples: docs})
	b.add(figure{Section: "apply", Name: "floor: request down, reply up, " +
		"nothing kept, " + at, Unit: "s", Samples: checks})
	b.add(figure{Section: "apply", Name: "product: apply, nodes not asked first, " + at, Unit: "s", Samples: offline})
	b.add(figure{Section: "apply", Name: "product: apply, nodes asked first, " + at, Unit: "s", Samples: whole})
	b.add(figure{Section: "apply", Name: "apply over one floor round trip, " + at, Unit: "×",
		Samples: ratios(offline, docs)}.most(1.3))
	b.add(figure{Section: "apply", Name: "apply with check over two floor " +
		"round trips, " + at, Unit: "×", Samples: ratios(whole, two)}.most(1.3))
	if transport == "tcp" { // in one process they cannot be told apart
		every := func(s *side, from int) (host, nodes []float64) {
			for i := from + 2; i < len(s.used[0]); i += 2 {
				host, nodes = append(host, s.used[0][i]), append(nodes, s.used[1][i])
			}
			return host, nodes
		}
		for i, what := range []string{"document", "request", "apply, not asked first", "apply, asked first"} {
			s, name := floor, "floor"
			if i >= 2 {
				s, name = product, "product"
			}
			host, nodes := every(s, i%2)
			b.add(figure{Section: "apply", Name: fmt.Sprintf("%s: processor time of the "+
				"host, %s, %s", name, what, at), Unit: "µs/node", Samples: host})
			b.add(figure{Section: "apply", Name: fmt.Sprintf("%s: processor time of the "+
				"nodes, %s, %s", name, what, at), Unit: "µs/node", Samples: nodes})
		}
	}
	return b.mochi(listen, transport, n)
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
