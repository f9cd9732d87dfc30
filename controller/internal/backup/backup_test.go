package backup

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"
	"go.uber.org/goleak"

	"tandem.internal/controller/internal/artefact/store"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/revoked"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/shared/filetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

func now() time.Time { return noon.Add(time.Hour) }

// content is an artefact of a little more than a chunk.
var content = bytes.Repeat([]byte("artefact "), store.Chunk/9+1)

func digest(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

// stateOf makes a state directory with some of everything, and a journal that is open.
func stateOf(t *testing.T) (string, *journal.Journal) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"unit-key.pem": "first key", "unit-key-abc.pem": "second key", "ca-key.pem": "CA", "ca.pem": "copy",
		"unit-config.json": "{}", "clock.json": "{}", "journal.db.v5.bak": "old",
		"tokens.json": string(tokens.Set{
			{Name: "ann", Hash: tokens.Hash{1}, Role: "admin", Created: noon, By: "x"},
			{Name: "bob", Hash: tokens.Hash{2}, Role: "view", Created: noon, By: "x"},
			{Name: "link", Hash: tokens.Hash{3}, Role: "view", Created: noon, By: "x", Once: true},
		}.Encode()),
	} {
		ok(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, sub := range []string{"parts", "quarantine"} {
		ok(t, os.MkdirAll(filepath.Join(dir, "artefacts", sub), 0o700))
	}
	ok(t, os.WriteFile(filepath.Join(dir, "artefacts/parts", strings.Repeat("a", 64)), nil, 0o600))
	ok(t, store.Put(filepath.Join(dir, "artefacts"), digest(content), bytes.NewReader(content)))
	list, err := revoked.Open(filepath.Join(dir, revoked.FileName), nil)
	ok(t, err)
	ok(t, list.Note(map[string]time.Time{"node/gone": noon}))
	j, err := journal.Open(filepath.Join(dir, "journal.db"), journal.Options{MapSize: 1 << 22, Now: func() time.Time {
		return noon
	}})
	ok(t, err)
	t.Cleanup(func() { ok(t, j.Close()) })
	_, err = j.Append(&journal.Batch{Records: []record.Record{
		{At: noon, Type: record.Opened, Data: []byte(`{}`)},
		{At: noon, Type: record.Note, Data: []byte(`{"text":"x"}`)},
	}})
	ok(t, err)
	return dir, j
}

func ok(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

var key, _ = age.GenerateX25519Identity()

// made is a backup of stateOf, with artefacts or without.
func made(t *testing.T, artefacts bool) ([]byte, Manifest) {
	t.Helper()
	dir, j := stateOf(t)
	return of(t, Config{Dir: dir, Unit: "line4", Program: "1.0.0", Now: noon, Artefacts: artefacts,
		Settings: []Setting{{Name: "controller.yaml", Text: []byte("unit: line4\n")},
			{Name: "submitters", Path: filepath.Join(dir, "none")}}}, j)
}

func of(t *testing.T, cfg Config, j *journal.Journal) ([]byte, Manifest) {
	t.Helper()
	d, err := Begin(cfg, j)
	ok(t, err)
	var b bytes.Buffer
	m, err := d.Write(t.Context(), &b, key.Recipient())
	ok(t, err, d.Close())
	return b.Bytes(), m
}

func restore(t *testing.T, dir string, file []byte, change func(*Restore)) (Proof, error) {
	r := Restore{Dir: dir, Now: now}
	if change != nil {
		change(&r)
	}
	return r.Run(t.Context(), bytes.NewReader(file), []age.Identity{key})
}

// listed is every file of a directory with its content, and the modes that others could use.
func listed(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	ok(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && path != dir && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v", path, info.Mode())
		}
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name, rerr := filepath.Rel(dir, path)
		all[name] = string(b)
		return errors.Join(err, rerr)
	}))
	return all
}

