// Package filetest has what tests of files share: damage, samples of it, and files that earlier programs have written.
package filetest

import (
	"bytes"
	"compress/gzip"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"testing"
)

var (
	everyBit = flag.Bool("every-bit", false, "flip every bit and cut at every size, not a sample")
	seed     = flag.Uint64("damage-seed", 0, "of the samples; 0: a new one")
)

// EveryBit reports whether every damage is to be tried, not a sample.
func EveryBit() bool { return *everyBit }

// Chance is what samples are drawn with. It logs how to have them again.
func Chance(t testing.TB) *rand.Rand {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("-damage-seed %d", s)
	return rand.New(rand.NewPCG(s, 0))
}

// Flipped returns a copy of data with one bit flipped.
func Flipped(data []byte, bit int) []byte {
	bad := bytes.Clone(data)
	bad[bit/8] ^= 1 << (bit % 8)
	return bad
}

// Unpacked returns the content of a file that is compressed with gzip.
func Unpacked(t testing.TB, path string) []byte {
	t.Helper()
	packed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return data
}

// MemoryDir is a directory in memory where there is one, for tests that open files by the thousand.
func MemoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "tandem-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
