package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"tandem.internal/controller/internal/backup"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/revoked"
)

// TestVerifyBackup: of a backup of which a file is not what a controller would read, or a key not one that the journal
// names, that is told, with what differs; of a good one the keys and CAs are.
func TestVerifyBackup(t *testing.T) {
	s := &firstStart{T: t, now: time.Now, cfg: Config{Unit: "u1", ListenTLS: "127.0.0.1:0", SubscribeQoS: 1,
		StateDir: t.TempDir(), Inbox: true, Submitters: filepath.Join(t.TempDir(), "submitters")}}
	id, err := age.GenerateX25519Identity()
	s.must(err)
	s.must(os.WriteFile(s.cfg.Submitters, []byte("# nobody\n"), 0o600))
	var key, caID, caFile string
	s.run(s.cfg.StateDir, Deps{}, func(a *App) {
		keys, err := a.core.RotateKey(As(s.Context(), "ann"), op.RotateKey{})
		s.must(err)
		cas, err := a.core.RotateCA(As(s.Context(), "ann"), op.RotateCA{})
		s.must(err)
		key, caID, caFile = keys.Keys[1].ID, cas.CAs[1].Fingerprint, "ca-key-"+cas.CAs[1].ID+".pem"
	})
	s.must(someTokens(s.Context(), s.cfg.StateDir))
	list, err := revoked.Open(filepath.Join(s.cfg.StateDir, revoked.FileName), nil)
	s.must(err)
	s.must(list.Note(map[string]time.Time{"node/gone": noon}))
	other := filepath.Join(t.TempDir(), "unit-key.pem")
	strange, err := makeKey()
	s.must(err)
	s.must(writeKey(other, strange, nil))
	unitKey := "unit-key-" + key + ".pem"
	write := func(name, text string) func(dir string) {
		return func(dir string) { s.must(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
	}
	remove := func(name string) func(dir string) {
		return func(dir string) { s.must(os.Remove(filepath.Join(dir, name))) }
	}
	for _, c := range []struct {
		name   string
		change func(dir string)
		want   string // "": nothing is wrong
	}{
		{"good", func(string) {}, ""},
		{"no tokens", remove("tokens.json"), ""},
		{"tokens", write("tokens.json", ""), "tokens.json: "},
		{"revoked", write("revoked.txt", "x"), "revoked.txt: it does not begin"},
		{"revoked tokens", write("revoked-tokens.txt", ""), "revoked-tokens.txt: it does not begin"},
		{"a key is gone", remove(unitKey),
			"the journal names " + key + " (announced), and the backup has not its file"},
		{"a key is none", write(unitKey, "x"), unitKey + " is not a private key in PEM"},
		{"the first key is another", func(dir string) {
			s.must(os.Rename(other, filepath.Join(dir, "unit-key.pem")))
		}, "(signing), and the backup has not its file; it has "},
		{"a CA is gone", remove(caFile), "CA: the journal names " + caID + " (announced)"},
		{"a CA is none", write("ca-key.pem", "x"), "ca-key.pem: a private key and a certificate are expected"},
		{"a CA has another name", func(dir string) {
			s.must(os.Rename(filepath.Join(dir, caFile), filepath.Join(dir, "ca-key-0000000000000000.pem")))
		}, "another CA than its name says"},
		{"submitters", func(string) { write(filepath.Base(s.cfg.Submitters), "ann\n")(filepath.Dir(s.cfg.Submitters)) },
			"settings/submitters: "},
	} {
		cfg := s.cfg
		cfg.StateDir = copyOf(t, s.cfg.StateDir)
		c.change(cfg.StateDir)
		var file bytes.Buffer
		_, err := BackupStopped(t.Context(), cfg, &file, []age.Recipient{id.Recipient()}, true, false, noon, "b.age",
			func() error { return nil })
		s.must(err)
		v, err := VerifyBackup(t.Context(), &file, []age.Identity{id}, "")
		s.must(err)
		got := strings.Join(v.Mistakes, "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) || len(v.Keys) < 2 || len(v.CAs) < 2 {
			t.Errorf("%s: %q, want %q; keys %v, CAs %v", c.name, got, c.want, v.Keys, v.CAs)
		}
	}
}

// TestVerifySettings: settings that no controller reads, and those of another unit, are told.
func TestVerifySettings(t *testing.T) {
	for text, want := range map[string]string{"unit: u1\n": "", "unit: u2\n": "it is for the unit",
		"x: 1\n": "no such setting", "unit: [": "controller.yaml"} {
		var v Verified
		v.lookAtSettings(&backup.Content{Manifest: backup.Manifest{Unit: "u1"},
			Files: map[string][]byte{"settings/controller.yaml": []byte(text)}})
		got := strings.Join(v.Mistakes, "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: %q", text, got)
		}
	}
}
