package policy

import (
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// pick returns the release that a policy wants of a node that runs a version: nil and "" if it has what is wanted,
// nil and a reason if that is not on offer. Releases are sorted, the lowest version first.
func pick(want *wire.AgentUpgrade, offers []wire.AgentRelease, running string) (*wire.AgentRelease, string) {
	if want.Auto || want.Version == wire.VersionCurrent {
		if len(offers) == 0 {
			return nil, "no version of the agent is on offer for this node"
		}
		newest := &offers[len(offers)-1]
		if c, ok := compare(newest.Version, running); ok && c <= 0 && (c == 0 || !want.Downgrade) {
			return nil, ""
		}
		return newest, ""
	}
	c, ok := compare(running, want.Version)
	if ok && (c == 0 || c > 0 && !want.Downgrade) {
		return nil, ""
	}
	for i := range offers { // the version itself, or else the lowest above it
		c, ok := compare(offers[i].Version, want.Version)
		if ok && (c == 0 || c > 0 && !want.Downgrade) {
			return &offers[i], ""
		}
	}
	if want.Downgrade {
		return nil, "version " + want.Version + " of the agent is not on offer for this node"
	}
	return nil, "no version of the agent from " + want.Version + " on is on offer for this node"
}

// compare compares two versions; one that is no semantic version, as of an agent that somebody has built without one,
// compares with nothing: not ok.
func compare(a, b string) (int, bool) {
	c, err := unitconfig.Compare(a, b)
	return c, err == nil
}
