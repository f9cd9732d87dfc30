package main

import (
	"archive/tar"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/artefact/store"
	"tandem.internal/controller/internal/backup"
	"tandem.internal/controller/internal/ca"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/record"
)

// backupRun runs "tandem-controller backup ARGS", with something on standard input, which is no terminal.
func backupRun(t *testing.T, stdin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString(stdin); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	status = backupCommand(t.Context(), args, r, &out, &errs)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return status, out.String(), errs.String()
}

// stoppedUnit is a state directory with a journal and a key on which no controller runs.
func stoppedUnit(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(filepath.Join(dir, "journal.db"), journal.Options{MapSize: 1 << 22})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Append(&journal.Batch{Records: []record.Record{
		{At: time.Unix(1, 0), Type: record.Opened, Data: []byte(`{}`)},
	}}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err := os.WriteFile(filepath.Join(dir, "unit-key.pem"), key, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSecretsFromPipes: create, verify and restore take keys and passphrases from pipes; of a passphrase its line alone
// is waited for.
func TestSecretsFromPipes(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	stoppedUnit(t, in("state"))
	for _, name := range []string{"new", "new2"} {
		if err := os.Mkdir(in(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	create, to := "create %s --unit u1 --state-dir "+in("state"), " --to "+id.Recipient().String()
	pass, keys := " --passphrase-file /dev/fd/%d", " --identity /dev/fd/%d"
	for _, c := range []struct {
		args, file, text string
		open             bool // the writer goes on
	}{
		{create + pass, "p", "secret\nrest", true},
		{"verify %s" + pass, "p", "secret\n", true},
		{"verify %s" + pass, "p", "secret", false},
		{"restore %s" + pass + " --state-dir " + in("new"), "p", "secret\n", true},
		{create + to, "k", "", false},
		{"verify %s" + keys, "k", id.String() + "\n", false},
		{"restore %s" + keys + " --state-dir " + in("new2"), "k", id.String(), false},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.WriteString(c.text); err != nil {
			t.Fatal(err)
		}
		if !c.open {
			err = w.Close()
		}
		args := strings.Replace(c.args, "%s", in(c.file), 1)
		args = strings.Replace(args, "%d", strconv.Itoa(int(r.Fd())), 1)
		if status, stdout, stderr := backupRun(t, "", strings.Fields(args)...); status != 0 {
			t.Errorf("%s: status %d: %s%s", args, status, stdout, stderr)
		}
		if c.open {
			err = w.Close()
		}
		if err := errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBackupFiles: create, verify and restore, with a key and with a passphrase, and what they refuse.
func TestBackupFiles(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	stoppedUnit(t, in("state"))
	stoppedUnit(t, in("badkey"))
	stoppedUnit(t, in("mine"))
	if _, err := ca.Open(ca.Config{Unit: "u1", Dir: in("mine")}); err != nil {
		t.Fatal(err)
	}
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte("an artefact")))
	if err := store.Put(in("mine/artefacts"), digest, strings.NewReader("an artefact")); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"badkey/unit-key.pem": "x", "badkey/ca-key.pem": "x", // is backed up as it is
		"key": "# a comment\n" + id.String() + "\n", "other": other.String() + "\n",
		"pass":  "secret\nrest\n",
		"empty": "\n", "text": "no backup\n", "config": "unit: u1\nstate-dir: " + in("state") + "\nbackup-to: [" +
			id.Recipient().String() + "]\n",
	} {
		if err := os.WriteFile(in(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, new := range []string{"new", "new2", "new3", "new4"} {
		if err := os.Mkdir(in(new), 0o700); err != nil { // root is told to make it
			t.Fatal(err)
		}
	}
	state, to := "--unit u1 --state-dir "+in("state"), " --to "+id.Recipient().String()
	for _, c := range []struct {
		args, stdin string
		status      int
		want        string // on standard output, or with a status on standard error
	}{
		{"", "", 0, "tandem-controller backup verify FILE"},
		{"--help", "", 0, "tandem-controller backup verify FILE"},
		{"verify --help", "", 0, "--passphrase-file"},
		{"restore --help", "", 0, "--revoked"},
		{"create --help", "", 0, "--final"},
		{"verfy x", "", 2, "did you mean"},
		{"create " + state + to, "", 2, "needs one file name"},
		{"create " + in("b") + to, "", 2, "--unit: required"},
		{"create " + in("b") + " " + state, "", 2, "the key or the passphrase of the backup is needed"},
		{"create " + in("b") + " " + state + " --to AGE-SECRET-KEY-1x", "", 2,
			"--to: it has a secret key of age, which"},
		{"create " + in("b") + " " + state + " --to age1x", "", 2, "is no public key of age"},
		{"create " + in("b") + " " + state + to + " --passphrase-file -", "", 2, "exclude each other"},
		{"create " + in("b") + " " + state + " --passphrase-file " + in("empty"), "", 2, "first line is empty"},
		{"create " + in("none/b") + " " + state + to, "", 2, "no such file or directory"},
		{"create " + in("b") + " --unit u1 --state-dir " + in("none") + to, "", 2, "there is no journal"},
		{"create " + in("b") + " --unit u2 --state-dir " + in("mine") + to + " --final", "", 2,
			`is of "tandem CA u1", not of unit "u2"; start with --unit and --state-dir of the same unit`},
		{"create " + in("b") + " " + state + to, "", 0, "wrote " + in("b") + ", up to record 1\n"},
		{"create " + in("b") + " " + state + to, "", 2, "is there already"},
		{"create " + in("c") + " --config " + in("config"), "", 0, "wrote " + in("c")},
		{"create " + in("p") + " " + state + " --passphrase-file -", "secret\n", 0, "wrote " + in("p")},
		{"create " + in("bad") + " --unit u1 --state-dir " + in("badkey") + to, "", 0, "wrote"},
		{"verify " + in("b"), "", 2, "the key or the passphrase"},
		{"verify " + in("b") + " --identity " + in("none"), "", 2, "no such file"},
		{"verify " + in("b") + " --identity " + in("text"), "", 2, "no file of secret keys of age"},
		{"verify " + in("b") + " --identity " + in("key") + " --passphrase-file -", "x\n", 2, "exclude each other"},
		{"verify " + in("b") + " --identity " + in("other"), "", 2, "otherwise: for another key"},
		{"verify " + in("p") + " --passphrase-file -", "wrong\n", 2, "with another passphrase"},
		{"verify " + in("text") + " --identity " + in("key"), "", 1, "it is none, or its beginning is lost"},
		{"verify " + in("none") + " --identity " + in("key"), "", 2, "no such file"},
		{"verify " + in("b") + " --identity " + in("key"), "", 0, "backup of the unit u1, made "},
		{"verify " + in("c") + " --identity " + in("key") + " --json", "", 0, `{"backup":{"format":1,"unit":"u1",`},
		{"verify " + in("p") + " --passphrase-file " + in("pass"), "", 0, "3 files, 0 of them artefacts"},
		{"verify " + in("b") + " --identity " + in("key"), "", 0, "\nsigning key 139e3940e64b5491, signing\n"},
		{"verify " + in("bad") + " --identity " + in("key"), "", 1, "unit-key.pem is not a private key in PEM"},
		{"restore " + in("b") + " --identity " + in("key") + " --state-dir " + in("new") + " --revoked a/b", "", 2,
			"neither a node nor"},
		{"restore " + in("b") + " --identity " + in("key") + " --state-dir " + in("state"), "", 1,
			"a unit is there already, with its journal.db"},
		{"restore " + in("p") + " --passphrase-file " + in("pass") + " --state-dir " + in("new") + " --revoked n1 " +
			"--revoked operator/ann", "", 0, "never heard of node/n1: it is revoked all the same"},
		{"create " + in("f") + " " + state + to + " --final", "", 0, "no controller starts on " + in("state")},
		{"create " + in("m") + " --unit u1 --state-dir " + in("mine") + to, "", 0, "wrote"},
		{"verify " + in("m") + " --identity " + in("key"), "", 0, ", 1 of them artefacts; "},
		{"create " + in("w") + " --unit u1 --state-dir " + in("mine") + to + " --without-artefacts", "", 0, "wrote"},
		{"verify " + in("w") + " --identity " + in("key"), "", 0, "the backup was made without artefacts"},
		{"create " + in("g") + " " + state + to, "", 1, "was moved to another machine"},
		{"restore " + in("f") + " --identity " + in("key") + " --json --state-dir " + in("new2"), "", 0,
			`"damaged":[],"stateDir":"` + in("new2") + `","lostSince":"2`},
		{"restore " + in("c") + " --identity " + in("key") + " --json --revoked n1 --state-dir " + in("new4"), "", 0,
			`"unheard":["node/n1"]`},
		{"restore " + in("f") + " --identity " + in("key") + " --state-dir " + in("new3"), "", 0,
			"nothing was lost, if no controller has run for this unit since; else:\nlost is what happened after 2"},
	} {
		status, stdout, stderr := backupRun(t, c.stdin, strings.Fields(c.args)...)
		said := stdout
		if c.status != 0 {
			said = stderr
		}
		if status != c.status || !strings.Contains(said, c.want) {
			t.Errorf("%s: status %d, want %d and %q\n%s%s", c.args, status, c.status, c.want, stdout, stderr)
		}
		if strings.HasSuffix(c.args, "--json") || strings.Contains(c.args, "--json ") {
			var o outcome
			if err := json.Unmarshal([]byte(stdout), &o); err != nil || o.Backup.Seq != 1 {
				t.Errorf("%s: %v\n%s", c.args, err, stdout)
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(in("new"), "revoked.txt"))
	if err != nil || !strings.Contains(string(text), "node/n1") || !strings.Contains(string(text), "operator/ann") {
		t.Errorf("revoked: %s %v", text, err)
	}
	left, err := filepath.Glob(in(".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q %v", left, err)
	}
}

// TestRestoreWarnsOfTheClock: who restores where the clock stands before the backup is told.
func TestRestoreWarnsOfTheClock(t *testing.T) {
	text := restored("d", backup.Proof{Behind: true}, nil)
	if !strings.Contains(text, "warning: the clock of this machine") {
		t.Error(text)
	}
	if text := restored("d", backup.Proof{}, nil); strings.Contains(text, "warning") {
		t.Error(text)
	}
}

// TestDamageBeforeUse: a backup whose journal is none is damaged: status 1.
func TestDamageBeforeUse(t *testing.T) {
	dir := t.TempDir()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(dir, "state")
	stoppedUnit(t, state)
	j, err := journal.Open(filepath.Join(state, "journal.db"), journal.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	d, err := backup.Begin(backup.Config{Dir: state}, j)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = d.Write(t.Context(), &file, id.Recipient()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Close(), j.Close()); err != nil {
		t.Fatal(err)
	}
	forged := forge(t, file.Bytes(), id)
	for name, text := range map[string][]byte{"b": forged, "key": []byte(id.String() + "\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	status, _, stderr := backupRun(t, "", "verify", filepath.Join(dir, "b"), "--identity", filepath.Join(dir, "key"))
	if status != 1 || !strings.Contains(stderr, "the backup is damaged") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// forge puts something else in the place of a backup's journal, and that into its manifest.
func forge(t *testing.T, file []byte, id *age.X25519Identity) []byte {
	t.Helper()
	plain, err := age.Decrypt(bytes.NewReader(file), id)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	sealed, err := age.Encrypt(&out, id.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	r, w := tar.NewReader(plain), tar.NewWriter(sealed)
	other := []byte("no journal")
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		text, rerr := io.ReadAll(r)
		switch h.Name {
		case "state/journal.db":
			text = other
		case "manifest.json":
			var m backup.Manifest
			rerr = errors.Join(rerr, json.Unmarshal(text, &m))
			for i := range m.Files {
				if f := &m.Files[i]; f.Name == "state/journal.db" {
					f.Size, f.SHA256 = int64(len(other)), fmt.Sprintf("%x", sha256.Sum256(other))
				}
			}
			var merr error
			text, merr = json.Marshal(&m)
			rerr = errors.Join(rerr, merr)
		}
		h.Size = int64(len(text))
		werr := w.WriteHeader(h)
		if werr == nil {
			_, werr = w.Write(text)
		}
		if err := errors.Join(err, rerr, werr); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), sealed.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
