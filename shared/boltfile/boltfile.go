// Package boltfile inspects a bbolt file before bbolt maps it. bbolt trusts its pages: it answers a file that is cut
// short with SIGBUS, and a broken page with a panic, sometimes on a goroutine of its own. What Check has passed is
// neither, as long as nobody writes to the file: the caller holds the file's lock. Live needs none.
//
// It reads by ReadAt, keeps one page of each level in memory, and changes nothing. bbolt has checksums for its two meta
// pages only: whether values are what was written is for the caller, who gets all of them from Check.
package boltfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// What Check finds. Anything else is an error of reading.
var (
	ErrForeign = errors.New("it is not a bbolt file")        // no meta page is valid
	ErrCut     = errors.New("it is cut short")               // it ends before its newest transaction does
	ErrDamaged = errors.New("a page is not what it must be") // of the newest transaction
)

// Meta is what the meta pages say of the newest transaction.
type Meta struct {
	PageSize int64  // bytes
	Pages    uint64 // in use, the meta pages included
	Txid     uint64 // number of the transaction
	// Whole says that both meta pages are valid. If one is not, it may have been that of the newest transaction, which
	// is lost then: the other is of the one before.
	Whole bool

	root, freelist uint64 // pages
}

// bbolt's constants. Its file is in the machine's byte order.
const (
	magic      = 0xED0CDAED
	version    = 2
	metaEnd    = 80 // of what a meta page has: page header, and 64 bytes, the last eight of which are a checksum
	noFreelist = ^uint64(0)
	maxSizeLog = 14 // a page has at most 1024<<14 bytes
)

// ReadMeta reads the meta pages of a file of size bytes and compares them with the size.
func ReadMeta(file io.ReaderAt, size int64) (Meta, error) {
	first, ok, err := readMeta(file, size, 0)
	if err != nil {
		return Meta{}, err
	}
	if !ok { // then only a look at each place tells where the second one is
		for log := 0; log <= maxSizeLog; log++ {
			at := int64(1024) << log
			m, ok, err := readMeta(file, size, at)
			if err != nil {
				return Meta{}, err
			}
			if ok && m.PageSize == at {
				return m, m.fits(size)
			}
		}
		return Meta{}, ErrForeign
	}
	second, ok, err := readMeta(file, size, first.PageSize)
	switch {
	case err != nil:
		return Meta{}, err
	case ok && second.PageSize == first.PageSize && second.Txid > first.Txid:
		first = second
		first.Whole = true
	default:
		first.Whole = ok && second.PageSize == first.PageSize
	}
	return first, first.fits(size)
}

// fits compares the pages in use with the size of the file.
func (m *Meta) fits(size int64) error {
	if m.Pages > uint64(size/m.PageSize) {
		return fmt.Errorf("%w: it has %d bytes, and %d pages of %d", ErrCut, size, m.Pages, m.PageSize)
	}
	return nil
}

// readMeta reads the meta page at an offset; false: it is not valid, or beyond the end.
func readMeta(file io.ReaderAt, size, at int64) (m Meta, ok bool, err error) {
	if at > size-metaEnd {
		return Meta{}, false, nil
	}
	b := make([]byte, metaEnd)
	if err := readFull(file, b, at); err != nil {
		return Meta{}, false, err
	}
	order := binary.NativeEndian
	sum := fnv.New64a()
	_, _ = sum.Write(b[16:72]) // which never fails
	m = Meta{
		PageSize: int64(order.Uint32(b[24:])), root: order.Uint64(b[32:]), freelist: order.Uint64(b[48:]),
		Pages: order.Uint64(b[56:]), Txid: order.Uint64(b[64:]),
	}
	ok = order.Uint32(b[16:]) == magic && order.Uint32(b[20:]) == version && order.Uint64(b[72:]) == sum.Sum64() &&
		m.PageSize >= 512 && m.PageSize <= 1024<<maxSizeLog
	return m, ok, nil
}

// readFull fills b from an offset. A file that ends before is cut.
func readFull(file io.ReaderAt, b []byte, at int64) error {
	n, err := file.ReadAt(b, at)
	switch {
	case n == len(b):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return fmt.Errorf("%w: nothing is at byte %d", ErrCut, at+int64(n))
	}
	return fmt.Errorf("read %d bytes at byte %d: %w", len(b), at, err)
}

// Entry is a value of a bucket, or a bucket in one. Its slices are only valid during the call.
type Entry struct {
	Path     [][]byte // keys of the buckets around it, the outermost first
	Key      []byte
	Value    []byte // nil for a bucket
	Bucket   bool
	Sequence uint64 // of a bucket
}

// Check reads the meta pages and every page of the newest transaction of a file of size bytes. It fails with what the
// variables above name, with an error of reading, or with what visit returns, which is called with every entry, each
// bucket before its own, in the order of the keys. visit may be nil: values are not read then.
func Check(file io.ReaderAt, size int64, visit func(Entry) error) (Meta, error) {
	m, err := ReadMeta(file, size)
	if err != nil {
		return m, err
	}
	w := walk{file: file, size: m.PageSize, used: m.Pages, seen: make([]uint64, m.Pages/64+1), visit: visit}
	if _, err := w.page(m.root, span{}, nil, 0); err != nil {
		return m, err
	}
	if m.freelist != noFreelist {
		if err := w.freelist(m.freelist); err != nil {
			return m, fmt.Errorf("list of free pages: %w", err)
		}
	}
	return m, nil
}

// damage says what is wrong with a page. It is ErrDamaged.
type damage string

func (d damage) Error() string { return string(d) }

// Is makes it ErrDamaged.
func (d damage) Is(target error) bool { return target == ErrDamaged }

func damaged(format string, args ...any) error { return damage(fmt.Sprintf(format, args...)) }
