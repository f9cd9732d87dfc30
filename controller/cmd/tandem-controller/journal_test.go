package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
)

// journalRun runs "tandem-controller journal ARGS".
func journalRun(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), append([]string{"journal"}, args...), &out, &errs)
	return status, out.String(), errs.String()
}

// TestJournalFiles: verify, export, backup and compact of a journal's file, and what they refuse.
func TestJournalFiles(t *testing.T) {
	dir := t.TempDir()
	path, copied := filepath.Join(dir, "journal.db"), filepath.Join(dir, "copy.db")
	j, err := journal.Open(path, journal.Options{MapSize: 1 << 24})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Append(&journal.Batch{Records: []record.Record{
		{At: time.Unix(1, 0), Type: record.Opened, Data: []byte(`{}`)},
		{At: time.Unix(2, 0), Type: record.Note, Who: "uid:0(root)", Data: []byte(`{"text":"hello"}`)},
	}, Bodies: [][]byte{[]byte("body that is whole")}}); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"verify", "compact"} {
		if status, _, stderr := journalRun(t, verb, path); status != 1 || !strings.Contains(stderr, "in use") {
			t.Errorf("%s of a journal in use: status %d, %s", verb, status, stderr)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	_, exported, _ := journalRun(t, "export", path)
	for line := range strings.Lines(exported) {
		var e op.Exported
		err := json.Unmarshal([]byte(line), &e, json.RejectUnknownMembers(true))
		if _, known := record.ParseType(e.Type); err != nil || !known || e.Seq == 0 || e.At.IsZero() {
			t.Errorf("a line that is not as the API's document says: %v\n%s", err, line)
		}
	}
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("text\n", 2000)), 0o600); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	const whole = "2 records up to number 2, 1 body: the chain is whole"
	for _, c := range []struct {
		args   string
		status int
		want   string // on standard output, or with a status on standard error
	}{
		{"verify " + path, 0, whole + "\n"},
		{"verify " + path + " --json", 0, `{"ok":true,"report":"` + whole + `"}`},
		{"compact " + path, 0, path + ": "},
		{"compact --json " + path, 0, `{"before":`},
		{"export " + path, 0, `"data":{"text":"hello"}}`},
		{"backup " + path + " " + copied, 0, "wrote " + copied},
		{"verify " + copied, 0, "2 records"},
		{"backup " + path + " " + copied, 2, "exists and was left alone"},
		{"backup --replace " + path + " " + copied, 0, "wrote " + copied},
		{"backup --replace " + path + " " + fifo, 2, "is not a regular file and was left alone"},
		{"backup --replace " + path + " " + dir, 2, "is not a regular file and was left alone"},
		{"verify " + fifo, 2, "is not a regular file"},
		{"export " + fifo, 2, "is not a regular file"},
		{"compact " + fifo, 2, "is not a regular file"},
		{"backup " + fifo + " " + copied + "2", 2, "is not a regular file"},
		{"--help", 0, "tandem-controller journal verify FILE"},
		{"compact --help", 0, "tandem-controller journal compact FILE"},
		{"backup -h", 0, "tandem-controller journal backup FILE COPY"},
		{"verify", 2, "journal verify needs 1 file name"},
		{"backup " + path, 2, "journal backup needs 2 file name"},
		{"verify " + path + " " + copied, 2, "unexpected argument"},
		{"verify " + path + " --export", 2, "--export needs the name of a file"},
		{"compact " + path + " --export " + text, 2, "unexpected argument"},
		{"verify " + path + " --export=" + fifo, 2, "is not a regular file"},
		{"verify " + path + " --export " + text + ".none", 2, "no such file"},
		{"verify --export " + text + " " + path, 1, "an export is not what was written"},
		{"verify --replace " + path, 2, "unexpected argument"},
		{"verfy " + path, 2, "did you mean"},
		{"verify " + filepath.Join(dir, "none.db"), 2, "there is no journal"},
		{"verify " + text, 2, "is not a Tandem journal"},
		{"compact " + text, 2, "is not a Tandem journal"},
	} {
		status, stdout, stderr := journalRun(t, strings.Fields(c.args)...)
		said := stdout
		if c.status != 0 {
			said = stderr
		}
		if status != c.status || !strings.Contains(said, c.want) {
			t.Errorf("%s: status %d, want %d and %q\n%s%s", c.args, status, c.status, c.want, stdout, stderr)
		}
	}
}

// TestJournalFileDamaged: verify names what is damaged and ends with status 1.
func TestJournalFileDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j, err := journal.Open(path, journal.Options{MapSize: 1 << 24})
	if err != nil {
		t.Fatal(err)
	}
	body := []byte("a body that occurs only once")
	if _, err := j.Append(&journal.Batch{Bodies: [][]byte{body}}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(data, body, bytes.ToUpper(body)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{path, path + " --json"} {
		status, stdout, stderr := journalRun(t, strings.Fields("verify "+args)...)
		if status != 1 || !strings.Contains(stdout, "have the hash") ||
			!strings.Contains(stderr, "the journal is damaged") {
			t.Errorf("verify %s: status %d\n%s%s", args, status, stdout, stderr)
		}
		if json := strings.HasSuffix(args, "--json"); json != strings.HasPrefix(stdout, `{"ok":false`) {
			t.Errorf("verify %s: %s", args, stdout)
		}
	}
}
