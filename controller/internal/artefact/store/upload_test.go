package store

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// An artefact is added in pieces, each of which goes on where the one before has ended, also over a restart.
func TestUpload(t *testing.T) {
	for _, size := range []int{0, 1, Chunk - 1, Chunk, Chunk + 1, 3*Chunk + 77} {
		r := newRig(t)
		b := content(size, 7)
		v, err := r.Begin(t.Context(), op.NewArtefact{Digest: digest(b), Size: int64(size), Name: "agent"})
		if err != nil || v.Offset != 0 || v.State != view.UploadOpen || v.Name != "agent" {
			t.Fatalf("%d: %+v %v", size, v, err)
		}
		half := int64(size / 2)
		if _, err = r.content(t.Context(), digest(b)); code(err) != wire.CodeNotFound {
			t.Errorf("%d: visible while it is uploaded: %v", size, err)
		}
		if v, err = r.Write(t.Context(), digest(b), 0, whole(b[:half])); err != nil || v.Offset != half {
			t.Fatalf("%d: %+v %v", size, v, err)
		}
		shown, err := r.Show(t.Context(), op.ArtefactIn{Digest: digest(b)})
		if u := shown.Upload; err != nil || !shown.Added.IsZero() || shown.Size != int64(size) || u == nil ||
			u.Offset != half || !u.Begun.Equal(r.ledger.clock()) {
			t.Errorf("%d: shown as %+v, %+v %v", size, shown, u, err)
		}
		if size > 0 {
			if _, err := r.Complete(t.Context(), digest(b)); code(err) != wire.CodeWrongState {
				t.Errorf("%d: complete at half: %v", size, err)
			}
		}
		r.open()
		r.add(b)
		r.mustServe(b)
		r.open()
		r.mustServe(b)
		if v, err := r.upload(t.Context(), b); err != nil || v.State != view.UploadAdded {
			t.Errorf("%d: once more: %+v %v", size, v, err)
		}
		name := digest(b)[7:]
		want := []string{"sha256/" + name[:2] + "/" + name, "sha256/" + name[:2] + "/" + name + ".chunks"}
		if got := slices.Sorted(maps.Keys(r.files())); !slices.Equal(got, want) {
			t.Errorf("%d: files %q", size, got)
		}
	}
}

