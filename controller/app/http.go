package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/tokens"
)

// httpDoor is where the HTTP API serves TCP, "" for nowhere, and whether with TLS. That is so
// wherever other machines come in; on loopback, or where --insecure-listen was given, only if the
// address begins with https:// or a certificate was given.
func (c *Config) httpDoor() (at string, secure bool, err error) {
	scheme, at, given := strings.Cut(c.HTTP, "://")
	if !given {
		scheme, at = "", c.HTTP
	}
	if at == "" {
		if given {
			err = fmt.Errorf("--http: %q names no address; for example https://127.0.0.1:8885, or :8885", c.HTTP)
		}
		return "", false, err
	}
	at = strings.TrimSuffix(at, "/")
	_, port, err := net.SplitHostPort(at)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return "", false, fmt.Errorf("--http: %w; for example :8885", err)
	}
	open := loopback(at) != nil
	switch {
	case scheme == "https":
		secure = true
	case scheme == "http" && c.HTTPCert != "":
		return "", false, errors.New("--http-cert: --http begins with http://, which is without TLS")
	case scheme == "http" && open && !c.Insecure:
		return "", false, fmt.Errorf("--http: %s can be reached from other machines, and tokens would cross the network "+
			"unencrypted; leave out http:// to serve TLS, or add --insecure-listen if the network is trusted", at)
	case scheme == "":
		secure = c.HTTPCert != "" || open && !c.Insecure
	case scheme != "http":
		return "", false, fmt.Errorf("--http: %q begins with neither https:// nor http://", c.HTTP)
	}
	return at, secure, nil
}

// httpOfCA reports whether the HTTP API shows a certificate of the unit's CA.
func (c *Config) httpOfCA() bool {
	_, secure, err := c.httpDoor()
	return err == nil && secure && c.HTTPCert == ""
}

// openDoors opens the doors of the HTTP API.
func (a *App) openDoors(deps Deps, undo *[]func() error) error {
	clock, err := a.clock(deps)
	if err != nil {
		return err
	}
	cfg := api.Config{Log: a.log}
	if cfg.Tokens, err = tokens.Open(tokens.Config{Path: filepath.Join(a.cfg.StateDir, tokens.FileName), Now: clock, Steps: deps.Steps}); err != nil {
		return err
	}
	open := func(l net.Listener) {
		a.doors = append(a.doors, l)
		*undo = append(*undo, l.Close)
	}
	if a.cfg.Socket != "" {
		if err := os.MkdirAll(filepath.Dir(a.cfg.Socket), 0o755); err != nil {
			return fmt.Errorf("--socket: %w", err)
		}
		l, err := api.ListenUnix(a.cfg.Socket, 0o660)
		if err != nil {
			return fmt.Errorf("--socket: %w", err)
		}
		open(l)
	}
	at, secure, err := a.cfg.httpDoor()
	if err != nil {
		return err
	}
	if at != "" {
		var conf *tls.Config
		hosts, scheme := a.cfg.hosts(), "http://"
		if secure {
			scheme = "https://"
			if conf, err = a.httpTLS(hosts); err != nil {
				return err
			}
		}
		l, err := api.ListenTCP(at, conf, a.cfg.Insecure)
		if err != nil {
			return fmt.Errorf("--http: %w", err)
		}
		open(l)
		host := hosts[0]
		if h, _, err := net.SplitHostPort(at); err == nil && h != "" && len(a.cfg.Advertise) == 0 {
			if ip := net.ParseIP(h); ip == nil || !ip.IsUnspecified() {
				host = h // nobody reaches it elsewhere
			}
		}
		a.url = scheme + reached(host, l)
		cfg.URL = a.url
		if secure && a.cfg.HTTPCert == "" {
			cfg.CA = a.trust.ca.Fingerprint().String()
		}
	}
	a.api = api.New(served{a.core}, cfg)
	return nil
}

// clock is the wall clock, but never a time that is known to have passed: a gateway that wakes in
// 1970 must not let an expired token in.
func (a *App) clock(deps Deps) (func() time.Time, error) {
	floor, err := a.core.Newest()
	if err != nil {
		return nil, err
	}
	now := deps.Now
	if now == nil {
		now = time.Now
	}
	return func() time.Time {
		if t := now(); t.After(floor) {
			return t
		}
		return floor
	}, nil
}

// HTTPURL is where the HTTP API serves TCP, "" if it does not.
func (a *App) HTTPURL() string { return a.url }

func (a *App) httpTLS(hosts []string) (*tls.Config, error) {
	if a.cfg.HTTPCert == "" {
		s, err := a.trust.ca.Server(hosts)
		if err != nil {
			return nil, fmt.Errorf("--http: %w", err)
		}
		return s.Optional(), nil
	}
	k := &keyPair{cert: a.cfg.HTTPCert, key: a.cfg.HTTPKey, log: a.log, turn: make(chan struct{}, 1)}
	p, err := k.read()
	if err != nil {
		return nil, err
	}
	k.now.Store(p)
	return &tls.Config{GetCertificate: k.get}, nil
}

// keyPair is a certificate and its key in two files, which somebody else renews.
type keyPair struct {
	cert, key string
	log       *zap.Logger
	turn      chan struct{} // holds a value while somebody looks at the files
	now       atomic.Pointer[pair]
}

// pair is what was in the files.
type pair struct {
	cert   *tls.Certificate
	times  [2]time.Time // of the files
	looked time.Time    // when they were last seen to be so
}

// lookEvery is how soon a certificate is used that was put in the place of another.
const lookEvery = 10 * time.Second

// get returns the certificate; one handshake every so often looks at the files for the others. Files
// that cannot be used change nothing but the log: while they are replaced they do not fit together.
func (k *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p := k.now.Load()
	if time.Since(p.looked) < lookEvery {
		return p.cert, nil
	}
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	default:
		return p.cert, nil
	}
	next := *p
	next.looked = time.Now()
	if times, err := k.times(); err != nil || times != p.times {
		fresh, err := k.read()
		if err != nil {
			k.log.Warn("the certificate of --http was not read again; the one before stays in use", zap.Error(err))
		} else {
			next = *fresh
		}
	}
	k.now.Store(&next)
	return next.cert, nil
}

func (k *keyPair) times() (t [2]time.Time, err error) {
	for i, path := range []string{k.cert, k.key} {
		info, err := os.Stat(path)
		if err != nil {
			return t, err
		}
		t[i] = info.ModTime()
	}
	return t, nil
}

func (k *keyPair) read() (*pair, error) {
	p := &pair{looked: time.Now()}
	var err error
	if p.times, err = k.times(); err != nil {
		return nil, fmt.Errorf("--http-cert, --http-key: %w", err)
	}
	if info, err := os.Stat(k.key); err == nil && info.Mode().Perm()&0o007 != 0 {
		return nil, fmt.Errorf("--http-key: everybody may use %s (mode %04o); chmod it to 0600 or 0640",
			k.key, info.Mode().Perm())
	}
	c, err := tls.LoadX509KeyPair(k.cert, k.key)
	if _, ok := errors.AsType[*fs.PathError](err); err != nil && !ok {
		err = fmt.Errorf("%s and %s: %w", k.cert, k.key, err)
	}
	if err != nil {
		return nil, fmt.Errorf("--http-cert, --http-key: %w", err)
	}
	p.cert = &c
	return p, nil
}
