package fetch

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"tandem.internal/nodeagent/internal/fetch/plan"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// NewControllerClient returns the HTTP client for the artefacts of the node's controller: addresses with the host
// jointoken.ServerName. conf has the node's certificate, and trusts the unit's controller only; at is where the join
// door is, HOST:PORT, asked for each connection.
func NewControllerClient(conf *tls.Config, at func() (string, error)) *http.Client {
	dial := &net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				addr, err := at()
				if err != nil {
					return nil, err
				}
				return dial.DialContext(ctx, network, addr)
			},
			TLSClientConfig:        conf,
			TLSHandshakeTimeout:    15 * time.Second,
			ResponseHeaderTimeout:  30 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			DisableKeepAlives:      true,
			DisableCompression:     true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ofController reports whether an address is one of the node's controller.
func ofController(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "https" && u.Hostname() == jointoken.ServerName
}

// clientFor returns the client for an address.
func (s *Store) clientFor(address string) (*http.Client, error) {
	if !ofController(address) {
		return s.Client, nil
	}
	if s.Controller == nil {
		return nil, Passing(wire.CodeNotAllowed, "only a node that has joined fetches from its controller")
	}
	return s.Controller, nil
}

// maxLater is the longest that the controller may have a node wait.
const maxLater = time.Hour

// later is the failure of a request that the controller has told to come back, in its place among others; nil: it has
// not. The part that is there is kept, and nobody is blamed.
func later(resp *http.Response) error {
	if !ofController(resp.Request.URL.String()) ||
		resp.StatusCode != http.StatusServiceUnavailable && resp.StatusCode != http.StatusTooManyRequests {
		return nil
	}
	seconds, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 32)
	if err != nil {
		return nil
	}
	wait := max(min(time.Duration(seconds)*time.Second, maxLater), time.Second)
	return &failure{kind: plan.Later, code: wire.CodeUnavailable, after: wait,
		why: fmt.Sprintf("waiting for the controller, which sends to other nodes now: %v", wait)}
}
