package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/bindings"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/door"
	"tandem.internal/shared/settings"
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
	cfg := api.Config{Log: a.log, Metrics: a.shown.Text, Answered: a.shown.Answered}
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
			cfg.CA = a.pins
		}
	}
	a.api = api.New(bindings.Core{Core: a.core, Notices: a.notices, Settings: a.cfg.shown()}, cfg)
	return nil
}

// shown are the settings as operators may see them.
func (c *Config) shown() (all []view.Setting) {
	for _, s := range settings.Show(c) {
		all = append(all, view.Setting(s))
	}
	return all
}

// pins are the fingerprints of the CAs that may vouch for the HTTP API, with commas between.
func (a *App) pins() string {
	var all []string
	for _, fp := range a.trust.ca.Listed().All {
		all = append(all, fp.String())
	}
	return strings.Join(all, ",")
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
	k, err := door.OpenKeyPair(a.cfg.HTTPCert, a.cfg.HTTPKey, "--http-cert, --http-key", a.log)
	if err != nil {
		return nil, err
	}
	return &tls.Config{GetCertificate: k.Get}, nil
}
