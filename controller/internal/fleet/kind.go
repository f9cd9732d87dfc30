package fleet

import (
	"time"

	"tandem.internal/shared/duration"
	"tandem.internal/shared/wire"
)

// KindState is one document kind on one node.
type KindState struct {
	Desired *Doc          `json:"desired,omitempty"`
	Running *wire.DocRef  `json:"running,omitempty"`
	Last    *wire.Attempt `json:"last,omitempty"`
	Boot    string        `json:"boot,omitempty"` // of the newest report
	Seq     uint64        `json:"seq,omitempty"`  // of the newest report
	At      time.Time     `json:"at,omitzero"`    // when it came

	// Known only while the controller runs.
	liveSeq    uint64    // newest report the node says it has sent in its current boot
	asked      bool      // its report was asked for, and the document was not published again since
	heardSeq   uint64    // newest report, of Boot, that was heard and is not journaled
	heardAt    time.Time // when it came
	pushedBoot string    // a node in error was issued its document again in this boot
	reissued   time.Time // when the node last knew more than was issued to it
}

// Doc is one issued document; nodes that got the same body in the same issue share it.
type Doc struct {
	wire.DocRef
	Mode   wire.Mode         `json:"mode"`
	Within duration.Duration `json:"within,omitzero"` // with wire.ModeTry
	Issued time.Time         `json:"issued"`
}

// Same reports whether a document that was found somewhere is this one.
func (d *Doc) Same(o *wire.Desired) bool {
	return d.Stamp() == o.Stamp() && d.Hash == o.Hash && d.Version == o.Version && d.Mode == o.Mode
}

func (n *Node) kind(k wire.Kind) *KindState {
	s := n.Kinds[k]
	if s == nil {
		s = &KindState{}
		n.Kinds[k] = s
	}
	return s
}

// InStep reports whether the node runs what it should of this kind.
func (k *KindState) InStep() bool {
	d := k.Desired
	if d == nil {
		return true
	}
	if k.Last != nil && k.Last.Stamp() == d.Stamp() && k.Last.State == wire.StateTrying {
		return true
	}
	return k.Running != nil && k.Running.Stamp() == d.Stamp() && k.Running.Hash == d.Hash
}

// Settled reports whether the node has done with its newest document, well or not.
func (k *KindState) Settled() bool {
	d := k.Desired
	return d == nil || k.InStep() || k.Last != nil && k.Last.Stamp() == d.Stamp() && k.Last.State.Settled()
}
