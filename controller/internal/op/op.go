// Package op owns what a client and the controller agree on: one table of operations, each with its
// route, its role, and the types of its input and its answer. The controller's handlers, the client's
// calls, the API document (OpenAPI) and the JSON of the CLI follow from it. The operations about documents
// are made for each source (VerbsOf); those that a kind has besides are in its folder.
//
// An operation's input is a struct. Its fields come from the path, the query, headers and the body:
//
//	Node    string        `path:"node" is:"name" json:"-"`     // a part of the route
//	After   uint64        `query:"after" max:"9" json:"-"`     // a parameter; absent is zero
//	Offset  uint64        `header:"Upload-Offset" json:"-"`    // a header
//	Reason  string        `json:"reason"`                      // a member of the body, which is JSON
//	Text    []byte        `body:"application/json" json:"-"`   // the whole body as it is
//
// Parameters are strings, booleans (1 or 0), numbers, ISO 8601 durations and lists of strings. Further
// tags: is:"name" (the name of a node), is:"pointer" (RFC 6901), is:"version" (semantic) or is:"json"; need:"yes"
// (required); min, max; empty:"…" (it must not be given without a value; what to do instead). Rules between fields are
// in the method Check. Whoever reads a request checks the query, the path, the headers, the body, and then calls Check.
// The body of a PATCH is read while it comes, by what does the operation.
//
// The package judges requests and knows no HTTP beyond the names of routes. Fields are only ever added.
//
//tandem:pure
package op

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"tandem.internal/shared/wire"
)

// DefaultSocket is where the controller listens and the CLI looks unless told otherwise.
const DefaultSocket = "/run/tandem/control.sock"

// KeepAlive is how often a stream in which nothing happens gets a blank line.
const KeepAlive = 15 * time.Second

// UserHeader carries the name of the person at the CLI. It is a claim, not a proof: what the
// journal says first is what the kernel or the token said.
const UserHeader = "Tandem-User"

// Role is what a token may do. Each role may do what the ones before it may.
type Role string

// The roles.
const (
	Anybody Role = ""        // no token needed: health and the dashboard's files, which hold nothing of the unit
	Metrics Role = "metrics" // read the figures of GET /metrics, in which no node is named, and nothing else
	View    Role = "view"    // and read all the rest
	Operate Role = "operate" // and submit, confirm, roll back, restore
	Admin   Role = "admin"   // and tokens, nodes' and others' certificates, keys, copies of the journal
)

// Roles lists them, the least first.
var Roles = []Role{Metrics, View, Operate, Admin}

// Valid reports whether r is a role of tokens.
func (r Role) Valid() bool { return slices.Contains(Roles, r) }

// May reports whether r may do what needs at least that role. Who has no role may do nothing.
func (r Role) May(need Role) bool {
	return r.Valid() && need.Valid() && slices.Index(Roles, r) >= slices.Index(Roles, need)
}

// Form is how an answer looks.
type Form int

// The forms.
const (
	JSON    Form = iota // one value
	Verdict             // a view.Result: status 400 or 409 with a refusal
	Raw                 // a document as it was submitted: Out is []byte
	Stream              // lines of Out, application/x-ndjson, that may have no end
	File                // bytes of the operation's Type; cut off if something fails on the way
	Probe               // one value, for whoever asks; any query is ignored
)

// None is the input of an operation that takes nothing, and the answer of one that has no type.
type None struct{}

// Op is an operation: it takes an In and answers with an Out, or with lines of it.
type Op[In, Out any] struct {
	Name     string // of the operation, for ever: "nodes.list"
	Route    string // method and path: "GET /v1/nodes/{node}"
	Role     Role   // the least that a token needs; whoever comes by the unix socket may do everything
	About    string // what it does, in sentences; the first is a summary
	When     string // parameter that chooses this operation among those of its route; "": the one without
	Form     Form
	Type     string   // content type of a File
	Optional bool     // a body that is left out is {}; the members that Check demands are missing then
	Long     bool     // the answer takes long: it counts as a stream, of which there are only so many at once
	Without  []string // parameters of In that this operation does not have
}

// Spec is an operation without its types as parameters.
type Spec struct {
	Op[None, None]
	In, Out reflect.Type
}

// Spec returns o without its types as parameters.
func (o Op[In, Out]) Spec() Spec {
	return Spec{Op[None, None](o), reflect.TypeFor[In](), reflect.TypeFor[Out]()}
}

// Method is the HTTP method of the route.
func (s Spec) Method() string {
	method, _, _ := strings.Cut(s.Route, " ")
	return method
}

// Path is the path of the route, with parts in braces: "/v1/nodes/{node}".
func (s Spec) Path() string {
	_, path, _ := strings.Cut(s.Route, " ")
	return path
}

// table has the operations that are about no source and of no kind, in the order of the files of this package.
var table []Spec

// All returns every operation but for those of sources and kinds, which kind.Set has.
func All() []Spec { return slices.Clone(table) }

func define[In, Out any](o Op[In, Out]) Op[In, Out] {
	table = append(table, o.Spec())
	return o
}

// Checker is an input with rules between its fields.
type Checker interface {
	// Check returns nil if the rules hold.
	Check() *wire.Error
}

// Problem is the body of every answer that is not a 2xx. A refused submission has more fields: those
// of view.Result.
type Problem struct {
	Error *wire.Error `json:"error"` // what is wrong
}
