package layers

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/fetch"
	"tandem.internal/nodeagent/internal/workloads"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a disk with a store of resources, and a server; layers come and go on it.
type rig struct {
	t     *testing.T
	dir   string
	keep  int64
	few   int // downloads at a time; 0: the usual number
	ends  []func()
	blobs *fetch.Store

	mu    sync.Mutex
	files map[string][]byte
	gets  map[string]int
	room  uint64
	used  func() uint64 // of the room; nil: nothing
	fault durable.Around
}

func newRig(t *testing.T) *rig {
	return &rig{t: t, dir: t.TempDir(), files: map[string][]byte{}, gets: map[string]int{}, room: 1 << 30}
}

// RoundTrip serves the files.
func (r *rig) RoundTrip(q *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gets[q.URL.Path]++
	data, ok := r.files[q.URL.Path]
	status := http.StatusOK
	if !ok {
		status = http.StatusNotFound
	}
	return &http.Response{StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
		ContentLength: int64(len(data)), Body: io.NopCloser(bytes.NewReader(data)), Request: q}, nil
}

// blobs are a fetch.Store as the agent has it.
type blobs struct{ *fetch.Store }

func (s blobs) Look(a workload.Artifact) workloads.Resource {
	st := s.Status(a)
	r := workloads.Resource{State: string(st.State), Path: st.Path, Err: st.Err, Next: st.Next, Unsigned: st.Unsigned}
	if st.State == fetch.Ready {
		r.State = ""
	}
	return r
}

// use has a run use one artifact.
func use(ctx context.Context, s *Store, run string, a workload.Artifact) error {
	_, err := s.Use(ctx, run, map[string]workload.Artifact{"layer": a})
	return err
}

// open starts the stores, as an agent does.
func (r *rig) open() *Store {
	r.t.Helper()
	var err error
	r.blobs, err = fetch.Open(fetch.Config{Dir: filepath.Join(r.dir, "resources"), Client: &http.Client{Transport: r},
		Chance: func() float64 { return 0 }, Parallel: r.few, Keep: r.keep, Space: func(string) (uint64, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.used != nil {
				return r.room - min(r.room, r.used()), nil
			}
			return r.room, nil
		}})
	if err != nil {
		r.t.Fatal(err)
	}
	s, err := Open(Config{Dir: filepath.Join(r.dir, "layers"), Blobs: blobs{r.blobs}, Now: time.Now, Log: zap.NewNop(),
		Around: func(step durable.Step, do func() error) error { return r.fault.Do(step, do) }})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		if err := r.blobs.Run(ctx); err != nil {
			r.t.Error(err)
		}
	})
	all.Go(func() { s.Run(ctx) })
	r.ends = append(r.ends, func() { cancel(); all.Wait() })
	return s
}

// close ends them.
func (r *rig) close() {
	for _, end := range r.ends {
		end()
	}
	r.ends = nil
}

func settled(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// archive is a ustar archive of files: name, content, name, content; a content that begins with -> is a link.
func archive(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		h := &tar.Header{Format: tar.FormatUSTAR, Name: files[i], Mode: 0o644, Size: int64(len(files[i+1]))}
		link, is := strings.CutPrefix(files[i+1], "->")
		if is {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, link, 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, files[i+1][:h.Size]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zipped(t *testing.T, data []byte, level int) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, level)
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

func hexSum(data []byte) string { s := sha256.Sum256(data); return hex.EncodeToString(s[:]) }

// serve serves a blob, and returns it as a resource that is unpacked: an archive.
func (r *rig) serve(name string, blob, archive []byte) workload.Artifact {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.files["/"+name] = blob
	return workload.Artifact{Class: workload.Resource, URLs: []string{"http://host.test/" + name},
		Size:         int64(len(blob)),
		Verification: workload.Verification{Checksum: "SHA256:" + hexSum(blob)},
		Unpack:       &workload.Unpack{DiffID: "sha256:" + hexSum(archive), Size: int64(len(archive))}}
}

// layer serves an archive of files.
func (r *rig) layer(name string, files ...string) workload.Artifact {
	a := archive(r.t, files...)
	return r.serve(name, zipped(r.t, a, gzip.BestCompression), a)
}

// trees are the digits of the trees that are there.
func (r *rig) trees() string {
	entries, err := os.ReadDir(filepath.Join(r.dir, "layers"))
	if err != nil {
		r.t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name()[:8])
	}
	return strings.Join(all, " ")
}

// has demands that a file of a tree is there.
func has(t *testing.T, s *Store, a workload.Artifact, name, content string) {
	t.Helper()
	r := s.Look(a)
	data, err := os.ReadFile(filepath.Join(r.Path, name))
	if r.State != "" || err != nil || string(data) != content {
		t.Errorf("%+v: %s is %q, %v", r, name, data, err)
	}
}
