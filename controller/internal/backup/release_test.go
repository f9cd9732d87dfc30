package backup

import (
	"archive/tar"
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

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

// TestSparseEntries: an entry is as a backup writes it, a large one, too; one whose content is not in the file, of any
// size therefore, is damage.
func TestSparseEntries(t *testing.T) {
	for _, c := range []struct {
		h    tar.Header
		want string
	}{
		{tar.Header{Typeflag: tar.TypeReg, Name: "state/journal.db", Size: 9 << 30}, "unexpected EOF"},
		{tar.Header{Typeflag: tar.TypeReg, Name: "state/journal.db", PAXRecords: map[string]string{"TANDEM.x": "1"}},
			"it has an entry"},
		{tar.Header{Typeflag: tar.TypeReg, Name: "settings/large", Size: maxHeld + 1}, "its files have more than"},
	} {
		var file bytes.Buffer
		sealed, err := age.Encrypt(&file, key.Recipient())
		ok(t, err)
		w := tar.NewWriter(sealed)
		ok(t, w.WriteHeader(&c.h), sealed.Close())
		if err := verify(t, file.Bytes(), key); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", c.h.PAXRecords, err)
		}
	}
	if plainEntry(&tar.Header{PAXRecords: map[string]string{"GNU.sparse.size": "1000000000000"}}) {
		t.Error("a sparse entry is taken")
	}
}

// TestOtherJournal: a journal that is not the one that the manifest names, by number, hash or epoch, is damage.
func TestOtherJournal(t *testing.T) {
	dir, j := stateOf(t)
	for name, change := range map[string]func(*Manifest){
		"number": func(m *Manifest) { m.Seq++ }, "hash": func(m *Manifest) { m.Hash = strings.Repeat("0", 64) },
		"epoch": func(m *Manifest) { m.Epoch++ },
	} {
		d, err := Begin(Config{Dir: dir, Now: noon}, j)
		ok(t, err)
		change(&d.manifest)
		var file bytes.Buffer
		_, err = d.Write(t.Context(), &file, key.Recipient())
		ok(t, err, d.Close())
		err = verify(t, file.Bytes(), key)
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "not the one that its manifest names") {
			t.Errorf("another %s: %v", name, err)
		}
	}
}
