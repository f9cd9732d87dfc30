package fetch

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"tandem.internal/nodeagent/internal/fetch/plan"
)

// free asks the file system of dir how many bytes this process may still write.
func free(dir string) (uint64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("ask the file system of %s: %w", dir, err)
	}
	return st.Bavail * uint64(st.Bsize), nil
}

// errRoom says that a write would take what is to stay free, or what another download has reserved.
var errRoom = errors.New("there is no room for more: what is left on the file system is to stay free")

// ledger knows what room is reserved.
type ledger struct {
	keep  int64
	space func() (uint64, error)

	mu   sync.Mutex
	left map[plan.Key]int64 // bytes that are reserved and not written yet
}

// sound turns what the file system says into a number that can be reckoned with.
func (l *ledger) sound() (int64, error) {
	n, err := l.space()
	return int64(min(n, 1<<62)) - l.keep, err
}

// room is how many bytes may still be reserved.
func (l *ledger) room() (int64, error) {
	n, err := l.sound()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.beside("", n), err
}

// beside is what n leaves beside what others than k have reserved; "" reserves nothing. The caller has mu.
func (l *ledger) beside(k plan.Key, n int64) int64 {
	for other, left := range l.left {
		if other != k {
			n -= left
		}
	}
	return n
}

func (l *ledger) reserve(k plan.Key, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left[k] = max(bytes, 0)
}

// hold reserves bytes for k if they have room, or are reserved already. It returns how many may be taken.
func (l *ledger) hold(k plan.Key, bytes int64) (room int64, err error) {
	n, err := l.sound()
	l.mu.Lock()
	defer l.mu.Unlock()
	if n = l.beside(k, n); err == nil && n >= bytes {
		l.left[k] = bytes
	}
	return n, err
}

func (l *ledger) end(k plan.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.left, k)
}

// wrote takes bytes off what k has reserved.
func (l *ledger) wrote(k plan.Key, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left[k] = max(l.left[k]-bytes, 0)
}

// allow is errRoom if bytes more of k have no room beside what others have reserved.
func (l *ledger) allow(k plan.Key, bytes int64) error {
	n, err := l.sound()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if bytes > l.beside(k, n) {
		return errRoom
	}
	return nil
}

// full reports whether a write failed for want of room.
func full(err error) bool {
	return errors.Is(err, errRoom) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
