package filetest

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// Descriptors lets the process open n descriptors more, until back is called.
func Descriptors(t testing.TB, n uint64) (back func()) {
	t.Helper()
	next, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	free := uint64(next.Fd())
	var before syscall.Rlimit
	if err := errors.Join(next.Close(), syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: free + n, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Fatal(err)
		}
	}
}
