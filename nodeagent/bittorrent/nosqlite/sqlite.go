// Package sqlite takes the place of github.com/go-llsqlite/adapter and the databases in C behind it: the store of
// resources knows which pieces it has. It has the names that the library for BitTorrent uses, and nothing works.
package sqlite

import "errors"

// ErrAbsent says that a database was asked for.
var ErrAbsent = errors.New("this program has no SQLite")

// Conn is never made.
type Conn struct{}

// Stmt is never made.
type Stmt struct{}

// OpenFlags have no effect.
type OpenFlags int

// OpenConn fails with ErrAbsent.
func OpenConn(string, OpenFlags) (*Conn, error) { return nil, ErrAbsent }

// Close fails with ErrAbsent.
func (*Conn) Close() error { return ErrAbsent }

// ColumnInt is 0.
func (*Stmt) ColumnInt(int) int { return 0 }
