package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/filetest"
)

// appendable are the types whose data the journal does not read.
var appendable = slices.DeleteFunc(Types(), func(t Type) bool { return t == record.Trimmed })

func genRecord() *rapid.Generator[Record] {
	name := rapid.StringMatching(`[a-zé0-9-]{0,12}`)
	return rapid.Custom(func(t *rapid.T) Record {
		return Record{
			At: time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(t, "sec"),
				rapid.Int64Range(0, 999_999_999).Draw(t, "nsec")).UTC(),
			Type: rapid.SampledFrom(appendable).Draw(t, "type"),
			Node: name.Draw(t, "node"), Who: name.Draw(t, "who"), Kind: name.Draw(t, "kind"),
			Data: append([]byte{}, rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "data")...),
		}
	})
}

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genRecord().Draw(t, "record")
		b := appendPayload(nil, &want)
		if len(b) > headerMax(&want)+len(want.Data) {
			t.Fatal("headerMax is too small")
		}
		got, err := decodePayload(b, nil)
		if err != nil || show([]Record{got}) != show([]Record{want}) {
			t.Fatal(got, err)
		}
	})
}

// For any sequence of appends, failed appends, compactions, shrinkings and reopenings, replay
// gives what was appended, less what the policy let go, and the chain holds.
func TestReplayIsWhatWasAppended(t *testing.T) {
	dir := filetest.MemoryDir(t)
	rapid.Check(t, func(t *rapid.T) {
		path := filepath.Join(dir, "journal.db")
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		var armed *error // which hook fails next, once
		before, after := error(nil), error(nil)
		take := func(e *error) func() error {
			return func() error {
				if armed == e {
					armed = nil
					return errors.New("boom")
				}
				return nil
			}
		}
		opts := Options{Now: testClock, Faults: Faults{BeforeCommit: take(&before), AfterCommit: take(&after)}}
		j, err := Open(path, opts)
		if err != nil {
			t.Fatal(err)
		}
		j.db.NoSync = true
		defer func() {
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}()
		var model []Record // what must be there
		var bodies [][]byte
		next, checkpoint := uint64(1), uint64(0)
		reopen := func(t *rapid.T) {
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			if j, err = Open(path, opts); err != nil {
				t.Fatal(err)
			}
			j.db.NoSync = true
		}
		add := func(t *rapid.T, b Batch) {
			first, err := j.Append(&b)
			if err != nil || first != next {
				t.Fatal(first, err)
			}
		}
		draw := func(t *rapid.T) Batch {
			b := Batch{Records: rapid.SliceOfN(genRecord(), 0, 8).Draw(t, "records")}
			if rapid.Bool().Draw(t, "body") {
				b.Bodies = [][]byte{rapid.SliceOfN(rapid.Byte(), 0, 64).Draw(t, "body")}
			}
			if last := next + uint64(len(b.Records)) - 1; rapid.IntRange(0, 3).Draw(t, "checkpoint") == 0 {
				b.Checkpoint = &Checkpoint{Seq: rapid.Uint64Range(checkpoint, last).Draw(t, "at"),
					Chunks: [][]byte{{1}, {}}}
			}
			return b
		}
		count := func(b Batch) {
			model = append(model, numbered(next, slices.Clone(b.Records))...)
			bodies = append(bodies, b.Bodies...)
			next += uint64(len(b.Records))
			if b.Checkpoint != nil {
				checkpoint = b.Checkpoint.Seq
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) { b := draw(t); add(t, b); count(b) },
			"fail": func(t *rapid.T) {
				b := draw(t)
				persisted := rapid.Bool().Draw(t, "persisted")
				armed = map[bool]*error{false: &before, true: &after}[persisted]
				if _, err := j.Append(&b); !errors.Is(err, ErrBroken) {
					t.Fatal(err)
				}
				if persisted {
					count(b)
				}
				reopen(t)
			},
			"drop": func(t *rapid.T) {
				keep := uint64(rapid.IntRange(0, 10).Draw(t, "keep"))
				types := rapid.SliceOfN(rapid.SampledFrom(Types()), 0, 5).Draw(t, "types")
				some := rapid.Bool().Draw(t, "some")
				goes := func(r Record) bool {
					return r.Seq+keep < next && !slices.Contains(types, r.Type) && (!some || r.Seq%3 != 0)
				}
				if _, err := dropIf((*Journal)(nil).testContext(), j, goes); err != nil {
					t.Fatal(err)
				}
				model = slices.DeleteFunc(model, func(r Record) bool { return r.Seq <= checkpoint && goes(r) })
			},
			"shrink": func(t *rapid.T) {
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
				if _, _, err := CompactFile(path, Options{}); err != nil {
					t.Fatal(err)
				}
				reopen(t)
			},
			"reopen": reopen,
			"": func(t *rapid.T) {
				got, err := j.Query(Filter{})
				if err != nil || show(got) != show(model) || j.Last()+1 != next {
					t.Fatalf("next %d, want %d; %v\ngot %s\nwant %s", j.Last()+1, next, err, show(got), show(model))
				}
				for _, body := range bodies {
					if got, ok, err := j.Body(sha256.Sum256(body)); err != nil || !ok || !bytes.Equal(got, body) {
						t.Fatal(ok, err)
					}
				}
				c, ok, err := j.Checkpoint()
				if err != nil || c.Seq != checkpoint || !ok && checkpoint > 0 {
					t.Fatal(c.Seq, checkpoint, err)
				}
				if p, err := j.Verify((*Journal)(nil).testContext()); err != nil || !p.OK() || p.Unproven > 0 {
					t.Fatalf("%+v %v", p, err)
				}
			},
		})
	})
}

