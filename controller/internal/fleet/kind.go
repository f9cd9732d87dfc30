package fleet

import (
	"time"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/shared/wire"
)

// KindState is one document kind on one node.
type KindState struct {
	kind.Document

	// Known only while the controller runs.
	cached   cachedBody // what it gets now
	liveSeq  uint64     // newest report the node says it has sent in its current boot
	asked    bool       // its report was asked for, and the document was not published again since
	heardSeq uint64     // newest report, of Boot, that was heard and is not journaled
	heardAt  time.Time  // when it came
	progress any        // its detail, newer than Detail
	early    bool       // the newest report was of a boot that had not said that it is there
	since    wire.Heard // the newest beacon that it was proved with
	shows    string     // ID of the question for the signature of what it claims to have; "": none is open
	showAt   time.Time  // when it may be asked again
	shown    wire.Stamp // of the newest document that it has shown, or is believed to have
	doubted  wire.Stamp // of what it claimed, and did not show
	aim      aim        // what a rollout was told that it should get
}

func (n *Node) kind(k wire.Kind) *KindState {
	s := n.Kinds[k]
	if s == nil {
		s = &KindState{}
		n.Kinds[k] = s
	}
	return s
}

// as is the node as a kind sees it.
func (f *Fleet) as(n *Node, k wire.Kind) kind.Node {
	v := kind.Node{Name: n.Name, Up: n.Up, Since: n.Since, Revoked: f.isRevoked(n.Name), Info: n.Info,
		Alerts: n.Alerts}
	if s := n.Kinds[k]; s != nil {
		v.Document = &s.Document
		v.Detail, v.At = s.newest()
	}
	return v
}

// newest is the detail that was heard last, and when.
func (s *KindState) newest() (any, time.Time) {
	if s.progress != nil {
		return s.progress, s.heardAt
	}
	return s.Detail, s.At
}
