package oci_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"go.uber.org/goleak"

	"tandem.internal/controller/internal/oci"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// registry answers as the distribution specification says (opencontainers/distribution-spec, "Pulling manifests",
// "Pulling blobs"; docker's "Token Authentication Specification"), from a layout on the disk.
type registry struct {
	t      *testing.T
	dir    string
	tag    string // of the manifest or index that index.json of the layout refers to
	user   string // who may read, with the password "secret"; "": anybody
	token  bool   // by a token, else with each request
	move   string // where blobs are; "": here
	change func(w http.ResponseWriter, r *http.Request) bool
	asked  []string
}

func (r *registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.asked = append(r.asked, q.Method+" "+q.URL.Path)
	if q.URL.Path == "/token" {
		user, password, _ := q.BasicAuth()
		if user != r.user || password != "secret" || q.URL.Query().Get("scope") != "repository:team/sensor:pull" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		r.write(w, []byte(`{"token":"entry"}`))
		return
	}
	if r.user != "" {
		user, password, _ := q.BasicAuth()
		switch {
		case r.token && q.Header.Get("Authorization") != "Bearer entry":
			w.Header().Set("Www-Authenticate", fmt.Sprintf(
				`Bearer realm="http://%s/token",service="x",scope="repository:team/sensor:pull"`, q.Host))
			w.WriteHeader(http.StatusUnauthorized)
			return
		case !r.token && (user != r.user || password != "secret"):
			w.Header().Set("Www-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
	}
	if r.change != nil && r.change(w, q) {
		return
	}
	rest, ok := strings.CutPrefix(q.URL.Path, "/v2/team/sensor/")
	what, reference, _ := strings.Cut(rest, "/")
	if !ok || q.Method != http.MethodGet && q.Method != http.MethodHead {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if what == "manifests" && reference == r.tag {
		var i v1.Index
		text, err := os.ReadFile(filepath.Join(r.dir, "index.json"))
		if err = errors.Join(err, json.Unmarshal(text, &i)); err != nil {
			r.t.Error(err)
		}
		reference = string(i.Manifests[0].Digest)
	}
	text, err := os.ReadFile(filepath.Join(r.dir, "blobs", strings.Replace(reference, ":", "/", 1)))
	switch {
	case err != nil:
		w.WriteHeader(http.StatusNotFound)
		return
	case what == "manifests":
		var d struct {
			MediaType string `json:"mediaType"`
		}
		if err := json.Unmarshal(text, &d); err != nil {
			r.t.Error(err)
		}
		w.Header().Set("Content-Type", d.MediaType)
		w.Header().Set("Docker-Content-Digest", reference)
	case r.move != "":
		http.Redirect(w, q, r.move+"/"+reference, http.StatusTemporaryRedirect)
		return
	}
	r.write(w, text)
}

func (r *registry) write(w io.Writer, text []byte) {
	if _, err := w.Write(text); err != nil {
		r.t.Log(err) // whoever asked has gone
	}
}

// serve starts a registry; change may be nil. No configuration of Docker's is found.
func serve(t *testing.T, change func(*registry)) (*registry, oci.Registry) {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	r := &registry{t: t, dir: "testdata/hand", tag: "1.4"}
	if change != nil {
		change(r)
	}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	return r, oci.Registry{URL: s.URL}
}

// pull is the image that a registry gives as 1.4, or why it does not.
func pull(t *testing.T, from oci.Registry, name string) (*oci.Image, error) {
	t.Helper()
	img, err := oci.Pull(t.Context(), from, name, oci.Options{Dir: t.TempDir()})
	if err == nil {
		t.Cleanup(func() {
			if err := img.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return img, err
}

// TestPull: an image from a registry is the same as from a layout, by its tag and by its digest, with each kind of
// credentials, and when its blobs are elsewhere.
func TestPull(t *testing.T) {
	here := open(t, "testdata/hand", oci.Options{})
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("Authorization") != "" {
			t.Error("the credentials went elsewhere, too")
		}
		http.ServeFile(w, q, filepath.Join("testdata/hand/blobs", strings.Replace(q.URL.Path, ":", "/", 1)))
	}))
	t.Cleanup(elsewhere.Close)
	index := digestOfIndex(t)
	for _, c := range []struct {
		name, image, user string
		change            func(*registry)
	}{
		{"tag", "team/sensor:1.4", "", nil},
		{"digest", "team/sensor@" + index, "", nil},
		{"both", "team/sensor:other@" + index, "", nil},
		{"password", "team/sensor:1.4", "me", func(r *registry) { r.user = "me" }},
		{"token", "team/sensor:1.4", "me", func(r *registry) { r.user, r.token = "me", true }},
		{"elsewhere", "team/sensor:1.4", "me", func(r *registry) { r.user, r.move = "me", elsewhere.URL }},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, from := serve(t, c.change)
			if from.User = c.user; c.user != "" {
				from.Password = "secret"
			}
			img, err := pull(t, from, c.image)
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range here.Platforms {
				for j, l := range p.Layers {
					if got := img.Platforms[i].Layers[j]; got.Digest != l.Digest || unpacked(t, got) != unpacked(t, l) {
						t.Errorf("layer %d of %s is %s, want %s", j, p.String(), got.Digest, l.Digest)
					}
				}
			}
			checkHand(t, img)
		})
	}
}

func digestOfIndex(t *testing.T) string {
	t.Helper()
	var i v1.Index
	text, err := os.ReadFile("testdata/hand/index.json")
	if err = errors.Join(err, json.Unmarshal(text, &i)); err != nil {
		t.Fatal(err)
	}
	return string(i.Manifests[0].Digest)
}

// TestDockerCredentials: without a user they are those of Docker's configuration, for this registry alone.
func TestDockerCredentials(t *testing.T) {
	_, from := serve(t, func(r *registry) { r.user = "me" })
	for _, c := range []struct {
		host string
		want error
	}{{strings.TrimPrefix(from.URL, "http://"), nil}, {"other.example", oci.ErrDenied}} {
		t.Setenv("DOCKER_CONFIG", t.TempDir())
		// "me:secret" in base64
		config := `{"auths":{"` + c.host + `":{"auth":"bWU6c2VjcmV0"}}}`
		if err := os.WriteFile(os.Getenv("DOCKER_CONFIG")+"/config.json", []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := pull(t, from, "team/sensor:1.4"); !errors.Is(err, c.want) {
			t.Errorf("credentials of %s: %v", c.host, err)
		}
	}
}

// TestHostileRegistry: what a registry cannot make of whoever asks it.
func TestHostileRegistry(t *testing.T) {
	blob := func(f func(http.ResponseWriter)) func(*registry) {
		return func(r *registry) {
			r.change = func(w http.ResponseWriter, q *http.Request) bool {
				if strings.Contains(q.URL.Path, "/blobs/") {
					f(w)
					return true
				}
				return false
			}
		}
	}
	manifest := func(text string) func(*registry) {
		return func(r *registry) {
			r.change = func(w http.ResponseWriter, q *http.Request) bool {
				if strings.Contains(q.URL.Path, "/manifests/") {
					w.Header().Set("Content-Type", v1.MediaTypeImageIndex)
					r.write(w, []byte(text))
					return true
				}
				return false
			}
		}
	}
	write := func(w http.ResponseWriter, text string) {
		if _, err := io.WriteString(w, text); err != nil {
			t.Log(err)
		}
	}
	index := digestOfIndex(t)
	for _, c := range []struct {
		name, image, want string
		kind              error // nil: an *oci.Invalid
		change            func(*registry)
	}{
		{"no such tag", "team/sensor:9", "team/sensor:9", oci.ErrNotFound, nil},
		{"no such image", "team/other:1", "team/other:1", oci.ErrNotFound, nil},
		{"wrong password", "team/sensor:1.4", "", oci.ErrDenied, func(r *registry) { r.user = "other" }},
		{"wrong password for a token", "team/sensor:1.4", "", oci.ErrDenied, func(r *registry) {
			r.user, r.token = "other", true
		}},
		{"busy", "team/sensor:1.4", "503", oci.ErrUnavailable, blob(func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusServiceUnavailable)
		})},
		{"another content", "team/sensor:1.4", "", nil, blob(func(w http.ResponseWriter) {
			w.(http.Flusher).Flush()
			write(w, strings.Repeat("x", 401))
		})},
		{"endless blob", "team/sensor:1.4", "has more than the", nil, blob(func(w http.ResponseWriter) {
			for range 100 {
				write(w, strings.Repeat("x", 100))
			}
		})},
		{"broken off", "team/sensor:1.4", "unexpected EOF", oci.ErrUnavailable, blob(func(w http.ResponseWriter) {
			w.(http.Flusher).Flush()
			write(w, "x")
			panic(http.ErrAbortHandler)
		})},
		{"manifest of another digest", "team/sensor@" + index, "", oci.ErrUnavailable, manifest("{}")},
		{"large manifest", "team/sensor:1.4", "", oci.ErrUnavailable, manifest(strings.Repeat(" ", oci.MaxDocument+1))},
		{"no JSON", "team/sensor:1.4", "cannot be read", nil, manifest("x")},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, from := serve(t, c.change)
			from.User, from.Password = "me", "secret"
			_, err := pull(t, from, c.image)
			_, invalid := errors.AsType[*oci.Invalid](err)
			if err == nil || !strings.Contains(err.Error(), c.want) || c.kind == nil && !invalid ||
				c.kind != nil && !errors.Is(err, c.kind) {
				t.Errorf("%v, want %q and %v", err, c.want, c.kind)
			}
		})
	}
}

