package keep

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Cursor is a place in a log: the number of a file, from 1, and bytes in it. It stays valid while the log
// is rotated. The zero Cursor is the beginning of what is kept.
type Cursor struct {
	File   uint64 `json:"file"`
	Offset int64  `json:"offset"`
}

// ErrRotated says that what was at a cursor is gone.
var ErrRotated = errors.New("this part of the log is not kept any more")

// ReadLog returns up to max bytes of a log from a cursor on, and the cursor behind them. At the end of
// the log it returns none, and no error: ask again later. With ErrRotated it returns none, and the
// cursor of the oldest that is kept. It reads files and needs no keeper.
func ReadLog(path string, at Cursor, max int) (data []byte, next Cursor, err error) {
	if max < 1 {
		return nil, at, nil
	}
	for {
		files, err := logFiles(path)
		if err != nil {
			return nil, at, err
		}
		if len(files) == 0 {
			return nil, at, gone(at)
		}
		if at.File == 0 {
			at = Cursor{File: files[0]}
		}
		i, found := slices.BinarySearch(files, at.File)
		if !found {
			return nil, Cursor{File: files[0]}, ErrRotated
		}
		data, err = readAt(logFile(path, at.File), at.Offset, max)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // removed since the directory was read
		case errors.Is(err, errShort): // of another log under the same name, or cut off by a power cut
			return nil, Cursor{File: files[0]}, ErrRotated
		case err != nil:
			return nil, at, fmt.Errorf("read a log: %w", err)
		case len(data) == 0 && i+1 < len(files): // no more will come: the next file was there before this one was read
			at = Cursor{File: files[i+1]}
			continue
		}
		return data, Cursor{at.File, at.Offset + int64(len(data))}, nil
	}
}

// gone is the error of a cursor in a log that does not exist: none at its beginning, for it may come.
func gone(at Cursor) error {
	if at.File == 0 {
		return nil
	}
	return ErrRotated
}

// Tail returns the cursor of the last lines of a log, at most max bytes. Of a last line that is longer, it is the
// end.
func Tail(path string, max int64) (Cursor, error) {
	for again := true; ; again = false {
		files, err := logFiles(path)
		if err != nil || len(files) == 0 {
			return Cursor{}, err
		}
		at, all, err := back(path, files, max+1) // with the byte before, which tells whether a line begins
		if errors.Is(err, fs.ErrNotExist) && again {
			continue // the oldest was removed meanwhile
		}
		if err != nil {
			return Cursor{}, fmt.Errorf("read a log: %w", err)
		}
		if all {
			return at, nil
		}
		return nextLine(path, at)
	}
}

// back goes n bytes back from the end; all says that there are not so many.
func back(path string, files []uint64, n int64) (at Cursor, all bool, err error) {
	for i := len(files) - 1; i >= 0; i-- {
		info, err := os.Stat(logFile(path, files[i]))
		if err != nil {
			return Cursor{}, false, err
		}
		if info.Size() >= n {
			return Cursor{files[i], info.Size() - n}, false, nil
		}
		n -= info.Size()
	}
	return Cursor{File: files[0]}, true, nil
}

// longLine is how far the beginning of a line is looked for.
const longLine = 64 << 10

// nextLine goes behind the next end of a line, if another line follows soon, else one byte on.
func nextLine(path string, at Cursor) (Cursor, error) {
	next := Cursor{at.File, at.Offset + 1}
	for left := longLine; left > 0; {
		data, behind, err := ReadLog(path, at, left)
		if errors.Is(err, ErrRotated) {
			return behind, nil
		}
		if err != nil || len(data) == 0 {
			return next, err
		}
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			line := Cursor{behind.File, behind.Offset - int64(len(data)) + int64(i) + 1}
			more, _, err := ReadLog(path, line, 1)
			if len(more) == 0 {
				line = next
			}
			return line, err
		}
		left -= len(data)
		at = behind
	}
	return next, nil
}

var errShort = errors.New("the file is shorter than that")

func readAt(path string, off int64, max int) (_ []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if off < 0 || off > info.Size() {
		return nil, errShort
	}
	buf := make([]byte, min(int64(max), info.Size()-off))
	n, err := f.ReadAt(buf, off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return buf[:n], err
}

func logFile(path string, n uint64) string { return path + "." + strconv.FormatUint(n, 10) }

// logFiles are the numbers of a log's files in order.
func logFiles(path string) (files []uint64, err error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for a log: %w", err)
	}
	for _, e := range entries {
		text, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+".")
		n, err := strconv.ParseUint(text, 10, 64)
		if ok && err == nil && n > 0 && text[0] != '0' && text[0] != '+' && e.Type().IsRegular() {
			files = append(files, n)
		}
	}
	// a generic sort would be 5 KB of the agent
	sort.SliceStable(files, func(i, j int) bool { return files[i] < files[j] })
	return files, nil
}
