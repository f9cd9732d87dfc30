package decrypt

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"tandem.internal/nodeagent/internal/fetch"
	"tandem.internal/nodeagent/internal/fetch/fetchtest"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

func identity(t *testing.T) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func encrypted(t *testing.T, data []byte, to ...age.Recipient) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := age.Encrypt(&b, to...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Any of a node's keys opens what is for it, also beside others; a key of another node's does not; what was cut or
// changed is an error, and never passes for the whole.
func TestDecrypt(t *testing.T) {
	first, second, other := identity(t), identity(t), identity(t)
	open, err := New([]byte("# created: today\n# public key: " + first.Recipient().String() + "\n" + first.String() +
		"\n" + second.String() + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 200_001)
	for i := range data {
		data[i] = byte(rand.N(256))
	}
	whole := encrypted(t, data, other.Recipient(), second.Recipient())
	var out bytes.Buffer
	if err := open(&out, bytes.NewReader(whole)); err != nil || !bytes.Equal(out.Bytes(), data) {
		t.Errorf("%d bytes of %d: %v", out.Len(), len(data), err)
	}
	err = open(&out, bytes.NewReader(encrypted(t, data, other.Recipient())))
	if !errors.Is(err, fetch.ErrNotForUs) {
		t.Errorf("for another node: %v", err)
	}
	for n := range 20 {
		cut := rand.N(len(whole))
		changed := bytes.Clone(whole)
		changed[cut] ^= 1 << (n % 8)
		for what, b := range map[string][]byte{"cut at": whole[:cut], "changed at": changed} {
			if err := open(&out, bytes.NewReader(b)); err == nil {
				t.Errorf("%s %d of %d: no error", what, cut, len(whole))
			}
		}
	}
}

// A file that has no keys is refused, and nothing of it is shown.
func TestNoKeys(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", identity(t).Recipient().String(), "AGE-SECRET-KEY-1SECRET",
		"-----BEGIN PRIVATE KEY-----\nMIIB"} {
		_, err := New([]byte(text))
		if err == nil || strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "MIIB") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A node's store fetches a file of age, and has what is in it.
func TestStoreOpensAge(t *testing.T) {
	key := identity(t)
	open, err := New([]byte(key.String()))
	if err != nil {
		t.Fatal(err)
	}
	data := fetchtest.Content(1, 300_000)
	file := encrypted(t, data, key.Recipient())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "x.age", time.Time{}, bytes.NewReader(file))
	}))
	t.Cleanup(server.Close)
	s, err := fetch.Open(fetch.Config{Dir: t.TempDir(), Decrypt: open})
	if err != nil {
		t.Fatal(err)
	}
	fetchtest.Run(t, s.Run)
	a := fetchtest.Artifact(fetchtest.SHA(data), len(data), server.URL)
	a.Encrypted = &wire.Encrypted{Digest: wire.Hash(file), Size: int64(len(file))}
	s.Want([]workload.Artifact{a})
	st := fetchtest.Await(t, time.Minute, s.Updates(), func() fetch.Status { return s.Status(a) }, "ready",
		func(st fetch.Status) bool { return st.State == fetch.Ready })
	fetchtest.Whole(t, st.Path, data)
}