// At a wrong offset the answer says the right one.
func TestWrongOffset(t *testing.T) {
	r := newRig(t)
	b := content(100, 1)
	if _, err := r.Begin(t.Context(), op.NewArtefact{Digest: digest(b), Size: 100}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Write(t.Context(), digest(b), 0, whole(b[:40])); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{0, 39, 41, 100} {
		_, err := r.Write(t.Context(), digest(b), at, whole(b[at:]))
		if w, ok := errors.AsType[*WrongOffset](err); !ok || w.Offset != 40 || code(err) != wire.CodeWrongState {
			t.Errorf("at %d: %v", at, err)
		}
	}
	if _, err := r.Write(t.Context(), digest(b), 40, whole(append(b[40:], 1))); code(err) != wire.CodeTooLarge {
		t.Errorf("a byte too many: %v", err)
	}
	r.add(b)
	r.mustServe(b)
}

// What is not the file that it was to be is thrown away, and leaves no room taken.
func TestWrongContent(t *testing.T) {
	r := newRig(t)
	b := content(3000, 1)
	if _, err := r.Begin(t.Context(), op.NewArtefact{Digest: digest(b), Size: 3000}); err != nil {
		t.Fatal(err)
	}
	other := bytes.Clone(b)
	other[2999] ^= 1
	if _, err := r.Write(t.Context(), digest(b), 0, whole(other)); err != nil {
		t.Fatal(err)
	}
	_, err := r.Complete(t.Context(), digest(b))
	if code(err) != wire.CodeBadValue || !strings.Contains(err.Error(), digest(other)) {
		t.Errorf("%v", err)
	}
	if len(r.files()) != 0 || len(r.ledger.state.Leases) != 0 {
		t.Errorf("left: %v %v", r.files(), r.ledger.state.Leases)
	}
	r.add(b)
}

// A connection that is cut off leaves what has come, and a newer one takes over from one that does not end.
func TestTakeOver(t *testing.T) {
	r := newRig(t)
	b := content(3*Chunk, 9)
	if _, err := r.Begin(t.Context(), op.NewArtefact{Digest: digest(b), Size: int64(len(b))}); err != nil {
		t.Fatal(err)
	}
	pr, pw := io.Pipe()
	done := make(chan error, 1)
	go func() {
		v, err := r.Write(t.Context(), digest(b), 0,
			sent{pr, func() { pr.CloseWithError(os.ErrDeadlineExceeded) }})
		if v.Offset != Chunk+5 {
			t.Errorf("%+v", v)
		}
		done <- err
	}()
	if _, err := pw.Write(b[:Chunk+5]); err != nil { // all of it was read, and it waits for more
		t.Fatal(err)
	}
	_, err := r.Write(t.Context(), digest(b), 1, whole(b[1:]))
	w, ok := errors.AsType[*WrongOffset](err)
	if !ok || w.Offset != Chunk+5 {
		t.Fatalf("%v", err)
	}
	if err := <-done; code(err) != wire.CodeInterrupted {
		t.Errorf("the older one: %v", err)
	}
	cut := io.MultiReader(bytes.NewReader(b[w.Offset:2*Chunk]), broken{})
	v, err := r.Write(t.Context(), digest(b), w.Offset, sent{Reader: cut})
	if code(err) != wire.CodeInterrupted || v.Offset != 2*Chunk {
		t.Errorf("cut off: %+v %v", v, err)
	}
	r.add(b)
	r.mustServe(b)
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// Nothing begins that has no room, and the refusal names what would make it.
func TestQuota(t *testing.T) {
	r := newRig(t)
	r.quota = 1000
	r.open()
	a, b := content(600, 1), content(500, 2)
	r.add(a)
	_, err := r.upload(t.Context(), b)
	if code(err) != wire.CodeStorage || !strings.Contains(err.Error(), "artefact remove "+digest(a)) {
		t.Errorf("%v", err)
	}
	r.ledger.used = map[string][]string{digest(a): {"the workloads of n1"}}
	if _, err = r.upload(t.Context(), b); code(err) != wire.CodeStorage || strings.Contains(err.Error(), digest(a)) ||
		!strings.Contains(err.Error(), "in use") {
		t.Errorf("%v", err)
	}
	in := op.RemoveArtefactIn{ArtefactIn: op.ArtefactIn{Digest: digest(a)}}
	if _, err := r.Remove(t.Context(), in); code(err) != wire.CodeWrongState ||
		!strings.Contains(err.Error(), "the workloads of n1") {
		t.Errorf("%v", err)
	}
	r.mustServe(a)
	r.ledger.used = nil
	if _, err := r.Remove(t.Context(), in); err != nil {
		t.Error(err)
	}
	r.add(b)
	r.free = 1<<20 + 99
	if _, err := r.upload(t.Context(), content(100, 3)); code(err) != wire.CodeStorage ||
		!strings.Contains(err.Error(), "--artefact-keep-free") {
		t.Errorf("%v", err)
	}
	// An upload that has its room stops before the disk has less than is to be kept free.
	r.free, r.flush, r.quota = 1<<21, 1000, 1<<20
	r.open()
	c := content(100_000, 4)
	if _, err := r.Begin(t.Context(), op.NewArtefact{Digest: digest(c), Size: int64(len(c))}); err != nil {
		t.Fatal(err)
	}
	r.free = 1000
	v, err := r.Write(t.Context(), digest(c), 0, sent{Reader: slow{bytes.NewReader(c)}})
	if code(err) != wire.CodeStorage || v.Offset == 0 || v.Offset > 5000 {
		t.Errorf("%+v %v", v, err)
	}
	r.free = 1 << 21
	r.add(c)
}

// slow is read in small pieces.
type slow struct{ io.Reader }

func (s slow) Read(b []byte) (int, error) { return s.Reader.Read(b[:min(len(b), 1000)]) }

// An upload that is idle for a day ends; one that goes on does not.
func TestIdleUploadsEnd(t *testing.T) {
	r := newRig(t)
	a, b := content(3000, 1), content(3000, 2)
	for _, c := range [][]byte{a, b} {
		if _, err := r.Begin(t.Context(), op.NewArtefact{Digest: digest(c), Size: 3000}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Write(t.Context(), digest(c), 0, whole(c[:1000])); err != nil {
			t.Fatal(err)
		}
	}
	r.ledger.pass(23 * time.Hour)
	if _, err := r.Write(t.Context(), digest(b), 1000, whole(b[1000:2000])); err != nil {
		t.Fatal(err)
	}
	for _, restart := range []bool{false, true} {
		r.ledger.pass(20 * time.Minute)
		if err := r.Care(t.Context()); err != nil || len(r.ledger.state.Leases) != 2 {
			t.Fatalf("too early: %v %v", r.ledger.state.Leases, err)
		}
		if restart {
			r.open()
		}
	}
	r.ledger.pass(20 * time.Minute)
	if err := r.Care(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Upload(t.Context(), digest(a)); code(err) != wire.CodeNotFound {
		t.Errorf("idle for a day: %v", err)
	}
	if files := r.files(); len(files) != 1 || files["parts/"+digest(b)[7:]] != 2000 {
		t.Errorf("files %v", files)
	}
	r.add(b)
}

// What nothing refers to for long enough goes; what is referred to stays, however old it is.
func TestCollect(t *testing.T) {
	r := newRig(t)
	a, b, c := content(30, 1), content(30, 2), content(30, 3)
	r.add(a)
	r.add(b)
	r.add(c)
	r.ledger.used = map[string][]string{digest(a): {"x"}, digest(b): {"x"}}
	day := func(n int) {
		t.Helper()
		for range n {
			r.ledger.pass(24 * time.Hour)
			if err := r.Care(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	day(29)
	if len(r.ledger.state.Artefacts) != 3 {
		t.Fatalf("too early: %v", r.ledger.state.Artefacts)
	}
	r.ledger.used = map[string][]string{digest(a): {"x"}}
	day(1)
	if _, err := r.content(t.Context(), digest(c)); code(err) != wire.CodeNotFound {
		t.Errorf("after 30 days: %v", err)
	}
	r.mustServe(b)
	day(30)
	if len(r.ledger.state.Artefacts) != 1 {
		t.Errorf("%v", r.ledger.state.Artefacts)
	}
	r.mustServe(a)
}
