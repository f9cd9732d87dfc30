package journal

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/filetest"
	"tandem.internal/shared/wire"
)

// packed compresses an export as a trim does.
func packed(t *testing.T, lines []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(lines)
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// trimInto exports some records to a file, says so, and drops them.
func trimInto(t *testing.T, j *Journal, path string, doomed []uint64, tamper func(*record.TrimmedData)) {
	t.Helper()
	var lines bytes.Buffer
	if _, _, err := j.ExportSome(t.Context(), &lines, doomed); err != nil {
		t.Fatal(err)
	}
	file := packed(t, lines.Bytes())
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, j, Batch{Records: []Record{trimmedRecord(t, j, doomed, func(d *record.TrimmedData) {
		d.File, d.Sum, d.Kinds = filepath.Base(path), wire.Hash(file), map[string]int{}
		for _, r := range all(t, j) {
			if _, in := slices.BinarySearch(doomed, r.Seq); in {
				d.Kinds[kindOf(&r)]++
			}
		}
		if tamper != nil {
			tamper(d)
		}
	})}})
	if _, err := j.Drop(t.Context(), doomed); err != nil {
		t.Fatal(err)
	}
}

// twoExports is a journal from which two trims have gone, and their files.
func twoExports(t *testing.T, tamper func(*record.TrimmedData)) (j *Journal, one, two string) {
	t.Helper()
	j = mustOpen(t, tempPath(t), Options{})
	b := Batch{Records: recs(0, 40), Checkpoint: &Checkpoint{Seq: 40}, Bodies: [][]byte{[]byte("the document")}}
	for i, data := range []string{"", "not json", "{\"a\": 1 }", "[1]", "null"} {
		b.Records[i].Data = []byte(data)
	}
	r := &b.Records[6]
	r.Type, r.Data = Accepted, fmt.Appendf(nil, `{"hash":"sha256:%x"}`, sha256.Sum256(b.Bodies[0]))
	mustAppend(t, j, b)
	dir := t.TempDir()
	one, two = filepath.Join(dir, "journal-1-1-9.jsonl.gz"), filepath.Join(dir, "journal-1-4-24.jsonl.gz")
	trimInto(t, j, one, []uint64{1, 2, 3, 5, 7, 9}, tamper)
	trimInto(t, j, two, []uint64{4, 10, 11, 20, 24}, nil)
	return j, one, two
}

