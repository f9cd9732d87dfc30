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
	reissued time.Time  // when the node last knew more than was issued to it
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
func (n *Node) as(k wire.Kind) kind.Node {
	v := kind.Node{Name: n.Name, Up: n.Up, Since: n.Since, Info: n.Info, Alerts: n.Alerts}
	if s := n.Kinds[k]; s != nil {
		v.Document, v.Detail, v.At = &s.Document, s.Detail, s.At
		if s.progress != nil {
			v.Detail, v.At = s.progress, s.heardAt
		}
	}
	return v
}
