package words

import (
	"strconv"
	"strings"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// managed renders a change of a policy, of a property of a node, or of what is on offer; false: the entry is about
// something else.
func managed(e view.Entry) (text string, is bool) {
	switch wire.Kind(e.Kind) {
	case wire.KindPolicies:
		return read(e.Data, func(d record.PolicyData) string {
			switch {
			case d.Removed:
				text = "removed"
			case d.Back != 0:
				text = "rolled back to version " + strconv.FormatUint(d.Back, 10)
			case d.Document != nil:
				text = "applied"
			case d.Enabled != nil && *d.Enabled:
				text = "enabled"
			default:
				text = "disabled"
			}
			if d.AllNodes {
				text += ", for every node"
			}
			if d.Rollout != "" {
				text += ", by rollout " + d.Rollout
			}
			return "policy " + d.Name + " " + text
		})
	case record.KindProperties:
		return read(e.Data, func(d record.PropertyData) string {
			if d.Value == nil {
				return d.Name + " of " + d.Node + " unset"
			}
			return d.Name + " of " + d.Node + " is " + string(d.Value)
		})
	case record.KindReleases:
		return read(e.Data, func(d record.ReleaseData) string {
			if d.Removed {
				return "version " + d.Version + " of the agent is not on offer any more"
			}
			var archs []string
			for _, b := range d.Builds {
				archs = append(archs, b.Arch)
			}
			return "version " + d.Version + " of the agent is on offer for " + strings.Join(archs, ", ")
		})
	}
	return "", false
}

// status renders how far a node is with a policy.
func status(d *wire.PolicyStatus) string {
	text := d.Name + ": " + strings.ReplaceAll(string(d.State), "-", " ")
	if d.Version != "" {
		text += ", version " + d.Version
	}
	if d.DecidedBy != "" {
		text += ", policy " + d.DecidedBy + " decides"
	}
	return text
}
