package rollout

import (
	"time"

	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/shared/wire"
)

// Event is something that happened. Of what is given again after a restart the state is kept nowhere else.
type Event interface{ event() }

// Facts are what is known of nodes. A node that is not named keeps what it has.
type Facts []Fact

// Fact is what is known of a node, whatever its documents are.
type Fact struct {
	Node    string
	Type    string
	Labels  []string
	Revoked bool // or forgotten
	Online  bool
	Since   time.Time // of Online
	Boot    string    // that it is online with
	Behind  bool      // it has said something that has not arrived: it may be ill
	Health  Health    // the newest
	Heard   time.Time // when Health came; zero: not known
}

// Health is what a node says of itself. It is worth nothing in another boot than the one it was measured in.
type Health struct {
	Boot     string    // "": it has not said anything
	Troubles []Trouble // that there are now
	// Time by the node's monotonic clock since it was started, something was installed, or a trouble of that aspect
	// began or ended, whichever was last.
	Alerts, Checks, Restarts, Workloads time.Duration
	Revs                                map[wire.Kind]uint64 // what was installed all that time
}

// Trouble is one thing that is not good on a node.
type Trouble struct {
	Aspect plan.Aspect `json:"aspect"` // of health
	Name   string      `json:"name"`   // of the alert, check or workload slot
}

// Doc is what a node has of a kind. It is given after the Fact of that node.
type Doc struct {
	Node      string
	Kind      wire.Kind
	Installed Ref      // zero: nothing, its store is empty
	Failed    *Failure // the newest that it did not keep; nil: none since it installed something
}

// Ref is a document: its rev and the hash of its body.
type Ref struct {
	Rev  uint64
	Hash string
}

// Failure is a document that a node refused, failed at or rolled back.
type Failure struct {
	Ref
	Reason string // in words
}

// Target is what a node should get in a rollout: of a newcomer, or since its type or labels have changed.
type Target struct{ ID, Node, Hash string }

// Begin begins a rollout. Nodes have the hash of what they should get, those included that have it already.
type Begin struct {
	ID, Who, Salt string
	Kind          wire.Kind
	Plan          *plan.Plan // that plan.Parse returned
	Targets       map[string]string
}

// Pause, Resume, Abort and Supersede are orders. Supersede ends a rollout, since another one takes its place.
type (
	Pause  struct{ ID, Who, Reason string }
	Resume struct{ ID, Who string }
	Abort  struct {
		ID, Who string
		How     plan.OnAbort // "": as the plan says
		Now     bool         // take back outside of windows too
	}
	Supersede struct{ ID, By string }
)

// Opened says that the controller has started: nobody is known to be online. Documents whose nodes do not have them
// are to be published again.
type Opened struct{}

// Tick says that the time of NextDeadline has come.
type Tick struct{}

func (Facts) event()     {}
func (Doc) event()       {}
func (Target) event()    {}
func (Begin) event()     {}
func (Pause) event()     {}
func (Resume) event()    {}
func (Abort) event()     {}
func (Supersede) event() {}
func (Opened) event()    {}
func (Tick) event()      {}

// Out collects what steps decide. Records become durable first, in this order and with these numbers; then the
// effects happen.
type Out struct {
	Records []Record
	Effects []Effect
}

// Reset empties o for reuse.
func (o *Out) Reset() {
	clear(o.Records)
	clear(o.Effects)
	o.Records, o.Effects = o.Records[:0], o.Effects[:0]
}

// Effect is something that the caller does once the records are durable: documents of these hashes go to these nodes,
// with this rev or a higher one. Of a take-back the documents are each node's own last good ones. With Look nothing is
// issued: the nodes are to be asked how they are, since by now they may have passed.
type Effect struct {
	ID    string
	Rev   uint64
	Back  bool
	Look  bool
	Nodes []NodeHash
}

// NodeHash is a node and the hash of what it gets.
type NodeHash struct {
	Node string `json:"node"` // its name
	Hash string `json:"hash"` // of the body
}

// quiet returns for how long a node has been in good health, of the aspects that a plan names.
func (h *Health) quiet(aspects []plan.Aspect) time.Duration {
	least := time.Duration(1<<63 - 1)
	for _, a := range aspects {
		switch a {
		case plan.Alerts:
			least = min(least, h.Alerts)
		case plan.Checks:
			least = min(least, h.Checks)
		case plan.Restarts:
			least = min(least, h.Restarts)
		case plan.Workloads:
			least = min(least, h.Workloads)
		}
	}
	return least
}
