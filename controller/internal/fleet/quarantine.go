package fleet

import (
	"fmt"
	"time"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// failedBefore says that the very document which is submitted has failed: nobody has confirmed its trial, or it is the
// installed one and nodes have failed at it. Nil: it has not, or somebody insists.
func (s *step) failedBefore(src *source, ev *Submit) *wire.Error {
	const insist = "; --force submits it all the same"
	g := src.GivenUp
	switch {
	case ev.Sub.Force:
	case s.again(src, ev):
		if err := s.broke(src); err != nil {
			return wire.New(wire.CodeQuarantined, "", fmt.Sprintf("version %s failed on node %s before: %s%s, and "+
				"retry sends it to those who failed", ev.Version, err.Node, err.Message, insist))
		}
	case g != nil && g.Hash == ev.Hash:
		why := "nobody confirmed its trial"
		if g.Rollout != "" {
			why = "its rollout " + g.Rollout + " was aborted"
		}
		if g.Error != nil {
			why += fmt.Sprintf(", and it failed on node %s: %s", g.Error.Node, g.Error.Message)
		}
		return wire.New(wire.CodeQuarantined, "", fmt.Sprintf("version %s failed before: %s (at %s)%s, or submit a "+
			"newer version", g.Version, why, g.At.UTC().Format(time.RFC3339), insist))
	}
	return nil
}

// broke returns the error of the first node that has failed at the newest document of a source, and counts.
func (s *step) broke(src *source) *wire.Error {
	counts := s.witnesses()
	for _, o := range s.madeFrom(src) {
		for _, n := range s.sorted() {
			k := n.Kinds[o.Name]
			if k == nil || !k.Broke() || !counts(n.Name) {
				continue
			}
			if k.Last.Error == nil {
				return ofNode(n.Name, wire.New(wire.CodeApplyFailed, "", "it gave no reason"))
			}
			return ofNode(n.Name, k.Last.Error)
		}
	}
	return nil
}

// stillGivenUp is what remains of a document that was given up when another one is accepted: nothing, if that is the
// same or a newer version.
func stillGivenUp(g *kind.GivenUp, d *record.Verdict) *kind.GivenUp {
	if g == nil {
		return nil
	}
	if c, err := unitconfig.Compare(d.Version, g.Version); err != nil || c >= 0 {
		return nil
	}
	return g
}
