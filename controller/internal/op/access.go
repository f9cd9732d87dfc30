package op

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/rootlist"
	"tandem.internal/shared/wire"
)

// Who belongs to the unit.
var (
	EnrollNode = define(Op[EnrollIn, view.Enrolment]{
		Name: "node.enroll", Route: "POST /v1/nodes/{node}/enroll", Role: Admin, Optional: true,
		About: "Makes a token with which a node joins, once. It is shown in this answer and nowhere else; " +
			"a new one takes the place of the one before.",
	})
	RevokeNode = define(Op[RevokeIn, view.Node]{
		Name: "node.revoke", Route: "POST /v1/nodes/{node}/revoke", Role: Admin, Optional: true,
		About: "Ends a node's session, its certificates and its open tokens, at once. To revoke again is no error.",
	})
	ForgetNodes = define(Op[Forget, Forgotten]{
		Name: "nodes.forget", Route: "POST /v1/nodes/forget", Role: Admin,
		About: "Takes nodes out of the unit, all that are named or none, with what the broker retains of them. " +
			"One that is online is a wrong-state. One that comes back is a new node; one that was revoked stays so.",
	})
	CertifyIdentity = define(Op[CertifyIn, view.Certificate]{
		Name: "identity.certify", Route: "POST /v1/identities/certify", Role: Admin,
		About: "Certifies the key of somebody who is not a node. What it had before does not count any more; " +
			"of a broker, the newest goes on counting.",
	})
	RevokeIdentity = define(Op[Disown, Disown]{
		Name: "identity.revoke", Route: "POST /v1/identities/revoke", Role: Admin,
		About: "Ends everything that somebody has who is not a node.",
	})
)

// The unit's signing keys.
var (
	ShowKeys = define(Op[None, view.Keys]{
		Name: "keys.list", Route: "GET /v1/keys", Role: View,
		About: "Lists the unit's signing keys, oldest first.",
	})
	RotateKeys = define(Op[RotateKey, view.Keys]{
		Name: "keys.rotate", Route: "POST /v1/keys/rotate", Role: Admin, Optional: true,
		About: "Announces a new signing key the first time, and has it sign the second time. " +
			"A wrong-state names the nodes that are in the way.",
	})
	RetireKeys = define(Op[RetireKey, view.Keys]{
		Name: "keys.retire", Route: "POST /v1/keys/retire", Role: Admin,
		About: "Takes a signing key off the list.",
	})
)

// The unit's CAs.
var (
	ShowCAs = define(Op[None, view.CAs]{
		Name: "ca.list", Route: "GET /v1/ca", Role: View,
		About: "Lists the unit's CAs that count, oldest first.",
	})
	RotateCAs = define(Op[RotateCA, view.CAs]{
		Name: "ca.rotate", Route: "POST /v1/ca/rotate", Role: Admin, Optional: true,
		About: "Announces a new CA the first time, and has it sign the second time. " +
			"A wrong-state names the nodes that are in the way.",
	})
	RetireCAs = define(Op[RetireCA, view.CAs]{
		Name: "ca.retire", Route: "POST /v1/ca/retire", Role: Admin,
		About: "Takes a CA off the list. A wrong-state names who still needs it.",
	})
	ExportCA = define(Op[ExportCAs, view.RootDraft]{
		Name: "ca.export", Route: "GET /v1/ca/export", Role: View,
		About: "Returns a list of the unit's CAs and signing keys for a root key to sign, away from the unit.",
	})
	ImportCA = define(Op[ImportCAs, view.CAs]{
		Name: "ca.import", Route: "POST /v1/ca/import", Role: Admin,
		About: "Keeps lists that a root key has signed, and tells nodes. A stale: a newer one is kept already. A " +
			"wrong-state: CAs or keys have changed since the export.",
	})
)

// Operators' tokens.
var (
	ListTokens = define(Op[None, Tokens]{
		Name: "tokens.list", Route: "GET /v1/tokens", Role: Admin,
		About: "Lists the operators' tokens, by name.",
	})
	CreateToken = define(Op[NewToken, view.Grant]{
		Name: "token.create", Route: "POST /v1/tokens", Role: Admin,
		About: "Makes an operator's token. It is shown in this answer and nowhere else.",
	})
	RedeemToken = define(Op[None, view.Grant]{
		Name: "token.redeem", Route: "POST /v1/tokens/redeem", Role: View,
		About: "Exchanges the token of a link, which is for this alone, for one of the same name, role and end, " +
			"once. A wrong-state: the token is not that of a link.",
	})
	ShowSelf = define(Op[None, view.Self]{
		Name: "self", Route: "GET /v1/self", Role: View,
		About: "Says who the caller is to the controller, and what it may do.",
	})
	RevokeToken = define(Op[TokenIn, view.Token]{
		Name: "token.revoke", Route: "POST /v1/tokens/{token}/revoke", Role: Admin,
		About: "Ends a token, and what is under way with it.",
	})
)

