package boltfile

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// ErrBusy says that transactions came quicker than Live could read between two of them.
var ErrBusy = errors.New("it is written to without a pause")

// attempts are how often Live tries. One needs four reads of a page, a transaction of a disk many times that.
const attempts = 1000

// Live reads the values of a small bucket of the root, as of the newest transaction, without the file's lock: others
// may write to the file meanwhile, and nothing keeps them from it. Buckets in the bucket are left out.
//
// bbolt writes a transaction to pages that the one before does not use, and names it in a meta page last. So the pages
// of the newest transaction stay as they are until another one is complete: what was read counts if the newest one is
// still the same afterwards. It fails as Check does, with ErrBusy, or with an error of the file; of damage it finds
// what lies on the way.
func Live(file *os.File, bucket string) (values map[string][]byte, m Meta, err error) {
	for range attempts {
		before, err := size(file)
		if err != nil {
			return nil, m, err
		}
		values, m, err = pick(file, before, bucket)
		after, serr := size(file)
		if serr != nil {
			return nil, m, serr
		}
		// An error that is not of the file's content is in both.
		again, merr := ReadMeta(file, after)
		if before == after && again == m && (merr == nil || err != nil) {
			return values, m, err
		}
	}
	return nil, m, ErrBusy
}

func size(file *os.File) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// pick reads the values of a bucket of the root; nil if there is none.
func pick(file *os.File, size int64, bucket string) (values map[string][]byte, m Meta, err error) {
	if m, err = ReadMeta(file, size); err != nil {
		return nil, m, err
	}
	w := walk{file: file, size: m.PageSize, used: m.Pages, seen: make([]uint64, m.Pages/64+1)}
	w.enter = func(path [][]byte, key []byte) bool { return len(path) == 0 && string(key) == bucket }
	w.visit = func(e Entry) error {
		switch {
		case e.Bucket:
			values = map[string][]byte{}
		case len(e.Path) == 1:
			values[string(e.Key)] = slices.Clone(e.Value)
		}
		return nil
	}
	if _, err := w.page(m.root, span{}, nil, 0); err != nil {
		return nil, m, fmt.Errorf("bucket %s: %w", bucket, err)
	}
	return values, m, nil
}
