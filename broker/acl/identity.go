package acl

import (
	"fmt"
	"strings"

	"tandem.internal/shared/topic"
)

// Role says which side of the wire a client speaks for.
type Role uint8

// The roles. The zero value may do nothing.
const (
	Anonymous  Role = iota // nothing at all
	Node                   // writes what one node reports, reads what that node should be
	Controller             // writes what nodes should be, reads the whole unit
	Cloud                  // submits into the inbox, reads the outbox
	Operator               // reads the whole unit, writes nothing
)

// String returns the role's name as it stands in a user name.
func (r Role) String() string {
	switch r {
	case Node:
		return "node"
	case Controller:
		return "controller"
	case Cloud:
		return "cloud"
	case Operator:
		return "operator"
	}
	return "anonymous"
}

// Identity is who a connected client is. Name is the node's ID, or tells one cloud client or
// operator from another; a controller has none, for a unit has one.
type Identity struct {
	Role Role
	Name string
}

// String returns the user name, and the client ID, that IdentityOf reads back: "node/n1",
// "cloud/eu", "operator/ann", "controller".
func (id Identity) String() string {
	if id.Name == "" {
		return id.Role.String()
	}
	return id.Role.String() + "/" + id.Name
}

// IdentityOf reads the identity that a client claims. The user name is "controller" or a role
// and a name, "node/n1", and the client ID must be the same text: the broker lets one client
// hold an ID, so no client can push another identity off the line. The claim is not proof;
// that is for whoever authenticates.
func IdentityOf(clientID, username string) (Identity, error) {
	if clientID != username {
		return Identity{}, fmt.Errorf("client ID %.80q is not the user name %.80q", clientID, username)
	}
	if username == "controller" {
		return Identity{Role: Controller}, nil
	}
	role, name, _ := strings.Cut(username, "/")
	if !topic.ValidName(name) {
		return Identity{}, fmt.Errorf("user name %.80q is neither \"controller\" nor a role and a name, like "+
			"\"node/n1\"", username)
	}
	for _, r := range []Role{Node, Cloud, Operator} {
		if role == r.String() {
			return Identity{Role: r, Name: name}, nil
		}
	}
	return Identity{}, fmt.Errorf("user name %.80q has an unknown role", username)
}
