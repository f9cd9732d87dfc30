package journal

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

func TestAppendAndReadBack(t *testing.T) {
	j := mustOpen(t, tempPath(t), Options{})
	if j.Last() != 0 {
		t.Fatalf("a new journal ends at %d", j.Last())
	}
	big := bytes.Repeat([]byte("x"), 150_000)
	batch := Batch{Records: recs(0, 40), Bodies: [][]byte{big, []byte("{}"), big}, First: 1}
	batch.Records[3].Data = big
	batch.Records[4].Data = nil
	if first := mustAppend(t, j, batch); first != 1 || j.Last() != 40 {
		t.Fatalf("first %d, last %d", first, j.Last())
	}
	if batch.Records[7].Seq != 8 {
		t.Errorf("Append did not fill in Seq: %d", batch.Records[7].Seq)
	}
	if first := mustAppend(t, j, Batch{Bodies: [][]byte{[]byte("only a body")}}); first != 41 {
		t.Errorf("a batch without records returned %d", first)
	}
	mustAppend(t, j, Batch{Records: recs(40, 1)})
	j = reopen(t, j, Options{})
	want := append(batch.Records, numbered(41, recs(40, 1))...)
	if got := all(t, j); show(got) != show(want) {
		t.Errorf("got %s", show(got))
	}
	r, ok, err := j.Record(8)
	if err != nil || !ok || show([]Record{r}) != show(want[7:8]) {
		t.Errorf("Record(8) = %v %v %v", r, ok, err)
	}
	if _, ok, err := j.Record(99); ok || err != nil {
		t.Errorf("Record(99): %v %v", ok, err)
	}
	for _, body := range []string{string(big), "{}", "only a body"} {
		got, ok, err := j.Body(sha256.Sum256([]byte(body)))
		if err != nil || !ok || string(got) != body {
			t.Errorf("body of %d bytes: %v %v", len(body), ok, err)
		}
	}
	if _, ok, err := j.Body(Hash{}); ok || err != nil {
		t.Errorf("unknown body: %v %v", ok, err)
	}
	if p := mustVerify(t, j); !p.OK() || p.Records != 41 || p.Bodies != 3 || p.Last != 41 {
		t.Errorf("%+v", p)
	}
	info, err := os.Stat(j.Path())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
}

