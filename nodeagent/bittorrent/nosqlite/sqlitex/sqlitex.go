// Package sqlitex is a part of package sqlite: nothing works here either.
package sqlitex

import sqlite "github.com/go-llsqlite/adapter"

// ExecScript fails with sqlite.ErrAbsent.
func ExecScript(*sqlite.Conn, string) error { return sqlite.ErrAbsent }

// Exec fails with sqlite.ErrAbsent.
func Exec(*sqlite.Conn, string, func(*sqlite.Stmt) error, ...any) error { return sqlite.ErrAbsent }