// EnrollIn names a node, and says what its token is good for.
type EnrollIn struct {
	NodeIn
	Enroll
}

// Enroll says how long a token counts, and for what.
type Enroll struct {
	TTL  string `json:"ttl,omitempty"`  // ISO 8601; a day if it is left out
	Type string `json:"type,omitempty"` // the only node type that the node may have; any if it is left out
}

// Life is TTL; 0: it was left out.
func (in *Enroll) Life() time.Duration { return positive(in.TTL) }

// Check judges the TTL and the type.
func (in *Enroll) Check() *wire.Error {
	if len(in.Type) > wire.MaxText || !utf8.ValidString(in.Type) || strings.ContainsFunc(in.Type, wire.Misleads) {
		return wire.New(wire.CodeInvalidArgument, "/type", fmt.Sprintf("%.80q is no node type", in.Type))
	}
	return checkTTL(in.TTL, "PT12H")
}

func checkTTL(ttl, example string) *wire.Error {
	if ttl != "" && positive(ttl) == 0 {
		return wire.New(wire.CodeInvalidArgument, "/ttl", "an ISO 8601 duration above zero is expected, like "+example)
	}
	return nil
}

// RevokeIn names a node, and says why.
type RevokeIn struct {
	NodeIn
	Revoke
}

// Revoke says why something ends.
type Revoke struct {
	Reason string `json:"reason,omitempty"` // for the journal, at most 256 bytes
}

// Check judges the reason's length.
func (in *Revoke) Check() *wire.Error {
	if len(in.Reason) > 256 {
		return wire.New(wire.CodeTooLarge, "/reason", "longer than 256 bytes")
	}
	return nil
}

// Forget names nodes that are not the unit's any more.
type Forget struct {
	Nodes  []string `json:"nodes"`            // their names, at most 1000
	Force  bool     `json:"force,omitzero"`   // also those that are online
	Reason string   `json:"reason,omitempty"` // for the journal, at most 256 bytes
}

// MaxForget bounds the nodes that are forgotten together.
const MaxForget = 1000

// Check judges the names, and the reason's length.
func (in *Forget) Check() *wire.Error {
	switch {
	case len(in.Nodes) == 0:
		return wire.New(wire.CodeMissing, "/nodes", "required")
	case len(in.Nodes) > MaxForget:
		return wire.New(wire.CodeTooLarge, "/nodes", fmt.Sprintf("at most %d names", MaxForget))
	case len(in.Reason) > 256:
		return wire.New(wire.CodeTooLarge, "/reason", "longer than 256 bytes")
	}
	for i, name := range in.Nodes {
		at := fmt.Sprintf("/nodes/%d", i)
		if !wire.ValidName(name) {
			return wire.New(wire.CodeInvalidArgument, at, fmt.Sprintf("%.80q is not a node ID", name))
		}
		if slices.Contains(in.Nodes[:i], name) {
			return wire.New(wire.CodeDuplicate, at, name+" is named twice")
		}
	}
	return nil
}

// Forgotten names the nodes that were forgotten.
type Forgotten struct {
	Nodes []string `json:"nodes"` // in the order in which they were named
}

// CertifyIn asks for a certificate.
type CertifyIn struct {
	view.Certification
}

// Bounds of a Certification.
const (
	maxCSR   = 16 << 10
	maxHosts = 32
)

// Check judges the sizes, and the hosts.
func (in *CertifyIn) Check() *wire.Error {
	if len(in.CSR) > maxCSR || len(in.Hosts) > maxHosts {
		return wire.New(wire.CodeTooLarge, "", "a request of at most 16 KiB, and at most 32 hosts, are expected")
	}
	for i, h := range in.Hosts {
		if strings.ContainsFunc(h, func(r rune) bool { return r <= ' ' || r > '~' }) || h == "" || len(h) > 253 {
			at := fmt.Sprintf("/hosts/%d", i)
			return wire.New(wire.CodeInvalidArgument, at, "a host name or an address is expected")
		}
	}
	return nil
}

