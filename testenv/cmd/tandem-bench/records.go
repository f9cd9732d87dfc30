package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/shared/event"
	"tandem.internal/shared/link"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/fleet"
)

// keepRecords is how many records the controllers here keep: all.
const keepRecords = 2_000_000

// What stands in a long journal beside reports.
const (
	recordRounds = 10  // submissions, with as many rounds of reports between them
	recordEach   = 10  // reports of a node in a round
	recordAlerts = 100 // in a round, of as many nodes
	recordAsks   = 5   // times that each question is asked
)

// recordsSection fills a journal and then does with it what operators do, by the shipped programs.
func recordsSection(b *session) error {
	bin, err := b.programs()
	if err != nil {
		return err
	}
	dir, err := b.folder()
	if err != nil {
		return err
	}
	n, err := fillJournal(dir, b.records)
	if err != nil {
		return err
	}
	at := fmt.Sprintf(", %d records", n)
	add := func(name, unit string, value float64) {
		b.add(figure{Section: "records", Name: name + at, Unit: unit, Value: value})
	}
	file := filepath.Join(dir, "state", "journal.db")
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	add("size of the journal", "MB", float64(info.Size())/1e6)
	add("size of the journal per record", "B", float64(info.Size())/float64(n))
	began := time.Now()
	if _, err := onFile(bin, "verify", file); err != nil {
		return err
	}
	add("journal verify", "s", time.Since(began).Seconds())
	if err := b.readJournal(bin, dir, at); err != nil {
		return err
	}
	began = time.Now()
	out, err := onFile(bin, "compact", file)
	if err != nil {
		return err
	}
	add("journal compact", "s", time.Since(began).Seconds())
	var size struct {
		Before float64 `json:"before"`
		After  float64 `json:"after"`
	}
	if err := json.Unmarshal(out, &size); err != nil {
		return err
	}
	if size.Before == 0 {
		return fmt.Errorf("journal compact says nothing of the sizes: %.200s", out)
	}
	f := figure{Section: "records", Name: "compacted file over the file before" + at, Unit: "×",
		Value: size.After / size.Before, Note: fmt.Sprintf("%.1f MB, was %.1f", size.After/1e6, size.Before/1e6)}
	b.add(f.most(1))
	return nil
}

// readJournal starts the controller on a long journal and asks it for what is in it.
func (b *session) readJournal(bin, dir, at string) (err error) {
	began := time.Now()
	s, err := startShipped(bin, dir, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	b.add(figure{Section: "records", Name: "controller: opened, verified, replayed and ready" + at, Unit: "s",
		Value: time.Since(began).Seconds()})
	rss, err := residentSet(s.pid())
	if err != nil {
		return err
	}
	b.add(figure{Section: "records", Name: "controller: resident set when it is ready" + at, Unit: "MB",
		Value: float64(rss) / 1e6})
	for _, ask := range []struct{ name, path string }{
		{"config history", "/v1/config/history"},
		{"events, the newest 1,000", "/v1/events"},
		{"events --type alert", "/v1/events?type=alert"},
		{"events --node", "/v1/events?node=" + fleet.Name(7)},
		{"events --slot", "/v1/events?slot=web@" + fleet.Name(7)},
	} {
		f := figure{Section: "records", Name: ask.name + at, Unit: "ms"}
		for range recordAsks {
			began := time.Now()
			answer, err := s.call(http.MethodGet, ask.path, nil)
			if err != nil {
				return err
			}
			f.Samples = append(f.Samples, time.Since(began).Seconds()*1e3)
			f.Note = fmt.Sprintf("%.1f KB", float64(len(answer))/1e3)
		}
		b.add(f)
	}
	return nil
}

// onFile runs a verb of "tandem-controller journal" and returns what it printed, which is JSON.
func onFile(bin, verb, file string) ([]byte, error) {
	out, err := exec.Command(filepath.Join(bin, "tandem-controller"), "journal", verb, file, "--json").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("journal %s: %w: %.500s", verb, err, exit.Stderr)
		}
		return nil, err
	}
	return out, nil
}

// fillJournal has a controller write about so many records to dir/state, and returns how many there are.
func fillJournal(dir string, records int) (n uint64, err error) {
	p, err := newJournaler(dir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	nodes := max(1, records/(recordRounds*recordEach))
	for round := range recordRounds {
		if err := p.submit(fmt.Sprintf("1.0.%d", round)); err != nil {
			return 0, err
		}
		p.flood(nodes, round*recordEach+1, recordEach)
		if err := p.alerts(min(nodes, recordAlerts), round+1); err != nil {
			return 0, err
		}
	}
	v, err := p.view()
	return v.Records, err
}

// alerts brings an alert of each node.
func (p *journaler) alerts(nodes, seq int) error {
	at := time.Unix(1_790_000_000, 0).UTC()
	for i := range nodes {
		name := fleet.Name(i)
		e := wire.Event{V: wire.Version, Node: name, Boot: "boot-1", Seq: uint64(seq), At: at, Type: event.Alert}
		var err error
		if e.Detail, err = json.Marshal(&event.AlertDetail{Tag: "ram", Parameter: "ram", Value: 95, State: "raise",
			Since: at, Min: 50, Max: 90}); err != nil {
			return err
		}
		p.handler.Message(link.Message{Topic: topic.ForNode(unitName, name).Event(), Payload: wire.Encode(&e)})
	}
	return nil
}
