package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
)

const (
	manyViewers   = 100
	appliesInTurn = 4 // every second one collects garbage, and costs half as much again: each side has its share
)

// viewersSection measures what an apply costs the controller and its broker with a hundred viewers of the live
// stream, who are in another process, and without them, in turn, some applies each.
func viewersSection(b *session) (err error) {
	dir, err := b.folder()
	if err != nil {
		return err
	}
	socket := filepath.Join(dir, "api.sock")
	s, err := b.side(hostConfig{Role: "product", Listen: "127.0.0.1:0", Socket: socket}, b.large, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	var alone, watched []float64
	for range b.pairs + 1 {
		t, err := s.applySome()
		if err != nil {
			return err
		}
		alone = append(alone, t)
		v, err := watch(socket, manyViewers)
		if err != nil {
			return err
		}
		t, err = s.applySome()
		if err = errors.Join(err, v.leave()); err != nil {
			return err
		}
		watched = append(watched, t)
	}
	at := fmt.Sprintf(", %d nodes", s.n)
	with := fmt.Sprintf("with %d viewers", manyViewers) + at
	cpu := [2][]float64{s.usedBy(0, appliesInTurn).host, s.usedBy(1, appliesInTurn).host}
	add := func(name, unit string, samples []float64) figure {
		return figure{Section: "viewers", Name: name, Unit: unit, Samples: samples}
	}
	b.add(add("apply, nobody looks"+at, "s", alone[1:]))
	b.add(add("apply, "+with, "s", watched[1:]))
	b.add(add("processor time of the host, nobody looks"+at, "µs/node", cpu[0]))
	b.add(add("processor time of the host, "+with, "µs/node", cpu[1]))
	b.add(add("processor time "+with+" over that without", "×", ratios(cpu[1], cpu[0])).most(1.1))
	return nil
}

// applySome returns the mean of some applies.
func (s *side) applySome() (mean float64, err error) {
	for range appliesInTurn {
		t, err := s.apply(true)
		if err != nil {
			return 0, err
		}
		mean += t / appliesInTurn
	}
	return mean, nil
}

// viewers read the live stream and do not look at it.
type viewers struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	mu     sync.Mutex
	err    error // of the first whose stream ended by itself
}

// watch returns when each of some viewers has all nodes.
func watch(socket string, n int) (*viewers, error) {
	ctx, cancel := context.WithCancel(context.Background())
	v := &viewers{cancel: cancel}
	api := &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: n,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}}
	for range n {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://tandem/v1/live", nil)
		if err != nil {
			return nil, errors.Join(err, v.leave())
		}
		res, err := api.Do(r)
		if err == nil && res.StatusCode != http.StatusOK {
			err = errors.Join(fmt.Errorf("the live stream: %s", res.Status), res.Body.Close())
		}
		if err != nil {
			return nil, errors.Join(err, v.leave())
		}
		v.done.Go(func() {
			_, err := io.Copy(io.Discard, res.Body)
			if ctx.Err() != nil {
				err = nil // it has left
			} else if err == nil {
				err = io.ErrUnexpectedEOF
			}
			v.mu.Lock()
			defer v.mu.Unlock()
			v.err = errors.Join(v.err, err, res.Body.Close())
		})
	}
	return v, nil
}

func (v *viewers) leave() error {
	v.cancel()
	v.done.Wait()
	return v.err
}
