package boltfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// walk follows the page tree of a file.
type walk struct {
	file  io.ReaderAt
	size  int64    // of a page, bytes
	used  uint64   // pages in use
	seen  []uint64 // a bit for each page
	visit func(Entry) error
	enter func(path [][]byte, key []byte) bool // says which buckets are walked; nil: all
}

// bbolt's flags and sizes.
const (
	branchPage   = 0x01
	leafPage     = 0x02
	freelistPage = 0x10
	pageHeader   = 16 // id 8, flags 2, count 2, overflow 4
	pageElement  = 16 // leaf: flags, pos, key size, value size, 4 each; branch: pos 4, key size 4, page 8
	bucketLeaf   = 0x01
	bucketHeader = 16 // root page 8, sequence 8; root 0: a leaf page follows
	maxKeySize   = 32768
	maxDepth     = 64
	manyFree     = 0xFFFF // as the count of a list of free pages: the count is its first element
)

// span bounds the keys of a page: from min on, below max; nil is no bound.
type span struct{ min, max []byte }

// part is a page, or an inline bucket's: its beginning, where that is in the file, and its length; in bytes.
type part struct {
	b             []byte
	offset, total int64
}

// claim reads the header of a page, and marks it and its overflow as used.
func (w *walk) claim(id uint64) (p part, err error) {
	if id < 2 || id >= w.used {
		return p, damaged("page %d is out of range", id)
	}
	b := make([]byte, w.size)
	if err := readFull(w.file, b, int64(id)*w.size); err != nil {
		return p, fmt.Errorf("page %d: %w", id, err)
	}
	order := binary.NativeEndian
	if got := order.Uint64(b); got != id {
		return p, damaged("page %d says that it is page %d", id, got)
	}
	overflow := uint64(order.Uint32(b[12:]))
	if overflow >= w.used-id {
		return p, damaged("page %d reaches beyond the end", id)
	}
	for n := id; n <= id+overflow; n++ {
		if w.isSeen(n) {
			return p, damaged("page %d is used twice", n)
		}
		w.seen[n/64] |= 1 << (n % 64)
	}
	return part{b, int64(id) * w.size, int64(overflow+1) * w.size}, nil
}

func (w *walk) isSeen(page uint64) bool { return w.seen[page/64]&(1<<(page%64)) != 0 }

// grow reads on until the first n bytes of a part are there.
func (w *walk) grow(p *part, n int64) error {
	if n <= int64(len(p.b)) {
		return nil
	}
	b := make([]byte, n)
	if err := readFull(w.file, b, p.offset); err != nil {
		return err
	}
	p.b = b
	return nil
}

// page checks one page and everything below it, and returns its highest key.
func (w *walk) page(id uint64, keys span, path [][]byte, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, damaged("page %d is too deep", id)
	}
	p, err := w.claim(id)
	if err != nil {
		return nil, err
	}
	last, err := w.elements(p, keys, path, depth)
	if err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	return last, nil
}

// elements checks the table of a page and what hangs on it, and returns the highest key.
func (w *walk) elements(p part, keys span, path [][]byte, depth int) (last []byte, err error) {
	order := binary.NativeEndian
	flags, count := order.Uint16(p.b[8:]), int64(order.Uint16(p.b[10:]))
	if flags != branchPage && flags != leafPage || flags == branchPage && count == 0 {
		return nil, damaged("it is neither branch nor leaf")
	}
	end := pageHeader + count*pageElement
	if end > p.total {
		return nil, damaged("%d elements do not fit", count)
	}
	if err := w.grow(&p, end); err != nil {
		return nil, err
	}
	for at := int64(pageHeader); at < end; at += pageElement {
		k, err := w.key(p, at, end, flags)
		if err != nil {
			return nil, err
		}
		first := at == pageHeader
		if first && bytes.Compare(k, keys.min) < 0 || !first && bytes.Compare(k, last) <= 0 ||
			keys.max != nil && bytes.Compare(k, keys.max) >= 0 {
			return nil, damaged("its keys are out of order")
		}
		if flags == leafPage {
			last = k
			if err := w.leaf(p, at, k, path, depth); err != nil {
				return nil, err
			}
			continue
		}
		below := span{k, keys.max}
		if at+pageElement < end {
			if below.max, err = w.key(p, at+pageElement, end, flags); err != nil {
				return nil, err
			}
		}
		if last, err = w.page(order.Uint64(p.b[at+8:]), below, path, depth+1); err != nil {
			return nil, err
		}
	}
	return last, nil
}

