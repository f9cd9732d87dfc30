// Package revoked owns the file of who was revoked, beside the journal: a journal that is restored from an older backup
// knows nothing of revocations since, and would let those nodes in again.
//
// It guarantees that what Note has returned for is on the disk, whole after any crash, and that a damaged file is an
// error and never an empty list. It must not know what a revocation does. One goroutine owns a List.
package revoked

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"tandem.internal/shared/durable"
	"tandem.internal/shared/jointoken"
)

// FileName is the name of the file in the controller's state directory.
const FileName = "revoked.txt"

// The file: this and the CRC-32 (IEEE) of what follows, in a line; then a line for each subject, sorted: when it was
// revoked last (RFC 3339, UTC), a space, and its name, such as node/n1.
const header = "revocations 1 "

// maxFile is the size of the largest file that is read, in bytes.
const maxFile = 64 << 20

// List is who was revoked, and when last. Who has joined since is still on it.
type List struct {
	path  string
	steps durable.Steps
	all   map[string]time.Time
}

// Open reads the file at path; one that is not there is an empty list. steps is a fault seam, nil in production.
func Open(path string, steps durable.Steps) (*List, error) {
	l := &List{path: path, steps: steps, all: map[string]time.Time{}}
	if err := durable.Clean(path); err != nil {
		return nil, fmt.Errorf("revocations: %w", err)
	}
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
		t, err := time.Parse(time.RFC3339Nano, at)
		if err != nil || !jointoken.ValidSubject(name) {
			return fmt.Errorf("%.80q is no time and identity", line)
		}
		l.all[name] = t
	}
	return nil
}

// All returns when each was revoked last. It is a copy.
func (l *List) All() map[string]time.Time { return maps.Clone(l.all) }

// Note adds who was revoked, and returns when that is on the disk. What is known already, or older, costs nothing.
// After an error the list is as before.
func (l *List) Note(some map[string]time.Time) error {
	next := maps.Clone(l.all)
	for name, at := range some {
		if at = at.UTC(); at.After(next[name]) {
			next[name] = at
		}
	}
	return l.write(next)
}

// Joined has whoever joined at a time count as revoked before that: the clock may have been set back in between. It
// returns when that is on the disk; after an error the list is as before.
func (l *List) Joined(name string, at time.Time) error {
	if revoked, ok := l.all[name]; !ok || revoked.Before(at) {
		return nil
	}
	next := maps.Clone(l.all)
	next[name] = at.UTC().Add(-1)
	return l.write(next)
}

func (l *List) write(next map[string]time.Time) error {
	if maps.Equal(next, l.all) {
		return nil
	}
	var lines bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(next)) {
		fmt.Fprintf(&lines, "%s %s\n", next[name].Format(time.RFC3339Nano), name)
	}
	data := append(fmt.Appendf(nil, "%s%08x\n", header, crc32.ChecksumIEEE(lines.Bytes())), lines.Bytes()...)
	if err := durable.WriteFile(l.path, data, 0o600, l.steps); err != nil {
		return fmt.Errorf("revocations: %w", err)
	}
	l.all = next
	return nil
}
