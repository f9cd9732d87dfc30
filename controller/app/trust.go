package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"tandem.internal/broker/server"
	"tandem.internal/controller/internal/ca"
	"tandem.internal/controller/internal/distribute"
	"tandem.internal/controller/internal/join"
	"tandem.internal/shared/door"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/link"
	"tandem.internal/shared/runlog"
	"tandem.internal/shared/wire"
)

// trust is the unit's CA and what serves with its certificates: the TLS listener of the broker and the join
// door. The zero value is a controller without TLS.
type trust struct {
	ca           *ca.CA
	listener     net.Listener // of the broker, with TLS; nil: none
	door         *join.Door   // nil: none
	joinListener net.Listener // of the join door; nil: none
	access       *access
}

// openTrust opens the unit's CA and the listeners that use it. It does nothing if there are none.
func (a *App) openTrust(deps Deps, undo *[]func() error) error {
	a.trust.access = &access{core: a.core, peers: map[string]ca.Peer{}}
	joinAt, err := a.cfg.joinAt()
	if err != nil {
		return err
	}
	if a.cfg.ListenTLS == "" && joinAt == "" && deps.TLSListener == nil && deps.JoinListener == nil &&
		(deps.NoAPI || !a.cfg.httpOfCA()) {
		return nil
	}
	c := ca.Config{Unit: a.cfg.Unit, Dir: a.cfg.StateDir, Now: deps.Now, Renew: a.cfg.NewCA, Steps: deps.Steps}
	if c.Floor, err = a.core.Newest(); err != nil {
		return err
	}
	if c.List, err = a.core.CAs(); err != nil {
		return err
	}
	if known := a.core.KnownCA(); known != "" {
		fp, err := ca.ParseFingerprint(known)
		if err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		c.Known = &fp
	}
	if a.trust.ca, err = ca.Open(c); err != nil {
		return err
	}
	a.trust.access.ca = a.trust.ca
	authority := distribute.Authority{CA: a.trust.ca, Life: cmp.Or(a.cfg.CertificateLife, ca.NodeLife)}
	defer func() { a.core.SetAuthority(authority) }()
	if l := a.trust.ca.Listed(); len(c.List.All) > 0 && (l.Signs != c.List.Signs || len(l.All) != len(c.List.All)) {
		a.core.SetAuthority(authority)
		if err := a.core.ReplaceCA(); err != nil {
			return err
		}
	}
	open := func(l net.Listener, flag, addr string) (net.Listener, error) {
		if l == nil && addr != "" {
			var err error
			if l, err = listen(flag, addr); err != nil {
				return nil, err
			}
		}
		if l != nil {
			*undo = append(*undo, func() error { return closeListener(l) })
		}
		return l, nil
	}
	raw, err := open(deps.TLSListener, "--listen-tls", a.cfg.ListenTLS)
	if err != nil {
		return err
	}
	hosts := a.cfg.hosts()
	if raw != nil {
		s, err := a.trust.ca.Server(hosts)
		if err != nil {
			return fmt.Errorf("--listen-tls: %w", err)
		}
		a.trust.listener = door.TLS(raw, s.Mutual(), 0)
	}
	a.trust.joinListener, err = open(deps.JoinListener, "--join-listen", joinAt)
	if err != nil || a.trust.joinListener == nil {
		return err
	}
	broker := jointoken.Broker{URL: a.cfg.Broker}
	if raw != nil {
		broker = jointoken.Broker{URL: "tls://" + reached(hosts[0], raw), Name: jointoken.ServerName}
	}
	if !strings.HasPrefix(broker.URL, "tls://") {
		return errors.New("--join-listen: nodes that join need a broker that they reach over TLS: --listen-tls, or a " +
			"tls:// URL as --broker")
	}
	a.trust.door, err = join.New(join.Config{Unit: a.cfg.Unit, CA: a.trust.ca, Core: a.core, Hosts: hosts,
		Brokers: []jointoken.Broker{broker}, Life: authority.Life, Log: deps.Log, Artefact: a.artefacts(deps)})
	if err == nil {
		authority.URL = "https://" + reached(hosts[0], a.trust.joinListener)
	}
	return err
}

// close closes the join listener of a controller that never ran its join door.
func (t *trust) close() error {
	if t.joinListener == nil {
		return nil
	}
	return closeListener(t.joinListener)
}

// closeListener closes a listener that may be closed already.
func closeListener(l net.Listener) error {
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// reached returns the HOST:PORT under which other machines reach a listener: host, and the listener's port.
func reached(host string, l net.Listener) string {
	if _, port, err := net.SplitHostPort(l.Addr().String()); err == nil {
		return net.JoinHostPort(host, port)
	}
	return host
}

// joinAt returns the address of the join door: --join-listen, or the port after that of --listen-tls; "": none.
func (c *Config) joinAt() (string, error) {
	if c.JoinListen != "" || c.ListenTLS == "" {
		return c.JoinListen, nil
	}
	host, port, err := net.SplitHostPort(c.ListenTLS)
	if err != nil {
		return "", fmt.Errorf("--listen-tls: %w", err)
	}
	n, err := net.LookupPort("tcp", port)
	if err != nil || n == 65535 {
		return "", fmt.Errorf("--listen-tls: there is no port after %q for the join door; give --join-listen", port)
	}
	if n > 0 {
		n++
	}
	return net.JoinHostPort(host, fmt.Sprint(n)), nil
}

// hosts are the names and addresses under which nodes reach this machine, the preferred one first.
func (c *Config) hosts() []string {
	all := slices.Clone(c.Advertise)
	httpAt, _, _ := c.httpDoor()
	for _, addr := range []string{c.ListenTLS, c.JoinListen, httpAt} {
		if host, _, err := net.SplitHostPort(addr); err == nil && host != "" {
			if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
				all = append(all, host)
			}
		}
	}
	if name, err := os.Hostname(); err == nil {
		all = append(all, name)
	}
	all = append(all, "localhost", "127.0.0.1", "::1")
	var good []string
	for _, h := range all {
		plain := !strings.ContainsFunc(h, func(r rune) bool { return r <= ' ' || r > '~' })
		if plain && h != "" && !slices.Contains(good, h) {
			good = append(good, h)
		}
	}
	return good
}

