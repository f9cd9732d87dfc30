package distribute

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/retain"
	"tandem.internal/shared/event"
	"tandem.internal/shared/filetest"
	"tandem.internal/shared/race"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// year is a unit whose nodes do each day what operating.md says: it has a part of its nodes, and that part of what the
// defaults keep.
type year struct {
	part  int     // one of so many of its nodes
	talk  float64 // how much nodes report and tell, 1 is as in operating.md
	day   int
	due   map[string]float64 // of what there is less than one a day
	batch journal.Batch
	bytes map[string]*retain.Amount // what was written, by what the table calls it
}

const yearNodes = 10_000

// hash64 is a hash of some text, as records have it.
func hash64(text string) string {
	h := sha256.Sum256([]byte(text))
	return wire.HashPrefix + hex.EncodeToString(h[:])
}

// add writes a record so many times a day, on average.
func (y *year) add(row string, aDay float64, r func(at time.Time) record.Record) {
	for y.due[row] += aDay; y.due[row] >= 1; y.due[row]-- {
		at := t0.Add(time.Duration(y.day)*24*time.Hour + time.Duration(len(y.batch.Records))*time.Second)
		one := r(at)
		one.At = at
		y.batch.Records = append(y.batch.Records, one)
		a := y.bytes[row]
		if a == nil {
			a = &retain.Amount{}
			y.bytes[row] = a
		}
		if len(y.batch.Bodies) > 0 && one.Type == record.Accepted {
			a.Bytes += int64(len(y.batch.Bodies[0]))
		}
		a.Records, a.Bytes = a.Records+1, a.Bytes+int64(len(one.Data)+len(one.Node)+len(one.Who)+len(one.Kind)+50)
	}
}

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// today has every node, and the operators, do what they do in a day.
func (y *year) today() {
	y.batch = journal.Batch{}
	version := fmt.Sprintf("1.%d.0", y.day)
	boot := hash64("boot")[7:39]
	for i := range yearNodes / y.part {
		node := fmt.Sprintf("plant-%05d", i)
		seq := uint64(y.day*10 + 1)
		y.add("presence", 2*y.talk, func(at time.Time) record.Record {
			live := wire.Live{V: wire.Version, Node: node, Boot: boot, Session: seq, Up: true, Events: seq,
				Seqs: map[wire.Kind]uint64{"config": seq, "health": seq, "info": seq, "components": 1, "policies": 1}}
			return record.Record{Type: record.Live, Node: node, Data: wire.Prove(make([]byte, wire.ReportKeySize),
				topic.ForNode("plant", node).Live(), wire.Encode(&live), wire.Heard{Epoch: 1700000000, Time: at})}
		})
		y.add("reports", 8*y.talk, func(time.Time) record.Record {
			doc := wire.DocRef{Version: version, Hash: hash64(version)}
			rep := wire.Reported{V: wire.Version, Node: node, Kind: wire.KindConfig, Boot: boot, Seq: seq,
				Running: &doc, Detail: []byte(`{"slot":"a","version":"1.4.2","checks":` +
					`[{"name":"modbus","state":"good"},` +
					`{"name":"disk","state":"good"},{"name":"clock","state":"failed","text":"3 s behind"}]}`)}
			return record.Record{Type: record.Report, Node: node, Kind: "config", Data: wire.Encode(&rep)}
		})
		happens := func(typ string, detail any) func(at time.Time) record.Record {
			return func(at time.Time) record.Record {
				ev := wire.Event{V: wire.Version, Node: node, Boot: boot, Seq: seq, At: at, Type: typ,
					Detail: record.Encode(detail)}
				return record.Record{Type: record.Event, Node: node, Kind: typ, Data: wire.Encode(&ev)}
			}
		}
		y.add("events", y.talk, happens(event.CheckFailed, event.HealthDetail{Slot: "a", Version: "1.4.2",
			Check: "modbus", Text: "no answer within 5 s from 10.1.4.17:502", Restarts: 3}))
		y.add("alerts", 0.2*y.talk, happens(event.Alert, event.AlertDetail{Tag: "cpu-high", Parameter: "cpu",
			Value: 97.25, State: "raise", Since: t0, Min: 80, Max: 95}))
		y.add("renewals", 1./60, func(at time.Time) record.Record {
			d := record.RenewedData{Subject: "node/" + node, Old: boot, Serial: boot, Key: hash64(node), Expires: at,
				CA: hash64("ca"), From: "10.1.4.17:40212"}
			return record.Record{Type: record.Renewed, Node: node, Data: record.Encode(d)}
		})
	}
	y.operators(version)
}

