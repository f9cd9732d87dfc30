package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"filippo.io/age"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/op"
)

// someKey is the public key of an identity that nobody has.
const someKey = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"

// unitBackup is a sample that answers with a text as its backup, encrypted as it was asked for; in clear if for nobody.
func unitBackup(text string) change {
	return answered(api.FileOf(op.BackupUnit, "", func(_ context.Context, in op.BackupIn, w io.Writer) error {
		if len(in.To) == 0 || in.To[0] == someKey {
			_, err := w.Write(make([]byte, 32<<10))
			return err
		}
		to, err := age.ParseX25519Recipient(in.To[0])
		if err != nil {
			return err
		}
		all, err := age.Encrypt(w, to)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(all, text); err != nil {
			return err
		}
		return all.Close()
	}))
}

// TestBackupForPassphrase: the backup in the file is what the controller has sent, for the passphrase, of which the
// controller has heard nothing.
func TestBackupForPassphrase(t *testing.T) {
	b := unitBackup("all of it").bench(t)
	file, pass := filepath.Join(b.dir, "b.age"), b.write("pass", "correct horse\n")
	b.runs("backup", "create", file, "--passphrase-file", pass)
	data, err := os.ReadFile(file)
	must(err)
	id, err := age.NewScryptIdentity("correct horse")
	must(err)
	plain, err := age.Decrypt(bytes.NewReader(data), id)
	must(err)
	if text, err := io.ReadAll(plain); err != nil || string(text) != "all of it" {
		t.Errorf("%q %v", text, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

// TestBackupsAreKept: so many as are to be kept, the newest, and always the one that was just made; other files stay.
func TestBackupsAreKept(t *testing.T) {
	b := unitBackup("").bench(t)
	for _, name := range []string{"backup-20260101T000000Z.age", "backup-20260102T000000Z.age",
		"backup-20990101T000000Z.age", "backup-x.age", "other.age"} {
		b.write(name, "old")
	}
	b.runs("backup", "create", "--dir", b.dir, "--keep", "2")
	left, err := filepath.Glob(filepath.Join(b.dir, "*.age"))
	must(err)
	for i := range left {
		left[i] = filepath.Base(left[i])
	}
	made := slices.IndexFunc(left, func(name string) bool {
		return name > "backup-20260103" && name < "backup-2099"
	})
	want := []string{"backup-20990101T000000Z.age", "backup-x.age", "other.age"}
	if made < 0 || fmt.Sprint(slices.Delete(slices.Clone(left), made, made+1)) != fmt.Sprint(want) {
		t.Errorf("left are %q", left)
	}
}

// TestBackupIsCutOff: of a backup that fails on its way nothing is left, and old ones are not removed.
func TestBackupIsCutOff(t *testing.T) {
	b := answered(api.FileOf(op.BackupUnit, "", func(_ context.Context, _ op.BackupIn, w io.Writer) error {
		if _, err := w.Write(make([]byte, 100<<10)); err != nil {
			return err
		}
		return diskFull
	})).bench(t)
	b.write("backup-20260101T000000Z.age", "old")
	pass := b.write("pass", "correct horse\n")
	before, err := os.ReadDir(b.dir)
	must(err)
	for _, args := range [][]string{{"--dir", b.dir, "--keep", "1"}, {filepath.Join(b.dir, "x.age"), "--to", someKey},
		{filepath.Join(b.dir, "x.age"), "--passphrase-file", pass}} {
		if _, _, status := b.run("", append([]string{"backup", "create"}, args...)...); status == 0 {
			t.Errorf("%q succeeded", args)
		}
	}
	after, err := os.ReadDir(b.dir)
	must(err)
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("left behind: %v", after)
	}
}
