package main

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// A document and a report as the product sends them, for bare clients to send as much.
const (
	envelopeSize = 1800
	reportSize   = 480
)

// stormSection lets every node leave, publishes a new document for each, and lets all come back
// at once. The floor is the embedded broker with bare clients that send the same messages: their
// will, live, info, config report, and the report on the document, for which there is one group
// commit before its PUBACK. For reference also the same with nothing durable, which the product
// cannot do.
func stormSection(b *session) (err error) {
	floor, bare, product := &storm{name: "floor"}, &storm{name: "bare"}, &storm{name: "product"}
	secure := &storm{name: "product with mutual TLS"}
	all := []*storm{floor, bare, product, secure}
	for _, s := range all {
		cfg, echo := hostConfig{Role: "floor", Durable: s == floor, Listen: "127.0.0.1:0"}, reportSize
		if s == product {
			cfg, echo = hostConfig{Role: "product", Listen: "127.0.0.1:0"}, 0
		}
		if s == secure {
			s.side, err = b.secure(b.large, false)
		} else {
			s.side, err = b.side(cfg, b.large, echo)
		}
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.close()) }()
	}
	lost := [2]int{}
	for i := range max(3, b.pairs) {
		for k := range all { // in turn, so that none always follows the same other
			if err := all[(i+k)%len(all)].round(b.profile); err != nil {
				return err
			}
		}
		for k, s := range []*storm{product, secure} {
			var v fleetView
			if err := s.host.do("view", nil, &v); err != nil {
				return err
			}
			lost[k] += b.large - v.Installed
		}
	}
	b.stormFigures(floor, bare, product, secure, lost)
	return nil
}

// stormFigures are the figures of all sides; lost are the statuses that the product lost, without and with TLS.
func (b *session) stormFigures(floor, bare, product, secure *storm, lost [2]int) {
	at := fmt.Sprintf("%d nodes", b.large)
	b.add(figure{Section: "storm", Name: "floor: reconnect, every status in " +
		"and durable, " + at, Unit: "s", Samples: floor.times})
	b.add(figure{Section: "storm", Name: "bare: the same with nothing durable, " + at, Unit: "s", Samples: bare.times})
	b.add(figure{Section: "storm", Name: "product: reconnect, every status " +
		"journaled, " + at, Unit: "s", Samples: product.times})
	b.add(figure{Section: "storm", Name: "reconnect storm over the floor, " + at, Unit: "×",
		Samples: ratios(product.times, floor.times)}.most(1.3))
	b.add(figure{Section: "storm", Name: "reconnect storm over bare " +
		"without commits, " + at, Unit: "×", Samples: ratios(product.times, bare.times)})
	b.add(figure{Section: "storm", Name: "product with mutual TLS: reconnect, every status journaled, " + at,
		Unit: "s", Samples: secure.times})
	b.add(figure{Section: "storm", Name: "reconnect storm with mutual TLS over the same without, " + at, Unit: "×",
		Samples: ratios(secure.times, product.times)})
	b.add(figure{Section: "storm", Name: "statuses lost, " + at, Unit: "", Value: float64(lost[0])}.most(0))
	b.add(figure{Section: "storm", Name: "statuses lost with mutual TLS, " + at, Unit: "",
		Value: float64(lost[1])}.most(0))
	for _, s := range []*storm{floor, bare, product, secure} {
		var p perNode
		for _, u := range s.used {
			p.add(u, s.n)
		}
		for _, who := range []struct {
			name    string
			samples []float64
		}{{"host", p.host}, {"nodes", p.nodes}} {
			b.add(figure{Section: "storm", Name: fmt.Sprintf("%s: processor time of the %s, %s", s.name, who.name, at),
				Unit: "µs/node", Samples: who.samples})
		}
	}
}

// storm is one side of the storm and what it took.
type storm struct {
	*side
	name  string
	times []float64
}

// round is one storm; with a directory, profiles of the host and of the nodes go there.
func (s *storm) round(profiles string) (err error) {
	if err := s.away(!s.echo); err != nil {
		return err
	}
	if s.echo {
		err = s.host.do("publish", burst{Nodes: s.n, Size: envelopeSize}, nil)
	} else {
		s.next++
		err = s.host.do("submit", submission{fmt.Sprintf("1.0.%d", s.next), true}, nil)
		if err == nil {
			err = s.host.do("flush", nil, nil) // the documents shall be waiting, as they are at the other hosts
		}
	}
	if err != nil {
		return err
	}
	if profiles != "" {
		if err := s.startProfiles(profiles, fmt.Sprintf("storm-%s-%d",
			strings.ReplaceAll(s.name, " ", "-"), len(s.times))); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.stopProfiles()) }()
	}
	before, err := s.usage()
	if err != nil {
		return err
	}
	t, err := s.comeBack()
	if err != nil {
		return err
	}
	after, err := s.usage()
	s.used = append(s.used, after.minus(before))
	s.times = append(s.times, t)
	return err
}

// comeBack lets all nodes connect and returns the seconds until each has its new document and
// its report on it is acknowledged.
func (s *side) comeBack() (float64, error) {
	if err := s.nodes.do("expect", s.n, nil); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := s.nodes.do("start", 0, nil); err != nil {
		return 0, err
	}
	t, err := s.since(began)
	if err != nil {
		return 0, err
	}
	return t, s.nodes.do("online", s.n, nil)
}

// restartSection kills the controller's process and starts another on its state directory. The
// nodes notice by themselves and come back with the agent's back-off.
func restartSection(b *session) (err error) {
	s, err := b.side(hostConfig{Role: "product", Listen: "127.0.0.1:0"}, b.large, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if _, err := s.apply(true); err != nil {
		return err
	}
	var all, ready []float64
	for range 3 {
		up, complete, err := s.restarted()
		if err != nil {
			return err
		}
		ready, all = append(ready, up), append(all, complete)
	}
	at := fmt.Sprintf("%d nodes", b.large)
	b.add(figure{Section: "restart", Name: "journal replayed and broker open, " + at, Unit: "s", Samples: ready})
	b.add(figure{Section: "restart", Name: "controller killed: until its view " +
		"is complete, " + at, Unit: "s", Samples: all}.most(5))
	return nil
}
