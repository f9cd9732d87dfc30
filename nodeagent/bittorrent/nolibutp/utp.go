// Package utp takes the place of github.com/anacrolix/go-libutp, which is written in C++: uTP is switched off. It has
// the names that the library for BitTorrent uses, and nothing works: no socket can be made.
package utp

import (
	"context"
	"errors"
	"net"
)

// ErrAbsent says that uTP was asked for.
var ErrAbsent = errors.New("this program has no uTP")

// Socket is never made.
type Socket struct{ net.PacketConn }

// Option has no effect.
type Option struct{}

// FirewallCallback is never called.
type FirewallCallback func(net.Addr) bool

// NewSocket fails with ErrAbsent.
func NewSocket(_, _ string, _ ...Option) (*Socket, error) { return nil, ErrAbsent }

// WithLogger has no effect.
func WithLogger(any) Option { return Option{} }

// SetSyncFirewallCallback has no effect.
func (*Socket) SetSyncFirewallCallback(FirewallCallback) {}

// Accept fails with ErrAbsent.
func (*Socket) Accept() (net.Conn, error) { return nil, ErrAbsent }

// Addr is nil.
func (*Socket) Addr() net.Addr { return nil }

// DialContext fails with ErrAbsent.
func (*Socket) DialContext(_ context.Context, _, _ string) (net.Conn, error) { return nil, ErrAbsent }
