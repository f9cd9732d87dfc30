package fetch

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/time/rate"

	"tandem.internal/nodeagent/internal/fetch/plan"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// Torrents is the BitTorrent of an agent, which all its stores share: one client, with one list of nodes to ask. A
// program's main chooses whether there is one (shared/docs/adr/041-bittorrent-in-a-module-of-its-own.md).
type Torrents interface {
	// Join makes the part of a store in it.
	Join(h *Host) Swarm
	// Close ends everything and waits for it. It is called when every Swarm is closed.
	Close()
}

// NewTorrents makes it. Its error says what is wrong with the peers. Until one of its methods is called, nothing has to
// be closed.
type NewTorrents func(TorrentsConfig) (Torrents, error)

// TorrentsConfig is what it goes by.
type TorrentsConfig struct {
	Peers Peers
	Limit *rate.Limiter // of all downloads
}

// Peers says with whom resources are exchanged by BitTorrent. Other nodes are found by nothing
// else: not by DHT, not by local discovery, and by trackers only if a magnet link names them.
type Peers struct {
	Listen    string   // host:port where others may fetch what this node holds; "": nobody may
	Addresses []string // host:port of nodes to ask
	Allow     []string // addresses and prefixes (10.0.0.0/8) that may connect beside Addresses
	Upload    int64    // bytes a second; 0: no limit
}

// Swarm is BitTorrent for a store (seed 004, resources): it fetches from other nodes, in pieces, and serves them what
// is kept here.
type Swarm interface {
	// Fetch writes all of what url names to p. info is the torrent's info dictionary; it is kept with the copy, and
	// Host.Info returns it. Errors are of p, Passing, Wrong or ErrStopped; others are the disk's. Several goroutines
	// call this, all of which have ended when Close is called.
	Fetch(ctx context.Context, url string, p *Pieces) (info []byte, err error)
	// Offer serves these copies, and no others, to whoever may ask; with each go the URLs that it is wanted by. It
	// does not wait. One goroutine calls this.
	Offer(kept map[plan.Key][]string)
	// Close ends what the store has part in, and waits for it. It is called last.
	Close()
}

// Host is a store as its swarm sees it: the Config, with its defaults filled in, and these methods, which are for any
// goroutine.
type Host struct {
	*Config
	store *Store
}

// Copy is the path that the copy of k has or would have.
func (h *Host) Copy(k plan.Key) string { return h.store.disk.copyPath(k) }

// Info is the info dictionary that is kept with the copy of k; fs.ErrNotExist: there is none.
func (h *Host) Info(k plan.Key) ([]byte, error) { return os.ReadFile(h.Copy(k) + asInfo) }

// KeepInfo keeps an info dictionary with the copy of k.
func (h *Host) KeepInfo(k plan.Key, info []byte) error { return h.store.disk.writeInfo(k, info) }

func (d *disk) writeInfo(k plan.Key, info []byte) error {
	return durable.WriteFile(d.copyPath(k)+asInfo, info, 0o600, d.steps)
}

// Slowly makes a limiter for reading what is kept, which nobody waits for.
func (h *Host) Slowly() *rate.Limiter { return NewLimiter(h.Recheck) }

// Moved tells those who wait for the store's Updates that a download has come further.
func (h *Host) Moved() { notify(h.store.updates) }

// OfferAgain has the store call Offer soon.
func (h *Host) OfferAgain() { notify(h.store.poke) }

// Pieces is the file of a copy that comes in pieces, in any order. Its methods are for any goroutine, and for no longer
// than until Fetch returns.
type Pieces struct{ part *part }

// Key is what is fetched.
func (p *Pieces) Key() plan.Key { return p.part.key }

// Scatter writes down that what comes is from url. From then on the file may have holes.
func (p *Pieces) Scatter(url string) error {
	d := p.part.store.disk
	return d.write(d.partPath(p.part.key)+asJSON, origin{Format: 1, Key: p.part.key, URL: url})
}

// Expect says how many bytes will come in all, as soon as that is known, and reserves the room for them. It returns how
// many the file has already, right or wrong. It fails if they are too many for the resource or the disk.
func (p *Pieces) Expect(bytes int64) (there int64, err error) {
	f := p.part
	if bytes < 0 || bytes > f.most {
		return 0, Wrong(wire.CodeTooLarge, fmt.Sprintf("it has %d bytes, and this resource may have %d; "+
			"correct its size", bytes, f.most))
	}
	st, err := f.file.Stat()
	if err != nil {
		return 0, err
	}
	left := max(bytes-st.Size(), 0)
	if err := f.store.ledger.allow(f.key, left); full(err) {
		return 0, &failure{kind: plan.Full, code: wire.CodeStorage, total: bytes, drop: true,
			why: fmt.Sprintf("it has %d bytes: %v", bytes, err)}
	} else if err != nil {
		return 0, err
	}
	f.store.ledger.reserve(f.key, left)
	f.progress.total.Store(bytes)
	return st.Size(), nil
}

// Verified says that as many bytes more are right; negative: that many less.
func (p *Pieces) Verified(bytes int64) { p.part.progress.done.Add(bytes) }

// ReadAt reads what has come.
func (p *Pieces) ReadAt(b []byte, off int64) (int, error) { return p.part.file.ReadAt(b, off) }

// WriteAt writes what has come. It fails if that is more than the resource may have, or the disk has room for.
func (p *Pieces) WriteAt(b []byte, off int64) (int, error) { return p.part.WriteAt(b, off) }

// Truncate makes the file as long as it has to be.
func (p *Pieces) Truncate(bytes int64) error { return p.part.file.Truncate(bytes) }
