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

	used     []use   // by each timed operation
	answered float64 // seconds until the host was done with the newest one; the nodes may not be
}

// use is what one operation used.
type use struct {
	cpu         [2]int64  // of host and nodes, nanoseconds
	allocations [2]uint64 // of the host: how many, and their bytes
	commits     int64     // of the host
}

func (u use) minus(v use) use {
	for i := range u.cpu {
		u.cpu[i] -= v.cpu[i]
		u.allocations[i] -= v.allocations[i]
	}
	u.commits -= v.commits
	return u
}

// mean is what one of some operations used.
func mean(all []use) (u use) {
	for _, one := range all {
		for i := range u.cpu {
			u.cpu[i] += one.cpu[i]
			u.allocations[i] += one.allocations[i]
		}
		u.commits += one.commits
	}
	n := len(all)
	for i := range u.cpu {
		u.cpu[i] /= int64(n)
		u.allocations[i] /= uint64(n)
	}
	u.commits /= int64(n)
	return u
}

// perNode are the uses of an operation, by node but for the commits; processor time in µs.
type perNode struct{ host, nodes, allocations, bytes, commits []float64 }

// usedBy returns what the operations with index which of every round of two used, without the first round's. Each is
// done so many times in turn, and counts once, as the mean of them.
func (s *side) usedBy(which, times int) (p perNode) {
	for i := (which + 2) * times; i < len(s.used); i += 2 * times {
		p.add(mean(s.used[i:i+times]), s.n)
	}
	return p
}

func (p *perNode) add(u use, n int) {
	p.host = append(p.host, float64(u.cpu[0])/1e3/float64(n))
	p.nodes = append(p.nodes, float64(u.cpu[1])/1e3/float64(n))
	p.allocations = append(p.allocations, float64(u.allocations[0])/float64(n))
	p.bytes = append(p.bytes, float64(u.allocations[1])/float64(n))
	p.commits = append(p.commits, float64(u.commits))
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
	if h.cfg.Role == "nats" {
		cfg.Role = "natsnodes"
	}
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
	s.answered = time.Since(began).Seconds()
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
		s.host.do("commits", nil, &u.commits),
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
