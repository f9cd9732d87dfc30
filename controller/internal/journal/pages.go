package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"go.etcd.io/bbolt"

	"tandem.internal/shared/wire"
)

// pageWalk follows the page tree of a bbolt file before bbolt does, because bbolt answers a
// broken page with a panic in a goroutine of its own, which would take the process down. It
// reads every page's header, table of elements and keys, not the values.
type pageWalk struct {
	file io.ReaderAt
	size int64    // of a page
	used uint64   // pages in use
	seen []uint64 // a bit for each page
}

// bbolt's flags and sizes; its file is in the machine's byte order.
const (
	branchPage   = 0x01
	leafPage     = 0x02
	pageHeader   = 16 // id 8, flags 2, count 2, overflow 4
	pageElement  = 16 // leaf: flags, pos, key size, value size, 4 each; branch: pos 4, key size 4, page 8
	bucketLeaf   = 0x01
	bucketHeader = 16 // root page 8, sequence 8; root 0: a leaf page follows
	maxDepth     = 64
)

// checkPages fails with ErrDamaged if the page tree of the newest transaction is not one.
func checkPages(path string, file io.ReaderAt) error {
	first := make([]byte, 80)
	if _, err := file.ReadAt(first, 0); err != nil {
		return fmt.Errorf("read the first page: %w", err)
	}
	meta := first
	_, txid, size, ok := metaPage(first)
	if !ok {
		return nil // bbolt opened it by the second meta page; it alone knows where that is
	}
	second := make([]byte, 80)
	if _, err := file.ReadAt(second, size); err != nil {
		return fmt.Errorf("read the second page: %w", err)
	}
	if _, txid2, _, ok := metaPage(second); ok && txid2 > txid {
		meta = second
	}
	used, _, _, _ := metaPage(meta)
	w := pageWalk{file: file, size: size, used: used, seen: make([]uint64, used/64+1)}
	if _, err := w.page(binary.NativeEndian.Uint64(meta[32:]), span{}, 0); err != nil {
		return fail(ErrDamaged, wire.CodeStorage, err, fmt.Sprintf("%s is damaged: %v; restore a backup", path, err))
	}
	return nil
}

// span bounds the keys of a page: from min on, below max; nil is no bound.
type span struct{ min, max []byte }

// page checks one page and everything below it, and returns its highest key.
func (w *pageWalk) page(id uint64, keys span, depth int) ([]byte, error) {
	if id < 2 || id >= w.used || depth > maxDepth {
		return nil, fmt.Errorf("page %d is out of range", id)
	}
	b := make([]byte, w.size)
	if _, err := w.file.ReadAt(b, int64(id)*w.size); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	order := binary.NativeEndian
	if got := order.Uint64(b); got != id {
		return nil, fmt.Errorf("page %d says that it is page %d", id, got)
	}
	overflow := uint64(order.Uint32(b[12:]))
	if overflow >= w.used-id {
		return nil, fmt.Errorf("page %d reaches beyond the end", id)
	}
	for p := id; p <= id+overflow; p++ {
		if w.seen[p/64]&(1<<(p%64)) != 0 {
			return nil, fmt.Errorf("page %d is used twice", p)
		}
		w.seen[p/64] |= 1 << (p % 64)
	}
	total := int64(overflow+1) * w.size
	if table := pageHeader + int64(order.Uint16(b[10:]))*pageElement; table > w.size && table <= total {
		b = make([]byte, table)
		if _, err := w.file.ReadAt(b, int64(id)*w.size); err != nil {
			return nil, fmt.Errorf("page %d: %w", id, err)
		}
	}
	last, err := w.elements(b, int64(id)*w.size, total, keys, depth)
	if err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	return last, nil
}

// elements checks the table of the page that begins with b, has total bytes and is at offset,
// and what hangs on it. It returns the highest key.
func (w *pageWalk) elements(b []byte, offset, total int64, keys span, depth int) (last []byte, err error) {
	order := binary.NativeEndian
	flags, count := order.Uint16(b[8:]), int64(order.Uint16(b[10:]))
	if flags != branchPage && flags != leafPage || flags == branchPage && count == 0 {
		return nil, errors.New("it is neither branch nor leaf")
	}
	end := pageHeader + count*pageElement
	if end > int64(len(b)) {
		return nil, fmt.Errorf("%d elements do not fit", count)
	}
	key := func(at int64) ([]byte, error) {
		if at == end {
			return keys.max, nil
		}
		e := b[at : at+pageElement]
		if flags == leafPage {
			e = e[4:]
		}
		from, size := at+int64(order.Uint32(e)), int64(order.Uint32(e[4:]))
		if size == 0 || size > bbolt.MaxKeySize || from < end || from+size > total {
			return nil, errors.New("a key is out of place")
		}
		if from+size <= int64(len(b)) {
			return b[from : from+size], nil
		}
		k := make([]byte, size)
		_, err := w.file.ReadAt(k, offset+from)
		return k, err
	}
	for at := int64(pageHeader); at < end; at += pageElement {
		k, err := key(at)
		if err != nil {
			return nil, err
		}
		first := at == pageHeader
		if first && bytes.Compare(k, keys.min) < 0 || !first && bytes.Compare(k, last) <= 0 ||
			keys.max != nil && bytes.Compare(k, keys.max) >= 0 {
			return nil, errors.New("its keys are out of order")
		}
		e := b[at : at+pageElement]
		if flags == branchPage {
			next, err := key(at + pageElement)
			if err != nil {
				return nil, err
			}
			if last, err = w.page(order.Uint64(e[8:]), span{k, next}, depth+1); err != nil {
				return nil, err
			}
			continue
		}
		last = k
		value, size := at+int64(order.Uint32(e[4:]))+int64(len(k)), int64(order.Uint32(e[12:]))
		if value+size > total {
			return nil, errors.New("a value reaches beyond the end")
		}
		if order.Uint32(e)&bucketLeaf != 0 {
			if err := w.bucket(offset+value, size, depth+1); err != nil {
				return nil, err
			}
		}
	}
	return last, nil
}

// bucket checks the bucket whose header is at offset: one with pages of its own, or an inline one.
func (w *pageWalk) bucket(offset, size int64, depth int) error {
	if size < bucketHeader || size > w.size || depth > maxDepth {
		return fmt.Errorf("a bucket of %d bytes", size)
	}
	b := make([]byte, size)
	if _, err := w.file.ReadAt(b, offset); err != nil {
		return err
	}
	if root := binary.NativeEndian.Uint64(b); root != 0 {
		_, err := w.page(root, span{}, depth)
		return err
	}
	if b = b[bucketHeader:]; len(b) < pageHeader {
		return fmt.Errorf("a bucket of %d bytes", size)
	}
	_, err := w.elements(b, offset+bucketHeader, int64(len(b)), span{}, depth)
	return err
}
