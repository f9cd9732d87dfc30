// Package websocket takes the place of github.com/gorilla/websocket in all of Tandem's programs. The libraries for MQTT
// and BitTorrent import that for a transport that Tandem does not have: package link opens every connection itself, by
// TCP, TLS or a Unix socket; the broker listens on nothing else; the full agent has WebTorrent switched off. The agent
// is 0.15 MB smaller by it (shared/docs/adr/019-an-agent-without-inlining.md).
//
// It has the names that these libraries use, and nothing works: every attempt to open a connection returns ErrAbsent.
package websocket

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// ErrAbsent says that a WebSocket was asked for.
var ErrAbsent = errors.New("this program has no WebSockets")

// The types of messages, as RFC 6455 numbers them.
const (
	TextMessage   = 1
	BinaryMessage = 2
	PingMessage   = 9
)

// Conn would be a connection. There is none.
type Conn struct{ net.Conn }

// NextReader returns ErrAbsent.
func (*Conn) NextReader() (messageType int, r io.Reader, err error) { return 0, nil, ErrAbsent }

// ReadMessage returns ErrAbsent.
func (*Conn) ReadMessage() (messageType int, data []byte, err error) { return 0, nil, ErrAbsent }

// WriteMessage returns ErrAbsent.
func (*Conn) WriteMessage(int, []byte) error { return ErrAbsent }

// UnderlyingConn returns nil.
func (c *Conn) UnderlyingConn() net.Conn { return c.Conn }

// Dialer would open connections.
type Dialer struct {
	Proxy             func(*http.Request) (*url.URL, error)
	NetDialContext    func(ctx context.Context, network, addr string) (net.Conn, error)
	TLSClientConfig   *tls.Config
	HandshakeTimeout  time.Duration
	EnableCompression bool
	Subprotocols      []string
	ReadBufferSize    int
	WriteBufferSize   int
}

// DefaultDialer is an empty Dialer.
var DefaultDialer = &Dialer{}

// Dial returns ErrAbsent.
func (*Dialer) Dial(string, http.Header) (*Conn, *http.Response, error) { return nil, nil, ErrAbsent }

// Upgrader would accept connections.
type Upgrader struct {
	Subprotocols []string
	CheckOrigin  func(*http.Request) bool
}

// Upgrade answers 501 and returns ErrAbsent.
func (*Upgrader) Upgrade(w http.ResponseWriter, _ *http.Request, _ http.Header) (*Conn, error) {
	http.Error(w, ErrAbsent.Error(), http.StatusNotImplemented)
	return nil, ErrAbsent
}
