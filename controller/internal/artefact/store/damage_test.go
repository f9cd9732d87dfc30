package store

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/filetest"
	"tandem.internal/shared/wire"
)

// TestDamageIsNeverServed: of an artefact that lost or changed a byte nothing of the chunk with it is sent, it is told
// once, and the same file added again repairs it.
func TestDamageIsNeverServed(t *testing.T) {
	b := content(2*Chunk+500, 3)
	for what, harm := range map[string]func(t *testing.T, r *rig, path string){
		"a byte":        func(_ *testing.T, r *rig, path string) { r.flip(path, Chunk+7) },
		"the last byte": func(_ *testing.T, r *rig, path string) { r.flip(path, int64(len(b)-1)) },
		"its end": func(t *testing.T, _ *rig, path string) {
			if err := os.Truncate(path, Chunk+9); err != nil {
				t.Fatal(err)
			}
		},
		"all of it": func(t *testing.T, _ *rig, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
		"the list of chunks": func(_ *testing.T, r *rig, path string) { r.flip(path+chunksSuffix, 40) },
		"it and that list, for another": func(t *testing.T, _ *rig, path string) {
			other := content(len(b), 9)
			if err := os.WriteFile(path, other, 0o600); err != nil {
				t.Fatal(err)
			}
			_, chunks, err := hashed(t.Context(), path, new(atomic.Int64))
			if err == nil {
				err = os.WriteFile(path+chunksSuffix, chunks, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"that list whole": func(t *testing.T, _ *rig, path string) {
			if err := os.Remove(path + chunksSuffix); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, finder := range []string{"a reader", "the scrubber", "a start"} {
			t.Run(what+"/"+finder, func(t *testing.T) {
				r := newRig(t)
				d := r.add(b)
				harm(t, r, r.blobPath(d))
				switch finder {
				case "a start":
					r.open()
					fallthrough
				case "the scrubber":
					r.ledger.pass(8 * 24 * time.Hour)
					_ = r.Care(t.Context()) // its error is that the artefact is damaged
				}
				got, err := r.content(t.Context(), d)
				if err == nil || !bytes.HasPrefix(b, got) {
					t.Fatalf("%d bytes, %v", len(got), err)
				}
				if _, err := r.content(t.Context(), d); code(err) != wire.CodeStorage {
					t.Errorf("once more: %v", err)
				}
				v, err := r.Show(t.Context(), op.ArtefactIn{Digest: d})
				if err != nil || v.Damaged == nil || len(r.Trouble()) != 1 ||
					!strings.Contains(r.Trouble()[0], "add the same file again") {
					t.Errorf("%+v %v %q", v, err, r.Trouble())
				}
				if n := len(r.ledger.damaged); n > 1 || n == 0 && what != "all of it" {
					t.Errorf("written down %d times", n)
				}
				r.open()
				r.add(b)
				r.mustServe(b)
				if held := r.held(); held != int64(len(b)) || len(r.Trouble()) != 0 {
					t.Errorf("%v %q", r.files(), r.Trouble())
				}
				r.open()
				r.mustServe(b)
			})
		}
	}
}

// TestAddRepairs: an artefact that was damaged or lost, and nobody has noticed, is not there already: the upload of the
// same file repairs it, and who looks at it meanwhile is told what is missing.
func TestAddRepairs(t *testing.T) {
	b := content(Chunk+500, 3)
	for why, harm := range map[string]func(path string) error{
		"its file is gone":          os.Remove,
		"bytes, not 1049076":        func(path string) error { return os.Truncate(path, 7) },
		"the list of its chunks":    func(path string) error { return os.WriteFile(path+chunksSuffix, nil, 0o600) },
		"no such file or directory": func(path string) error { return os.Remove(path + chunksSuffix) },
		"":                          func(path string) error { return os.WriteFile(path, content(len(b), 4), 0o600) },
	} {
		for _, shown := range []bool{true, false} {
			r := newRig(t)
			d := r.add(b)
			if err := harm(r.blobPath(d)); err != nil {
				t.Fatal(err)
			}
			if shown {
				v, err := r.Show(t.Context(), op.ArtefactIn{Digest: d})
				if err != nil || (why != "") != (v.Damaged != nil) || v.Damaged != nil &&
					!strings.Contains(v.Damaged.Message, why) {
					t.Errorf("%s: shown %+v %v", why, v.Damaged, err)
				}
			}
			v, err := r.Begin(t.Context(), op.NewArtefact{Digest: d, Size: int64(len(b))})
			if err != nil || v.State != view.UploadOpen || v.Offset != 0 {
				t.Fatalf("%s: %+v %v", why, v, err)
			}
			r.add(b)
			r.mustServe(b)
			if v, err := r.Show(t.Context(), op.ArtefactIn{Digest: d}); err != nil || v.Damaged != nil ||
				len(r.Trouble()) != 0 {
				t.Errorf("%s: repaired %+v %v %q", why, v, err, r.Trouble())
			}
		}
	}
}

// TestRepairIsNoDamage: an artefact that is replaced while somebody reads what was there before is not damaged by that.
func TestRepairIsNoDamage(t *testing.T) {
	r := newRig(t)
	b := content(2*Chunk, 3)
	d := r.add(b)
	f, err := r.Open(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	r.flip(r.blobPath(d), 3)
	if _, err := r.content(t.Context(), d); !errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
	r.add(b)
	if _, err := f.Chunk(t.Context(), 0, make([]byte, Chunk)); !errors.Is(err, ErrDamaged) {
		t.Errorf("the file of before: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	r.mustServe(b)
}

// TestGoneWhileOpened: an artefact that was removed, or replaced by another upload, while it was opened is not damaged.
func TestGoneWhileOpened(t *testing.T) {
	for again, want := range map[bool]wire.Code{false: wire.CodeNotFound, true: wire.CodeUnavailable} {
		r := newRig(t)
		b := content(500, 3)
		f := &File{Digest: r.add(b), store: r.Store}
		e, err := r.look(t.Context(), f.Digest)
		if err != nil {
			t.Fatal(err)
		}
		f.artefact = e.artefact
		which := op.ArtefactIn{Digest: f.Digest}
		if _, err := r.Remove(t.Context(), op.RemoveArtefactIn{ArtefactIn: which}); err != nil {
			t.Fatal(err)
		}
		if again {
			r.add(b)
		}
		err = r.unread(t.Context(), f, os.ErrNotExist) // of opening what was looked up
		if code(err) != want || strings.Contains(err.Error(), "damaged") || len(r.Trouble()) != 0 {
			t.Errorf("added again %v: %v, %q", again, err, r.Trouble())
		}
	}
}

// TestWholeFilesSurviveABadUpload: an upload that is to repair an artefact, and ends otherwise, takes nothing away.
func TestWholeFilesSurviveABadUpload(t *testing.T) {
	r := newRig(t)
	b := content(500, 3)
	d := r.add(b)
	r.flip(r.blobPath(d), 3)
	if _, err := r.content(t.Context(), d); err == nil {
		t.Fatal("served")
	}
	if v, err := r.Begin(t.Context(), op.NewArtefact{Digest: d, Size: 500}); err != nil || v.State != view.UploadOpen {
		t.Fatalf("%+v %v", v, err)
	}
	if _, err := r.Write(t.Context(), d, 0, whole(content(500, 4))); err != nil {
		t.Fatal(err)
	}
	v, err := r.Show(t.Context(), op.ArtefactIn{Digest: d})
	if err != nil || v.Damaged == nil || v.Added.IsZero() || v.Upload == nil || v.Upload.Offset != 500 {
		t.Errorf("%+v %v", v, err)
	}
	if _, err := r.Complete(t.Context(), d); code(err) != wire.CodeBadValue {
		t.Errorf("%v", err)
	}
	if v, err := r.Show(t.Context(), op.ArtefactIn{Digest: d}); err != nil || v.Damaged == nil {
		t.Errorf("%+v %v", v, err)
	}
	r.add(b)
	r.mustServe(b)
}

// TestWithoutDescriptorsIsNoDamage: a controller that has no descriptors left for an artefact, or for the list of its
// chunks, says so, and serves it when it has.
func TestWithoutDescriptorsIsNoDamage(t *testing.T) {
	r := newRig(t)
	b := content(2*Chunk, 3)
	d := r.add(b)
	for more := range uint64(2) {
		back := filetest.Descriptors(t, more)
		_, err := r.content(t.Context(), d)
		serr := r.Scrub(t.Context(), d)
		_, berr := r.Begin(t.Context(), op.NewArtefact{Digest: d, Size: int64(len(b))})
		shown, verr := r.Show(t.Context(), op.ArtefactIn{Digest: d})
		back()
		if code(err) != wire.CodeUnavailable || code(serr) != wire.CodeUnavailable ||
			code(berr) != wire.CodeUnavailable {
			t.Errorf("%d descriptors: %v, %v, %v", more, err, serr, berr)
		}
		if verr != nil || shown.Damaged == nil || shown.Damaged.Code != wire.CodeUnavailable {
			t.Errorf("%d descriptors: shown %+v %v", more, shown.Damaged, verr)
		}
		v, err := r.Show(t.Context(), op.ArtefactIn{Digest: d})
		if err != nil || v.Damaged != nil || len(r.Trouble()) != 0 || len(r.ledger.damaged) != 0 {
			t.Errorf("%d descriptors: %+v %v %q", more, v, err, r.Trouble())
		}
		r.mustServe(b)
	}
}