// TestRestore: what was put into a backup is there again, what may have been used or taken back since does not count,
// and the journal has a higher epoch.
func TestRestore(t *testing.T) {
	file, m := made(t, true)
	dir := filepath.Join(t.TempDir(), "new")
	p, err := restore(t, dir, file, func(r *Restore) { r.Revoked = []string{"node/lost", "token/bob"} })
	ok(t, err)
	if p.Manifest.Seq != 2 || p.Manifest.Unit != "line4" || !p.Manifest.At.Equal(noon) || len(p.Bad) != 0 ||
		!strings.Contains(p.Journal, "the chain is whole") || len(m.Files) != len(p.Manifest.Files) {
		t.Errorf("%+v", p)
	}
	if want := "settings/submitters"; len(m.Left) != 1 || m.Left[0].Name != want {
		t.Errorf("left out: %+v, want %s, whose file is not there", m.Left, want)
	}
	got := listed(t, dir)
	hex := strings.TrimPrefix(digest(content), "sha256:")
	blob := "artefacts/sha256/" + hex[:2] + "/" + hex
	for name, want := range map[string]string{"unit-key.pem": "first key", "unit-key-abc.pem": "second key",
		"ca-key.pem": "CA", SettingsDir + "/controller.yaml": "unit: line4\n", blob: string(content)} {
		if got[name] != want {
			t.Errorf("%s: %.60q", name, got[name])
		}
		delete(got, name)
	}
	first, second := sha256.Sum256(content[:store.Chunk]), sha256.Sum256(content[store.Chunk:])
	if got[blob+".chunks"] != string(first[:])+string(second[:]) {
		t.Errorf("chunks %x", got[blob+".chunks"])
	}
	delete(got, blob+".chunks")
	set, err := tokens.Decode([]byte(got["tokens.json"]))
	ok(t, err)
	if len(set) != 1 || set[0].Name != "ann" {
		t.Errorf("tokens %+v", set)
	}
	if gone := got["revoked-tokens.txt"]; strings.Count(gone, "token/02") != 1 || strings.Count(gone, "token/03") != 1 {
		t.Errorf("tokens that never count: %s", gone)
	}
	if gone := got["revoked.txt"]; !strings.Contains(gone, "node/gone") || !strings.Contains(gone, "node/lost") ||
		!strings.Contains(gone, "newest 3\n") {
		t.Errorf("revoked: %s", gone)
	}
	for _, name := range []string{"tokens.json", "revoked-tokens.txt", "revoked.txt", "journal.db", "restored.json"} {
		delete(got, name)
	}
	if len(got) != 0 {
		t.Errorf("also there: %q", got)
	}
	j, err := journal.Open(filepath.Join(dir, "journal.db"), journal.Options{ReadOnly: true})
	ok(t, err)
	if j.Epoch() <= m.Epoch || j.Last() != 2 {
		t.Errorf("epoch %d after %d, last %d", j.Epoch(), m.Epoch, j.Last())
	}
	ok(t, j.Close(), Check(dir))
	o, err := Restored(dir)
	if err != nil || o == nil || !o.At.Equal(noon) || !o.Restored.Equal(now()) || o.Seq != 2 {
		t.Errorf("%+v %v", o, err)
	}
	if _, err := restore(t, dir, file, nil); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("restored into a directory in use: %v", err)
	}
}

// TestOtherRestores: without artefacts those are named; a damaged one is told, and not restored; a token that is named
// and not there is a slip; a directory of somebody else is left alone.
func TestOtherRestores(t *testing.T) {
	file, m := made(t, false)
	if len(m.Left) != 2 || !strings.HasPrefix(m.Left[1].Name, "artefacts/") {
		t.Errorf("left out %+v", m.Left)
	}
	dir := t.TempDir()
	if _, err := restore(t, dir, file, func(r *Restore) { r.Revoked = []string{"token/bop"} }); err == nil ||
		!strings.Contains(err.Error(), `"bop"`) {
		t.Errorf("a token that is not there: %v", err)
	}
	if err := Check(dir); err == nil || !strings.Contains(err.Error(), "has not ended") {
		t.Errorf("a controller starts on half a restore: %v", err)
	}
	if _, err := restore(t, dir, file, nil); err != nil {
		t.Errorf("once more: %v", err)
	}
	state, j := stateOf(t)
	hex := strings.TrimPrefix(digest(content), "sha256:")
	ok(t, os.WriteFile(filepath.Join(state, "artefacts/sha256", hex[:2], hex), []byte("other"), 0o600))
	file, _ = of(t, Config{Dir: state, Artefacts: true, Now: noon}, j)
	dir = t.TempDir()
	p, err := restore(t, dir, file, nil)
	ok(t, err)
	if len(p.Bad) != 1 || p.Bad[0].Name != "artefacts/"+hex {
		t.Errorf("damaged artefacts %+v", p.Bad)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "artefacts/sha256/*/*")); err != nil || len(left) != 0 {
		t.Errorf("%q %v", left, err)
	}
	dir = t.TempDir()
	ok(t, os.WriteFile(filepath.Join(dir, "letter.txt"), nil, 0o600))
	if _, err := restore(t, dir, file, nil); err == nil || !strings.Contains(err.Error(), "letter.txt") {
		t.Errorf("a directory with a letter: %v", err)
	}
	ok(t, os.WriteFile(filepath.Join(dir, restoring), nil, 0o600))
	if _, err := restore(t, dir, file, nil); err == nil || !strings.Contains(err.Error(), "letter.txt") {
		t.Errorf("a restore that has not ended, with a letter: %v", err)
	}
}

func verify(t *testing.T, file []byte, ids ...age.Identity) error {
	t.Helper()
	_, err := Verify(t.Context(), bytes.NewReader(file), ids, t.TempDir(), nil)
	return err
}

