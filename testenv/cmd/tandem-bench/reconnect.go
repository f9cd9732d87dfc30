package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// A document and a report as the product sends them, for bare clients to send as much.
const (
	envelopeSize = 1800
	reportSize   = 480
)

// stormSection lets every node leave, publishes a new document for each, and lets all come back
// at once. Bare is the embedded broker with bare clients that send the same messages: their will,
// live, info, config report and the report on the document; nothing is durable there. For
// reference the same with a group commit before each PUBACK, which the product cannot do without.
func stormSection(b *session) (err error) {
	bare, err := b.side(hostConfig{Role: "floor", Listen: "127.0.0.1:0"}, b.large, reportSize)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.close()) }()
	durable, err := b.side(hostConfig{Role: "floor", Durable: true, Listen: "127.0.0.1:0"}, b.large, reportSize)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, durable.close()) }()
	product, err := b.side(hostConfig{Role: "product", Listen: "127.0.0.1:0"}, b.large, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, product.close()) }()
	var bares, durables, products []float64
	lost := 0
	for range max(3, b.pairs/2) {
		for s, times := range map[*side]*[]float64{bare: &bares, durable: &durables} {
			if err := s.away(false); err != nil {
				return err
			}
			if err := s.host.do("publish", burst{Nodes: b.large, Size: envelopeSize}, nil); err != nil {
				return err
			}
			t, err := s.comeBack()
			if err != nil {
				return err
			}
			*times = append(*times, t)
		}

		if err := product.away(true); err != nil {
			return err
		}
		product.next++
		if err := product.host.do("submit", submission{fmt.Sprintf("1.0.%d", product.next), true}, nil); err != nil {
			return err
		}
		if b.profile != "" && len(products) == 0 {
			if err := product.host.do("profile", filepath.Join(b.profile, "storm.cpu"), nil); err != nil {
				return err
			}
		}
		t, err := product.comeBack()
		if err != nil {
			return err
		}
		if b.profile != "" && len(products) == 0 {
			if err := product.host.do("profile", "", nil); err != nil {
				return err
			}
		}
		products = append(products, t)
		var v fleetView
		if err := product.host.do("view", nil, &v); err != nil {
			return err
		}
		lost += b.large - v.Installed
	}
	at := fmt.Sprintf("%d nodes", b.large)
	b.add(figure{Section: "storm", Name: "bare: reconnect, every status in, " + at, Unit: "s", Samples: bares})
	b.add(figure{Section: "storm", Name: "the same with a group commit before each PUBACK, " + at, Unit: "s", Samples: durables})
	b.add(figure{Section: "storm", Name: "product: reconnect, every status journaled, " + at, Unit: "s", Samples: products})
	b.add(figure{Section: "storm", Name: "reconnect storm over bare, " + at, Unit: "×", Samples: ratios(products, bares)}.most(1.3))
	b.add(figure{Section: "storm", Name: "reconnect storm over the same with group commits, " + at, Unit: "×", Samples: ratios(products, durables)})
	b.add(figure{Section: "storm", Name: "statuses lost, " + at, Unit: "", Value: float64(lost)}.most(0))
	return nil
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
		cfg := s.host.cfg
		cfg.Listen = s.host.at
		if err := s.host.kill(); err != nil {
			return err
		}
		began := time.Now()
		if s.host, err = start(cfg); err != nil {
			return err
		}
		ready = append(ready, time.Since(began).Seconds())
		err = s.wait(func(v *fleetView) bool { return v.Online == s.n && v.Installed == s.n })
		if err != nil {
			return err
		}
		all = append(all, time.Since(began).Seconds())
		if err := s.nodes.do("online", s.n, nil); err != nil {
			return err
		}
	}
	at := fmt.Sprintf("%d nodes", b.large)
	b.add(figure{Section: "restart", Name: "journal replayed and broker open, " + at, Unit: "s", Samples: ready})
	b.add(figure{Section: "restart", Name: "controller killed: until its view is complete, " + at, Unit: "s", Samples: all}.most(5))
	return nil
}

// refillSection kills a broker outside the controller and starts an empty one on its address.
// Measured from that start: until every desired document is retained again, and until the
// controller sees every node online and installed again, which each has said anew.
func refillSection(b *session) (err error) {
	brokerHost, err := start(hostConfig{Role: "broker", Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, brokerHost.close()) }()
	dir, err := b.folder()
	if err != nil {
		return err
	}
	controller, err := start(hostConfig{Role: "product", Dir: dir, Broker: brokerHost.at})
	if err != nil {
		return err
	}
	s, err := crew(brokerHost, b.large, 0)
	if err != nil {
		return errors.Join(err, controller.close())
	}
	s.host = controller // what is asked for views; the nodes talk to the broker
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.wait(func(v *fleetView) bool { return v.Up }); err != nil {
		return err
	}
	if err := s.online(); err != nil {
		return err
	}
	if err := s.wait(func(v *fleetView) bool { return v.Online == s.n }); err != nil {
		return err
	}
	if err := s.host.do("submit", submission{"1.0.0", true}, nil); err != nil {
		return err
	}
	if err := s.wait(func(v *fleetView) bool { return v.Installed == s.n }); err != nil {
		return err
	}
	var filled, confirmed []float64
	for range 3 {
		cfg := brokerHost.cfg
		cfg.Listen = brokerHost.at
		if err := brokerHost.kill(); err != nil {
			return err
		}
		if err := s.wait(func(v *fleetView) bool { return !v.Up && v.Online == 0 }); err != nil {
			return err
		}
		ctx, cancel := patient()
		defer cancel()
		began := time.Now()
		if brokerHost, err = start(cfg); err != nil {
			return err
		}
		for found := 0; ; {
			if err := brokerHost.do("retained", s.n, &found); err != nil {
				return err
			}
			if found == s.n {
				break
			}
			if !pause(ctx, viewEvery) {
				return fmt.Errorf("%d of %d documents are retained again", found, s.n)
			}
		}
		filled = append(filled, time.Since(began).Seconds())
		if err := s.wait(func(v *fleetView) bool { return v.Online == s.n && v.Installed == s.n }); err != nil {
			return err
		}
		for behind := true; behind; { // every node's word on its document, after the broker's start
			at := []int64{}
			if err := s.nodes.do("acked", s.n, &at); err != nil {
				return err
			}
			behind = false
			for _, t := range at {
				behind = behind || t < began.UnixNano()
			}
			if behind && !pause(ctx, viewEvery) {
				return errors.New("not every node has its document confirmed")
			}
		}
		confirmed = append(confirmed, time.Since(began).Seconds())
	}
	at := fmt.Sprintf("%d nodes", b.large)
	b.add(figure{Section: "refill", Name: "broker killed: until every document is retained again, " + at, Unit: "s", Samples: filled}.most(4))
	b.add(figure{Section: "refill", Name: "broker killed: until every node has said so anew, " + at, Unit: "s", Samples: confirmed}.most(4))
	return nil
}
