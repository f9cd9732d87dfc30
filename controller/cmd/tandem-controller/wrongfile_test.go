package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
)

// TestRestoreOfTheWrongFile: who names the wrong file, key or passphrase is told which it is, and the directory is
// left as it was; of a file that was cut off, it is that a restore has begun there.
func TestRestoreOfTheWrongFile(t *testing.T) {
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
	for name, text := range map[string]string{"key": id.String(), "other": other.String(), "pass": "secret",
		"wrong": "secrets", "text": "no backup", "empty": ""} {
		if err := os.WriteFile(in(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for file, to := range map[string]string{"b": "--to " + id.Recipient().String(),
		"p": "--passphrase-file " + in("pass")} {
		args := "create " + in(file) + " --unit u1 --state-dir " + in("state") + " " + to
		if status, _, stderr := backupRun(t, "", strings.Fields(args)...); status != 0 {
			t.Fatal(stderr)
		}
	}
	whole, err := os.ReadFile(in("b"))
	if err == nil {
		err = os.WriteFile(in("cut"), whole[:len(whole)-20], 0o600)
	}
	if err = errors.Join(err, os.Mkdir(in("new"), 0o700)); err != nil {
		t.Fatal(err)
	}
	key, pass := " --identity "+in("key"), " --passphrase-file "+in("pass")
	for _, c := range []struct {
		args   string
		status int
		want   string
		begun  bool
	}{
		{in("b") + " --identity " + in("other"), 2, "for another key", false},
		{in("b") + pass, 2, "for keys, and not with a passphrase; --identity FILE", false},
		{in("p") + key, 2, "with a passphrase, and not for a key; leave out --identity", false},
		{in("p") + " --passphrase-file " + in("wrong"), 2, "with another passphrase", false},
		{in("text") + key, 1, "no file of age", false},
		{in("empty") + pass, 1, "no file of age", false},
		{in("state") + key, 1, "is a directory", false},
		{in("cut") + key, 1, "it was cut off or changed; copy it once more", true},
	} {
		for _, verb := range []string{"verify ", "restore --state-dir " + in("new") + " "} {
			status, _, stderr := backupRun(t, "", strings.Fields(verb+c.args)...)
			if status != c.status || !strings.Contains(stderr, c.want) {
				t.Errorf("%s%s: status %d, want %d and %q: %s", verb, c.args, status, c.status, c.want, stderr)
			}
		}
		if left, err := os.ReadDir(in("new")); err != nil || len(left) > 0 != c.begun {
			t.Errorf("%s: left behind are %v %v", c.args, left, err)
		}
	}
}
