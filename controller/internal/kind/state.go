package kind

import (
	"fmt"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/wire"
)

// State is how the unit stands with one source: the same for every source.
type State struct {
	State     string          `json:"state"` // Absent, Installed or Failed
	Version   string          `json:"version,omitempty"`
	Hash      string          `json:"hash,omitempty"`   // of the submitted document
	Lenient   bool            `json:"lenient,omitzero"` // see record.Verdict
	Rev       uint64          `json:"rev,omitempty"`    // of its newest issue to all, or else of its acceptance
	Since     time.Time       `json:"since,omitzero"`
	Who       string          `json:"who,omitempty"`
	Error     *wire.Error     `json:"error,omitempty"`
	Trial     *Trial          `json:"trial,omitempty"`
	Attempted *view.Attempted `json:"attempted,omitempty"`
	// the newest trial that was not confirmed, unless it or a newer version was accepted since
	GivenUp *GivenUp `json:"givenUp,omitempty"`
	Rollout *Rollout `json:"rollout,omitempty"` // that goes on; nil: none does
}

// Rollout is a document that a rollout brings to the nodes, instead of the installed one.
type Rollout = record.RolledOut

// Rolled is what a rollout that goes on brings of a source.
type Rolled struct {
	Rollout
	Content Content                // nil: it is damaged
	Back    bool                   // nodes are taken back
	Has     func(node string) bool // the node should have it by now
}

// Version is an accepted document of a source.
type Version = record.Version

// GivenUp is a document whose trial nobody has confirmed, or whose rollout was aborted after nodes had failed at it.
type GivenUp struct {
	Version string      `json:"version"`
	Hash    string      `json:"hash"`
	Error   *wire.Error `json:"error,omitempty"`   // of a node that has failed at it
	Rollout string      `json:"rollout,omitempty"` // ID of the rollout that was aborted
	At      time.Time   `json:"at"`
}

// The states of a source.
const (
	Absent    = "absent"
	Installed = "installed"
	Failed    = "failed"
)

// Trial is a document that its nodes try until the deadline.
type Trial struct {
	Version  string            `json:"version"`
	Hash     string            `json:"hash"`
	Lenient  bool              `json:"lenient,omitzero"`
	Who      string            `json:"who,omitempty"`
	Rev      uint64            `json:"rev"`
	Deadline time.Time         `json:"deadline"`
	Within   duration.Duration `json:"within"`
}

// View returns the trial as operators see it; nil for nil.
func (t *Trial) View() *view.Trial {
	if t == nil {
		return nil
	}
	return &view.Trial{Version: t.Version, Rev: t.Rev, Deadline: t.Deadline}
}

// Document is one kind of documents on one node: what it should have, and what it said.
type Document struct {
	Desired *Doc `json:"desired,omitempty"`
	// IssuedBoot is the node's, as far as it was known, when Desired was issued.
	IssuedBoot string `json:"issuedBoot,omitempty"`
	// Before is the hash of the source's document that Running was made of; "": the same as Desired.
	Before  string        `json:"before,omitempty"`
	Running *wire.DocRef  `json:"running,omitempty"`
	Last    *wire.Attempt `json:"last,omitempty"`
	Boot    string        `json:"boot,omitempty"` // of the newest report
	Seq     uint64        `json:"seq,omitempty"`  // of the newest report
	At      time.Time     `json:"at,omitzero"`    // when it came
	Detail  any           `json:"-"`              // of the newest report that had one; see Kind.Detail
}

// Doc is one issued document; nodes that got the same body in the same issue share it.
type Doc struct {
	wire.DocRef
	Mode   wire.Mode         `json:"mode"`
	Within duration.Duration `json:"within,omitzero"` // with wire.ModeTry
	Issued time.Time         `json:"issued"`
	// Of is the hash of the source's document that it was made of; "": of none that is submitted whole, or not known.
	Of string `json:"of,omitempty"`
}

// Same reports whether a document that was found somewhere is this one.
func (d *Doc) Same(o *wire.Desired) bool {
	return d.Stamp() == o.Stamp() && d.Hash == o.Hash && d.Version == o.Version && d.Mode == o.Mode
}

