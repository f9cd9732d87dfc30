package backup

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/journal"
)

// ErrDamaged says that a file is no whole backup.
var ErrDamaged = errors.New("the backup is damaged")

// ErrKey says that a file is encrypted for others, or with another passphrase. What wraps it says which.
var ErrKey = errors.New("the backup is encrypted otherwise")

func damaged(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, a...)...)
}

// The beginning of a file of age, and of one that a passphrase opens.
const (
	intro      = "age-encryption.org/v1\n"
	passphrase = intro + "-> scrypt "
)

// open reads as much of a file as shows that one of ids opens it. What plain has is proved as it is read.
func open(ctx context.Context, r io.Reader, ids []age.Identity) (plain io.Reader, err error) {
	in := bufio.NewReader(until{ctx, r.Read})
	begin, err := in.Peek(len(passphrase))
	if !strings.HasPrefix(string(begin), intro) {
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		return nil, damaged("it is none, or its beginning is lost: no file of age")
	}
	plain, err = age.Decrypt(in, ids...)
	if _, other := errors.AsType[*age.NoIdentityMatchError](err); !other {
		if err != nil {
			err = damaged("%w", err)
		}
		return plain, err
	}
	_, tried := ids[0].(*age.ScryptIdentity)
	switch asks := string(begin) == passphrase; {
	case asks && tried:
		return nil, fmt.Errorf("%w: with another passphrase", ErrKey)
	case asks:
		return nil, fmt.Errorf("%w: with a passphrase, and not for a key; leave out --identity", ErrKey)
	case tried:
		return nil, fmt.Errorf("%w: for keys, and not with a passphrase; --identity FILE names the one that opens it",
			ErrKey)
	}
	return nil, fmt.Errorf("%w: for another key", ErrKey)
}

// read calls take for every entry but the manifest, which is to read or to leave the content. What take got counts only
// if the error is nil. Errors of take are returned as they are.
func read(plain io.Reader, take func(name string, size int64, content io.Reader) error) (Manifest, error) {
	t := tar.NewReader(plain)
	var got []File
	names := map[string]bool{}
	for {
		h, err := t.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("it has no manifest")
			}
			return Manifest{}, cutOff(err)
		}
		if h.Typeflag != tar.TypeReg || !validName(h.Name) || names[h.Name] || !plainEntry(h) {
			return Manifest{}, damaged("it has an entry %.80q", h.Name)
		}
		if len(names) == maxEntries {
			return Manifest{}, damaged("it has more than %d entries", maxEntries)
		}
		names[h.Name] = true
		if h.Name == manifestName {
			return readManifest(t, plain, got)
		}
		sum := sha256.New()
		content := &proving{r: io.TeeReader(t, sum)}
		if err := take(h.Name, h.Size, content); err != nil && content.err == nil {
			return Manifest{}, err
		}
		if _, err := io.Copy(io.Discard, content); err != nil {
			return Manifest{}, cutOff(err)
		}
		got = append(got, File{h.Name, h.Size, hex.EncodeToString(sum.Sum(nil))})
	}
}

// cutOff is the error of a file that begins as a backup.
func cutOff(err error) error {
	return damaged("it was cut off or changed; copy it once more, or take another one (%w)", err)
}

// plainEntry reports whether an entry is one as Draft writes it: only a size that the header has no room for is beside
// that. The content of a sparse one would not be in the file, and its size without a bound.
func plainEntry(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if key != "size" {
			return false
		}
	}
	return true
}

// proving remembers an error of the file, to tell it from one of who takes its content.
type proving struct {
	r   io.Reader
	err error
}

func (p *proving) Read(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	n, err := p.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		p.err = err
	}
	return n, err
}

// readManifest reads the manifest, and the file to its end, which age proves there.
func readManifest(t *tar.Reader, plain io.Reader, got []File) (m Manifest, err error) {
	text, err := io.ReadAll(io.LimitReader(t, maxManifest))
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, plain)
	}
	switch {
	case err != nil:
		return Manifest{}, cutOff(err)
	case m.Format != Format:
		return Manifest{}, fmt.Errorf("the backup has the format %d, and this program knows %d: use the program that "+
			"wrote it, %s", m.Format, Format, m.Program)
	case !slices.Equal(m.Files, got):
		return Manifest{}, damaged("its entries are not those of its manifest")
	case !slices.ContainsFunc(got, func(f File) bool { return f.Name == stateDir+journalFile }):
		return Manifest{}, damaged("it has no journal")
	}
	return m, nil
}

// Proof is the outcome of Verify.
type Proof struct {
	Manifest Manifest
	Journal  string // what was looked at of the journal
	Behind   bool   // of a restore: this machine's clock stands before the backup
	Bad      []Left // artefacts that were damaged already when the backup was made: they are not restored
}

// never is the clock of a journal that nobody goes on with.
func never() time.Time { return time.Time{} }

// bad are the artefacts whose content is not what their name says.
func bad(m Manifest) (all []Left) {
	for _, f := range m.Files {
		if digest, is := strings.CutPrefix(f.Name, artefactsDir); is && digest != f.SHA256 {
			all = append(all, Left{f.Name, "it was damaged when the backup was made"})
		}
	}
	return all
}

// checkJournal verifies the journal of a backup, and raises its epoch: whatever opens it from then on issues everything
// anew. look is called if all is well, and its error returned.
func checkJournal(ctx context.Context, path string, m Manifest, now func() time.Time,
	look func(*journal.Journal) error) (report string, err error) {
	j, err := journal.Open(path, journal.Options{NewEpoch: true, Now: now})
	if errors.Is(err, journal.ErrDamaged) || errors.Is(err, journal.ErrNotJournal) {
		return "", damaged("%w", err)
	} else if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	proof, err := j.Verify(ctx)
	if err != nil {
		return "", err
	}
	if !proof.OK() {
		return "", damaged("its journal: %s", proof.String())
	}
	s, err := j.Snapshot()
	if err != nil {
		return "", err
	}
	if err := s.Close(); err != nil {
		return "", err
	}
	if s.Seq != m.Seq || hex.EncodeToString(s.Hash[:]) != m.Hash || s.Epoch <= m.Epoch {
		return "", damaged("its journal is not the one that its manifest names")
	}
	return proof.String(), look(j)
}
