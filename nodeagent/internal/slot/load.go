package slot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"tandem.internal/nodeagent/internal/slot/record"
)

// copies are the files of the record. The first is written first: that write decides. Each is replaced
// atomically and for good before the next one is touched, so at any moment one of them is whole, and
// the one with the higher number is right.
var copies = []string{RecordFile, "record.1"}

// RecordFile is the copy that is written first: it changes with every step.
const RecordFile = "record.0"

// badMark separates the name of a copy from the number of its quarantine.
const badMark = ".bad-"

// maxBad is how many bad copies are kept of each.
const maxBad = 5

// load reads the record. A copy that is no good is moved out of the way; if none is left, the record is
// rebuilt from what the slots hold. The notes say what was found wrong. Nothing is written but those
// names: what was repaired is on the disk after the next save.
func (s *Store) load() (r record.Record, notes []string, err error) {
	found, missing := false, 0
	var good []byte
	for _, name := range copies {
		data, err := s.disk.Read(name, record.MaxSize)
		if err == nil && found && bytes.Equal(data, good) {
			continue // as it should be
		}
		var c record.Record
		if err == nil {
			c, err = record.Decode(data)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing++
		case err != nil:
			notes = append(notes, s.quarantine(name, err))
		case !found || c.Seq > r.Seq:
			r, found, good = c, true, data
		}
	}
	if found {
		return r, notes, nil
	}
	r, held := s.rebuild()
	if missing == len(copies) && len(held) == 0 && !s.everBad() {
		return record.New(), nil, nil
	}
	if missing > 0 {
		notes = append(notes, fmt.Sprintf("%d of the record's %d copies are missing", missing, len(copies)))
	}
	return r, append(notes, fmt.Sprintf("no copy of the record is left; it was rebuilt from what the slots hold: slot "+
		"%s is in force", r.Good)), nil
}

// quarantine moves a copy out of the way and says so.
func (s *Store) quarantine(name string, why error) string {
	note := fmt.Sprintf("%s is no good: %v", name, why)
	names, err := s.disk.List(".")
	if err != nil {
		return note + "; it stays, because the directory cannot be read: " + err.Error()
	}
	var old []int
	last := 0
	for _, n := range names {
		if digits, ok := strings.CutPrefix(n, name+badMark); ok {
			if i, err := strconv.Atoi(digits); err == nil && i > 0 {
				old, last = append(old, i), max(last, i)
			}
		}
	}
	to := name + badMark + strconv.Itoa(last+1)
	if err := s.disk.Rename(name, to); err != nil {
		return note + "; it stays: " + err.Error()
	}
	for _, i := range old {
		if i <= last+1-maxBad {
			if err := s.disk.Remove(name + badMark + strconv.Itoa(i)); err != nil {
				return note + "; it is kept as " + to + ", and an older one cannot be removed: " + err.Error()
			}
		}
	}
	return note + "; it is kept as " + to
}

// everBad says whether a copy of the record was ever moved away: then this is no new node.
func (s *Store) everBad() bool {
	names, err := s.disk.List(".")
	if err != nil {
		return true
	}
	for _, n := range names {
		for _, c := range copies {
			if strings.HasPrefix(n, c+badMark) {
				return true
			}
		}
	}
	return false
}

// rebuild makes a record from the slots that hold what their manifest says.
func (s *Store) rebuild() (record.Record, map[ID]record.Manifest) {
	held := map[ID]record.Manifest{}
	for _, id := range record.Writable {
		data, err := s.disk.Read(s.manifest(id), record.MaxSize)
		if err != nil {
			continue
		}
		m, err := record.DecodeManifest(data)
		if err != nil {
			continue
		}
		if size, hash, err := Measure(context.Background(), s.disk, s.binary(id), nil); err == nil && size == m.Size &&
			hash == m.Hash {
			held[id] = m
		}
	}
	return record.Rebuild(held), held
}

// save makes next the record, for good in both copies, unless nothing changed. After an error either
// one may be in force, and the step may be repeated.
func (s *Store) save(old, next record.Record) (record.Record, error) {
	if bytes.Equal(old.Encode(), next.Encode()) {
		return old, nil
	}
	next.Seq = old.Seq + 1
	data := next.Encode()
	if len(data) > record.MaxSize {
		return old, fmt.Errorf("slots: the record has grown to %d bytes; more than %d would not be read again",
			len(data), record.MaxSize)
	}
	if err := next.Validate(); err != nil { // a mistake of ours; the launcher must not die of it
		return old, fmt.Errorf("slots: not saved, because it contradicts itself: %w", err)
	}
	for _, name := range copies {
		if err := s.disk.Replace(name, data); err != nil {
			return old, fmt.Errorf("slots: %w", err)
		}
	}
	return next, nil
}

// mirror notes in the slots' manifests which of them were in force. It is a hint, for the day on which
// the record is lost, and is made good at the next start if it is late.
func (s *Store) mirror(r record.Record) error {
	for _, id := range record.Writable {
		x := r.Slot(id)
		if !x.Exists() {
			continue
		}
		want := record.Manifest{Version: x.Version, Hash: x.Hash, Size: x.Size}
		if x.Verdict == record.Good {
			want.Committed = x.Committed
		}
		data, err := s.disk.Read(s.manifest(id), record.MaxSize)
		if err == nil {
			if m, err := record.DecodeManifest(data); err == nil && m.Hash == want.Hash &&
				m.Committed == want.Committed {
				continue
			}
		}
		if err := s.disk.Replace(s.manifest(id), want.Encode()); err != nil {
			return fmt.Errorf("slots: %w", err)
		}
	}
	return nil
}
