package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"tandem.internal/controller/internal/backup"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/shared/wire"
)

// body is that of an upload.
type body struct{ *bytes.Reader }

func (body) Interrupt() {}

// TestEveryFileIsDecidedUpon: of every file that a controller has in its state directory, with all that it can have, it
// is decided whether a backup has it, and a backup has those.
func TestEveryFileIsDecidedUpon(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(err)
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	cfg := Config{Unit: "u1", StateDir: state, ListenTLS: "127.0.0.1:0", HTTP: "https://127.0.0.1:0", SubscribeQoS: 1,
		Socket: filepath.Join(dir, "s"), ArtefactQuota: 1 << 20, BackupTo: []string{id.Recipient().String()},
		Inbox: true, Submitters: filepath.Join(dir, "submitters"), Passwords: map[string]string{"cloud/eu": "secret"},
		NewEpoch: true}
	ok(os.WriteFile(cfg.Submitters, []byte("# nobody\n"), 0o600))
	a, err := New(cfg, Deps{Machine: ThisMachine()})
	ok(err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	as := As(t.Context(), "ann")
	res, err := a.core.Submit(as, Submission{Kind: wire.KindConfig, Who: "ann", Via: "cli",
		Document: []byte(`{"formatVersion":"7","version":"1.0.0","nodes":[]}`)})
	if err != nil || res.State != "accepted" {
		t.Fatalf("%+v %v", res, err)
	}
	for range 2 { // announced, and signing
		_, err = a.core.RotateKey(as, op.RotateKey{Force: true})
		ok(err)
		_, err = a.core.RotateCA(as, op.RotateCA{Force: true})
		ok(err)
	}
	text := []byte("an artefact")
	digest := wire.Hash(text)
	_, err = a.core.Artefacts().Begin(as, NewArtefact{Digest: digest, Size: int64(len(text)), Name: "a"})
	ok(err)
	_, err = a.core.Artefacts().Write(as, digest, 0, body{bytes.NewReader(text)})
	ok(err)
	_, err = a.core.Artefacts().Complete(as, digest)
	ok(err)
	_, err = a.core.Artefacts().Begin(as, NewArtefact{Digest: wire.Hash(nil), Size: 5, Name: "b"})
	ok(err)
	_, err = a.notices.Add(as, op.NewNotice{Name: "pager", URL: "https://hooks.example.com/"})
	ok(err)
	ok(someTokens(t.Context(), state))

	var file bytes.Buffer
	ok(a.core.BackupUnit(as, op.BackupIn{}, &file))
	var want []string
	ok(filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == state {
			return err
		}
		name, err := filepath.Rel(state, path)
		if err != nil {
			return err
		}
		kept, known := backup.Kept(filepath.ToSlash(name))
		if !known {
			t.Errorf("nobody has decided whether a backup has %s: see the list in package backup", name)
		}
		if kept && strings.HasPrefix(name, "artefacts") {
			want = append(want, "artefacts/"+d.Name())
		} else if kept {
			want = append(want, "state/"+name)
		}
		return nil
	}))
	cancel()
	ok(<-done)
	p, err := VerifyBackup(t.Context(), bytes.NewReader(file.Bytes()), []age.Identity{id}, "")
	ok(err)
	if len(p.Mistakes) > 0 || len(p.Keys) != 2 || len(p.CAs) != 2 {
		t.Errorf("verified: %+v", p)
	}
	var got []string
	for _, f := range p.Manifest.Files {
		if !strings.HasPrefix(f.Name, "settings/") {
			got = append(got, f.Name)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || len(want) < 11 {
		t.Errorf("the backup has\n%q, want\n%q", got, want)
	}

	// What it is restored with is what it was started with, but for what is for one start.
	other := filepath.Join(dir, "other")
	_, err = backup.Restore{Dir: other, Now: a.clock.Now}.Run(t.Context(), &file, []age.Identity{id})
	ok(err)
	settings, err := os.ReadFile(filepath.Join(other, backup.SettingsDir, "controller.yaml"))
	ok(err)
	for _, line := range []string{"unit: \"u1\"", "passwords: {\"cloud/eu\": \"secret\"}", "inbox: true"} {
		if !strings.Contains(string(settings), line+"\n") {
			t.Errorf("the settings lack %s:\n%s", line, settings)
		}
	}
	if strings.Contains(string(settings), "new-epoch") {
		t.Errorf("each start begins a new epoch:\n%s", settings)
	}
	if b, err := os.ReadFile(filepath.Join(other, backup.SettingsDir, "submitters")); string(b) != "# nobody\n" {
		t.Errorf("submitters: %q %v", b, err)
	}
}

// someTokens makes operators' tokens, one of a link, and revokes one, as the API does.
func someTokens(ctx context.Context, state string) error {
	s, err := tokens.Open(tokens.Config{Path: filepath.Join(state, tokens.FileName)})
	if err != nil {
		return err
	}
	for name, link := range map[string]*tokens.Link{"ann": nil, "bob": nil, "link": {Within: time.Minute}} {
		if _, _, err := s.Create(ctx, name, tokens.Admin, time.Hour, link, "tester",
			func(tokens.Token) error { return nil }); err != nil {
			return err
		}
	}
	_, err = s.Revoke(ctx, "bob")
	return err
}

// TestBackupForWhom: over the network nobody says whom a backup is for.
func TestBackupForWhom(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(Config{Unit: "u1", StateDir: t.TempDir(), Listen: "127.0.0.1:0", SubscribeQoS: 1}, Deps{NoAPI: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	for want, in := range map[string]op.BackupIn{
		"on the controller's machine only": {To: []string{id.Recipient().String()}},
		"--backup-to":                      {},
	} {
		var b bytes.Buffer
		if err := a.core.BackupUnit(As(ctx, "token/ann"), in, &b); err == nil || !strings.Contains(err.Error(), want) ||
			b.Len() > 0 {
			t.Errorf("%+v: %v, %d bytes", in, err, b.Len())
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// rotateAll does the next step of a rotation of the signing keys and of the CAs.
func rotateAll(ctx context.Context, a *App) error {
	keys, err := a.core.RotateKey(ctx, op.RotateKey{Force: true})
	if err == nil && keys.Keys[0].State == "leaving" {
		_, err = a.core.RetireKey(ctx, op.RetireKey{ID: keys.Keys[0].ID, Force: true})
	}
	if err != nil {
		return err
	}
	cas, err := a.core.RotateCA(ctx, op.RotateCA{Force: true})
	if err == nil && cas.CAs[0].State == "leaving" {
		_, err = a.core.RetireCA(ctx, op.RetireCA{ID: cas.CAs[0].ID, Force: true})
	}
	return err
}

// TestBackupWhileKeysChange: whatever step a rotation of signing keys and CAs is at, a backup has every key that its
// journal names: a controller starts on what is restored from it.
func TestBackupWhileKeysChange(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Unit: "u1", StateDir: t.TempDir(), ListenTLS: "127.0.0.1:0", SubscribeQoS: 1,
		BackupTo: []string{id.Recipient().String()}}
	a, err := New(cfg, Deps{NoAPI: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done, changed := make(chan error, 1), make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	enough := make(chan struct{})
	as := As(t.Context(), "ann")
	go func() {
		changed <- func() error {
			for {
				select {
				case <-enough:
					return nil
				default:
				}
				if err := rotateAll(as, a); err != nil {
					return err
				}
			}
		}()
	}()
	for i := range 60 {
		var file bytes.Buffer
		if err := a.core.BackupUnit(as, op.BackupIn{}, &file); err != nil {
			t.Fatal(err)
		}
		if i%20 > 0 {
			continue // a file that is gone fails already
		}
		other := cfg
		other.StateDir = t.TempDir()
		if _, err := (backup.Restore{Dir: other.StateDir, Now: a.clock.Now}).Run(t.Context(), &file,
			[]age.Identity{id}); err != nil {
			t.Fatal(err)
		}
		b, err := New(other, Deps{NoAPI: true})
		if err != nil {
			t.Errorf("a controller does not start on what was restored: %v", err)
			continue
		}
		stopped, stop := context.WithCancel(t.Context())
		stop()
		if err := b.Run(stopped); err != nil {
			t.Error(err)
		}
	}
	close(enough)
	if err := <-changed; err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestMovedDuringAStart: a controller that is starting while the unit is moved away does not go on.
func TestMovedDuringAStart(t *testing.T) {
	dir, fenced := t.TempDir(), false
	now := func() time.Time { // asked before the journal is open
		if !fenced {
			fenced = true
			if err := backup.Fence(dir, noon, "b.age"); err != nil {
				t.Error(err)
			}
		}
		return noon
	}
	_, err := New(Config{Unit: "u1", StateDir: dir, Listen: "127.0.0.1:0", SubscribeQoS: 1},
		Deps{NoAPI: true, Now: now})
	if !fenced || err == nil || !strings.Contains(err.Error(), "was moved to another machine") {
		t.Errorf("fenced %v: %v", fenced, err)
	}
}

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// TestFinalBackupIsThereBeforeTheFence: a controller does not start any more when the last backup has its name, and
// does when it has got none.
func TestFinalBackupIsThereBeforeTheFence(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Unit: "u1", StateDir: filepath.Join(t.TempDir(), "state"), SubscribeQoS: 1}
	a, err := New(cfg, Deps{NoAPI: true, Machine: ThisMachine()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Run(ctx); err != nil {
		t.Fatal(err)
	}
	full := errors.New("the disk is full")
	for _, result := range []error{full, nil} {
		_, err := BackupStopped(t.Context(), cfg, io.Discard, []age.Recipient{id.Recipient()}, false, true, time.Now(),
			"b.age", func() error {
				if err := backup.Check(cfg.StateDir); err != nil {
					t.Errorf("before the backup has its name: %v", err)
				}
				return result
			})
		if !errors.Is(err, result) || (backup.Check(cfg.StateDir) == nil) != (result != nil) {
			t.Errorf("%v: %v, and then %v", result, err, backup.Check(cfg.StateDir))
		}
	}
}

// TestSettingsOfABackup: what is for one start alone is not among the settings of a backup, what else is set is.
func TestSettingsOfABackup(t *testing.T) {
	cfg := Config{Unit: "u1", NewKey: true, NewEpoch: true, NewCA: true, HTTPKey: "k.pem"}
	files := cfg.settingsFiles()
	text := string(files[0].Text)
	if !strings.Contains(text, "unit: \"u1\"\n") || strings.Contains(text, "new-") || !cfg.NewCA {
		t.Errorf("%s", text)
	}
	if len(files) != 2 || files[1].Name != "http-key" || files[1].Path != "k.pem" {
		t.Errorf("%+v", files[1:])
	}
}