// Disown names somebody who is not a node any more.
type Disown struct {
	Identity string `json:"identity"`         // "cloud/eu", "operator/ann" or "broker/b1"
	Reason   string `json:"reason,omitempty"` // for the journal, at most 256 bytes
}

// Check judges the lengths.
func (in *Disown) Check() *wire.Error {
	if len(in.Reason) > 256 || len(in.Identity) > 256 {
		return wire.New(wire.CodeTooLarge, "", "longer than 256 bytes")
	}
	return nil
}

// RotateKey says how a key is rotated.
type RotateKey struct {
	Force bool `json:"force,omitzero"` // switch although some nodes are not known to believe the new key
}

// RetireKey names a key.
type RetireKey struct {
	ID    string `json:"kid"`            // of the key that leaves the list
	Force bool   `json:"force,omitzero"` // although some nodes are not known to believe the key that signs
}

// Check judges the ID.
func (in *RetireKey) Check() *wire.Error {
	if !wire.ValidName(in.ID) {
		return wire.New(wire.CodeInvalidArgument, "/kid", "the ID of a key is expected; see GET /v1/keys")
	}
	return nil
}

// RotateCA says how a CA is rotated.
type RotateCA struct {
	Force bool `json:"force,omitzero"` // switch although some nodes are not known to believe the new CA
}

// RetireCA names a CA.
type RetireCA struct {
	ID    string `json:"id"`             // of the CA that leaves the list
	Force bool   `json:"force,omitzero"` // although somebody still needs it
}

// Check judges the ID.
func (in *RetireCA) Check() *wire.Error {
	if !wire.ValidName(in.ID) {
		return wire.New(wire.CodeInvalidArgument, "/id", "the ID of a CA is expected; see GET /v1/ca")
	}
	return nil
}

// ExportCAs says which root keys a list is for.
type ExportCAs struct {
	Roots []string `query:"root" json:"-"` // public root keys; those of the newest list if they are left out
}

// Check judges the keys.
func (in *ExportCAs) Check() *wire.Error {
	if len(in.Roots) == 0 {
		return nil
	}
	if _, err := rootlist.ParseRoots(in.Roots); err != nil {
		return wire.New(wire.CodeInvalidArgument, "/root", err.Error())
	}
	return nil
}

// ImportCAs brings lists that root keys have signed.
type ImportCAs struct {
	Lists []SignedList `json:"lists"` // the oldest first; the last one is to count
}

// SignedList is a list as it was exported, with its signature.
type SignedList struct {
	List      string `json:"list"`      // the text that was exported
	Signature string `json:"signature"` // as minisign and tandem root sign write it
}

// Check judges how many there are; the core judges the rest.
func (in *ImportCAs) Check() *wire.Error {
	if n := len(in.Lists); n == 0 || n > rootlist.MaxLists {
		return wire.New(wire.CodeInvalidArgument, "/lists", fmt.Sprintf("not 1 to %d lists", rootlist.MaxLists))
	}
	return nil
}

// NewToken describes a token.
type NewToken struct {
	Name string `json:"name"`          // by which the journal knows who did what
	Role string `json:"role"`          // "metrics", "view", "operate" or "admin"
	TTL  string `json:"ttl,omitempty"` // how long the token counts, ISO 8601; until it is revoked if it is left out
	Once bool   `json:"once,omitzero"` // it is for a link to the dashboard, /#once=TOKEN, which logs in once
	// of a link: how soon it has to be used, ISO 8601; while the token counts if it is left out
	Within string `json:"within,omitempty"`
}

// Life is TTL; 0: it was left out.
func (in *NewToken) Life() time.Duration { return positive(in.TTL) }

// Soon is Within; 0: it was left out.
func (in *NewToken) Soon() time.Duration { return positive(in.Within) }

// Check judges the TTL, how soon a link has to be used, and that it is not for a role that sees nothing of the page.
func (in *NewToken) Check() *wire.Error {
	switch {
	case in.Once && Role(in.Role) == Metrics:
		return wire.New(wire.CodeInvalidArgument, "/role", "with the role metrics nothing of the dashboard can be read")
	case in.Within != "" && !in.Once:
		return wire.New(wire.CodeInvalidArgument, "/within", "only a link has to be used soon: once is missing")
	case in.Within != "" && in.Soon() == 0:
		return wire.New(wire.CodeInvalidArgument, "/within", "an ISO 8601 duration above zero is expected, like PT30S")
	}
	return checkTTL(in.TTL, "P90D")
}

// TokenIn names an operator's token.
type TokenIn struct {
	Token string `path:"token" json:"-"` // name of the token
}
