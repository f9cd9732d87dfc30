// Package alert decides when a node's measurements are worth an alert: it takes the alert rules of
// the applied configuration (seed 000, Alert Rules) and samples, and says when an alert is raised,
// continues and falls. It also reads and writes recorded samples, and replays rules over them.
//
// The package is pure. A State is a value; Step takes it from one event to the next and says, as
// effects, what the shell must do. Time comes in with each event; nothing happens between two
// samples, so there is no deadline to wait for.
//
// It guarantees that every raise that was sent is followed by exactly one fall, whatever becomes of
// the rule, across restarts too; that between them, and only there, come continues; that an unknown
// value changes nothing; and that a storm of alerts is bounded, see Limits. It must not measure
// anything and does not know how an alert travels.
//
//tandem:pure
package alert

import (
	"strings"
	"time"

	"tandem.internal/shared/clock"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/unitconfig"
)

// Parameter names what is measured, and what a rule watches.
type Parameter string

// The parameters that every node has. CPU and RAM are fractions of the whole node from 0 to 1;
// Download and Upload are bytes per second.
const (
	CPU      Parameter = "cpu"
	RAM      Parameter = "ram"
	Download Parameter = "download"
	Upload   Parameter = "upload"
)

const (
	partitionPrefix = "partition:"
	inodesPrefix    = "inodes:"
)

// Partition is the used fraction of the partition of that name, in bytes.
func Partition(name string) Parameter { return Parameter(partitionPrefix + name) }

// Inodes is the used fraction of the inodes of that partition. No rule watches it.
func Inodes(name string) Parameter { return Parameter(inodesPrefix + name) }

// Fraction says whether values of p are fractions from 0 to 1 rather than bytes per second.
func (p Parameter) Fraction() bool { return p != Download && p != Upload }

// valid says whether p is one of the parameters above.
func (p Parameter) valid() bool {
	for _, prefix := range []string{partitionPrefix, inodesPrefix} {
		if name, ok := strings.CutPrefix(string(p), prefix); ok {
			return name != ""
		}
	}
	return p == CPU || p == RAM || p == Download || p == Upload
}

// Sample is what was measured at one moment. A parameter that it has not is unknown.
type Sample struct {
	clock.Now
	Readings []Reading // each parameter at most once
}

// Reading is one measured value, or the reason why it is unknown.
type Reading struct {
	Parameter Parameter
	Value     float64 // traffic: whole bytes per second
	Err       error   // not nil: unknown, and Value means nothing
}

// known returns the value of p, if it is known. It looks first at the reading at place hint, and
// returns the next place: those who ask for parameters in the order of the readings find each at once.
func (s Sample) known(p Parameter, hint int) (v float64, ok bool, next int) {
	n := len(s.Readings)
	for i := range n {
		if at := (hint + i) % n; s.Readings[at].Parameter == p {
			return s.Readings[at].Value, s.Readings[at].Err == nil, at + 1
		}
	}
	return 0, false, hint
}

// Rule is one alert rule: at or above Max for MinTimeout raises, below Min for MinTimeout falls.
type Rule struct {
	Parameter  Parameter         `json:"parameter"`
	MinTimeout duration.Duration `json:"minTimeout"`
	Min        float64           `json:"minThreshold"`
	Max        float64           `json:"maxThreshold"`
}

// Rules lists the rules of a configuration: CPU, RAM, partitions as they are there, download, upload.
func Rules(r unitconfig.AlertRules) []Rule {
	var rules []Rule
	fraction := func(p Parameter, f *unitconfig.FractionRule) {
		if f != nil {
			rules = append(rules, Rule{p, f.MinTimeout, f.MinThreshold, f.MaxThreshold})
		}
	}
	traffic := func(p Parameter, t *unitconfig.TrafficRule) {
		if t != nil {
			rules = append(rules, Rule{p, t.MinTimeout, float64(t.MinThreshold), float64(t.MaxThreshold)})
		}
	}
	fraction(CPU, r.CPU)
	fraction(RAM, r.RAM)
	for _, p := range r.Partitions {
		f := p.Rule()
		fraction(Partition(p.Name), &f)
	}
	traffic(Download, r.Download)
	traffic(Upload, r.Upload)
	return rules
}

// Phase is what an Alert says.
type Phase string

// The phases of an alert.
const (
	Raise    Phase = "raise"
	Continue Phase = "continue"
	Fall     Phase = "fall"
)

// Tag is the tag of every alert (the cloud's protocol, systemQuotaAlert).
const Tag = "systemQuotaAlert"

// Reasons of a fall.
const (
	ReasonBelow   = "below-threshold" // the value was below the rule's minThreshold for its minTimeout
	ReasonRemoved = "rule-removed"    // the applied configuration has no such rule any more
)

// Alert is what is sent: the cloud's item, and what Tandem adds from State on.
type Alert struct {
	Timestamp time.Time `json:"timestamp"` // of the sample, by the node's clock
	Tag       string    `json:"tag"`
	Node      Node      `json:"node"`
	Parameter Parameter `json:"parameter"`
	Value     float64   `json:"value"` // of that sample; the newest known one if it has none

	State        Phase             `json:"state"`
	Since        time.Time         `json:"since"` // when the alert was raised
	MinTimeout   duration.Duration `json:"minTimeout"`
	MinThreshold float64           `json:"minThreshold"`
	MaxThreshold float64           `json:"maxThreshold"`
	Reason       string            `json:"reason,omitempty"` // of a fall
	// with a raise: alerts of this rule that came and went unsent before it
	Suppressed uint64 `json:"suppressed,omitempty"`
}

// Node says which node.
type Node struct {
	Codename string `json:"codename"`
}
