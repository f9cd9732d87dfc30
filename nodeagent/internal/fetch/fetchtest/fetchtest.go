// Package fetchtest serves the tests of the store of resources and of BitTorrent: contents and artifacts, and stores
// that run. It knows nothing of package fetch, whose own tests use it.
package fetchtest

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tandem.internal/shared/workload"
)

// Plenty is a file system's room in bytes that no test fills.
const Plenty = 1 << 40

// Content is n bytes that look like nothing, the same for the same seed.
func Content(seed uint64, n int) []byte {
	b := make([]byte, 0, n+8)
	for r := rand.New(rand.NewPCG(seed, 1)); len(b) < n; {
		b = binary.LittleEndian.AppendUint64(b, r.Uint64())
	}
	return b[:n]
}

// SHA is the SHA256 checksum of data, as a workload's document has it.
func SHA(data []byte) string {
	sum := sha256.Sum256(data)
	return "SHA256:" + hex.EncodeToString(sum[:])
}

// MD is the MD5 checksum of data, as a workload's document has it.
func MD(data []byte) string {
	sum := md5.Sum(data)
	return "MD5:" + hex.EncodeToString(sum[:])
}

// Artifact is a resource without a UUID.
func Artifact(sum string, size int, urls ...string) workload.Artifact {
	return workload.Artifact{Class: workload.Resource, URLs: urls, Size: int64(size),
		Verification: workload.Verification{Checksum: sum}}
}

// Named is a with a UUID.
func Named(uuid string, a workload.Artifact) workload.Artifact { a.UUID = uuid; return a }

// Files lists the files in a store's directory, a line each.
func Files(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		fmt.Fprintln(&b, rel)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Run lets a store run until the test ends or stop is called. stop waits for it.
func Run(t testing.TB, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// Await waits until a status is as it should be, for at most as long as late says. updates tells that it may have
// changed.
func Await[S any](t testing.TB, late time.Duration, updates <-chan struct{}, status func() S, what string,
	ok func(S) bool) S {
	t.Helper()
	end := time.After(late)
	for {
		st := status()
		if ok(st) {
			return st
		}
		select {
		case <-updates:
		case <-end:
			t.Fatalf("%s: never; now %+v", what, st)
		}
	}
}

// Whole checks the copy of want at a path that a Status gave.
func Whole(t testing.TB, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("the copy has %d bytes, want %d: %v", len(got), len(want), err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != 0o555 || !filepath.IsAbs(path) {
		t.Fatalf("%v %v %v", path, info.Mode(), err)
	}
}