// TestDamage: whatever bit of a backup is another one, and wherever it ends, that is told, and no controller starts on
// what is restored of it. A sample is tried, with each byte of the beginning, where age's header is, and of the end.
func TestDamage(t *testing.T) {
	file, _ := made(t, false)
	dir := filetest.MemoryDir(t)
	look := func(file []byte) error {
		_, err := Verify(t.Context(), bytes.NewReader(file), []age.Identity{key}, dir, nil)
		return err
	}
	ok(t, look(file))
	chance := filetest.Chance(t)
	var bits []int
	for at := range file {
		switch edge := at < 400 || at > len(file)-100; {
		case filetest.EveryBit():
			for bit := range 8 {
				bits = append(bits, 8*at+bit)
			}
		case edge || chance.IntN(len(file)/200) == 0:
			bits = append(bits, 8*at+chance.IntN(8))
		}
	}
	for i, bit := range bits {
		bad := filetest.Flipped(file, bit)
		if err := look(bad); !errors.Is(err, ErrDamaged) && !(errors.Is(err, ErrKey) && bit < 8*400) {
			t.Errorf("bit %d: %v", bit, err)
		}
		if i%50 > 0 {
			continue
		}
		dir := t.TempDir()
		if _, err := restore(t, dir, bad, nil); err == nil || Check(dir) == nil && len(listed(t, dir)) > 0 {
			t.Errorf("bit %d was restored: %v, %v", bit, err, Check(dir))
		}
	}
	for end := 0; end < len(file); end += 1 + chance.IntN(len(file)/100) {
		if err := look(file[:end]); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut to %d bytes: %v", end, err)
		}
	}
}

// TestOtherKeys: a wrong key and a wrong passphrase are told from damage.
func TestOtherKeys(t *testing.T) {
	file, _ := made(t, false)
	other, err := age.GenerateX25519Identity()
	ok(t, err)
	pass, err := age.NewScryptIdentity("secret")
	ok(t, err)
	for _, id := range []age.Identity{other, pass} {
		if err := verify(t, file, id); !errors.Is(err, ErrKey) {
			t.Errorf("%T: %v", id, err)
		}
	}
	if err := verify(t, []byte("no backup"), key); !errors.Is(err, ErrDamaged) {
		t.Errorf("another file: %v", err)
	}
}

// full is a disk with so much room.
type full struct{ room int }

func (f *full) Write(b []byte) (int, error) {
	if f.room -= len(b); f.room < 0 {
		return 0, syscall.ENOSPC
	}
	return len(b), nil
}

// TestFullDisk: wherever the room ends, whoever writes the backup is told.
func TestFullDisk(t *testing.T) {
	dir, j := stateOf(t)
	file, _ := of(t, Config{Dir: dir, Now: noon}, j)
	for room := 0; room < len(file); room += len(file)/40 + 1 {
		d, err := Begin(Config{Dir: dir, Now: noon}, j)
		ok(t, err)
		if _, err := d.Write(t.Context(), &full{room}, key.Recipient()); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("room for %d bytes: %v", room, err)
		}
		ok(t, d.Close())
	}
}

type killed struct{}

// TestRestoreIsKilled: killed or refused by the disk at any step, a restore leaves a directory on which no controller
// starts, and done once more it ends as if nothing had been.
func TestRestoreIsKilled(t *testing.T) {
	file, _ := made(t, true)
	want := t.TempDir()
	var steps []string
	_, err := restore(t, want, file, func(r *Restore) {
		r.Step = func(what string) error { steps = append(steps, what); return nil }
	})
	ok(t, err)
	if len(steps) < 15 || steps[0] != restoring || steps[len(steps)-1] != "end" {
		t.Fatalf("steps %q", steps)
	}
	for at := range steps {
		for _, kill := range []bool{true, false} {
			dir := t.TempDir()
			n := 0
			fault := func(r *Restore) {
				r.Step = func(string) error {
					if n++; n-1 != at {
						return nil
					}
					if kill {
						panic(killed{})
					}
					return syscall.ENOSPC
				}
			}
			err := func() (err error) {
				defer func() {
					if got := recover(); got != nil {
						if _, is := got.(killed); !is {
							panic(got)
						}
						err = syscall.ENOSPC
					}
				}()
				_, err = restore(t, dir, file, fault)
				return err
			}()
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("%s: %v", steps[at], err)
			}
			if got := listed(t, dir); Check(dir) == nil && len(got) != 0 {
				t.Errorf("%s: a controller starts on %q", steps[at], got)
			}
			if _, err := restore(t, dir, file, nil); err != nil {
				t.Fatalf("once more after %s: %v", steps[at], err)
			}
			a, b := listed(t, want), listed(t, dir)
			delete(a, "journal.db") // its pages may lie elsewhere
			delete(b, "journal.db")
			if fmt.Sprint(a) != fmt.Sprint(b) {
				t.Errorf("%s: %q", steps[at], b)
			}
		}
	}
}

// TestForged: a tar that somebody else has encrypted for the key brings no file to another place.
func TestForged(t *testing.T) {
	for _, name := range []string{"state/../x", "../x", "/etc/x", "state/restoring.txt", "state/moved.txt", "state/a/b",
		"settings/../x", "artefacts/x", "state/"} {
		if validName(name) {
			t.Errorf("an entry can be called %q", name)
		}
	}
	dir := t.TempDir()
	ok(t, Fence(dir, noon, "b.age"))
	if err := Check(dir); err == nil || !strings.Contains(err.Error(), "moved") {
		t.Errorf("fenced: %v", err)
	}
}
