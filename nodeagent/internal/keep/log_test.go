package keep

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

// readAll reads a log from a cursor to its end.
func readAll(t interface{ Fatal(...any) }, path string, at Cursor, max int) ([]byte, Cursor) {
	var all []byte
	for {
		data, next, err := ReadLog(path, at, max)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) == 0 {
			return all, next
		}
		all, at = append(all, data...), next
	}
}

func onDisk(t interface{ Fatal(...any) }, path string) (files int, size int64) {
	numbers, err := logFiles(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range numbers {
		info, err := os.Stat(logFile(path, n))
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	return len(numbers), size
}

// Who keeps up reads every byte once, whatever is written and however it is rotated; who does not is told
// so, and reads an end of what was written. Never is more on the disk than was said.
func TestLogProperties(t *testing.T) {
	dir := t.TempDir()
	turn := 0
	rapid.Check(t, func(t *rapid.T) {
		turn++
		log := Log{Path: filepath.Join(dir, fmt.Sprint(turn), "log"),
			Bytes: int64(rapid.IntRange(10, 200).Draw(t, "bytes")), Files: rapid.IntRange(1, 4).Draw(t, "files")}
		w := newLogWriter(log)
		defer func() { w.Close() }()
		var written, read []byte
		var at, slow Cursor
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			// One write may fill a file at most, or the fast reader, too, misses what is rotated away.
			p := rapid.SliceOfN(rapid.SampledFrom([]byte("ab\n")), 0, int(log.Bytes)).Draw(t, "p")
			if rapid.IntRange(0, 5).Draw(t, "again") == 0 { // another run of the same log
				w.Close()
				w = newLogWriter(log)
			}
			w.Write(p)
			written = append(written, p...)
			if log.Files > 1 { // of a single file, what one write begins the next may remove
				var more []byte
				more, at = readAll(t, log.Path, at, rapid.IntRange(1, 300).Draw(t, "max"))
				read = append(read, more...)
			}
			if n, size := onDisk(t, log.Path); n > log.Files || size > log.Bytes*int64(log.Files) {
				t.Fatalf("%d files, %d bytes on the disk", n, size)
			}
		}
		if !bytes.Equal(read, written) && log.Files > 1 {
			t.Fatalf("read %q of %q", read, written)
		}
		kept, _ := readAll(t, log.Path, slow, 7)
		if !bytes.HasSuffix(written, kept) || w.dropped != 0 {
			t.Fatalf("%q is no end of %q", kept, written)
		}
		// Tail begins a line, as far as one begins there.
		n := rapid.Int64Range(0, 300).Draw(t, "tail")
		from, err := Tail(log.Path, n)
		if err != nil {
			t.Fatal(err)
		}
		tail, _ := readAll(t, log.Path, from, 1<<20)
		if int64(len(tail)) > n || !bytes.HasSuffix(kept, tail) {
			t.Fatalf("tail of %d: %q of %q", n, tail, kept)
		}
		if before := kept[:len(kept)-len(tail)]; len(before) > 0 && len(tail) > 0 && before[len(before)-1] != '\n' &&
			bytes.IndexByte(tail[:len(tail)-1], '\n') >= 0 {
			t.Fatalf("tail of %d: %q begins within a line of %q", n, tail, kept)
		}
	})
}

func TestReadLogThatIsNotAsBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	long := filepath.Join(t.TempDir(), "long")
	lw := newLogWriter(Log{Path: long, Bytes: 1000, Files: 2})
	lw.Write([]byte("short\na long line\n"))
	lw.Close()
	for n, want := range map[int64]string{0: "", 1: "\n", 5: "line\n", 12: "a long line\n", 13: "a long line\n",
		18: "short\na long line\n", 99: "short\na long line\n"} {
		at, err := Tail(long, n)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := readAll(t, long, at, 100); string(got) != want {
			t.Errorf("the tail of %d is %q, want %q", n, got, want)
		}
	}
	if data, at, err := ReadLog(path, Cursor{}, 10); data != nil || at != (Cursor{}) || err != nil {
		t.Errorf("a log that may come: %q, %v, %v", data, at, err)
	}
	if at, err := Tail(path, 10); at != (Cursor{}) || err != nil {
		t.Errorf("its tail: %v, %v", at, err)
	}
	if _, _, err := ReadLog(filepath.Join(path, "x"), Cursor{3, 4}, 10); !errors.Is(err, ErrRotated) {
		t.Errorf("a log that went: %v", err)
	}
	w := newLogWriter(Log{Path: path, Bytes: 10, Files: 2})
	defer w.Close()
	for i := range 5 {
		w.Write(fmt.Appendf(nil, "%09d\n", i))
	}
	for name, at := range map[string]Cursor{"removed": {3, 3}, "of another log": {99, 0}, "beyond the end": {5, 11},
		"before the beginning": {5, -1}} {
		data, next, err := ReadLog(path, at, 100)
		if !errors.Is(err, ErrRotated) || data != nil {
			t.Errorf("%s: %q, %v", name, data, err)
		}
		if rest, _ := readAll(t, path, next, 100); string(rest) != "000000003\n000000004\n" {
			t.Errorf("%s: then %q", name, rest)
		}
	}
	if err := os.WriteFile(path+".07", []byte("not ours"), 0o600); err != nil {
		t.Fatal(err)
	}
	if files, err := logFiles(path); err != nil || len(files) != 2 {
		t.Errorf("%v, %v", files, err)
	}
}

// A disk that takes nothing keeps nobody waiting, and when it does again, the log says what is missing.
func TestLogOnAFullDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // no directory
		t.Fatal(err)
	}
	w := newLogWriter(Log{Path: filepath.Join(dir, "log"), Bytes: 1000, Files: 2})
	defer w.Close()
	w.Write([]byte("one\n"))
	w.Write([]byte("two\n"))
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	w.Write([]byte("three\n"))
	got, _ := readAll(t, filepath.Join(dir, "log"), Cursor{}, 1000)
	if want := "\n[8 bytes of output are missing here: the disk did not take them]\nthree\n"; string(got) != want ||
		w.dropped != 8 {
		t.Errorf("%q, %d dropped", got, w.dropped)
	}
}
