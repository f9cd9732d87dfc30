package journal

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("JOURNAL_TEST_CHILD"); path != "" {
		os.Exit(child(path))
	}
	goleak.VerifyTestMain(m)
}

var testTime = time.Date(2026, 11, 20, 10, 0, 0, 123456789, time.UTC)

func testClock() time.Time { return testTime }

func tempPath(t testing.TB) string { return filepath.Join(t.TempDir(), "journal.db") }

// mustOpen opens a journal and closes it when the test ends.
func mustOpen(t testing.TB, path string, opts Options) *Journal {
	t.Helper()
	if opts.Now == nil {
		opts.Now = testClock
	}
	j, err := Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

func mustClose(t testing.TB, j *Journal) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func reopen(t testing.TB, j *Journal, opts Options) *Journal {
	t.Helper()
	mustClose(t, j)
	return mustOpen(t, j.Path(), opts)
}

// firstTypes are the types of the first formats, which are in testdata.
var firstTypes = Types()[:slices.Index(Types(), Note)+1]

// rec is the i-th test record; all fields depend on i.
func rec(i int) Record {
	return Record{
		At: testTime.Add(time.Duration(i) * time.Nanosecond), Type: firstTypes[i%len(firstTypes)],
		Node: fmt.Sprintf("node-%d", i%7), Who: []string{"", "operator"}[i%2],
		Kind: []string{"config", "info", ""}[i%3],
		Data: fmt.Appendf(nil, `{"i": %d}`, i),
	}
}

func recs(from, n int) []Record {
	out := make([]Record, n)
	for i := range out {
		out[i] = rec(from + i)
	}
	return out
}

func mustAppend(t testing.TB, j *Journal, b Batch) uint64 {
	t.Helper()
	first, err := j.Append(&b)
	if err != nil {
		t.Fatal(err)
	}
	return first
}

func all(t testing.TB, j *Journal) []Record {
	t.Helper()
	out, err := j.Query(Filter{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// show renders records for comparison; no data and empty data are the same.
func show(rs []Record) string {
	var b []byte
	for _, r := range rs {
		b = fmt.Appendf(b, "%d %s %d %q %q %q %q\n", r.Seq, r.At.Format(time.RFC3339Nano), r.Type, r.Node, r.Who,
			r.Kind, r.Data)
	}
	return string(b)
}

func numbered(from uint64, rs []Record) []Record {
	for i := range rs {
		rs[i].Seq = from + uint64(i)
	}
	return rs
}

func mustVerify(t testing.TB, j *Journal) Proof {
	t.Helper()
	p, err := j.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// raw changes the file behind the journal's back, without waiting for the disk.
func raw(t testing.TB, j *Journal, fn func(tx *bbolt.Tx) error) {
	t.Helper()
	j.db.NoSync = true
	defer func() { j.db.NoSync = false }()
	if err := j.db.Update(fn); err != nil {
		t.Fatal(err)
	}
}

// dropIf drops the records that go, as far as the checkpoint has them.
func dropIf(ctx context.Context, j *Journal, goes func(Record) bool) (Compacted, error) {
	var doomed []uint64
	err := j.Scan(Filter{}, func(r Record) error {
		if goes(r) {
			doomed = append(doomed, r.Seq)
		}
		return nil
	})
	if err != nil {
		return Compacted{}, err
	}
	return j.Drop(ctx, doomed)
}

// notIssued tells what the tests drop that want something to stay.
func notIssued(r Record) bool { return r.Type != Issued }

func (j *Journal) testContext() context.Context { return context.Background() }
