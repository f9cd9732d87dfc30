// Package words says what happened, as people read it: the text and the level of each entry of the journal. They are
// made here once, from the record's data; commands and pages show them. Instants in a text are in UTC, to the second
// (RFC 3339); an entry's own time is not in it.
//
//tandem:pure
package words

import (
	"time"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/phrase"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
)

// Most is how many characters a text has at most.
const Most = 400

// Tell sets the text and the level of an entry, from its type and data. Kinds render the details of reports. What is
// not understood has its data for a text.
func Tell(e *view.Entry, kinds kind.Set) {
	t, _ := record.ParseType(e.Type)
	text, ok := say{kinds}.record(t, *e)
	if !ok {
		text = string(e.Data)
	}
	e.Text = phrase.Clean(phrase.Shorten(text, Most))
	e.Level = level(t, e)
}

// instant is a time within a text.
func instant(t time.Time) string { return t.UTC().Format(time.RFC3339) }