// operators do their part of a day, for all nodes.
func (y *year) operators(version string) {
	part := 1 / float64(y.part)
	names := make([]string, yearNodes)
	for i := range names {
		names[i] = fmt.Sprintf("plant-%05d", i)
	}
	y.add("submissions", 3*part, func(time.Time) record.Record {
		body := []byte(strings.Repeat(version+" ", (64<<10)/(len(version)+1)))
		y.batch.Bodies = append(y.batch.Bodies, body)
		h := sha256.Sum256(body)
		d := record.Verdict{ID: "0f3a", Via: "http", Version: version, Hash: wire.HashPrefix + hex.EncodeToString(h[:])}
		return record.Record{Type: record.Accepted, Kind: "config", Who: "operator/ann", Data: record.Encode(d)}
	})
	y.add("issued", 3*part, func(time.Time) record.Record {
		d := record.IssuedData{Epoch: 1700000000, Version: version, Mode: wire.ModeApply, Whole: true,
			Reason: "accepted", Docs: []record.IssuedDoc{{Hash: hash64(version), Nodes: names}}}
		return record.Record{Type: record.Issued, Kind: "config", Data: record.Encode(d)}
	})
	y.add("orders", 200*part, func(at time.Time) record.Record {
		d := record.RequestData{ID: "0f3a0f3a0f3a", Method: wire.MethodReport, NotAfter: at, Until: at}
		return record.Record{Type: record.Request, Node: names[0], Who: "operator/ann", Data: record.Encode(d)}
	})
	y.add("settings", 20*part, func(time.Time) record.Record {
		d := record.PolicyData{Name: "night", Document: []byte(`{"x":"` + strings.Repeat("x", 1000) + `"}`)}
		return record.Record{Type: record.Settings, Kind: "policies", Who: "operator/ann", Data: record.Encode(d)}
	})
}

// A year of 10,000 nodes fits in 4 GB with the defaults, also if they say four times as much as operating.md has it.
func TestYearOfNodesFits(t *testing.T) {
	if race.Enabled {
		t.Skip("sizes are the same without the race detector, in a tenth of the time")
	}
	t.Run("as in operating.md", func(t *testing.T) { yearFits(t, 200, 1) })
	t.Run("four times as much", func(t *testing.T) { yearFits(t, 500, 4) })
}

func yearFits(t *testing.T, part int, talk float64) {
	rules := retain.DefaultRules()
	for k, r := range rules {
		rules[k] = retain.Rule{Age: r.Age, Records: r.Records / part, Bytes: r.Bytes / int64(part)}
	}
	y := year{part: part, talk: talk, due: map[string]float64{}, bytes: map[string]*retain.Amount{}}
	j, err := journal.Open(filepath.Join(filetest.MemoryDir(t), "journal.db"), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var st journal.Stats
	var plan *retain.Plan
	for y.day = range 365 {
		y.today()
		y.batch.Checkpoint = &journal.Checkpoint{Seq: j.Last() + uint64(len(y.batch.Records))}
		if _, err := j.Append(&y.batch); err != nil {
			t.Fatal(err)
		}
		if y.day%3 != 2 {
			continue
		}
		if st, err = j.Stats(); err != nil {
			t.Fatal(err)
		}
		plan = retain.NewPlan(rules, t0.Add(time.Duration(y.day+1)*24*time.Hour))
		var doomed []uint64
		if err := errors.Join(
			j.Headers(t.Context(), st.Last, func(h retain.Header) error { plan.Count(h); return nil }),
			j.Headers(t.Context(), st.Last-100_000/uint64(part), func(h retain.Header) error {
				if plan.Goes(h) != "" {
					doomed = append(doomed, h.Seq)
				}
				return nil
			})); err != nil {
			t.Fatal(err)
		}
		if _, err := j.Drop(t.Context(), doomed); err != nil {
			t.Fatal(err)
		}
	}
	whole := retain.Amount{}
	for _, row := range slices.Sorted(maps.Keys(y.bytes)) {
		a := y.bytes[row]
		whole = retain.Amount{Records: whole.Records + a.Records, Bytes: whole.Bytes + a.Bytes}
		t.Logf("%-12s %6d B a record, %9d records, %8.1f MB a year", row, a.Bytes/int64(a.Records), a.Records*part,
			float64(a.Bytes)*float64(part)/1e6)
	}
	for _, k := range retain.Kinds {
		t.Logf("%-12s %8.1f MB are there", k, float64(plan.There[k].Bytes)*float64(part)/1e6)
	}
	size, written := st.Size*int64(part), whole.Bytes*int64(part)
	t.Logf("written %.1f GB, the file has %.2f GB", float64(written)/1e9, float64(size)/1e9)
	if size > 4e9 || written < 4e9 {
		t.Errorf("%d bytes after a year, in which %d were written", size, written)
	}
	if p, err := j.Verify(t.Context()); err != nil || !p.OK() {
		t.Errorf("%s %v", p.String(), err)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}
