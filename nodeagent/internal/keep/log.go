package keep

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// logWriter writes a log: Path.1, Path.2 and so on, of which the newest are kept. It belongs to one
// goroutine. The names of files never change, so that whoever reads is never led astray.
type logWriter struct {
	log     Log
	f       *os.File // nil: it could not be opened; the next Write tries again
	n       uint64   // the number of f
	size    int64
	dropped int64 // bytes that the disk did not take, ever
	untold  int64 // of those, what the log itself does not say yet
}

func newLogWriter(log Log) *logWriter { return &logWriter{log: log.resolved()} }

// Write writes all of p, or drops what the disk does not take: whoever speaks is never kept waiting for a
// disk that is full. When there is room again, the log says how much is missing.
func (w *logWriter) Write(p []byte) {
	for len(p) > 0 {
		n, err := w.write(p)
		p = p[n:]
		if err != nil {
			w.dropped += int64(len(p))
			w.untold += int64(len(p))
			w.Close() // so that a log that was removed is made anew
			return
		}
	}
}

// write writes up to the end of a file.
func (w *logWriter) write(p []byte) (n int, err error) {
	if err := w.open(); err != nil {
		return 0, err
	}
	room := w.log.Bytes - w.size
	if w.untold > 0 {
		note := fmt.Appendf(nil, "\n[%d bytes of output are missing here: the disk did not take them]\n", w.untold)
		if int64(len(note)) > room {
			return 0, w.rotate()
		}
		if err := w.put(note); err != nil {
			return 0, err
		}
		w.untold = 0
		room = w.log.Bytes - w.size
	}
	if int64(len(p)) > room {
		line := bytes.LastIndexByte(p[:room], '\n') + 1 // a file ends with a line, if it can
		if line == 0 && w.size == 0 {
			line = int(room)
		}
		p = p[:line]
	}
	if err := w.put(p); err != nil {
		return 0, err
	}
	if len(p) == 0 { // the file is full, and stays until there is more to write
		return 0, w.rotate()
	}
	return len(p), nil
}

func (w *logWriter) put(p []byte) error {
	n, err := w.f.Write(p)
	w.size += int64(n)
	return err
}

// open opens the newest file, or makes the first one.
func (w *logWriter) open() error {
	if w.f != nil {
		return nil
	}
	files, err := logFiles(w.log.Path)
	if err != nil {
		return err
	}
	w.n = 1
	if len(files) > 0 {
		w.n = files[len(files)-1]
	}
	if err := os.MkdirAll(filepath.Dir(w.log.Path), 0o700); err != nil {
		return err
	}
	return w.use()
}

// use opens file n and removes those that are too old.
func (w *logWriter) use() error {
	f, err := os.OpenFile(logFile(w.log.Path, w.n), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	w.f, w.size = f, info.Size()
	files, err := logFiles(w.log.Path)
	if err != nil {
		return err
	}
	for _, n := range files {
		if n+uint64(w.log.Files) <= w.n {
			if err := os.Remove(logFile(w.log.Path, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

func (w *logWriter) rotate() error {
	w.Close()
	w.n++
	return w.use()
}

// Close closes the file. What is in it is as safe as the kernel keeps it: a log is not worth a sync.
func (w *logWriter) Close() {
	if w.f != nil {
		_ = w.f.Close() // every write has been answered
		w.f = nil
	}
}