// key returns the key of the element at an offset of a page whose table ends at end.
func (w *walk) key(p part, at, end int64, flags uint16) ([]byte, error) {
	e := p.b[at : at+pageElement]
	if flags == leafPage {
		e = e[4:]
	}
	from, size := at+int64(binary.NativeEndian.Uint32(e)), int64(binary.NativeEndian.Uint32(e[4:]))
	if size == 0 || size > maxKeySize || from < end || from+size > p.total {
		return nil, damaged("a key is out of place")
	}
	return w.bytes(p, from, size)
}

// bytes returns a piece of a part.
func (w *walk) bytes(p part, from, size int64) ([]byte, error) {
	if from+size <= int64(len(p.b)) {
		return p.b[from : from+size : from+size], nil
	}
	b := make([]byte, size)
	return b, readFull(w.file, b, p.offset+from)
}

// leaf checks the value of the element at an offset of a leaf page.
func (w *walk) leaf(p part, at int64, key []byte, path [][]byte, depth int) error {
	order := binary.NativeEndian
	e := p.b[at : at+pageElement]
	flags, size := order.Uint32(e), int64(order.Uint32(e[12:]))
	from := at + int64(order.Uint32(e[4:])) + int64(len(key))
	if from+size > p.total {
		return damaged("a value reaches beyond the end")
	}
	switch {
	case flags == bucketLeaf:
		return w.bucket(p, from, size, key, path, depth+1)
	case flags != 0:
		return damaged("an element is neither value nor bucket")
	case w.visit == nil:
		return nil
	}
	value, err := w.bytes(p, from, size)
	if err != nil {
		return err
	}
	return w.visit(Entry{Path: path, Key: key, Value: value})
}

// bucket checks the bucket whose header is at an offset of a page: one with pages of its own, or an inline one.
func (w *walk) bucket(p part, from, size int64, key []byte, path [][]byte, depth int) error {
	if size < bucketHeader || size > w.size || depth > maxDepth {
		return damaged("a bucket of %d bytes", size)
	}
	if w.enter != nil && !w.enter(path, key) {
		return nil
	}
	b, err := w.bytes(p, from, size)
	if err != nil {
		return err
	}
	root, sequence := binary.NativeEndian.Uint64(b), binary.NativeEndian.Uint64(b[8:])
	if w.visit != nil {
		if err := w.visit(Entry{Path: path, Key: key, Bucket: true, Sequence: sequence}); err != nil {
			return err
		}
	}
	path = append(path[:len(path):len(path)], key)
	if root != 0 {
		_, err := w.page(root, span{}, path, depth)
		return err
	}
	if size < bucketHeader+pageHeader {
		return damaged("a bucket of %d bytes", size)
	}
	if flags := binary.NativeEndian.Uint16(b[bucketHeader+8:]); flags != leafPage {
		return damaged("an inline bucket is no leaf")
	}
	inline := part{b[bucketHeader:], p.offset + from + bucketHeader, size - bucketHeader}
	_, err = w.elements(inline, span{}, path, depth)
	return err
}

// freelist checks the list of free pages: a page that is in use would be written over.
func (w *walk) freelist(id uint64) error {
	p, err := w.claim(id)
	if err != nil {
		return err
	}
	order := binary.NativeEndian
	flags, count, from := order.Uint16(p.b[8:]), uint64(order.Uint16(p.b[10:])), int64(pageHeader)
	if flags != freelistPage {
		return damaged("page %d is not one", id)
	}
	if count == manyFree {
		count, from = order.Uint64(p.b[pageHeader:]), pageHeader+8
	}
	if count > uint64(p.total-from)/8 {
		return damaged("%d elements do not fit", count)
	}
	if err := w.grow(&p, from+int64(count)*8); err != nil {
		return err
	}
	for i := range int64(count) {
		page := order.Uint64(p.b[from+i*8:])
		if page < 2 || page >= w.used || w.isSeen(page) {
			return damaged("page %d is not free", page)
		}
		w.seen[page/64] |= 1 << (page % 64)
	}
	return nil
}
