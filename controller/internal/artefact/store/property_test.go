package store

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"
	"pgregory.net/rapid"

	"tandem.internal/controller/internal/op"
)

// TestStoreProperties: whatever is uploaded, removed, collected and damaged, and whenever the program is killed or the
// disk fails: what is referred to and was visible stays so, nothing else is served than what was uploaded, the quota
// holds on the disk as well, and after a start every file belongs to an artefact or a lease.
func TestStoreProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t)
		defer r.stop()
		r.quota, r.flush = 6000, 400
		r.open()
		p := &playing{T: rt, rig: r, damaged: map[string]bool{}}
		for i := range byte(5) {
			p.contents = append(p.contents, content(int(i)*700, i))
		}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			p.step()
			p.judge()
		}
	})
}

// playing is one drawn sequence.
type playing struct {
	*rapid.T
	rig      *rig
	contents [][]byte
	damaged  map[string]bool // by digest: its file was harmed since it was added
	visible  []string        // that were so after the last step and are referred to
}

// step does one thing, which may be killed or fail.
func (p *playing) step() {
	r := p.rig
	b := rapid.SampledFrom(p.contents).Draw(p.T, "content")
	d := digest(b)
	p.visible = p.visible[:0]
	for name := range r.ledger.used {
		if _, ok := r.ledger.state.Artefacts[name]; ok {
			p.visible = append(p.visible, name)
		}
	}
	what := rapid.SampledFrom([]string{"upload", "upload", "piece", "complete", "wrong", "remove", "care", "refer",
		"unrefer", "harm", "restart", "day"}).Draw(p.T, "what")
	f := &faults{at: -1}
	if what != "restart" && rapid.IntRange(0, 2).Draw(p.T, "fault") == 0 {
		f.at = rapid.IntRange(0, 8).Draw(p.T, "at")
		f.how = rapid.SampledFrom([]string{undone, doneAfter, killBefore, killAfter}).Draw(p.T, "how")
	}
	r.arm(f)
	r.cfg.Flush = r.flush
	_, wasKilled := life(func() error { return p.do(what, b, d) })
	r.arm(nil)
	if wasKilled {
		r.ledger.mu = sync.Mutex{}
		r.open()
		r.work.Wait()
		p.mustOwn()
	}
}

func (p *playing) do(what string, b []byte, d string) error {
	r, ctx := p.rig, p.rig.Context()
	begin := func() (int64, error) {
		v, err := r.Begin(ctx, op.NewArtefact{Digest: d, Size: int64(len(b))})
		return v.Offset, err
	}
	write := func(b []byte, most int) error {
		at, err := begin()
		if err != nil {
			return err
		}
		_, err = r.Write(ctx, d, at, whole(b[at:min(int(at)+most, len(b))]))
		return err
	}
	switch what {
	case "upload":
		if err := write(b, len(b)); err != nil {
			return err
		}
		return r.now(r, b)
	case "piece":
		return write(b, 900)
	case "wrong":
		if len(b) == 0 {
			return nil
		}
		other := bytes.Clone(b)
		other[len(b)-1] ^= 1
		if err := write(other, len(b)); err != nil {
			return err
		}
		return r.now(r, b)
	case "complete":
		return r.now(r, b)
	case "remove":
		_, err := r.Remove(ctx, op.RemoveArtefactIn{ArtefactIn: op.ArtefactIn{Digest: d}})
		return err
	case "care":
		return r.Care(ctx)
	case "refer":
		if r.ledger.used == nil {
			r.ledger.used = map[string][]string{}
		}
		r.ledger.used[d] = []string{"a node"}
	case "unrefer":
		delete(r.ledger.used, d)
		p.visible = slices.DeleteFunc(p.visible, func(name string) bool { return name == d })
	case "harm":
		files := []string{}
		for name := range r.files() {
			files = append(files, name)
		}
		slices.Sort(files)
		if len(files) == 0 {
			return nil
		}
		name := rapid.SampledFrom(files).Draw(p.T, "file")
		if size := r.files()[name]; size > 0 {
			r.flip(r.dir+"/"+name, rand.New(rand.NewPCG(uint64(size), 1)).Int64N(size))
		}
		base := strings.TrimSuffix(name[strings.LastIndex(name, "/")+1:], chunksSuffix)
		p.damaged["sha256:"+base] = true
	case "restart":
		r.open()
		r.work.Wait()
		p.mustOwn()
	case "day":
		r.ledger.pass(time.Duration(rapid.IntRange(1, 40*24).Draw(p.T, "hours")) * time.Hour)
	}
	return nil
}

// judge checks what has to hold after each step.
func (p *playing) judge() {
	r := p.rig
	for _, d := range p.visible {
		if _, ok := r.ledger.state.Artefacts[d]; !ok {
			p.Fatalf("%s was visible and referred to, and is gone", d)
		}
	}
	if held := r.held(); held > r.quota || r.ledger.state.Reserved() > r.quota {
		p.Fatalf("%d bytes on the disk and %d promised, of %d: %v", held, r.ledger.state.Reserved(), r.quota, r.files())
	}
	for _, b := range p.contents {
		d := digest(b)
		got, err := r.content(r.Context(), d)
		_, there := r.ledger.state.Artefacts[d]
		switch {
		case !bytes.HasPrefix(b, got), err == nil && !bytes.Equal(b, got):
			p.Fatalf("served %d bytes that are not of %s", len(got), d)
		case err != nil && there && !p.damaged[d]:
			p.Fatalf("%s was never harmed: %v", d, err)
		case err == nil:
			delete(p.damaged, d)
		}
	}
}

func (p *playing) mustOwn() {
	for name := range p.rig.files() {
		d := "sha256:" + strings.TrimSuffix(name[strings.LastIndex(name, "/")+1:], chunksSuffix)
		_, there := p.rig.ledger.state.Artefacts[d]
		_, open := p.rig.ledger.state.Leases[d]
		if !there && !open {
			p.Fatalf("nothing names %s", name)
		}
	}
}

// TestNewerTakesOver: many at once upload, remove and read the same few artefacts; nothing stops, and what is read is
// what was uploaded.
func TestNewerTakesOver(t *testing.T) {
	r := newRig(t)
	r.Store.log = zaptest.NewLogger(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			chance := rand.New(rand.NewPCG(uint64(i), 7))
			for range 30 {
				b := content(5000, byte(chance.IntN(2)))
				switch chance.IntN(4) {
				case 0:
					_, err := r.Remove(t.Context(), op.RemoveArtefactIn{ArtefactIn: op.ArtefactIn{Digest: digest(b)}})
					expected(t, err)
				case 1:
					got, err := r.content(t.Context(), digest(b))
					if expected(t, err); err == nil && !bytes.Equal(got, b) {
						t.Error("another content")
					}
				default:
					_, err := r.upload(t.Context(), b)
					expected(t, err)
				}
			}
		})
	}
	all.Wait()
	r.add(content(5000, 0))
	r.mustServe(content(5000, 0))
}

// expected are the errors that somebody gets because of what others do.
func expected(t *testing.T, err error) {
	switch code(err) {
	case "", "not-found", "wrong-state", "interrupted":
		if err == nil || code(err) != "" {
			return
		}
	}
	t.Error(err)
}