// TestOnlyEncrypted: a registry with TLS leads nobody to an address without.
func TestOnlyEncrypted(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	reached := false
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	t.Cleanup(plain.Close)
	for _, answer := range []func(http.ResponseWriter, *http.Request){
		func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, plain.URL+q.URL.Path, http.StatusTemporaryRedirect)
		},
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Www-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="x"`, plain.URL))
			w.WriteHeader(http.StatusUnauthorized)
		},
	} {
		s := httptest.NewTLSServer(http.HandlerFunc(answer))
		t.Cleanup(s.Close)
		trust := s.Client().Transport.(*http.Transport).TLSClientConfig
		_, err := pull(t, oci.Registry{URL: s.URL, User: "me", Password: "secret", TLS: trust}, "team/sensor:1.4")
		if !errors.Is(err, oci.ErrUnavailable) || reached {
			t.Errorf("%v, reached: %v", err, reached)
		}
	}
}

// TestAddresses: what is no address of a registry and no name of an image is refused before anything is asked.
func TestAddresses(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	for _, c := range []struct{ url, name, want string }{
		{"registry.example", "a:1", "no address of a registry"},
		{"ftp://registry.example", "a:1", "no address of a registry"},
		{"https://", "a:1", "no address of a registry"},
		{"https://me:secret@registry.example", "a:1", "no address of a registry"},
		{"https://registry.example/v2", "a:1", "no address of a registry"},
		{"https://registry.example?x", "a:1", "no address of a registry"},
		{"http://127.0.0.1:1", "", "no name of an image"},
		{"http://127.0.0.1:1", "A:1", "no name of an image"},
		{"http://127.0.0.1:1", "../a:1", "no name of an image"},
		{"http://127.0.0.1:1", "a", "neither a tag nor a digest"},
		{"http://127.0.0.1:1", "a@sha256:12", "no name of an image"},
		{"http://127.0.0.1:1", "a@sha512:" + strings.Repeat("a", 128), "is no digest"},
	} {
		_, err := pull(t, oci.Registry{URL: c.url}, c.name)
		if _, ok := errors.AsType[*oci.Invalid](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q at %q: %v, want %q", c.name, c.url, err, c.want)
		}
	}
	if _, err := pull(t, oci.Registry{URL: "http://127.0.0.1:1"}, "a:1"); !errors.Is(err, oci.ErrUnavailable) {
		t.Errorf("where nobody listens: %v", err)
	}
}
