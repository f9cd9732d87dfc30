// Package bittorrent is the BitTorrent of the full agent: a fetch.Swarm by the library anacrolix/torrent, whose modules
// no other program has (shared/docs/adr/041-bittorrent-in-a-module-of-its-own.md).
//
// It guarantees: other nodes are found by nothing but the settings, and trackers that a magnet link names; only those
// that the settings name are called or answered; nothing is written but through fetch.Pieces, and nothing after Fetch
// has returned; what is served is only read.
package bittorrent

import (
	"context"
	"crypto/sha1"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/anacrolix/torrent"
	"github.com/anacrolix/torrent/iplist"
	"github.com/anacrolix/torrent/metainfo"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"tandem.internal/nodeagent/internal/fetch"
	"tandem.internal/nodeagent/internal/fetch/plan"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// askAgain is how often the nodes that are known are asked again for a torrent.
const askAgain = 10 * time.Second

// errStill ends a round of a torrent of which nothing comes.
var errStill = errors.New("nothing comes")

// shared is the client of all stores, which begins when it is needed first.
type shared struct {
	fetch.TorrentsConfig
	name  string // of the host to listen at
	port  int
	allow []netip.Prefix

	mu     sync.Mutex
	client *torrent.Client
	closed bool
}

// New makes the BitTorrent of an agent. It is a fetch.NewTorrents.
func New(c fetch.TorrentsConfig) (fetch.Torrents, error) {
	w := &shared{TorrentsConfig: c}
	for _, a := range c.Peers.Allow {
		p, err := netip.ParsePrefix(a)
		if ip, err2 := netip.ParseAddr(a); err != nil && err2 == nil {
			p, err = ip.Prefix(ip.BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("%q is no address and no prefix", a)
		}
		w.allow = append(w.allow, p)
	}
	for _, a := range c.Peers.Addresses {
		host, _, err := hostPort(a)
		if err != nil {
			return nil, err
		}
		if ip, err := netip.ParseAddr(host); err == nil {
			w.allow = append(w.allow, netip.PrefixFrom(ip, ip.BitLen()))
		}
	}
	if c.Peers.Listen == "" {
		return w, nil
	}
	var err error
	if w.name, w.port, err = hostPort(c.Peers.Listen); err != nil {
		return nil, err
	}
	if len(w.allow) == 0 {
		return nil, errors.New("nobody may connect: name the nodes that may")
	}
	return w, nil
}

func hostPort(s string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(s)
	if err != nil {
		return "", 0, fmt.Errorf("%q is no host:port", s)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("%q has no port", s)
	}
	return host, int(n), nil
}

// Lookup makes everybody's address forbidden that was not allowed. It is what the client calls an IP
// block list.
func (w *shared) Lookup(ip net.IP) (iplist.Range, bool) {
	a, ok := netip.AddrFromSlice(ip)
	for _, p := range w.allow {
		if ok && p.Contains(a.Unmap()) {
			return iplist.Range{}, false
		}
	}
	return iplist.Range{First: ip, Last: ip, Description: "not of this unit"}, true
}

// NumRanges is how many ranges Lookup knows.
func (w *shared) NumRanges() int { return len(w.allow) }

// open returns the client, made when it is needed first.
func (w *shared) open() (*torrent.Client, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.client != nil || w.closed {
		return w.client, nil
	}
	c := torrent.NewDefaultClientConfig()
	c.NoDHT, c.DisablePEX, c.DisableUTP, c.DisableWebtorrent, c.DisableWebseeds, c.NoDefaultPortForwarding = true, true,
		true, true, true, true
	c.Slogger = slog.New(slog.DiscardHandler)
	c.Seed = true
	c.IPBlocklist = w
	c.DownloadRateLimiter = w.Limit
	if n := w.Peers.Upload; n > 0 {
		c.UploadRateLimiter = rate.NewLimiter(rate.Limit(n), 0)
	}
	c.ListenHost = func(string) string { return w.name }
	c.ListenPort = w.port
	c.AcceptPeerConnections = w.Peers.Listen != ""
	if ip, err := netip.ParseAddr(w.name); err == nil {
		c.DisableIPv4, c.DisableIPv6 = !ip.Is4(), ip.Is4()
	}
	c.DisableTCP = !c.AcceptPeerConnections // no socket that listens
	c.DefaultStorage = outlet("")           // every torrent brings its own
	client, err := torrent.NewClient(c)
	if err != nil {
		return nil, err
	}
	if c.DisableTCP {
		client.AddDialer(torrent.NetworkDialer{Network: "tcp", Dialer: &net.Dialer{}})
	}
	w.client = client
	return client, nil
}

// Close ends everything and waits for it.
func (w *shared) Close() {
	w.mu.Lock()
	client := w.client
	w.client, w.closed = nil, true
	w.mu.Unlock()
	if client != nil {
		client.Close()
	}
}

// swarm is the part of one store.
type swarm struct {
	*shared
	host   *fetch.Host
	stop   context.CancelFunc // of making info dictionaries
	ctx    context.Context
	making sync.WaitGroup
	still  time.Duration // stillAfter; tests take less

	at     sync.Mutex
	ended  bool
	busy   bool                          // an info dictionary is being made
	tried  map[plan.Key]bool             // that was tried
	served map[plan.Key]*torrent.Torrent // nil: there is nothing to serve it as
}

// Join makes the part of a store.
func (w *shared) Join(h *fetch.Host) fetch.Swarm {
	s := &swarm{shared: w, host: h, still: stillAfter, tried: map[plan.Key]bool{},
		served: map[plan.Key]*torrent.Torrent{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Close ends what the store serves, and waits for what is being made of it.
func (w *swarm) Close() {
	w.at.Lock()
	w.ended = true
	w.at.Unlock()
	w.stop()
	w.making.Wait()
	for _, t := range w.served { // nobody else has them any more
		if t != nil {
			t.Drop()
		}
	}
}

// wholeHashes reports whether no info hash of a magnet link is base32 of fewer bytes than a hash has, because of
// padding or line ends, at which the library panics. Documents that were stored before this was a rule may have one.
func wholeHashes(magnet string) bool {
	u, err := url.Parse(magnet)
	if err != nil {
		return false
	}
	for _, xt := range u.Query()["xt"] {
		hash, v1 := strings.CutPrefix(xt, "urn:btih:")
		if b, err := base32.StdEncoding.DecodeString(hash); v1 && err == nil && len(hash) == 32 &&
			len(b) != len(metainfo.Hash{}) {
			return false
		}
	}
	return true
}

// target reads a URL of a torrent.
func target(text string) (hash metainfo.Hash, trackers []string, err error) {
	scheme, rest, _ := strings.Cut(text, ":")
	if scheme == workload.SchemeRBTorrent {
		b, err := hex.DecodeString(rest)
		if err != nil || len(b) != len(hash) {
			return hash, nil, errors.New("rbtorrent: needs an info hash, which is 40 hex digits")
		}
		return metainfo.Hash(b), nil, nil
	}
	none := errors.New("it has no info hash (xt=urn:btih:…)")
	if !wholeHashes(text) {
		return hash, nil, none
	}
	m, err := metainfo.ParseMagnetUri(text)
	if err != nil {
		return hash, nil, none
	}
	for _, t := range m.Trackers {
		if u, err := url.Parse(t); err == nil && (u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "udp") {
			trackers = append(trackers, t)
		}
	}
	return m.InfoHash, trackers, nil
}

// Fetch writes all of what a URL of a torrent names to p.
func (w *swarm) Fetch(ctx context.Context, text string, p *fetch.Pieces) ([]byte, error) {
	hash, trackers, err := target(text)
	if err != nil {
		return nil, fetch.Wrong(wire.CodeInvalidArgument, err.Error())
	}
	client, err := w.open()
	if err != nil {
		return nil, fetch.Passing(wire.CodeUnavailable, "BitTorrent cannot begin: "+err.Error())
	}
	if client == nil {
		return nil, fetch.ErrStopped
	}
	// From here on the part is the torrent's: it may have holes.
	if err := p.Scatter(text); err != nil {
		return nil, err
	}
	m := w.newMotion()
	var in *intake
	for info := []byte(nil); ; {
		in = newIntake(p, in)
		t, fresh := client.AddTorrentOpt(torrent.AddTorrentOpts{InfoHash: hash, InfoBytes: info, Storage: in})
		if !fresh {
			return nil, fetch.Passing(wire.CodeUnavailable, "this torrent is being fetched or served as something else")
		}
		if len(trackers) > 0 {
			t.AddTrackers([][]string{trackers})
		}
		info, err = w.round(ctx, t, in, m)
		if err == nil {
			return info, p.Truncate(in.length)
		}
		if !errors.Is(err, errStill) {
			return nil, err
		}
		w.host.Log.Info("nothing comes of a torrent; it is begun anew", zap.String("resource", string(p.Key())),
			zap.Int64("bytes", m.came))
	}
}

// round follows t to its end and drops it. It returns the info dictionary, as soon as there is one.
func (w *swarm) round(ctx context.Context, t *torrent.Torrent, in *intake, m *motion) (info []byte, err error) {
	defer in.close()
	defer t.Drop()
	t.SetOnWriteChunkError(in.fail)
	err = w.follow(ctx, t, in, m)
	return t.Metainfo().InfoBytes, err
}

// follow asks the nodes that are known until all of a torrent is there, or nothing comes any more.
func (w *swarm) follow(ctx context.Context, t *torrent.Torrent, in *intake, m *motion) error {
	again, look := time.NewTicker(askAgain), time.NewTicker(m.still/10)
	defer again.Stop()
	defer look.Stop()
	got := t.GotInfo()
	w.ask(t)
	for {
		if in.whole() {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-in.trouble:
			return in.err()
		case <-in.changed:
			w.host.Moved()
		case <-got:
			got = nil
			t.DownloadAll()
		case <-again.C:
			w.ask(t)
		case now := <-look.C:
			stats := t.Stats()
			switch m.look(now, stats.BytesRead.Int64()+in.judged.Load(), in.came.Swap(0)) {
			case tooSlow:
				return fetch.Passing(wire.CodeTimeout, fmt.Sprintf("the %d nodes that are asked sent less than %d "+
					"bytes a second for %v", len(w.Peers.Addresses), m.slow, w.host.Patience))
			case stands:
				return errStill
			}
		}
	}
}

func (w *swarm) ask(t *torrent.Torrent) {
	var all []torrent.PeerInfo
	for _, a := range w.Peers.Addresses {
		all = append(all, torrent.PeerInfo{Addr: torrent.StringAddr(a), Source: torrent.PeerSourceDirect,
			Trusted: true})
	}
	t.AddPeers(all)
}

// infoHash is the hash that an info dictionary is known by.
func infoHash(info []byte) metainfo.Hash { return sha1.Sum(info) }
