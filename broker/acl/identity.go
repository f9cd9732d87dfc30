package acl

import (
	"fmt"
	"strings"

	"tandem.internal/shared/topic"
)

// Role is what a client is in the unit.
type Role uint8

// The roles. Anonymous, the zero value, may do nothing.
const (
	Anonymous  Role = iota
	Node            // writes one node's reports, reads that node's documents and requests
	Controller      // writes documents, requests and the beacon, reads the whole unit
	Cloud           // submits into the inbox, reads the outbox
	Operator        // reads the whole unit, writes nothing
)

// String returns the role's name in user names.
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

// Identity identifies a connected client. Name is the ID of a node, or the name of a cloud client or
// operator; it is empty for the controller, because a unit has only one.
type Identity struct {
	Role Role
	Name string
}

// String returns the user name and client ID of the identity: "node/n1", "cloud/eu", "operator/ann", "controller".
func (id Identity) String() string {
	if id.Name == "" {
		return id.Role.String()
	}
	return id.Role.String() + "/" + id.Name
}

// IdentityOf returns the identity that a client claims. The caller has to authenticate it. The user name is
// "controller", or a role and a name such as "node/n1". The client ID must be equal: a new session ends the one with
// the same client ID, so a client can end only sessions of its own identity.
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
