package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// refillSection kills a broker outside the controller and at once starts an empty one on its
// address, as a supervisor does. Measured from the kill: until the controller and every node have
// noticed and come back and every desired document is retained again; and until every node has said
// anew what it runs and the controller's view is complete.
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
	var started, filled, complete []float64
	var used [3][]float64
	var dropped []float64
	for i := range max(3, b.pairs/2) {
		before, err := s.usage()
		if err != nil {
			return err
		}
		if b.profile != "" {
			if err := s.host.do("profile", filepath.Join(b.profile, fmt.Sprintf("refill-controller-%d.cpu", i)),
				nil); err != nil {
				return err
			}
		}
		cfg := brokerHost.cfg
		cfg.Listen = brokerHost.at
		began := time.Now()
		if err := brokerHost.kill(); err != nil {
			return err
		}
		if brokerHost, err = start(cfg); err != nil {
			return err
		}
		started = append(started, time.Since(began).Seconds())
		if b.profile != "" {
			if err := brokerHost.do("profile", filepath.Join(b.profile, fmt.Sprintf("refill-broker-%d.cpu", i)),
				nil); err != nil {
				return err
			}
		}
		if err := s.refilled(brokerHost); err != nil {
			return err
		}
		filled = append(filled, time.Since(began).Seconds())
		if err := s.heardSince(began); err != nil {
			return err
		}
		complete = append(complete, time.Since(began).Seconds())
		after, err := s.usage()
		if err != nil {
			return err
		}
		var broker, lost int64
		if err := errors.Join(brokerHost.do("cpu", nil, &broker), brokerHost.do("dropped", nil, &lost)); err != nil {
			return err
		}
		dropped = append(dropped, float64(lost))
		for k, ns := range []int64{broker, after.minus(before).cpu[0], after.minus(before).cpu[1]} {
			used[k] = append(used[k], float64(ns)/1e3/float64(s.n))
		}
		if b.profile != "" {
			if err := errors.Join(s.host.do("profile", "", nil), brokerHost.do("profile", "", nil)); err != nil {
				return err
			}
		}
	}
	at := fmt.Sprintf("%d nodes", b.large)
	b.add(figure{Section: "refill", Name: "broker killed: until an empty " +
		"one listens, " + at, Unit: "s", Samples: started})
	b.add(figure{Section: "refill", Name: "broker killed: until every document is " +
		"retained again, " + at, Unit: "s", Samples: filled}.most(4))
	b.add(figure{Section: "refill", Name: "broker killed: until the controller's view " +
		"is complete, " + at, Unit: "s", Samples: complete})
	b.add(figure{Section: "refill", Name: "messages that the broker had no room for, " + at, Samples: dropped})
	for k, who := range []string{"broker", "controller", "nodes"} {
		b.add(figure{Section: "refill", Name: fmt.Sprintf("processor time of the %s, %s", who, at), Unit: "µs/node",
			Samples: used[k]})
	}
	return nil
}

// refilled waits until a broker retains every node's document.
func (s *side) refilled(broker *host) error {
	ctx, cancel := patient()
	defer cancel()
	for found := 0; ; {
		if err := broker.do("retained", s.n, &found); err != nil {
			return err
		}
		if found == s.n {
			return nil
		}
		if !pause(ctx, viewEvery) {
			return fmt.Errorf("%d of %d documents are retained again", found, s.n)
		}
	}
}

// heardSince waits until every node's word on its document was acknowledged after that time, which
// nobody's was before, and until the controller knows all of them to be online and in step.
func (s *side) heardSince(t time.Time) error {
	ctx, cancel := patient()
	defer cancel()
	for behind := true; behind; {
		at := []int64{}
		if err := s.nodes.do("acked", s.n, &at); err != nil {
			return err
		}
		behind = false
		for _, ns := range at {
			behind = behind || ns < t.UnixNano()
		}
		if behind && !pause(ctx, viewEvery) {
			return errors.New("not every node has its document confirmed")
		}
	}
	return s.until(ctx, func(v *fleetView) bool { return v.Online == s.n && v.Installed == s.n })
}
