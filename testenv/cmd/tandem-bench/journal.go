package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
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

// group runs the journal's own benchmarks, of itself and of bbolt without it.
func (b *session) group() error {
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", "^Benchmark(Append|Floor)$", "-benchtime", "0.5s",
		"./controller/internal/journal")
	cmd.Dir = b.root
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("the journal's benchmark: %w\n%s", err, out)
	}
	all, err := benchmarks(string(out))
	if err != nil {
		return err
	}
	for _, f := range all {
		b.add(f)
	}
	return nil
}

// journalBenchmarks are those that must be there, with the rows that they make.
var journalBenchmarks = map[string]string{
	"BenchmarkAppend/batch=":  "the journal by itself, %s records in a commit",
	"BenchmarkFloor/callers=": "bbolt group commit without a journal, %s callers",
}

// benchmarks reads what "go test -bench" prints of the journal.
func benchmarks(out string) (all []figure, err error) {
	found := map[string]bool{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		at := slices.Index(f, "records/s")
		if at < 1 {
			continue
		}
		for prefix, row := range journalBenchmarks {
			size, ok := strings.CutPrefix(f[0], prefix)
			if !ok {
				continue
			}
			found[prefix] = true
			size, _, _ = strings.Cut(size, "-") // the number of processors
			fig := figure{Section: "journal", Name: fmt.Sprintf(row, size), Unit: "records/s"}
			if fig.Value, err = strconv.ParseFloat(f[at-1], 64); err != nil {
				return nil, err
			}
			if n, err := strconv.Atoi(size); err == nil && n >= 512 && strings.HasPrefix(f[0], "BenchmarkAppend") {
				fig = fig.least(50_000) // fewer in a commit are bound by the disk's syncs
			}
			all = append(all, fig)
		}
	}
	for prefix := range journalBenchmarks {
		if !found[prefix] {
			return nil, fmt.Errorf("the journal has no benchmark %s any more", prefix)
		}
	}
	return all, nil
}
