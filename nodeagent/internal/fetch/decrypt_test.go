package fetch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"tandem.internal/shared/durable"
	"tandem.internal/shared/filetest"
	"tandem.internal/shared/publisher/publishertest"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// sealed is data as if it were encrypted for a node: its name, a line, and every byte another one.
func sealed(data []byte, who string) []byte {
	all := append([]byte(who), '\n')
	for _, b := range data {
		all = append(all, ^b)
	}
	return all
}

var errSeal = errors.New("the end is missing")

// unseal opens what is sealed for a node, and writes what it has before it finds that more is missing than there is.
func unseal(who string) Decrypt {
	return func(dst io.Writer, src io.Reader) error {
		name := make([]byte, len(who)+1)
		if _, err := io.ReadFull(src, name); err != nil {
			return err
		}
		if string(name) != who+"\n" {
			return fmt.Errorf("for %q: %w", name, ErrNotForUs)
		}
		buf := make([]byte, 700)
		for {
			n, err := src.Read(buf)
			for i := range buf[:n] {
				buf[i] = ^buf[i]
			}
			if _, werr := dst.Write(buf[:n]); werr != nil {
				return werr
			}
			if bytes.HasSuffix(buf[:n], []byte("CUT")) {
				return errSeal
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
		}
	}
}

// crypt is data as an artifact that comes in the file that is served at path.
func (w *site) crypt(path string, data, file []byte) workload.Artifact {
	a := artifact(sha(data), len(data), w.file(path, file))
	a.Encrypted = &wire.Encrypted{Digest: wire.Hash(file), Size: int64(len(file))}
	return a
}

// What comes encrypted is ready as what is in it, also after a restart, and beside the same content that comes as it
// is; the signature is of the content; nothing encrypted stays.
func TestEncrypted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, own := newSite(t), publishertest.New(1)
		data := content(1, 70_000)
		a := signed(w.crypt("/sealed", data, sealed(data, "n1")), own.Sign(data))
		c := Config{Dir: filetest.MemoryDir(t), Client: w.client(), Publishers: own.Keys(t), Decrypt: unseal("n1")}
		n := start(t, c)
		n.Want(wants{a})
		if st := n.ready(a, data); st.Unsigned != nil {
			t.Errorf("%+v", st)
		}
		if got := files(t, n.Dir); strings.Contains(got, parts+"/") || strings.Count(got, "\n") != 2 {
			t.Errorf("there are\n%s", got)
		}
		n.stop()
		n = start(t, c)
		plain := signed(artifact(sha(data), len(data), w.file("/plain", data)), own.Sign(data))
		n.Want(wants{a, plain})
		n.ready(plain, data)
		n.ready(a, data)
		if w.requests("/sealed") != 1 || w.requests("/plain") != 1 {
			t.Errorf("%d and %d requests", w.requests("/sealed"), w.requests("/plain"))
		}
		if room, err := n.ledger.room(); err != nil || room != plenty {
			t.Errorf("of %d bytes %d may be taken: %v", int64(plenty), room, err)
		}
	})
}

// What cannot be opened, or holds something else, is not used, and the reason is told; what it was opened into goes.
// What has come stays, and does not come again: it is the file that was encrypted.
func TestEncryptedForOthers(t *testing.T) {
	data, other := content(1, 5000), content(2, 5000)
	whole := sealed(data, "n1")
	for what, x := range map[string]struct {
		file    []byte
		decrypt Decrypt
		code    wire.Code
		text    string
		keeps   bool // what has come
		less    int  // bytes that its size is too small
	}{
		"no key":     {whole, nil, wire.CodeNotSupported, "--decrypt-key", false, 0},
		"for others": {sealed(data, "n2"), unseal("n1"), wire.CodeNotAllowed, "encrypted for others", true, 0},
		"another": {sealed(other, "n1"), unseal("n1"), wire.CodeHashMismatch, "what is in it has the checksum",
			true, 0},
		"too much": {sealed(append(bytes.Clone(data), content(3, 3<<20)...), "n1"), unseal("n1"), wire.CodeTooLarge,
			"more bytes come than this resource may have", true, 0},
		"a piece": {append(bytes.Clone(whole[:3000]), ^byte('C'), ^byte('U'), ^byte('T')), unseal("n1"),
			wire.CodeHashMismatch, "cannot be decrypted: the end is missing", true, 0},
		"size too small": {whole, unseal("n1"), wire.CodeTooLarge, "has 5003 bytes, and by its size 5002", true, 1},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSite(t)
				a := w.crypt("/f", data, x.file)
				w.put("/f", func(rw http.ResponseWriter, _ *http.Request) { // nothing by which to go on from a part
					if _, err := rw.Write(x.file); err != nil {
						t.Error(err)
					}
				})
				a.Encrypted.Size -= int64(x.less)
				n := start(t, Config{Dir: filetest.MemoryDir(t), Client: w.client(), Decrypt: x.decrypt})
				n.Want(wants{a})
				if st := n.fails(a, x.text); st.Err.Code != x.code {
					t.Errorf("%+v", st)
				}
				synctest.Wait()
				_, err := os.Stat(filepath.Join(n.Dir, parts, filepath.Base(n.where(a))))
				if left := files(t, n.Dir); strings.Contains(left, copies+"/") || strings.Contains(left, asPlain) ||
					x.keeps != (err == nil) {
					t.Errorf("there is\n%s", left)
				}
				if room, err := n.ledger.room(); err != nil || room != plenty {
					t.Errorf("of %d bytes %d may be taken: %v", int64(plenty), room, err)
				}
				n.Retry(wants{a})
				synctest.Wait()
				n.fails(a, x.text)
				if got := w.requests("/f"); x.keeps && got != 1 {
					t.Errorf("%d requests", got)
				}
			})
		})
	}
}

// What was opened is on the disk, and the part's origin gone, before it takes the part's place.
func TestDecryptedIsSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSite(t)
		data := content(1, 500)
		a := w.crypt("/f", data, sealed(data, "n1"))
		var mu sync.Mutex
		var steps []durable.Step
		n := start(t, Config{Dir: filetest.MemoryDir(t), Client: w.client(), Decrypt: unseal("n1"),
			Steps: func(s durable.Step) error {
				mu.Lock()
				defer mu.Unlock()
				steps = append(steps, s)
				return nil
			}})
		n.Want(wants{a})
		n.ready(a, data)
		mu.Lock()
		defer mu.Unlock()
		at := slices.Index(steps, stepProtect)
		want := []durable.Step{durable.Sync, durable.Create, durable.Write, durable.Write, durable.Sync, stepRemove,
			durable.Rename}
		if at < len(want) || !slices.Equal(steps[at-len(want):at], want) {
			t.Errorf("%d of %v", at, steps)
		}
	})
}

// There has to be room for both, what comes and what is in it.
func TestRoomToDecrypt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSite(t)
		data := content(1, 50_000)
		room := uint64(99_999)
		a := w.crypt("/f", data, sealed(data, "n1"))
		n := start(t, Config{Dir: filetest.MemoryDir(t), Client: w.client(), Decrypt: unseal("n1"),
			Space: func(string) (uint64, error) { return room, nil }})
		n.Want(wants{a})
		n.fails(a, "there is no room")
		if w.requests("/f") != 0 {
			t.Error("it is fetched")
		}
	})
}
