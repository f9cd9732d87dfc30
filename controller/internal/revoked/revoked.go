// Package revoked owns the file of who was revoked, and of how far the journal has been, beside it: a journal that is
// restored from an older backup knows nothing of revocations since, nor of tokens that were used, and would let those
// nodes in again. A second such file stands beside that of the operators' tokens.
//
// It guarantees that what Note has returned for is on the disk, whole after any crash, and that a damaged file is an
// error and never an empty list. It must not know what a revocation does. One goroutine owns a List.
package revoked

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tandem.internal/shared/durable"
	"tandem.internal/shared/jointoken"
)

// The names of such files in the controller's state directory: of who has a certificate of the unit, and of operators'
// tokens.
const (
	FileName   = "revoked.txt"
	TokensFile = "revoked-tokens.txt"
)

// The file: this and the CRC-32 (IEEE) of what follows, in a line; "newest", a space, and how far the journal has been;
// then a line for each subject, sorted: when it was revoked last (RFC 3339, UTC), a space, and its name: node/n1.
const header = "revocations 1 "

// maxFile is the size of the largest file that is read, in bytes.
const maxFile = 64 << 20

// List is who was revoked, and when last, and how far the journal has been. Who has joined since is still on it.
type List struct {
	path   string
	steps  durable.Steps
	all    map[string]time.Time
	newest uint64
}

// Open reads the file at path; one that is not there is an empty list. steps is a fault seam, nil in production.
func Open(path string, steps durable.Steps) (*List, error) {
	if err := durable.Clean(path); err != nil {
		return nil, fmt.Errorf("revocations: %w", err)
	}
	l, err := Read(path)
	if err == nil {
		l.steps = steps
	}
	return l, err
}

// Read is Open without a change of the disk: what a crash has left stays.
func Read(path string) (*List, error) {
	l := &List{path: path, all: map[string]time.Time{}}
	data, err := durable.ReadFile(path, maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return l, nil
	case err != nil:
		return nil, fmt.Errorf("revocations: %w", err)
	}
	if err := l.parse(string(data)); err != nil {
		return nil, fmt.Errorf("revocations: %s: %w; put back the newest copy of this file. If there is none, remove "+
			"it: whoever was revoked since the journal's backup is then let in again", path, err)
	}
	return l, nil
}

// Check returns what is wrong with the content of such a file; nil: nothing.
func Check(data []byte) error {
	l := &List{all: map[string]time.Time{}}
	return l.parse(string(data))
}

func (l *List) parse(text string) error {
	first, rest, ok := strings.Cut(text, "\n")
	sum, known := strings.CutPrefix(first, header)
	if !ok || !known {
		return errors.New("it does not begin with the line of this file")
	}
	if sum != fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(rest))) {
		return errors.New("its checksum is wrong")
	}
	for line := range strings.Lines(rest) {
		at, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if at == "newest" {
			n, err := strconv.ParseUint(name, 10, 64)
			if err != nil {
				return fmt.Errorf("%.80q is no number of a record", line)
			}
			l.newest = n
			continue
		}
		t, err := time.Parse(time.RFC3339Nano, at)
		if err != nil || !jointoken.ValidSubject(name) && !isToken(name) {
			return fmt.Errorf("%.80q is no time and identity", line)
		}
		l.all[name] = t
	}
	return nil
}

// OfToken is the name under which a token of operators is noted, of the SHA-256 of its secret.
func OfToken(hash [32]byte) string { return tokenPrefix + hex.EncodeToString(hash[:]) }

const tokenPrefix = "token/"

func isToken(name string) bool {
	hash, ok := strings.CutPrefix(name, tokenPrefix)
	b, err := hex.DecodeString(hash)
	return ok && err == nil && len(b) == 32
}

// All returns when each was revoked last. It is a copy.
func (l *List) All() map[string]time.Time { return maps.Clone(l.all) }

// Newest is the number of a record that the journal has had; 0: none is known. A journal without it is an older one.
func (l *List) Newest() uint64 { return l.newest }

// Older has the journal count as an older one, whatever records it gets, until Reached. It returns when that is on the
// disk; after an error the list is as before.
func (l *List) Older() error { return l.write(l.all, math.MaxUint64) }

// Note adds who was revoked, and returns when that is on the disk. What is known already, or older, costs nothing.
// After an error the list is as before.
func (l *List) Note(some map[string]time.Time) error {
	next := maps.Clone(l.all)
	for name, at := range some {
		if at = at.UTC(); at.After(next[name]) {
			next[name] = at
		}
	}
	return l.write(next, l.newest)
}

// Reached says that the journal has the record of a number, whatever was said before, and who has joined, and when:
// they count as revoked before that, if at all, since the clock may have been set back in between. It returns when
// that is on the disk; after an error the list is as before.
func (l *List) Reached(seq uint64, joined map[string]time.Time) error {
	next := maps.Clone(l.all)
	for name, at := range joined {
		if revoked, ok := next[name]; ok && !revoked.Before(at) {
			next[name] = at.UTC().Add(-1)
		}
	}
	return l.write(next, seq)
}

func (l *List) write(next map[string]time.Time, newest uint64) error {
	if maps.Equal(next, l.all) && newest == l.newest {
		return nil
	}
	var lines bytes.Buffer
	if newest > 0 {
		fmt.Fprintf(&lines, "newest %d\n", newest)
	}
	for _, name := range slices.Sorted(maps.Keys(next)) {
		fmt.Fprintf(&lines, "%s %s\n", next[name].Format(time.RFC3339Nano), name)
	}
	data := append(fmt.Appendf(nil, "%s%08x\n", header, crc32.ChecksumIEEE(lines.Bytes())), lines.Bytes()...)
	if err := durable.WriteFile(l.path, data, 0o600, l.steps); err != nil {
		return fmt.Errorf("revocations: %w", err)
	}
	l.all, l.newest = next, newest
	return nil
}
