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
	"tandem.internal/controller/internal/bindings"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/shared/durable"
)

// httpDoor returns the TCP address (HOST:PORT) of the HTTP API, "" for none, and whether it serves TLS.
// It does where other machines can connect. On loopback, or with --insecure-listen, it does only if --http
// begins with https:// or a certificate is given.
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
		return "", false, fmt.Errorf("--http: %s can be reached from other machines, and tokens would cross the "+
			"network unencrypted; leave out http:// to serve TLS, or add --insecure-listen if the network is trusted",
			at)
	case scheme == "":
		secure = c.HTTPCert != "" || open && !c.Insecure
	case scheme != "http":
		return "", false, fmt.Errorf("--http: %q begins with neither https:// nor http://", c.HTTP)
	}
	return at, secure, nil
}

// httpOfCA reports whether the HTTP API serves TLS with a certificate of the unit's CA.
func (c *Config) httpOfCA() bool {
	_, secure, err := c.httpDoor()
	return err == nil && secure && c.HTTPCert == ""
}

// openDoors opens the listeners of the HTTP API and makes its handler.
func (a *App) openDoors(deps Deps, undo *[]func() error) error {
	clock, err := a.flooredClock(deps)
	if err != nil {
		return err
	}
	cfg := api.Config{Log: a.log}
	cfg.Tokens, err = tokens.Open(tokens.Config{Path: filepath.Join(a.cfg.StateDir, tokens.FileName), Now: clock,
		Steps: deps.Steps})
	if err != nil {
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
				host = h // it serves no other address
			}
		}
		a.url = scheme + reached(host, l)
		cfg.URL = a.url
		if secure && a.cfg.HTTPCert == "" {
			cfg.CA = a.trust.ca.Fingerprint().String()
		}
	}
	a.api = api.New(bindings.Core{Core: a.core}, cfg)
	return nil
}

// flooredClock returns a clock that shows the wall time, but never a time before the newest journal record: with a
// wall clock that starts in 1970, an expired token must not count.
func (a *App) flooredClock(deps Deps) (func() time.Time, error) {
	floor, err := a.core.Newest()
	if err != nil {
		return nil, err
	}
	return func() time.Time {
		if t := deps.Now(); t.After(floor) {
			return t
		}
		return floor
	}, nil
}

// HTTPURL is the URL of the HTTP API over TCP, "" if it serves none.
func (a *App) HTTPURL() string { return a.url }

// httpTLS returns the TLS configuration of the HTTP API: the certificate of --http-cert, or one of the unit's CA
// for hosts.
func (a *App) httpTLS(hosts []string) (*tls.Config, error) {
	if a.cfg.HTTPCert == "" {
		s, err := a.trust.ca.Server(hosts)
		if err != nil {
			return nil, fmt.Errorf("--http: %w", err)
		}
		return s.Optional(), nil
	}
	k := &keyPair{cert: a.cfg.HTTPCert, key: a.cfg.HTTPKey, log: a.log, reading: make(chan struct{}, 1)}
	p, err := k.read()
	if err != nil {
		return nil, err
	}
	k.current.Store(p)
	return &tls.Config{GetCertificate: k.get}, nil
}

// keyPair is a certificate and its key in two files. The files are read again when they change.
type keyPair struct {
	cert, key string
	log       *zap.Logger
	reading   chan struct{} // of size 1: holds a value while a handshake checks the files
	current   atomic.Pointer[pair]
}

// pair is the content of the two files when they were last read.
type pair struct {
	cert    *tls.Certificate
	times   [2]time.Time // modification times of the files
	checked time.Time    // when the files last had these modification times
}

// checkEvery is the least time between two checks of the files.
const checkEvery = 10 * time.Second

// get returns the certificate. At most every checkEvery, one handshake checks the files. If they cannot be
// used, get logs that and returns the certificate read before: while files are replaced they may not match.
func (k *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p := k.current.Load()
	if time.Since(p.checked) < checkEvery {
		return p.cert, nil
	}
	select {
	case k.reading <- struct{}{}:
		defer func() { <-k.reading }()
	default:
		return p.cert, nil
	}
	next := *p
	next.checked = time.Now()
	if times, err := k.times(); err != nil || times != p.times {
		fresh, err := k.read()
		if err != nil {
			k.log.Warn("the certificate of --http was not read again; the one before stays in use", zap.Error(err))
		} else {
			next = *fresh
		}
	}
	k.current.Store(&next)
	return next.cert, nil
}

// times returns the modification times of the two files.
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

// read reads the two files. A key that everybody may read is an error.
func (k *keyPair) read() (*pair, error) {
	p := &pair{checked: time.Now()}
	var err error
	if p.times, err = k.times(); err != nil {
		return nil, fmt.Errorf("--http-cert, --http-key: %w", err)
	}
	if info, err := os.Stat(k.key); err == nil && info.Mode().Perm()&0o007 != 0 {
		return nil, fmt.Errorf("--http-key: everybody may use %s (mode %04o); chmod it to 0600 or 0640",
			k.key, info.Mode().Perm())
	}
	cert, err := durable.ReadFile(k.cert, maxPEM)
	if err != nil {
		return nil, err
	}
	key, err := durable.ReadFile(k.key, maxPEM)
	if err != nil {
		return nil, err
	}
	c, err := tls.X509KeyPair(cert, key)
	if _, ok := errors.AsType[*fs.PathError](err); err != nil && !ok {
		err = fmt.Errorf("%s and %s: %w", k.cert, k.key, err)
	}
	if err != nil {
		return nil, fmt.Errorf("--http-cert, --http-key: %w", err)
	}
	p.cert = &c
	return p, nil
}