// Fork returns how the node contradicts what was issued to it: under the stamp of its newest document it names
// another version or hash. Nil: it does not.
func (k *Document) Fork() *wire.Error {
	d := k.Desired
	if d == nil {
		return nil
	}
	named := func(stamp wire.Stamp, version, hash string) *wire.Error {
		if stamp != d.Stamp() || version == d.Version && hash == d.Hash {
			return nil
		}
		text := fmt.Sprintf("the node names the version %s for document (%d, %d), which is %s", version, d.Epoch, d.Rev,
			d.Version)
		if version == d.Version {
			text = fmt.Sprintf("the node names another hash for document (%d, %d)", d.Epoch, d.Rev)
		}
		return wire.New(wire.CodeFork, "", text)
	}
	var err *wire.Error
	if r := k.Running; r != nil {
		err = named(r.Stamp(), r.Version, r.Hash)
	}
	if l := k.Last; l != nil && err == nil {
		err = named(l.Stamp(), l.Version, l.Hash)
	}
	return err
}

// Drifted reports whether the node has put its newest document in place and finds something else there.
func (k *Document) Drifted() bool {
	l := k.Last
	return k.Desired != nil && l != nil && l.Stamp() == k.Desired.Stamp() &&
		(l.State == wire.StateInstalled || l.State == wire.StateTrying) &&
		l.Error != nil && l.Error.Code == wire.CodeDrift
}

// InStep reports whether the node runs what it should of this kind.
func (k *Document) InStep() bool {
	d := k.Desired
	if d == nil {
		return true
	}
	if k.Fork() != nil || k.Drifted() {
		return false
	}
	trying := k.Last != nil && k.Last.Stamp() == d.Stamp() && k.Last.State == wire.StateTrying
	return trying || k.Running != nil && k.Running.Stamp() == d.Stamp()
}

// Settled reports whether the node has done with its newest document, well or not.
func (k *Document) Settled() bool {
	d := k.Desired
	return d == nil || k.InStep() || k.Last != nil && k.Last.Stamp() == d.Stamp() && k.Last.State.Settled() ||
		k.Fork() != nil
}

// Failed reports whether the node's newest attempt at the newest document went wrong, or is told of as one at
// another document.
func (k *Document) Failed() bool {
	return k.Fork() != nil || k.Desired != nil && k.Last != nil && k.Last.Stamp() == k.Desired.Stamp() &&
		k.Last.State.Settled() && k.Last.State != wire.StateInstalled
}

// Broke reports whether the newest document went wrong on the node while it was applied, or on trial. What was rejected
// before anything was touched did not.
func (k *Document) Broke() bool {
	return k.Failed() && k.Last != nil && (k.Last.State == wire.StateFailed || k.Last.State == wire.StateRolledBack)
}

// Newest is the newest stamp that the node has reported anything of.
func (k *Document) Newest() wire.Stamp {
	newest := wire.Stamp{}
	if k.Running != nil {
		newest = k.Running.Stamp()
	}
	if k.Last != nil && k.Last.Stamp().Compare(newest) > 0 {
		newest = k.Last.Stamp()
	}
	return newest
}

// View returns the document as operators see it.
func (k *Document) View() view.Document {
	d := view.Document{Running: k.Running, Last: k.Last, InSync: k.InStep(), Error: k.Fork(), ReportedAt: k.At}
	if k.Desired != nil {
		d.Desired = &view.Desired{DocRef: k.Desired.DocRef, Mode: k.Desired.Mode, Issued: k.Desired.Issued}
	}
	return d
}

// Node is one node as a kind sees it.
type Node struct {
	Name     string
	Up       bool
	Since    time.Time      // of Up
	Revoked  bool           // nothing of it counts any more
	Info     *wire.NodeInfo // nil while it is not known
	Alerts   []view.Alert   // raised, the oldest first
	Document *Document      // of the kind that was asked for; nil: it has none and said nothing of it
	Detail   any            // the newest that it said, also if that was not journaled; nil: nothing
	At       time.Time      // when it said so
}

// Type returns the node's type, "" while it has not told.
func (n Node) Type() string {
	if n.Info == nil {
		return ""
	}
	return n.Info.Type
}

// Unit is what a kind may ask when something is shown.
type Unit interface {
	// Each calls fn for every node that was ever heard of, in no order.
	Each(kind wire.Kind, fn func(Node))
	// Node returns one; false: it was never heard of.
	Node(kind wire.Kind, name string) (Node, bool)
	// State returns how the unit stands with a source.
	State(source wire.Kind) State
	// Content returns what is installed of a source, nil if nothing is.
	Content(source wire.Kind) Content
	// Rolled returns what a rollout that goes on brings of a source; nil: none does.
	Rolled(source wire.Kind) *Rolled
	// Artefact returns the size of an artefact in the controller's store; false: it is not there.
	Artefact(digest string) (size int64, there bool)
	// Damage returns why the installed document of a source, or that on trial, cannot be read; nil: it can.
	Damage(source wire.Kind) *wire.Error
	// Progress returns how far the nodes have come with their documents of a kind.
	Progress(kind wire.Kind) view.Progress
}
