package layers

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/workloads"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// there are blobs that have been fetched, by their checksums.
type there map[string]string

func (there) Want([]workload.Artifact)                     {}
func (there) Retry([]workload.Artifact)                    {}
func (there) Updates() <-chan struct{}                     { return nil }
func (there) Reserve(workload.Artifact, int64) *wire.Error { return nil }
func (there) Release(workload.Artifact)                    {}
func (there) Doubt(workload.Artifact)                      {}
func (b there) Look(a workload.Artifact) workloads.Resource {
	path := b[a.Verification.Checksum]
	if path == "" {
		return workloads.Resource{State: "fetching"}
	}
	return workloads.Resource{Path: path}
}

// Who says wrongly what is in an archive, or how large it is, keeps no other slot from having its tree.
func TestWrongWordsAreNobodyElses(t *testing.T) {
	dir, blobs := t.TempDir(), there{}
	packed := func(content string) workload.Artifact {
		var plain, zipped bytes.Buffer
		out := tar.NewWriter(&plain)
		if err := out.WriteHeader(&tar.Header{Name: "file", Mode: 0o644, Size: int64(len(content)),
			Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		zip := gzip.NewWriter(&zipped)
		if _, err := zip.Write(plain.Bytes()); err != nil {
			t.Fatal(err)
		}
		if err := zip.Close(); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(zipped.Bytes())
		a := workload.Artifact{Unpack: &workload.Unpack{DiffID: wire.Hash(plain.Bytes()), Size: int64(plain.Len())}}
		a.Verification.Checksum = workload.SHA256 + ":" + hex.EncodeToString(sum[:])
		path := filepath.Join(dir, content)
		if err := os.WriteFile(path, zipped.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		blobs[a.Verification.Checksum] = path
		return a
	}
	right, other := packed("right"), packed("other")
	small, wrong := right, other
	small.Unpack = &workload.Unpack{DiffID: right.Unpack.DiffID, Size: 100}
	wrong.Unpack = &workload.Unpack{DiffID: right.Unpack.DiffID, Size: other.Unpack.Size}
	s, err := Open(Config{Dir: filepath.Join(dir, "trees"), Blobs: blobs, Log: zap.NewNop(), Now: func() time.Time {
		return time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	}})
	if err != nil {
		t.Fatal(err)
	}
	id := right.Unpack.DiffID
	s.Want([]workload.Artifact{wrong, small})
	s.advance(t.Context(), "", id)
	for _, a := range []workload.Artifact{wrong, small} {
		if r := s.Look(a); r.State != "failed" || !r.Next.IsZero() {
			t.Errorf("what cannot be made: %+v", r)
		}
	}
	path := blobs[right.Verification.Checksum]
	delete(blobs, right.Verification.Checksum) // and so small is not there
	s.Want([]workload.Artifact{wrong, small, right})
	s.advance(t.Context(), "", id)
	if r := s.Look(right); r.State != "fetching" {
		t.Errorf("what is being fetched: %+v", r)
	}
	blobs[right.Verification.Checksum] = path
	s.advance(t.Context(), "", id)
	for _, a := range []workload.Artifact{small, right} { // one archive
		if r := s.Look(a); r.State != "" || r.Path == "" {
			t.Errorf("%+v", r)
		}
	}
	if r := s.Look(wrong); r.State != "failed" {
		t.Errorf("another archive: %+v", r)
	}
}
