package distribute

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tandem.internal/controller/internal/journal"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// exportFile is a file of records that go. It has its name when all of it is on the disk; a crash before leaves one
// whose name ends in .part, which the next one removes.
type exportFile struct {
	dir    string
	name   string // that was asked for, then that it has
	around durable.Around
}

// gzipped writes to a file that is compressed.
type gzipped struct {
	*gzip.Writer
	buf *bufio.Writer
	to  *durable.Part
}

// The ends of the names of exports, and of those that are being written.
const (
	exportEnd = ".jsonl.gz"
	partEnd   = ".part"
)

// exportName is the name of the export of what goes between two records.
func exportName(j *journal.Journal, first, last uint64) string {
	return fmt.Sprintf("journal-%d-%d-%d%s", j.Epoch(), first, last, exportEnd)
}

// write makes the file with what fill writes, and returns its hash. After an error there is none.
func (e *exportFile) write(fill func(*gzipped) error) (sum string, err error) {
	if err := e.free(); err != nil {
		return "", err
	}
	path := filepath.Join(e.dir, e.name)
	part := path + partEnd
	p, err := durable.OpenPart(part, e.around)
	if err != nil {
		return "", err
	}
	to := partWriter{p, sha256.New()}
	buf := bufio.NewWriterSize(to, 64<<10)
	g := &gzipped{gzip.NewWriter(buf), buf, p}
	if err = fill(g); err == nil {
		err = g.finish()
	}
	if err = errors.Join(err, p.Close()); err == nil {
		err = durable.Move(part, path, e.around)
	}
	if err != nil {
		return "", errors.Join(err, ignored(os.Remove(part)))
	}
	return wire.HashPrefix + hex.EncodeToString(to.sum.Sum(nil)), nil
}

// finish brings everything to the disk.
func (g *gzipped) finish() error {
	if err := g.Close(); err != nil {
		return err
	}
	if err := g.buf.Flush(); err != nil {
		return err
	}
	return g.to.Sync()
}

// free finds a name that no file has, and removes what a crash has left in the directory.
func (e *exportFile) free() error {
	files, err := os.ReadDir(e.dir)
	if err != nil {
		return err
	}
	taken := map[string]bool{}
	for _, f := range files {
		taken[f.Name()] = true
		if strings.HasPrefix(f.Name(), "journal-") && strings.HasSuffix(f.Name(), exportEnd+partEnd) {
			if err := durable.Unlink(filepath.Join(e.dir, f.Name()), e.around); err != nil {
				return err
			}
		}
	}
	name := strings.TrimSuffix(e.name, exportEnd)
	for n := 2; taken[e.name]; n++ {
		e.name = fmt.Sprintf("%s-%d%s", name, n, exportEnd)
	}
	return nil
}

func ignored(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// partWriter is what the compressed bytes go to.
type partWriter struct {
	to  *durable.Part
	sum hash.Hash
}

func (w partWriter) Write(b []byte) (int, error) {
	if err := w.to.Append(b); err != nil {
		return 0, err
	}
	w.sum.Write(b) // a hash.Hash never returns an error
	return len(b), nil
}
