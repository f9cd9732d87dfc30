package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"tandem.internal/controller/internal/artefact"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ledger is a journal of artefacts in memory.
type ledger struct {
	mu      sync.Mutex
	now     time.Time
	state   *artefact.State
	used    map[string][]string
	damaged []string
	around  durable.Around // of the record of a decision
}

func newLedger() *ledger {
	return &ledger{now: time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC), state: artefact.New()}
}

func (l *ledger) DecideArtefact(_ context.Context, who string, ev artefact.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.state.Decide(l.now, ev)
	if d.Record != nil {
		if err := artefact.Check(d.Record); err != nil {
			return err
		}
		if err := l.around.Do("record", func() error { l.state.Apply(l.now, who, d.Record); return nil }); err != nil {
			return err
		}
	}
	if d.Err != nil {
		return d.Err
	}
	return nil
}

func (l *ledger) SeeArtefacts(_ context.Context, fn func(*artefact.State)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	fn(l.state)
	return nil
}

func (l *ledger) ArtefactsUsed(context.Context) (map[string][]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	used := map[string][]string{}
	for digest, by := range l.used {
		used[digest] = by
	}
	return used, nil
}

func (l *ledger) ArtefactDamaged(err *wire.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.damaged = append(l.damaged, err.Message)
}

func (l *ledger) clock() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (l *ledger) pass(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = l.now.Add(d)
}

// rig is a store that a test opens, breaks and opens again.
type rig struct {
	testing.TB
	*Store
	ledger *ledger
	dir    string
	quota  int64
	free   int64
	flush  int64
	around durable.Around
	log    *zap.Logger
}

func newRig(t testing.TB) *rig {
	r := &rig{TB: t, ledger: newLedger(), dir: filepath.Join(t.TempDir(), "artefacts"), quota: 64 << 20,
		free: math.MaxInt64, flush: 1 << 20}
	t.Cleanup(func() { r.stop() })
	r.open()
	return r
}

// stop ends what is under way, as a program that ends does.
func (r *rig) stop() {
	if r.Store != nil {
		r.endLife()
		r.work.Wait()
	}
}

// open opens the store as a start does.
func (r *rig) open() {
	r.Helper()
	r.stop()
	var err error
	r.Store, err = New(Config{Dir: r.dir, Ledger: r.ledger, Now: r.ledger.clock, Quota: r.quota, KeepFree: 1 << 20,
		Free: func(string) (int64, error) { return r.free, nil }, Around: r.around, Flush: r.flush,
		Keep: 30 * 24 * time.Hour, Log: r.log,
		ScrubRate: 1 << 40}, r.ledger.state.Clone())
	if err != nil {
		r.Fatal(err)
	}
	r.resume(r.Context())
}

// sent is a body whose sender may be cut off.
type sent struct {
	io.Reader
	interrupted func()
}

func (s sent) Interrupt() {
	if s.interrupted != nil {
		s.interrupted()
	}
}

func whole(b []byte) sent { return sent{Reader: bytes.NewReader(b)} }

// digest is the digest of a content.
func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return wire.HashPrefix + hex.EncodeToString(sum[:])
}

// content is n bytes that depend on seed.
func content(n int, seed byte) []byte {
	b := make([]byte, n)
	x := uint32(seed) + 1
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

// upload uploads what is missing of a content, as a client does.
func (s *Store) upload(ctx context.Context, b []byte) (v view.Upload, err error) {
	if v, err = s.Begin(ctx, op.NewArtefact{Digest: digest(b), Size: int64(len(b)), Name: "f"}); err != nil {
		return v, err
	}
	if v.State == view.UploadAdded {
		return v, nil
	}
	if v.Offset < int64(len(b)) {
		if v, err = s.Write(ctx, v.Digest, v.Offset, whole(b[v.Offset:])); err != nil {
			return v, err
		}
	}
	for {
		if v, err = s.Complete(ctx, digest(b)); err != nil || v.State == view.UploadAdded {
			return v, err
		}
	}
}

// add has an artefact in the store.
func (r *rig) add(b []byte) string {
	r.Helper()
	if v, err := r.upload(r.Context(), b); err != nil || v.State != view.UploadAdded || v.Offset != int64(len(b)) {
		r.Fatalf("%+v %v", v, err)
	}
	return digest(b)
}

// content reads an artefact as it is served.
func (s *Store) content(ctx context.Context, digest string) (all []byte, err error) {
	f, err := s.Open(ctx, digest)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buf := make([]byte, Chunk)
	for n := int64(0); n*Chunk < f.Size; n++ {
		b, err := f.Chunk(ctx, n, buf)
		if err != nil {
			return all, err
		}
		all = append(all, b...)
	}
	return all, nil
}

func (r *rig) mustServe(b []byte) {
	r.Helper()
	if got, err := r.content(r.Context(), digest(b)); err != nil || !bytes.Equal(got, b) {
		r.Fatalf("%d bytes of %d, %v", len(got), len(b), err)
	}
}

// files lists the files of the store, with their sizes.
func (r *rig) files() map[string]int64 {
	all := map[string]int64{}
	err := filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		all[strings.TrimPrefix(path, r.dir+"/")] = info.Size()
		return err
	})
	if err != nil {
		r.Fatal(err)
	}
	return all
}

// held is how many bytes of artefacts the disk has.
func (r *rig) held() (n int64) {
	for name, size := range r.files() {
		if !strings.Contains(name, chunksSuffix) {
			n += size
		}
	}
	return n
}

// flip damages the byte of a file.
func (r *rig) flip(path string, at int64) {
	r.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		r.Fatal(err)
	}
	b[at] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		r.Fatal(err)
	}
}

func code(err error) wire.Code {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e.Code
	}
	return ""
}
