package journal

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/retain"
)

// exported is one line of an export of what goes.
type exported struct {
	Seq                   uint64
	At                    time.Time
	Type, Node, Who, Kind string
	Data                  json.RawMessage
	Raw, Exact, Document  []byte
	Prev, Hash            string
}

// exact is the record that a line has.
func (e *exported) exact(t *testing.T) Record {
	t.Helper()
	typ, ok := ParseType(e.Type)
	if !ok {
		t.Fatal(e.Type)
	}
	r := Record{Seq: e.Seq, At: e.At, Type: typ, Node: e.Node, Who: e.Who, Kind: e.Kind, Data: e.Data}
	switch {
	case e.Exact != nil:
		r.Data = e.Exact
	case e.Raw != nil:
		r.Data = e.Raw
	case string(e.Data) == "null":
		r.Data = nil
	}
	return r
}

// What goes can be proved by its export alone, each record and those that follow each other, whatever a node has sent.
func TestExportOfWhatGoesIsProved(t *testing.T) {
	j := mustOpen(t, tempPath(t), Options{})
	b := Batch{Records: recs(0, 3000)}
	for i, data := range []string{"", "not json", "{\"a\": 1 }", "[1]", "null"} {
		b.Records[i*3].Data = []byte(data)
	}
	b.Bodies = [][]byte{[]byte("the document")}
	accepted := &b.Records[2999]
	accepted.Type, accepted.Data = Accepted, fmt.Appendf(nil, `{"hash":"sha256:%x"}`, sha256.Sum256(b.Bodies[0]))
	b.Checkpoint = &Checkpoint{Seq: 3000}
	mustAppend(t, j, b)
	var doomed []uint64
	for seq := uint64(1); seq < 3000; seq += 1 + seq%3%2 {
		doomed = append(doomed, seq)
	}
	doomed = append(doomed, 3000)
	var out bytes.Buffer
	before, last, err := j.ExportSome(t.Context(), &out, doomed)
	if err != nil {
		t.Fatal(err)
	}
	var e exported
	n, prev := 0, ""
	for lines := bufio.NewScanner(&out); lines.Scan(); n++ {
		was := e
		e = exported{}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.Seq != doomed[n] {
			t.Fatalf("line %d: %s %v", n, lines.Text(), err)
		}
		r := e.exact(t)
		p, err := hex.DecodeString(e.Prev)
		if err != nil {
			t.Fatal(err)
		}
		if got := link(Hash(p), e.Seq, appendPayload(nil, &r)); hex.EncodeToString(got[:]) != e.Hash {
			t.Fatalf("line %d is not proved: %s", n, lines.Text())
		}
		if n > 0 && was.Seq == e.Seq-1 && was.Hash != e.Prev {
			t.Fatalf("line %d does not follow the one before", n)
		}
		if n == 0 {
			prev = e.Prev
		}
	}
	if string(e.Document) != "the document" {
		t.Errorf("the document is %q", e.Document)
	}
	if n != len(doomed) || prev != hex.EncodeToString(before[:]) || e.Hash != hex.EncodeToString(last[:]) {
		t.Errorf("%d lines of %d, from %s to %s", n, len(doomed), prev, e.Hash)
	}
	if done, err := j.Drop(t.Context(), doomed); err != nil || done.Records != len(doomed) {
		t.Fatal(done, err)
	}
	var left []uint64
	for _, r := range all(t, j) {
		left = append(left, r.Seq)
	}
	if gone, err := j.Gone(); err != nil || gone != uint64(len(doomed)) {
		t.Error(gone, err)
	}
	if _, _, err := j.ExportSome(t.Context(), &out, doomed[:1]); !errors.Is(err, ErrDamaged) {
		t.Errorf("a record that is gone: %v", err)
	}
	if _, _, err := j.ExportSome(t.Context(), &brokenWriter{}, []uint64{left[0]}); err == nil {
		t.Error("a writer that fails")
	}
	altered := logValues(t, j)[left[0]]
	altered[len(altered)-1] ^= 1
	putRaw(t, j, left[0], altered)
	if _, _, err := j.ExportSome(t.Context(), nil, left[:1]); !errors.Is(err, ErrDamaged) {
		t.Errorf("a record that was altered: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := j.ExportSome(ctx, nil, []uint64{2}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Headers tells of every record what the journal has, and ends when it is told.
func TestHeadersOfRecords(t *testing.T) {
	j := mustOpen(t, tempPath(t), Options{})
	want := recs(0, chunkVisits+100)
	mustAppend(t, j, Batch{Records: want})
	want = numbered(1, want)
	n := 0
	err := j.Headers(t.Context(), uint64(len(want)-1), func(h retain.Header) error {
		r := want[n]
		if size := len(appendPayload(nil, &r)) + hashSize; h != (retain.Header{Seq: r.Seq, At: r.At, Type: r.Type,
			Kind: r.Kind, Size: size}) {
			t.Fatalf("%+v of %+v", h, r)
		}
		n++
		return nil
	})
	if err != nil || n != len(want)-1 {
		t.Error(n, err)
	}
	if err := j.Headers(t.Context(), 5, func(retain.Header) error { return ErrStop }); !errors.Is(err, ErrStop) {
		t.Error(err)
	}
}

// trimmedRecord says that some records of j go.
func trimmedRecord(t *testing.T, j *Journal, doomed []uint64, tamper func(*record.TrimmedData)) Record {
	t.Helper()
	before, last, err := j.ExportSome(t.Context(), nil, doomed)
	if err != nil {
		t.Fatal(err)
	}
	gone, err := j.Gone()
	if err != nil {
		t.Fatal(err)
	}
	d := record.TrimmedData{First: doomed[0], Last: doomed[len(doomed)-1], Count: len(doomed),
		Kinds: map[string]int{"reports": len(doomed)}, Oldest: testTime, Newest: testTime,
		Gone:   gone + uint64(len(doomed)),
		Before: hex.EncodeToString(before[:]), After: hex.EncodeToString(last[:])}
	if tamper != nil {
		tamper(&d)
	}
	return Record{At: testTime, Type: record.Trimmed, Data: record.Encode(d)}
}

// Verify holds what is gone against what the newest trim says, and tells what that was.
func TestVerifyOfTrims(t *testing.T) {
	for name, c := range map[string]struct {
		tamper func(*record.TrimmedData)
		then   []uint64 // these go without a word
		want   string
	}{
		"whole":       {nil, nil, ""},
		"not all yet": {func(d *record.TrimmedData) { d.Gone += 7; d.Last += 7 }, nil, ""},
		"more gone":   {nil, []uint64{15}, "21 records are gone, and the newest trim, record 31, accounts for 20"},
		"later gone":  {func(d *record.TrimmedData) { d.Gone += 7 }, []uint64{32}, "no trim is newer than record 31"},
		"another last": {func(d *record.TrimmedData) { d.After = d.Before }, nil,
			"record 24 that is gone is not the one that the trim of record 31 has"},
	} {
		t.Run(name, func(t *testing.T) {
			j := mustOpen(t, tempPath(t), Options{})
			mustAppend(t, j, Batch{Records: recs(0, 30), Checkpoint: &Checkpoint{Seq: 30}})
			var doomed []uint64
			for seq := uint64(1); seq <= 24; seq++ {
				if seq%6 != 3 {
					doomed = append(doomed, seq)
				}
			}
			mustAppend(t, j, Batch{Records: []Record{trimmedRecord(t, j, doomed, c.tamper)}})
			mustAppend(t, j, Batch{Records: recs(0, 2), Checkpoint: &Checkpoint{Seq: 33}})
			for _, some := range [][]uint64{doomed, c.then} {
				if _, err := j.Drop(t.Context(), some); err != nil {
					t.Fatal(err)
				}
			}
			p := mustVerify(t, j)
			text := p.String()
			if p.OK() != (c.want == "") || !strings.Contains(text, c.want) {
				t.Errorf("%s", text)
			}
			if !strings.Contains(text, "\ntrimmed at 2026-11-20T10:00:00Z (record 31): 20 records of 1 to ") {
				t.Errorf("what was trimmed is not told: %s", text)
			}
		})
	}
}

// Many trims are counted, and the newest told; one that cannot be read is told as a problem.
func TestVerifyOfManyTrims(t *testing.T) {
	j := mustOpen(t, tempPath(t), Options{})
	mustAppend(t, j, Batch{Records: recs(0, 30), Checkpoint: &Checkpoint{Seq: 30}})
	for seq := uint64(1); seq <= maxTrims+3; seq++ {
		mustAppend(t, j, Batch{Records: []Record{trimmedRecord(t, j, []uint64{seq}, nil)}})
		if _, err := j.Drop(t.Context(), []uint64{seq}); err != nil {
			t.Fatal(err)
		}
	}
	p := mustVerify(t, j)
	newest := fmt.Sprintf("the chain is whole\ntrimmed at 2026-11-20T10:00:00Z (record %d)", 30+maxTrims+3)
	if text := p.String(); !p.OK() || p.Trimmed != maxTrims+3 || len(p.Trims) != maxTrims ||
		!strings.HasSuffix(text, "\n… and 3 trims before") || !strings.Contains(text, newest) {
		t.Error(text)
	}
	if first := p.Trims[0].Seq; first != 30+3+1 {
		t.Errorf("the oldest one that is told is record %d", first)
	}
	mustAppend(t, j, Batch{Records: []Record{{At: testTime, Type: record.Trimmed, Data: []byte("{")}}})
	if p := mustVerify(t, j); p.OK() || !strings.Contains(p.String(), "cannot be read") {
		t.Error(p.String())
	}
}
