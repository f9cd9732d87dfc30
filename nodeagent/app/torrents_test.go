package app

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"tandem.internal/nodeagent/internal/fetch"
	"tandem.internal/nodeagent/internal/fetch/plan"
	"tandem.internal/shared/wire"
)

// torrents stands for BitTorrent, and notes what it is told.
type torrents struct {
	fetch.TorrentsConfig
	mu    sync.Mutex
	notes []string
}

func (s *torrents) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, text)
}

func (s *torrents) Close() { s.note("closed") }

func (s *torrents) Join(h *fetch.Host) fetch.Swarm {
	name := filepath.Base(h.Dir)
	if h.Limit != s.Limit {
		name += ", with a limit of its own"
	}
	s.note(name)
	return swarm{torrents: s, name: name}
}

type swarm struct {
	fetch.Swarm
	torrents *torrents
	name     string
}

func (swarm) Offer(map[plan.Key][]string) {}
func (s swarm) Close()                    { s.torrents.note(s.name + " closed") }

// TestOneBitTorrent: the stores of resources and of releases share one client and one limit; it is closed after them.
func TestOneBitTorrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var all []*torrents
		r.cfg.PeerListen, r.cfg.Peers, r.cfg.FetchRate = "h:1", []string{"g:1"}, 1000
		r.deps.Torrents = func(c fetch.TorrentsConfig) (fetch.Torrents, error) {
			all = append(all, &torrents{TorrentsConfig: c})
			return all[len(all)-1], nil
		}
		if err := os.Mkdir(filepath.Join(r.dir, "releases"), 0o700); err != nil {
			t.Fatal(err)
		}
		r.start()
		r.beacon(1, r.signer)
		d := with(doc(1, 1), `{"formatVersion":"1"}`)
		d.Kind, d.Version = wire.KindPolicies, ""
		r.desire(d)
		synctest.Wait()
		r.stop()
		if len(all) != 1 || all[0].Peers.Listen != "h:1" || all[0].Peers.Addresses[0] != "g:1" ||
			all[0].Limit.Limit() != 1000 {
			t.Fatalf("%d clients", len(all))
		}
		got := all[0].notes
		if last := got[len(got)-1]; last != "closed" {
			t.Errorf("last: %s", last)
		}
		slices.Sort(got)
		if text := strings.Join(got, ", "); text != "closed, releases, releases closed, resources, resources closed" {
			t.Error(text)
		}
	})
}
