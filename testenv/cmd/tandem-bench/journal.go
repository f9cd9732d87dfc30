package main

import (
	"bufio"
	"bytes"
	"encoding/json"
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

// journaler brings messages of nodes to a controller's intake, as its link does: its broker has no listeners.
type journaler struct {
	role    role
	handler link.Handler
}

func newJournaler(dir string) (*journaler, error) {
	r, err := newProduct(hostConfig{Role: "product", Dir: dir}, nil)
	if err != nil {
		return nil, err
	}
	return &journaler{r, r.(*product).app.Handler()}, nil
}

func (j *journaler) close() error { return j.role.close() }

func (j *journaler) view() (v fleetView, err error) {
	raw, err := j.role.do("view", nil)
	if err == nil {
		v = raw.(fleetView)
	}
	return v, err
}

// submit applies a version; no node is asked.
func (j *journaler) submit(version string) error {
	raw, err := json.Marshal(submission{version, true})
	if err == nil {
		_, err = j.role.do("submit", raw)
	}
	return err
}

// flood brings so many reports of each sender, the first with a number, each when the one before is durable, and
// returns how long that took.
func (j *journaler) flood(senders, seq, each int) time.Duration {
	letters := make([][]link.Message, senders)
	for i := range letters {
		name := fleet.Name(i)
		to := topic.ForNode(unitName, name).Reported(wire.KindConfig)
		ref := wire.DocRef{Epoch: 1, Rev: 1, Version: "1.0.0", Hash: wire.Hash([]byte(name))}
		for k := range each {
			letters[i] = append(letters[i], link.Message{Topic: to, Payload: wire.Encode(&wire.Reported{
				V: wire.Version, Node: name, Kind: wire.KindConfig, Boot: "boot-1", Seq: uint64(seq + k), Running: &ref,
				Last: &wire.Attempt{Epoch: 1, Rev: 1, Version: "1.0.0", Hash: ref.Hash, State: wire.StateInstalled,
					Attempt: 1, At: time.Unix(1_790_000_000, int64(seq+k))}})})
		}
	}
	began := time.Now()
	var wg sync.WaitGroup
	for _, all := range letters {
		wg.Go(func() {
			for _, m := range all {
				j.handler.Message(m)
			}
		})
	}
	wg.Wait()
	return time.Since(began)
}

// journalSection brings reports of many nodes to the controller's intake, as its link does, each
// sender waiting for its report to be durable before it sends the next: topic, envelope, state
// machine, chain and disk. Then the journal's own group commit, by its own benchmark.
func journalSection(b *session) (err error) {
	dir, err := b.folder()
	if err != nil {
		return err
	}
	j, err := newJournaler(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.close()) }()
	const each = 100
	senders := min(2000, b.large)
	before, err := j.view()
	if err != nil {
		return err
	}
	took := j.flood(senders, 1, each)
	after, err := j.view()
	if err != nil {
		return err
	}
	if got := after.Records - before.Records; got != uint64(senders*each) {
		return fmt.Errorf("%d of %d reports were journaled", got, senders*each)
	}
	if _, err := j.role.do("verify", nil); err != nil {
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
