package words

import (
	"fmt"
	"strings"

	"tandem.internal/controller/internal/phrase"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/rollout"
)

// causes say why a rollout was paused, unless somebody did it.
var causes = map[rollout.PauseCause]string{
	rollout.CauseBudget:   "more nodes have failed than may",
	rollout.CauseCanary:   "no node of the canary wave has passed",
	rollout.CauseTakeBack: "a node could not be taken back",
}

// rolled renders what happened to a rollout; "": what is not known.
func rolled(d record.RolloutData) string {
	text := ""
	switch r := d.Of().(type) {
	case rollout.BegunData:
		what := string(r.Kind)
		if d.Document != nil && d.Document.Element != "" {
			what += " " + d.Document.What()
		}
		text = fmt.Sprintf(" of %s begins: %s", what, phrase.Plural(len(r.Nodes), "node"))
		if r.Plan != nil {
			text += ", " + phrase.Plural(len(r.Plan.Waves), "wave")
		}
	case rollout.WaveOpenedData:
		text = fmt.Sprintf(": wave %d has %s", r.Wave+1, phrase.List(r.Nodes))
	case rollout.IssuedData:
		var nodes []string
		for _, n := range r.Nodes {
			nodes = append(nodes, n.Node)
		}
		text = ": issued to " + phrase.List(nodes)
	case rollout.SettledData:
		var nodes []string
		for _, n := range r.Nodes {
			nodes = append(nodes, phrase.Remark(n.Node+" "+string(n.Status), n.Reason))
		}
		text = ": " + phrase.List(nodes)
	case rollout.PausedData:
		why := r.Text
		if known := causes[r.Cause]; known != "" {
			why = known + ": " + phrase.List(r.Nodes)
		}
		text = phrase.Remark(" is paused"+phrase.By(r.Who), why)
	case rollout.ResumedData:
		text = " is resumed" + phrase.By(r.Who)
	case rollout.WavePassedData:
		text = fmt.Sprintf(": wave %d is over", r.Wave+1)
		if r.Empty {
			text += ", nobody was in it"
		}
	case rollout.RevertingData:
		text = ": nodes are to be taken back" + phrase.By(r.Who)
	case rollout.TakenBackData:
		var nodes []string
		for _, n := range r.Nodes {
			nodes = append(nodes, n.Node)
		}
		text = ": taken back: " + phrase.List(nodes)
	case rollout.EndedData:
		text = " is " + string(r.Phase) + phrase.By(r.Who+r.By)
	}
	if text == "" {
		return ""
	}
	return strings.TrimSpace(d.ID + text)
}
