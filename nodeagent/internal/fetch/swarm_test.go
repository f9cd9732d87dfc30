package fetch

import (
	"context"
	"errors"
	"io/fs"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/fetch/plan"
	"tandem.internal/shared/filetest"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// toySwarm has everything at once.
type toySwarm struct {
	host    *Host
	fetch   func(context.Context, *Pieces) ([]byte, error)
	offered chan map[plan.Key][]string // one slot: the newest
	under   atomic.Int32               // fetches under way
	closed  atomic.Int32               // times, if nothing was under way
}

func (s *toySwarm) Fetch(ctx context.Context, _ string, p *Pieces) ([]byte, error) {
	s.under.Add(1)
	defer s.under.Add(-1)
	return s.fetch(ctx, p)
}

func (s *toySwarm) Offer(kept map[plan.Key][]string) {
	select {
	case <-s.offered:
	default:
	}
	s.offered <- kept
}

func (s *toySwarm) Close() {
	if s.under.Load() == 0 {
		s.closed.Add(1)
	}
}

// swarming starts a store with a swarm that fetches in this way.
func swarming(t *testing.T, fetch func(context.Context, *Pieces) ([]byte, error)) (*node, *toySwarm) {
	s := &toySwarm{fetch: fetch, offered: make(chan map[plan.Key][]string, 1)}
	c := Config{Dir: filetest.MemoryDir(t), Swarm: func(h *Host) (Swarm, error) { s.host = h; return s, nil }}
	return start(t, c), s
}

const torrentURL = "rbtorrent:0123456789012345678901234567890123456789"

// A swarm writes pieces in any order; what comes is verified and kept with its info dictionary, and offered.
func TestSwarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data := content(1, 1<<20)
		n, s := swarming(t, func(_ context.Context, p *Pieces) ([]byte, error) {
			there, err := p.Expect(int64(len(data)))
			half := int64(len(data) / 2)
			_, err1 := p.WriteAt(data[half:], half)
			_, err2 := p.WriteAt(data[:half], 0)
			_, err3 := p.WriteAt([]byte("too much"), int64(len(data)))
			got := make([]byte, 10)
			_, err4 := p.ReadAt(got, half)
			if there != 0 || string(got) != string(data[half:half+10]) {
				t.Errorf("%d bytes are there, and %x", there, got)
			}
			p.Verified(half)
			return []byte("dictionary"), errors.Join(p.Scatter(torrentURL), err, err1, err2, err3, err4,
				p.Truncate(int64(len(data))))
		})
		a := artifact(sha(data), len(data), torrentURL)
		n.Want(wants{a})
		st := n.ready(a, data)
		synctest.Wait()
		kept := <-s.offered
		for k, urls := range kept {
			info, err := s.host.Info(k)
			if s.host.Copy(k) != st.Path || string(info) != "dictionary" || err != nil || len(urls) != 1 ||
				urls[0] != torrentURL {
				t.Errorf("%s by %q: %q, %v", s.host.Copy(k), urls, info, err)
			}
			if err := s.host.KeepInfo(k, []byte("another")); err != nil {
				t.Error(err)
			}
			if info, err := s.host.Info(k); string(info) != "another" || err != nil {
				t.Errorf("%q, %v", info, err)
			}
		}
		s.host.OfferAgain()
		synctest.Wait()
		select {
		case again := <-s.offered:
			if len(kept) != 1 || len(again) != 1 {
				t.Errorf("offered are %v, then %v", kept, again)
			}
		default:
			t.Error("nothing is offered again")
		}
		if _, err := s.host.Info("uuid:of another"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("no dictionary: %v", err)
		}
		n.stop()
		if s.closed.Load() != 1 {
			t.Error("the swarm was not closed once")
		}
	})
}

// What a swarm cannot bring fails as any download does.
func TestSwarmFails(t *testing.T) {
	expects := func(bytes int64) func(context.Context, *Pieces) ([]byte, error) {
		return func(_ context.Context, p *Pieces) ([]byte, error) {
			_, err := p.Expect(bytes)
			return nil, err
		}
	}
	for _, c := range []struct {
		name  string
		fetch func(context.Context, *Pieces) ([]byte, error)
		code  wire.Code
		text  string
	}{
		{"more than the resource may have", expects(1 << 30), wire.CodeTooLarge, "correct its size"},
		{"less than nothing", expects(-1), wire.CodeTooLarge, "correct its size"},
		{"of its own", func(context.Context, *Pieces) ([]byte, error) {
			return nil, Passing(wire.CodeTimeout, "nobody answers")
		}, wire.CodeTimeout, "nobody answers"},
		{"nothing at all", func(context.Context, *Pieces) ([]byte, error) { return nil, nil }, wire.CodeHashMismatch,
			"has the checksum"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, _ := swarming(t, c.fetch)
				a := artifact(sha([]byte("x")), 1, torrentURL)
				n.Want(wants{a})
				if st := n.fails(a, c.text); st.Err.Code != c.code {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// What is not wanted any more, and the end of the store, end a fetch; Close comes last.
func TestSwarmEnds(t *testing.T) {
	for name, end := range map[string]func(*node){"not wanted": func(n *node) { n.Want(nil) },
		"the end": func(n *node) { n.stop() }} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, s := swarming(t, func(ctx context.Context, p *Pieces) ([]byte, error) {
					<-ctx.Done()
					time.Sleep(time.Second) // the bubble's
					return nil, ErrStopped
				})
				n.Want([]workload.Artifact{artifact(sha(nil), 0, torrentURL)})
				synctest.Wait()
				if s.under.Load() != 1 {
					t.Fatal("nothing is fetched")
				}
				end(n)
				time.Sleep(2 * time.Second)
				if s.under.Load() != 0 {
					t.Error("it is still fetched")
				}
				n.stop()
				if s.closed.Load() != 1 {
					t.Error("the swarm was not closed once, after everything else")
				}
			})
		})
	}
}