func TestInvalidBatchesLeaveNothing(t *testing.T) {
	j := mustOpen(t, tempPath(t), Options{})
	mustAppend(t, j, Batch{Records: recs(0, 3), Checkpoint: &Checkpoint{Seq: 2}})
	with := func(change func(*Record)) Batch {
		b := Batch{Records: recs(0, 2)}
		change(&b.Records[1])
		return b
	}
	for name, b := range map[string]Batch{
		"no type":          with(func(r *Record) { r.Type = 0 }),
		"unknown type":     with(func(r *Record) { r.Type = typeEnd }),
		"large data":       with(func(r *Record) { r.Data = make([]byte, MaxData+1) }),
		"long name":        with(func(r *Record) { r.Who = strings.Repeat("x", MaxName+1) }),
		"not UTF-8":        with(func(r *Record) { r.Node = "\xff" }),
		"year 10000":       with(func(r *Record) { r.At = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }),
		"large body":       {Records: recs(0, 1), Bodies: [][]byte{make([]byte, MaxData+1)}},
		"other first":      {Records: recs(0, 1), Bodies: [][]byte{[]byte("b")}, First: 5},
		"early checkpoint": {Records: recs(0, 1), Bodies: [][]byte{[]byte("b")}, Checkpoint: &Checkpoint{Seq: 1}},
		"late checkpoint":  {Records: recs(0, 1), Bodies: [][]byte{[]byte("b")}, Checkpoint: &Checkpoint{Seq: 5}},
	} {
		_, err := j.Append(&b)
		if !errors.Is(err, ErrInvalid) || !errors.Is(err, &wire.Error{Code: wire.CodeInvalidArgument}) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := all(t, j); show(got) != show(numbered(1, recs(0, 3))) {
		t.Error(show(got))
	}
	if _, ok, err := j.Body(sha256.Sum256([]byte("b"))); ok || err != nil {
		t.Errorf("a refused batch left its body: %v", err)
	}
	if first := mustAppend(t, j, Batch{Records: recs(3, 1)}); first != 4 {
		t.Errorf("after refusals the next record is %d", first)
	}
}

func TestQuery(t *testing.T) {
	j := mustOpen(t, tempPath(t), Options{})
	const n = 20_000 // more than one chunk
	mustAppend(t, j, Batch{Records: recs(0, n)})
	whole := numbered(1, recs(0, n))
	pick := func(keep func(Record) bool) (out []Record) {
		for _, r := range whole {
			if keep(r) {
				out = append(out, r)
			}
		}
		return out
	}
	reverse := func(rs []Record, limit int) (out []Record) {
		for i := len(rs) - 1; i >= 0 && len(out) < limit; i-- {
			out = append(out, rs[i])
		}
		return out
	}
	for name, c := range map[string]struct {
		f    Filter
		want []Record
	}{
		"all":    {Filter{}, whole},
		"from":   {Filter{From: 19_990}, whole[19_989:]},
		"beyond": {Filter{From: n + 1}, nil},
		"range":  {Filter{From: 5, To: 9}, whole[4:9]},
		"limit":  {Filter{From: 5, Limit: 2}, whole[4:6]},
		"node":   {Filter{Node: "node-3"}, pick(func(r Record) bool { return r.Node == "node-3" })},
		"types": {Filter{Types: []Type{Note, Live}},
			pick(func(r Record) bool { return r.Type == Note || r.Type == Live })},
		"kind": {Filter{Kind: "info", To: 100},
			pick(func(r Record) bool { return r.Kind == "info" && r.Seq <= 100 })},
		"since":        {Filter{Since: whole[19_000].At}, whole[19_000:]},
		"newest first": {Filter{Reverse: true}, reverse(whole, n)},
		"newest of one": {Filter{Reverse: true, Node: "node-0", Limit: 3},
			reverse(pick(func(r Record) bool { return r.Node == "node-0" }), 3)},
		"down a range":  {Filter{Reverse: true, From: 10, To: 12}, reverse(whole[9:12], 9)},
		"down from far": {Filter{Reverse: true, To: 10 * n, Limit: 1}, reverse(whole, 1)},
		"nothing found": {Filter{Node: "nobody"}, nil},
	} {
		got, err := j.Query(c.f)
		if err != nil || show(got) != show(c.want) {
			t.Errorf("%s: %d records, want %d (%v)", name, len(got), len(c.want), err)
		}
	}
	var seen []uint64
	err := j.Replay(3, func(r Record) error {
		if seen = append(seen, r.Seq); len(seen) == 2 {
			return ErrStop
		}
		return nil
	})
	if err != nil || fmt.Sprint(seen) != "[3 4]" {
		t.Errorf("%v %v", seen, err)
	}
	boom := errors.New("boom")
	if err := j.Replay(1, func(Record) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("a callback's error came back as %v", err)
	}
}

func TestCallbacksMayAppend(t *testing.T) {
	j := mustOpen(t, tempPath(t), Options{})
	mustAppend(t, j, Batch{Records: recs(0, 3)})
	err := j.Replay(1, func(r Record) error {
		if r.Seq > 3 {
			return ErrStop
		}
		_, err := j.Append(&Batch{Records: recs(9, 1)})
		return err
	})
	if err != nil || j.Last() != 6 {
		t.Errorf("last %d, %v", j.Last(), err)
	}
}

func TestEpoch(t *testing.T) {
	path := tempPath(t)
	j := mustOpen(t, path, Options{})
	made := uint64(testTime.Unix())
	if j.Epoch() != made {
		t.Fatalf("epoch %d", j.Epoch())
	}
	later := func() time.Time { return testTime.Add(time.Hour) }
	if j = reopen(t, j, Options{Now: later}); j.Epoch() != made {
		t.Errorf("opening changed the epoch to %d", j.Epoch())
	}
	earlier := func() time.Time { return time.Unix(-5, 0) }
	if j = reopen(t, j, Options{Now: earlier, NewEpoch: true}); j.Epoch() != made+1 {
		t.Errorf("with a clock gone back the new epoch is %d", j.Epoch())
	}
	if j = reopen(t, j, Options{Now: later, NewEpoch: true}); j.Epoch() != made+3600 {
		t.Errorf("the new epoch is %d", j.Epoch())
	}
	for _, c := range []struct{ atLeast, want uint64 }{{0, made + 3601}, {made + 9000, made + 9000}, {5, made + 9001}} {
		if got, err := j.BumpEpoch(c.atLeast); err != nil || got != c.want || j.Epoch() != c.want {
			t.Errorf("BumpEpoch(%d) = %d %v", c.atLeast, got, err)
		}
	}
	if j = reopen(t, j, Options{}); j.Epoch() != made+9001 {
		t.Errorf("after reopening %d", j.Epoch())
	}
	other := mustOpen(t, tempPath(t), Options{Now: earlier})
	if other.Epoch() != 1 {
		t.Errorf("a clock before 1970 makes epoch %d", other.Epoch())
	}
}

func TestClosed(t *testing.T) {
	j := mustOpen(t, tempPath(t), Options{})
	mustClose(t, j)
	mustClose(t, j)
	_, err := j.Append(&Batch{Records: recs(0, 1)})
	_, err2 := j.Query(Filter{})
	_, _, err3 := j.Checkpoint()
	for _, err := range []error{err, err2, err3, j.BackupFile(j.Path() + ".bak")} {
		if !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
}

func TestOpenTidiesUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a [b]*.db")
	j := mustOpen(t, path, Options{})
	mustClose(t, j)
	for _, left := range []string{".new-1", ".compact-2", ".v0.bak.new-3"} {
		if err := os.WriteFile(path+left, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, path, Options{})
	list, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(list) != 1 {
		t.Errorf("%v %v", list, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

func TestTypes(t *testing.T) {
	for _, typ := range Types() {
		if got, ok := ParseType(typ.String()); !ok || got != typ || typ.String() == "" {
			t.Errorf("%d: %q", typ, typ)
		}
	}
	for _, never := range []Type{0, 2, 9, typeEnd} {
		if never.Known() || never.String() != fmt.Sprintf("type-%d", never) {
			t.Errorf("%d is the type %s", uint16(never), never)
		}
	}
	for _, name := range []string{"", "type-0", "Opened", "submission"} {
		if _, ok := ParseType(name); ok {
			t.Errorf("%q is a type", name)
		}
	}
	// The numbers are on disks: this list only grows.
	if Opened != 1 || Issued != 5 || Report != 7 || Note != 17 || record.JoinRefused != 22 || record.Keys != 23 ||
		record.Maintenance != 25 || record.Proves != 26 || record.Forgotten != 27 ||
		record.TokenWithdrawn != 28 || record.ArtefactLeased != 29 || record.ArtefactAdded != 30 ||
		record.ArtefactRemoved != 31 || record.CA != 32 || record.Root != 33 || record.Rollout != 34 ||
		record.Batch != 35 || record.Trimmed != 36 || record.Backup != 37 || len(Types()) != 35 {
		t.Error("a type's number changed, or a new one is missing here")
	}
}