func FuzzDecodePayload(f *testing.F) {
	for i := range 20 {
		r := rec(i)
		f.Add(appendPayload(nil, &r))
	}
	f.Add([]byte{})
	f.Add([]byte{0x80, 0x00})
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Add([]byte{1, 0, 0, 0xff, 0xff, 0x3f})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodePayload(b, &interner{})
		if err != nil {
			return
		}
		// Whatever is accepted is exactly what would have been written for it.
		if again := appendPayload(nil, &r); !bytes.Equal(again, b) {
			t.Fatalf("%x decodes to %+v, which encodes to %x", b, r, again)
		}
	})
}

func TestExport(t *testing.T) {
	j := mustOpen(t, tempPath(t), Options{})
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	data := []string{"{\"a\": 1,\n \"b\" : [true, \"\\u00e9 \"]}", "", "not json", "\xff\n", `{"a":1,"a":2}`, "1e400",
		deep, " null "}
	b := Batch{}
	for i, d := range data {
		r := rec(i)
		r.Data = []byte(d)
		r.Who = "a \"quoted\"\nname"
		b.Records = append(b.Records, r)
	}
	mustAppend(t, j, b)
	var out bytes.Buffer
	if err := j.Export(&out, Filter{}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != len(data) {
		t.Fatalf("%d lines", len(lines))
	}
	want := `{"seq":1,"at":"2026-11-20T10:00:00.123456789Z","type":"opened","node":"node-0",` +
		`"who":"a \"quoted\"\nname","kind":"config","data":{"a":1,"b":[true,"\u00e9 "]}}`
	if lines[0] != want {
		t.Errorf("%s\n%s", lines[0], want)
	}
	for i, line := range lines {
		var got struct {
			Seq                   uint64
			At                    time.Time
			Type, Node, Who, Kind string
			Data                  json.RawMessage
			Raw                   []byte
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(i, err)
		}
		r := b.Records[i]
		if got.Seq != r.Seq || !got.At.Equal(r.At) || got.Type != r.Type.String() || got.Node != r.Node ||
			got.Who != r.Who || got.Kind != r.Kind {
			t.Errorf("line %d: %+v", i, got)
		}
		isJSON := !slices.Contains([]int{2, 3, 6}, i)
		v := jsontext.Value(data[i])
		if isJSON && data[i] != "" {
			if err := v.Compact(jsontext.AllowDuplicateNames(true)); err != nil || string(got.Data) != string(v) {
				t.Errorf("line %d: data %s", i, got.Data)
			}
		} else if !isJSON && (string(got.Raw) != data[i] || got.Data != nil) {
			t.Errorf("line %d: raw %q", i, got.Raw)
		}
	}
	out.Reset()
	if err := j.Export(&out, Filter{From: 3, Limit: 1}); err != nil || strings.Count(out.String(), "\n") != 1 {
		t.Error(err, out.String())
	}
	if err := j.Export(&brokenWriter{}, Filter{}); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}
