package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/view"
)

// basis is what a sentence stands on: where a fact is known from, and what would change it, which goes on after
// "until".
type basis struct {
	level           view.Level
	source, changes string
}

// because makes a sentence; format is that of its text.
func (b basis) because(at time.Time, format string, a ...any) view.Because {
	return view.Because{Text: fmt.Sprintf(format, a...), Level: b.level, Source: b.source, Changes: b.changes, At: at}
}

// with returns b with words of its texts replaced: pairs of what stands there, in capitals, and what it is.
func (b basis) with(pairs ...string) basis {
	r := strings.NewReplacer(pairs...)
	b.source, b.changes = r.Replace(b.source), r.Replace(b.changes)
	return b
}

// worstFirst orders sentences by their levels; of one level they stay in order.
func worstFirst(all []view.Because) []view.Because {
	slices.SortStableFunc(all, func(a, b view.Because) int { return cmp.Compare(urgency(a.Level), urgency(b.Level)) })
	return all
}

// levels of findings.
var levels = map[string]view.Level{
	view.FindingGood: view.LevelInfo, view.FindingBad: view.LevelError, view.FindingWaits: view.LevelWarning,
	view.FindingNote: view.LevelInfo,
}

// telling is how a finding becomes a sentence: what goes before its text, and what that stands on.
type telling struct{ before, source, changes string }

// findingsTold says it of every finding about a slot or a policy.
var findingsTold = map[string]telling{
	"set":           {"the set of workloads is ", "the journal: the newest set", "another set is applied"},
	"configuration": {"its configuration is ", "the set of workloads", "another set is applied"},
	"limits":        {"its limits are ", "the set of workloads", "another set is applied"},
	"stopped":       {"it was stopped ", "the journal: an order", "somebody starts it: tandem workload start SLOT"},
	"node":          {"the node ", "the node's presence at the broker", "it connects or goes, or its identity changes"},
	"document":      {"its document ", "the node's report", "the node takes another one, or a newer one is issued"},
	"resource":      {"its resource ", "the node's report of workloads", "it is fetched, or the set names another"},
	"needs":         {"it waits for ", "the node's report of workloads", "these slots are so far"},
	"hook":          {"it is at its hook: ", "the node's report of workloads", "the hook ends"},
	"step":          {"it is at the step ", "the node's report of workloads", "the step is done"},
	"error":         {"the node says: ", "the node's report", "the node reports that it is mended"},
	"process":       {"its process ", "the node's report of workloads", "it ends, or a set or an order changes it"},
	"exit":          {"its process has ended before: ", "the node's report of workloads", "it ends again"},
	"next":          {"", "the node's report of workloads", "its pause is over"},

	"policy":      {"the policy is of ", "the journal: its newest change", "the policy is changed"},
	"rollout":     {"the rollout ", "the journal: the rollout's records", "the rollout goes on, or ends"},
	"pattern":     {"the pattern ", "the policy, and what the node tells of itself", "either of them changes"},
	"constraint":  {"the policy wants ", "the policy, and what the node tells of itself", "either of them changes"},
	"of the node": {"the node wants ", "what the node tells of itself, and the policy", "either of them changes"},
	"decides":     {"", "the journal: when each was enabled", "the other one is disabled"},
	"state":       {"what has become of it: ", "the node's report of policies", "the node reports anew"},
	"rollback":    {"its way back: ", "the node's report of policies", "the node reports anew"},
}

// sentences makes them of findings, the worst first.
func sentences(all []view.Finding, slot string) []view.Because {
	var out []view.Because
	for _, f := range all {
		out = append(out, sentence(&f, slot))
	}
	return worstFirst(out)
}

func sentence(f *view.Finding, slot string) view.Because {
	t := findingsTold[f.About]
	text := t.before + f.Text
	switch {
	case f.About == "document" && strings.HasPrefix(f.Text, "none "):
		text = "no document" + strings.TrimPrefix(f.Text, "none")
	case f.About == "set" && !strings.HasPrefix(f.Text, "version"),
		f.About == "node" && strings.HasPrefix(f.Text, "what "):
		text = f.Text
	case f.About == "constraint" || f.About == "of the node":
		text += map[string]string{view.FindingGood: ", which is so", view.FindingBad: ", which is not so"}[f.State]
	}
	return basis{levels[f.State], t.source, t.changes}.with("SLOT", slot).because(f.At, "%s", text)
}
