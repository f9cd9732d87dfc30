package backup

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/go-json-experiment/json"
)

// entry is one of a file that is written anew.
type entry struct {
	name string
	text []byte
}

// unsealed returns what is in a backup: its manifest is the last entry, and size that of all of it.
func unsealed(t *testing.T, file []byte) (all []entry, size int) {
	t.Helper()
	plain, err := age.Decrypt(bytes.NewReader(file), key)
	ok(t, err)
	text, err := io.ReadAll(plain)
	ok(t, err)
	for r := tar.NewReader(bytes.NewReader(text)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, len(text)
		}
		ok(t, err)
		content, err := io.ReadAll(r)
		ok(t, err)
		all = append(all, entry{h.Name, content})
	}
}

func sealed(t *testing.T, all []entry) []byte {
	t.Helper()
	var file bytes.Buffer
	to, err := age.Encrypt(&file, key.Recipient())
	ok(t, err)
	w := tar.NewWriter(to)
	for _, e := range all {
		ok(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: e.name, Size: int64(len(e.text)), Mode: 0o600}))
		_, err := w.Write(e.text)
		ok(t, err)
	}
	ok(t, w.Close(), to.Close())
	return file.Bytes()
}

// TestOtherEntries: a file whose entries are not those of its manifest, or have one twice, or no journal, is damage; by
// whom others are judged is read last.
func TestOtherEntries(t *testing.T) {
	file, m := made(t, false)
	all, _ := unsealed(t, file)
	ok(t, verify(t, sealed(t, all), key))
	var small []string
	for _, f := range m.Files {
		if strings.HasPrefix(f.Name, stateDir) && f.Name != stateDir+journalFile {
			small = append(small, f.Name)
		}
	}
	if at := slices.Index(small, stateDir+"revoked.txt"); at != len(small)-1 {
		t.Errorf("who is revoked is read before others: %q", small)
	}
	// named has the manifest name the entries as they are.
	named := func(all []entry, change func(*Manifest)) []entry {
		all = slices.Clone(all)
		var m Manifest
		ok(t, json.Unmarshal(all[len(all)-1].text, &m))
		change(&m)
		text, err := json.Marshal(&m)
		ok(t, err)
		all[len(all)-1].text = text
		return all
	}
	for want, bad := range map[string][]entry{
		"its entries are not those of its manifest": named(all, func(m *Manifest) {
			m.Files[0].SHA256 = strings.Repeat("0", 64)
		}),
		`it has an entry "` + all[0].name: named(slices.Insert(slices.Clone(all), 1, all[0]), func(m *Manifest) {
			m.Files = slices.Insert(m.Files, 1, m.Files[0])
		}),
		"it has no journal": named(slices.DeleteFunc(slices.Clone(all), func(e entry) bool {
			return e.name == stateDir+journalFile
		}), func(m *Manifest) {
			m.Files = slices.DeleteFunc(m.Files, func(f File) bool { return f.Name == stateDir+journalFile })
		}),
	} {
		if err := verify(t, sealed(t, bad), key); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestReadToTheEnd: a file of which the piece after the manifest is another one is damage: it is proved, too.
func TestReadToTheEnd(t *testing.T) {
	const piece, end = 64 << 10, 1 << 10 // of age; of a tar
	dir, j := stateOf(t)
	pad := 0
	for range 5 {
		file, _ := of(t, Config{Dir: dir, Now: noon, Settings: []Setting{{Name: "pad", Text: make([]byte, pad)}}}, j)
		_, size := unsealed(t, file)
		if last := size % piece; last != end/2 {
			pad += (piece + end/2 - last) % piece
			continue
		}
		ok(t, verify(t, file, key))
		file[len(file)-1] ^= 1
		if err := verify(t, file, key); !errors.Is(err, ErrDamaged) {
			t.Errorf("the last bit is another one: %v", err)
		}
		return
	}
	t.Fatal("no file ends with such a piece")
}

// TestRestoresOneAfterTheOther: while one restores into a directory, another one does not.
func TestRestoresOneAfterTheOther(t *testing.T) {
	file, _ := made(t, false)
	dir := t.TempDir()
	var inner error
	_, err := restore(t, dir, file, func(r *Restore) {
		r.Step = func(what string) error {
			if what == "journal" {
				_, inner = restore(t, dir, file, nil)
			}
			return nil
		}
	})
	if err != nil || inner == nil {
		t.Errorf("%v; a second one meanwhile: %v", err, inner)
	}
}

// TestMovedUnitIsLeftAlone: what a restore that has not ended has left is removed, but not where a unit was moved from.
func TestMovedUnitIsLeftAlone(t *testing.T) {
	file, _ := made(t, false)
	dir := t.TempDir()
	ok(t, Fence(dir, noon, "b.age"), os.WriteFile(filepath.Join(dir, restoring), nil, 0o600))
	if _, err := restore(t, dir, file, nil); err == nil || !strings.Contains(err.Error(), movedFile) {
		t.Errorf("restored where the unit was moved from: %v", err)
	}
}

// TestSecretKeysAreNotShown: whoever gives a secret key for a public one does not find it in the error.
func TestSecretKeysAreNotShown(t *testing.T) {
	for _, text := range []string{key.String(), strings.ToLower(key.String()), "key: " + key.String()} {
		_, err := Recipients([]string{text})
		if err == nil || strings.Contains(strings.ToUpper(err.Error()), key.String()[:30]) {
			t.Errorf("%v", err)
		}
	}
}
