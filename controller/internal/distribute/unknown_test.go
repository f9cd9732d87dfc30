package distribute

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/kinds"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

// TestUnknownKindInJournal: a controller does not start on a journal that speaks of a kind it does not know. It names
// the kind and the record, says what to do, and changes nothing.
func TestUnknownKindInJournal(t *testing.T) {
	verdict := fmt.Sprintf(`{"id":"1","version":"1.0.0","hash":%q,"checks":{}}`, wire.Hash(faultyDoc("1.0.0")))
	report := wire.Encode(&wire.Reported{V: wire.Version, Node: "n", Kind: "toys", Boot: "b", Seq: 1})
	for kind, data := range map[record.Type]string{
		record.Accepted:  verdict,
		record.Refused:   verdict,
		record.Issued:    `{"epoch":1,"version":"1","mode":"apply","reason":"","docs":[]}`,
		record.Withdrawn: `{"nodes":["n"]}`,
		record.Confirm:   `{"version":"1","rev":1}`,
		record.State:     `{"state":"failed"}`,
		record.Report:    string(report),
	} {
		t.Run(kind.String(), func(t *testing.T) {
			r := record.Record{Type: kind, Kind: "toys", Node: "n", At: time.Unix(0, 0), Data: []byte(data)}
			wantUnknown(t, journal.Batch{Records: []record.Record{r}}, "record 1 ")
		})
	}
	t.Run("checkpoint", func(t *testing.T) {
		state := `{"seq":1,"config":{"state":"absent"},"docs":[],"nodes":[{"name":"n","kinds":{"toys":{"boot":"b"}}}]}`
		wantUnknown(t, journal.Batch{
			Records:    []record.Record{{Type: record.Note, At: time.Unix(0, 0), Data: []byte("{}")}},
			Checkpoint: &journal.Checkpoint{Seq: 1, Chunks: [][]byte{[]byte(state)}},
		}, "checkpoint")
	})
}

func wantUnknown(t *testing.T, batch journal.Batch, place string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.db")
	open := func() (*journal.Journal, error) { return journal.Open(path, journal.Options{MapSize: 1 << 24}) }
	j, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Append(&batch); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(Config{Unit: faultyUnit, Version: "1", Open: open, Kinds: kinds.All()})
	if !errors.Is(err, journal.ErrNewer) || wire.AsError(err).Code != wire.CodeWrongVersion {
		t.Fatalf("the controller starts, or says %v", err)
	}
	for _, words := range []string{`"toys"`, place, "upgrade this program", "put back the copy", path + ".vN.bak"} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("%q is not in: %v", words, err)
		}
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Error("the file was changed", err)
	}
}