// rules are those that a file breaks.
func rules(t *testing.T, j *Journal, path string) (all string, text string) {
	t.Helper()
	p, err := j.VerifyExport(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range p.Faults {
		if !slices.Contains(names, string(f.Rule)) {
			names = append(names, string(f.Rule))
		}
	}
	return strings.Join(names, " "), p.String()
}

func unpacked(t *testing.T, path string) (lines [][]byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if data, err = io.ReadAll(z); err != nil {
		t.Fatal(err)
	}
	return slices.Collect(bytes.Lines(data))
}

// An export that is as it was written is proved. What is missing, added, or another, is told with its place and rule,
// also by the file's content alone: where somebody has given the journal the hash of what he made of it.
func TestVerifyExport(t *testing.T) {
	for name, c := range map[string]struct {
		change func(lines [][]byte) [][]byte
		want   string // rules, when the file has the hash that the journal knows
		says   string
	}{
		"whole":         {func(l [][]byte) [][]byte { return l }, "", "1 document: each is proved"},
		"first missing": {func(l [][]byte) [][]byte { return l[1:] }, "trim", "it has 5 records of 2 to 9"},
		"one missing":   {func(l [][]byte) [][]byte { return slices.Delete(l, 1, 2) }, "trim", "5 records of 1 to 9"},
		"last missing":  {func(l [][]byte) [][]byte { return l[:5] }, "trim", "it has 5 records of 1 to 7"},
		"twice": {func(l [][]byte) [][]byte { return slices.Insert(l, 1, l[0]) }, "chain trim",
			"line 2, record 1: it comes after record 1 (rule chain)"},
		"moved": {func(l [][]byte) [][]byte { return append(l[1:], l[0]) }, "chain trim",
			"line 6, record 1: it comes after record 9 (rule chain)"},
		"another record": {func(l [][]byte) [][]byte {
			l[2] = bytes.Replace(l[2], []byte(`"who":"`), []byte(`"who":"x`), 1)
			return l
		}, "hash", "line 3, record 3: it is not the record that has its hash (rule hash)"},
		"another document": {func(l [][]byte) [][]byte {
			l[4] = bytes.Replace(l[4], []byte(`"document":"d`), []byte(`"document":"e`), 1)
			return l
		}, "document", "line 5, record 7: the document is not the one that was submitted (rule document)"},
		"no line": {func(l [][]byte) [][]byte { return append(l, []byte("{}\n")) }, "line", "line 7: it has no record"},
		"cut":     {func(l [][]byte) [][]byte { l[5] = l[5][:40]; return l }, "line trim", "line 6: it is cut off"},
		"a space": {func(l [][]byte) [][]byte { l[0] = append([]byte(" "), l[0]...); return l }, "line",
			"line 1, record 1: it is not written as the record is (rule line)"},
		"empty": {func([][]byte) [][]byte { return nil }, "trim", ": 0 records: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, one, _ := twoExports(t, nil)
			file := packed(t, bytes.Join(c.change(unpacked(t, one)), nil))
			j, one, _ := twoExports(t, func(d *record.TrimmedData) { d.Sum = wire.Hash(file) })
			if err := os.WriteFile(one, file, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, text := rules(t, j, one); got != c.want || !strings.Contains(text, c.says) {
				t.Errorf("%q, not %q: %s", got, c.want, text)
			}
			j, one, _ = twoExports(t, nil)
			if err := os.WriteFile(one, file, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, text := rules(t, j, one); strings.Contains(got, "sum") == (c.want == "") {
				t.Errorf("with the journal's hash: %s", text)
			}
		})
	}
}

// Two exports that have each other's name, one of another journal, and one under another name.
func TestVerifyExportOfAnother(t *testing.T) {
	j, one, two := twoExports(t, nil)
	other, foreign, _ := twoExports(t, nil)
	mustAppend(t, other, Batch{Records: recs(0, 1)})
	renamed := filepath.Join(t.TempDir(), "kept.gz")
	if err := os.Link(one, renamed); err != nil {
		t.Fatal(err)
	}
	if got, text := rules(t, j, renamed); got != "" {
		t.Error(text)
	}
	swapped := one + ".new"
	if err := errors.Join(os.Rename(one, swapped), os.Rename(two, one), os.Rename(swapped, two)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{one, two} {
		if got, text := rules(t, j, path); got != "name" || !strings.Contains(text, "it is the file journal-1-") {
			t.Errorf("%s: %s", path, text)
		}
	}
	empty := mustOpen(t, tempPath(t), Options{})
	if got, text := rules(t, empty, foreign); got != "name" || !strings.Contains(text, "no trim of this journal") {
		t.Error(text)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, t.TempDir()} {
		if _, err := j.VerifyExport(t.Context(), path); !errors.Is(err, ErrNotExport) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := j.VerifyExport(t.Context(), one+".none"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// A trim that says of other kinds than those in its file is told.
func TestVerifyExportKinds(t *testing.T) {
	j, one, _ := twoExports(t, func(d *record.TrimmedData) { d.Kinds = map[string]int{"boot": d.Count} })
	if got, text := rules(t, j, one); got != "trim" || !strings.Contains(text, "it has other kinds of records") {
		t.Error(text)
	}
}

// An export joins what the journal still has beside its records.
func TestVerifyExportJoins(t *testing.T) {
	j, one, two := twoExports(t, nil)
	for _, path := range []string{one, two} {
		if got, text := rules(t, j, path); got != "" {
			t.Fatal(text)
		}
	}
	value := logValues(t, j)[6]
	value[0] ^= 1
	putRaw(t, j, 6, value)
	for path, record := range map[string]string{one: "record 5: ", two: ""} {
		got, text := rules(t, j, path)
		if want := map[bool]string{true: "", false: "journal"}[record == ""]; got != want ||
			!strings.Contains(text, record) {
			t.Errorf("%s: %s", path, text)
		}
	}
}

// Every bit of an export counts, and where it can be told, its place.
func TestEveryBitOfAnExport(t *testing.T) {
	j, one, _ := twoExports(t, nil)
	data, err := os.ReadFile(one)
	if err != nil {
		t.Fatal(err)
	}
	pick(t, filetest.Chance(t), len(data)*8, func(bit int) {
		if err := os.WriteFile(one, filetest.Flipped(data, bit), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := j.VerifyExport(t.Context(), one)
		if err != nil || p.OK() || !slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Rule == RuleSum }) {
			t.Errorf("bit %d: %s %v", bit, p.String(), err)
		}
	})
	for n := range data {
		if n%50 == 0 || n == len(data)-1 {
			if err := os.WriteFile(one, data[:n], 0o600); err != nil {
				t.Fatal(err)
			}
			if got, text := rules(t, j, one); !strings.Contains(got, "packed") {
				t.Errorf("cut to %d bytes: %s", n, text)
			}
		}
	}
}

// Every bit of the lines counts by itself, whatever hash of the file the journal has.
func TestEveryBitOfAnExportsLines(t *testing.T) {
	_, one, _ := twoExports(t, nil)
	lines := bytes.Join(unpacked(t, one), nil)
	pick(t, filetest.Chance(t), len(lines)*8, func(bit int) {
		v := exportVerifier{ctx: t.Context(), kinds: map[string]int{}, sum: sha256.New()}
		if err := v.read(bytes.NewReader(packed(t, filetest.Flipped(lines, bit)))); err != nil {
			t.Fatal(err)
		}
		if v.proof.OK() {
			t.Errorf("bit %d, in %q", bit, lines[max(0, bit/8-20):min(len(lines), bit/8+20)])
		}
	})
}
