package backup

import (
	"errors"
	"testing"
	"time"

	"tandem.internal/controller/internal/journal"
)

// closing closes a journal when so many bytes have been written to it.
type closing struct {
	at, n int
	j     *journal.Journal
	done  bool
}

func (c *closing) Write(b []byte) (int, error) {
	c.n += len(b)
	if c.n < c.at || c.done {
		return len(b), nil
	}
	c.done = true
	closed := make(chan error, 1)
	go func() { closed <- c.j.Close() }()
	select {
	case err := <-closed:
		return len(b), err
	case <-time.After(5 * time.Second):
		return 0, errors.New("the journal cannot be closed while artefacts are written")
	}
}

// TestJournalIsFreeWhileArtefactsAreWritten: whoever reads the artefacts slowly keeps nobody from the journal.
func TestJournalIsFreeWhileArtefactsAreWritten(t *testing.T) {
	dir, j := stateOf(t)
	cfg := Config{Dir: dir, Now: noon, Artefacts: true}
	file, _ := of(t, cfg, j)
	d, err := Begin(cfg, j)
	ok(t, err)
	w := &closing{at: len(file) - len(content)/2, j: j}
	_, err = d.Write(t.Context(), w, key.Recipient())
	ok(t, err, d.Close())
	if !w.done {
		t.Error("the journal was not closed")
	}
}
