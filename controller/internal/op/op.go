// Package op owns what a client and the controller agree on: the shapes of requests and answers that
// are not views of the unit, the roles, and the names of the doors. It has no behaviour beyond judging a
// request. Fields are only ever added.
//
//tandem:pure
package op

import (
	"slices"

	"tandem.internal/shared/wire"
)

// DefaultSocket is where the controller listens and the CLI looks unless told otherwise.
const DefaultSocket = "/run/tandem/control.sock"

// UserHeader carries the name of the person at the CLI. It is a claim, not a proof: what the
// journal says first is what the kernel or the token said.
const UserHeader = "Tandem-User"

// Role is what a token may do. Each role may do what the ones before it may.
type Role string

// The roles.
const (
	Anybody Role = ""        // no token needed: health and the dashboard's files, which hold nothing of the unit
	View    Role = "view"    // read
	Operate Role = "operate" // and submit, confirm, roll back, restore
	Admin   Role = "admin"   // and tokens, nodes' and others' certificates, keys, copies of the journal
)

// Roles lists them, the least first.
var Roles = []Role{View, Operate, Admin}

// Valid reports whether a token can have the role.
func (r Role) Valid() bool { return slices.Contains(Roles, r) }

// May reports whether a token with this role may do what needs another.
func (r Role) May(need Role) bool {
	return r.Valid() && need.Valid() && slices.Index(Roles, r) >= slices.Index(Roles, need)
}

// Problem is the body of every answer that is not a 2xx. A refused submission has more fields: those
// of view.Result.
type Problem struct {
	Error *wire.Error `json:"error"` // what is wrong
}
