package fetch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"tandem.internal/nodeagent/internal/fetch/plan"
	"tandem.internal/shared/durable"
)

// progress is how far a download is.
type progress struct {
	done, total atomic.Int64 // bytes; total 0: not known
	verifying   atomic.Bool
}

// lookEvery is how many bytes are written before the file system is asked again what room there is.
const lookEvery = 1 << 20

// part is the file of a copy that is being fetched. Every byte of it is accounted for.
type part struct {
	file     *os.File
	store    *Store
	key      plan.Key
	most     int64 // bytes that it may have
	progress *progress

	mu      sync.Mutex
	allowed int64 // bytes that may be written before the room is looked at
}

// errMost says that more comes than a resource may have.
var errMost = errors.New("more bytes come than this resource may have")

func (s *Store) openPart(k plan.Key, most int64, p *progress) (*part, error) {
	if err := s.disk.before(durable.Create); err != nil {
		return nil, err
	}
	path := s.disk.partPath(k)
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		if err := s.disk.before(stepRemove); err != nil {
			return nil, err
		}
		if err := os.RemoveAll(path); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if errors.Is(err, fs.ErrPermission) { // it was made read-only and then not renamed
		if err = os.Chmod(path, 0o600); err == nil {
			f, err = os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
		}
	}
	if err != nil {
		return nil, err
	}
	return &part{file: f, store: s, key: k, most: most, progress: p}, nil
}

// WriteAt writes what has come. It fails with errMost and, if there is no room, an error that full knows.
func (p *part) WriteAt(b []byte, off int64) (int, error) {
	n := int64(len(b))
	if off+n > p.most {
		return 0, errMost
	}
	if err := p.account(n); err != nil {
		return 0, err
	}
	if err := p.store.disk.before(durable.Write); err != nil {
		return 0, err
	}
	return p.file.WriteAt(b, off)
}

func (p *part) account(n int64) error {
	p.mu.Lock()
	enough := p.allowed >= n
	p.mu.Unlock()
	if !enough {
		if err := p.store.ledger.allow(p.key, n); err != nil {
			return err
		}
	}
	p.mu.Lock()
	if p.allowed < n {
		p.allowed = lookEvery
	}
	p.allowed -= n
	p.mu.Unlock()
	p.store.ledger.wrote(p.key, n)
	return nil
}

// clear makes the part empty, with nothing known about it.
func (p *part) clear() error {
	d := p.store.disk
	if err := d.unlink(d.partPath(p.key) + asJSON); err != nil {
		return err
	}
	if err := d.before(stepClear); err != nil {
		return err
	}
	p.progress.done.Store(0)
	return p.file.Truncate(0)
}

func (p *part) sync() error {
	if err := p.store.disk.before(durable.Sync); err != nil {
		return err
	}
	if err := p.file.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return nil
}