// plainListen is the address at which the broker serves without TLS; "": none.
func (c *Config) plainListen() string {
	if c.Listen == "" && c.ListenTLS == "" {
		return defaultListen
	}
	return c.Listen
}

// exposed returns a warning for each address that other machines reach without TLS.
func (c *Config) exposed() []string {
	var all []string
	if at := c.plainListen(); c.Broker == "" && at != "" && loopback(at) != nil {
		all = append(all, "the broker serves "+at+
			" WITHOUT TLS (--insecure-listen): anybody on that network can read everything and pose as any node that "+
			"has not joined; use --listen-tls")
	}
	if at, secure, err := c.httpDoor(); err == nil && at != "" && !secure && loopback(at) != nil {
		all = append(all, "the HTTP API serves "+at+
			" WITHOUT TLS (--insecure-listen): tokens can be read on that network; give --http https://"+at)
	}
	if link.Exposed(c.Broker) {
		all = append(all, "the broker at "+c.Broker+
			" is reached WITHOUT TLS: anybody on that network can read everything and pose as any node")
	}
	return all
}

// lastYear is the time before the CA's end in which every start warns of it.
const lastYear = 365 * 24 * time.Hour

// trouble returns warnings about the listeners, the CA and the receivers of notices, for the operator.
func (a *App) trouble() []string {
	all := a.cfg.exposed()
	if c := a.trust.ca; c != nil {
		if left := c.Expires().Sub(c.Now()); left < lastYear {
			all = append(all, fmt.Sprintf("the unit's CA ends on %s; every node has to join a new one before then",
				c.Expires().Format(time.DateOnly)))
		}
	}
	if a.notices != nil { // at a start nobody is told yet
		all = append(all, a.notices.Trouble()...)
	}
	return all
}

// access authenticates the clients of the embedded broker.
type access struct {
	core *distribute.Core
	ca   *ca.CA // nil without TLS

	mu    sync.Mutex
	peers map[string]ca.Peer // certificate of the newest connection, by client ID
}

// verify returns the client ID that a client's certificate proves; "" for a client without TLS whose user name is
// free. An error refuses the client.
func (x *access) verify(c server.ConnectInfo) (string, error) {
	if c.TLS == nil {
		return "", x.core.Claimable(c.Username)
	}
	p, err := x.ca.PeerOf(c.TLS)
	if err != nil {
		return "", err
	}
	if err := x.core.Admit(context.Background(), p, fmt.Sprint(c.Remote)); err != nil {
		if node, ok := strings.CutPrefix(p.Subject, "node/"); ok {
			x.core.Misbehaved(node, "",
				wire.New(wire.CodeNotAllowed, "", fmt.Sprintf("refused at the broker, from %v: %v", c.Remote, err)))
		}
		return "", err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.peers[p.Subject] = p
	return p.Subject, nil
}

// endReason returns why a client's session has to end; "": it may go on.
func (x *access) endReason(p ca.Peer) string {
	if err := x.core.Certified(p.Subject, p.Serial); err != nil {
		return err.Error()
	}
	if !x.ca.Counts(p.CA) {
		return "the CA of its certificate was retired"
	}
	if x.ca.Now().After(p.Expires) {
		return "its certificate has expired"
	}
	return ""
}

// recheck returns why the session of a client that has just connected has to end; "": it may go on. The client
// may have been revoked between its authentication and the start of its session.
func (x *access) recheck(id string) (why string) {
	x.mu.Lock()
	p, ok := x.peers[id]
	x.mu.Unlock()
	if !ok {
		return ""
	}
	return x.endReason(p)
}

// sweep returns the client IDs whose certificate does not count any more, each with the reason.
func (x *access) sweep() map[string]string {
	x.mu.Lock()
	all := make([]ca.Peer, 0, len(x.peers))
	for _, p := range x.peers {
		all = append(all, p)
	}
	x.mu.Unlock()
	late := map[string]string{}
	for _, p := range all {
		if why := x.endReason(p); why != "" {
			late[p.Subject] = why
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range all {
		if _, ok := late[p.Subject]; ok && x.peers[p.Subject] == p { // unless it has connected again with a newer one
			delete(x.peers, p.Subject)
		}
	}
	return late
}

// sweepEvery is the longest that a session goes on after its certificate has expired.
const sweepEvery = time.Minute

// guard ends, until ctx ends, the sessions whose certificate has expired or was revoked.
func (a *App) guard(ctx context.Context) error {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			a.endSessions()
		}
	}
}

// endSessions ends the sessions whose certificate does not count any more.
func (a *App) endSessions() {
	if a.broker == nil {
		return
	}
	for id, why := range a.trust.access.sweep() {
		a.log.Info("ending a session", runlog.Node(id), zap.String("client", id), zap.String("why", why))
		a.broker.Disconnect(id, why)
	}
}

// TLSAddr is the address at which the embedded broker serves TLS, nil if it does not.
func (a *App) TLSAddr() net.Addr {
	if a.trust.listener == nil {
		return nil
	}
	return a.trust.listener.Addr()
}

// JoinURL is the URL of the join door, "" if there is none.
func (a *App) JoinURL() string { return a.core.JoinURL() }
