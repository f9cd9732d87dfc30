package update

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/shared/wire"
)

// MaxSize bounds an encoded Record, in bytes.
const MaxSize = record.MaxSize

// head opens the file of a Record. The number is the format's version.
const head = "tandem-component 1 "

// Encode renders a Record: a line with a checksum, and JSON that people can read.
func (r Record) Encode() []byte { return record.Seal(head, &r) }

// Decode reads a Record. The error says what is wrong with it: cut short, altered, of a format that is
// not known, or a contradiction.
func Decode(data []byte) (Record, error) {
	var r Record
	if err := record.Unseal(head, data, &r); err != nil {
		return Record{}, err
	}
	phases := []Phase{None, Installing, Staged, Activating, Restarting, Trying, Committing, RollingBack, Leaving}
	switch {
	case !slices.Contains(phases, r.Phase):
		return Record{}, fmt.Errorf("it is in a phase that is not known: %.40q", r.Phase)
	case r.Phase != None && r.Number == 0:
		return Record{}, errors.New("an update is under way and has no number")
	case r.Phase != None && r.Phase != RollingBack && r.Phase != Leaving && CheckVersion(r.Version) != nil:
		return Record{}, fmt.Errorf("the version that is under way is none: %w", CheckVersion(r.Version))
	}
	(&r).keep(func(q *wire.HealthFailed) bool {
		return record.ValidHash(q.Hash) && CheckVersion(q.Version) == nil && q.Text == plain(q.Text) && !q.At.IsZero()
	})
	r.Has = r.Has.bounded() // an older agent has written Reboot alone
	return r, nil
}

// CheckVersion says why a version's name is none: it is 1 to 100 bytes without spaces and control
// characters.
func CheckVersion(v string) error {
	if v == "" || len(v) > 100 || plain(v) != v || strings.ContainsFunc(v, unicode.IsSpace) {
		return fmt.Errorf("%.100q is not a version: 1 to 100 bytes, without spaces", v)
	}
	return nil
}

// plain makes a program's words fit for a report.
func plain(text string) string { return wire.Plain(text, wire.MaxText) }
