package deliver

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tandem.internal/controller/internal/notify"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// book is a journal in memory.
type book struct {
	mu      sync.Mutex
	log     []notify.Entry
	gone    uint64 // records up to this one are
	quiet   time.Time
	broken  error
	silent  error    // why no note is taken; nil: they are
	blind   error    // why nobody can be selected; nil: they can
	asked   []string // nodes of which somebody asked whether they are selected
	changed chan struct{}
	now     func() time.Time
}

func newBook() *book { return &book{changed: make(chan struct{}), now: time.Now} }

// happen adds an entry that everybody is told.
func (b *book) happen(n int) {
	for range n {
		b.add(record.Trouble, record.TroubleData{Topic: "t"})
	}
}

func (b *book) add(t record.Type, data any) { b.about("", t, data) }

// about adds an entry about a node.
func (b *book) about(node string, t record.Type, data any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	seq := uint64(len(b.log)) + 1
	b.log = append(b.log, notify.Entry{Entry: view.Entry{Seq: seq, At: b.now().UTC(), Type: t.String(), Node: node,
		Data: record.Encode(data)}, Hash: fmt.Sprintf("%016x", seq*7919)})
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *book) Notices(_ context.Context, f notify.Fetch, types []record.Type) (r notify.Read, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken != nil {
		return r, b.broken
	}
	r.UpTo = b.mark(uint64(len(b.log)))
	for i := max(f.After, b.gone); i < uint64(len(b.log)); i++ {
		t, _ := record.ParseType(b.log[i].Type)
		if !slices.Contains(types, t) {
			continue
		}
		if r.Entries = append(r.Entries, b.log[i]); len(r.Entries) == f.Limit {
			r.UpTo, r.More = b.mark(i+1), i+1 < uint64(len(b.log))
			break
		}
	}
	if first := max(f.After, f.GoneTo) + 1; b.gone >= first {
		r.Gone = notify.Gone{First: first, Last: b.gone, Count: b.gone - first + 1}
	}
	return r, nil
}

// fails has the journal not be readable; nil: it is.
func (b *book) fails(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = err
}

// selects has nodes not be selected for an error; nil: they are.
func (b *book) selects(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.blind = err
}

// Selected selects the nodes whose names begin as the filter says.
func (b *book) Selected(_ context.Context, where string, nodes []string) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, nodes...)
	if err := cmp.Or(b.broken, b.blind); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(nodes, func(n string) bool { return !strings.HasPrefix(n, where) }), nil
}

func (b *book) mark(seq uint64) notify.Mark {
	if seq <= b.gone || seq > uint64(len(b.log)) {
		return notify.Mark{Seq: seq}
	}
	return notify.Mark{Seq: seq, Hash: b.log[seq-1].Hash}
}

func (b *book) NoticesHead() (notify.Mark, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mark(uint64(len(b.log))), b.broken
}

func (b *book) NoticesMark(seq uint64) (notify.Mark, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mark(seq), seq > 0 && seq <= b.gone, nil
}

func (b *book) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

func (b *book) Quiet() time.Time { return b.quiet }

func (b *book) Remark(_ context.Context, r view.Remark) error {
	if err := cmp.Or(b.broken, b.silent); err != nil {
		return err
	}
	b.add(record.Note, r)
	return nil
}

// town has the receivers of a test: what each has taken, and how it answers.
type town struct {
	mu     sync.Mutex
	taken  map[string][]string // by receiver: the IDs, up to their first -
	down   map[string]string   // why a receiver does not answer
	slow   map[string]time.Duration
	lost   map[string]int // so many answers do not arrive
	deaf   bool           // it takes what was begun although nobody waits for it
	later  time.Duration  // for which those that are down ask
	leaves time.Duration  // how long it takes to close a sender
	bodies map[string]string
	closed int // senders
}

func newTown() *town {
	return &town{taken: map[string][]string{}, down: map[string]string{}, slow: map[string]time.Duration{},
		lost: map[string]int{}, bodies: map[string]string{}}
}

func (o *town) sender(to notify.Receiver) (Sender, error) { return inTown{o, to.Name}, nil }

func (o *town) ids(name string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.taken[name])
}

func (o *town) setDown(name, why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down[name] = why
}

type inTown struct {
	*town
	name string
}

func (o inTown) Send(ctx context.Context, m notify.Message, _ time.Time) Answer {
	o.mu.Lock()
	slow, down := o.slow[o.name], o.down[o.name]
	o.mu.Unlock()
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			if !o.deaf {
				return Answer{Err: "interrupted"}
			}
		}
	}
	if down != "" {
		return Answer{Err: down, After: o.later}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	id, _, _ := strings.Cut(m.ID, "-")
	o.taken[o.name] = append(o.taken[o.name], id)
	if before, again := o.bodies[m.ID]; again && before != string(m.Body) {
		return Answer{Err: "the same ID with another content"}
	}
	o.bodies[m.ID] = string(m.Body)
	if o.lost[o.name] > 0 {
		o.lost[o.name]--
		return Answer{Err: "no answer"}
	}
	return Answer{Status: 200}
}

func (o inTown) Close() {
	time.Sleep(o.leaves)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed++
}

// life is a manager that runs.
type life struct {
	*Manager
	cancel context.CancelFunc
	done   chan error
}

func begin(t *testing.T, cfg Config) *life {
	t.Helper()
	m, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &life{m, cancel, make(chan error, 1)}
	go func() { l.done <- m.Run(ctx) }()
	return l
}

func (l *life) end(t *testing.T) {
	t.Helper()
	l.cancel()
	if err := <-l.done; err != nil {
		t.Error(err)
	}
}

// from lists the numbers from one to another as IDs have them.
func from(first, last int, without ...int) (all []string) {
	out := map[int]bool{}
	for _, n := range without {
		out[n] = true
	}
	for n := first; n <= last; n++ {
		if !out[n] {
			all = append(all, fmt.Sprint(n))
		}
	}
	return all
}

func sameIDs(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: told %v, want %v", what, got, want)
	}
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
