package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"tandem.internal/shared/link"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/fleet"
)

// journalSection brings reports of many nodes to the controller's intake, as its link does, each
// sender waiting for its report to be durable before it sends the next: topic, envelope, state
// machine, chain and disk. Then the journal's own group commit, by its own benchmark.
func journalSection(b *session) (err error) {
	dir, err := b.folder()
	if err != nil {
		return err
	}
	// A broker without listeners: the messages come past it.
	r, err := newProduct(hostConfig{Role: "product", Dir: dir}, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	p := r.(*product)
	handler := p.app.Handler()
	const each = 100
	senders := min(2000, b.large)
	type letter struct {
		topic    string
		payloads [each][]byte
	}
	letters := make([]letter, senders)
	for i := range letters {
		name := fleet.Name(i)
		letters[i].topic = topic.ForNode(unitName, name).Reported(wire.KindConfig)
		for k := range letters[i].payloads {
			ref := wire.DocRef{Epoch: 1, Rev: 1, Version: "1.0.0", Hash: wire.Hash([]byte(name))}
			letters[i].payloads[k] = wire.Encode(&wire.Reported{V: wire.Version, Node: name, Kind: wire.KindConfig,
				Boot: "boot-1", Seq: uint64(k + 1), Running: &ref,
				Last: &wire.Attempt{Epoch: 1, Rev: 1, Version: "1.0.0", Hash: ref.Hash, State: wire.StateInstalled,
					Attempt: 1, At: time.Unix(1_790_000_000, int64(k))}})
		}
	}
	var before, after fleetView
	view := func(v *fleetView) error {
		raw, err := r.do("view", nil)
		if err == nil {
			*v = raw.(fleetView)
		}
		return err
	}
	if err := view(&before); err != nil {
		return err
	}
	began := time.Now()
	var wg sync.WaitGroup
	for i := range letters {
		wg.Go(func() {
			l := &letters[i]
			for _, payload := range l.payloads {
				handler.Message(link.Message{Topic: l.topic, Payload: payload})
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	if err := view(&after); err != nil {
		return err
	}
	if got := after.Records - before.Records; got != uint64(senders*each) {
		return fmt.Errorf("%d of %d reports were journaled", got, senders*each)
	}
	if _, err := r.do("verify", nil); err != nil {
		return err
	}
	b.add(figure{Section: "journal", Name: fmt.Sprintf("reports through intake and state "+
		"machine, %d senders", senders), Unit: "records/s",
		Value: float64(senders*each) / took.Seconds()}.least(50_000))

	return b.group()
}

// group runs the journal's own benchmark of its group commit.
func (b *session) group() error {
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", "^Benchmark(Group|Floor)$", "-benchtime", "0.5s",
		"./controller/internal/journal")
	cmd.Dir = b.root
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("the journal's benchmark: %w\n%s", err, out)
	}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		f := strings.Fields(lines.Text())
		for i := 1; i < len(f); i++ {
			if f[i] != "records/s" {
				continue
			}
			v, err := strconv.ParseFloat(f[i-1], 64)
			if err != nil {
				return err
			}
			name, callers, _ := strings.Cut(f[0], "/callers=")
			callers, _, _ = strings.Cut(callers, "-")
			fig := figure{Section: "journal", Name: fmt.Sprintf("bbolt group commit without a "+
				"journal, %s callers", callers), Unit: "records/s", Value: v}
			if name == "BenchmarkGroup" {
				fig.Name = fmt.Sprintf("group commit of the journal, %s callers", callers)
				if callers != "64" { // so few are bound by the disk's syncs
					fig = fig.least(50_000)
				}
			}
			b.add(fig)
		}
	}
	return nil
}
