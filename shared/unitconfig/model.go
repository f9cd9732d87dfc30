package unitconfig

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/duration"
	"tandem.internal/shared/strictjson"
)

// FormatVersion is the one schema version that this package reads and writes (seed 000, Top-Level
// Fields). It is a JSON string, not a number.
const FormatVersion = "7"

// Limits of the format. The seed has none; these are far above any vehicle or plant, and limit the cost of hostile
// input. Lengths are in bytes of UTF-8.
const (
	MaxDocument   = 4 << 20 // a whole document
	MaxName       = 128     // a codename that is not a node's, an ID, type, partition name or label
	MaxTitle      = 256     // an identity's title
	MaxLabels     = 256     // labels of one entry
	MaxPartitions = 256     // partition rules of one entry
	maxDepth      = 32      // nesting; the format itself needs six levels
)

var limits = strictjson.Limits{Size: MaxDocument, Depth: maxDepth}

// MaxProblems is the most problems that one call of a parser returns.
const MaxProblems = strictjson.MaxProblems

// Problems are the reasons why a document is refused.
type Problems = strictjson.Problems

// defaultRatio is the value, in percent, of a ratio that a resourceRatios object does not have.
const defaultRatio = 50

// UnitConfig is a whole unit configuration (seed 000, Configuration Format).
type UnitConfig struct {
	FormatVersion string      `json:"formatVersion"`
	Version       string      `json:"version"` // semantic version; orders updates
	Nodes         []NodeEntry `json:"nodes"`   // nil when empty
}

// NodeEntry configures one node (Node set) or every node of a type that has no entry of its own
// (Node nil). Seed 000, Per-Node Configuration.
type NodeEntry struct {
	Version          string       `json:"version,omitzero"` // the entry's own version; informative
	Node             *Identity    `json:"node,omitzero"`
	NodeGroupSubject Identity     `json:"nodeGroupSubject"` // its codename is the node type
	AlertRules       AlertRules   `json:"alertRules,omitzero"`
	ResourceRatios   *EntryRatios `json:"resourceRatios,omitzero"`
	Labels           []string     `json:"labels,omitzero"`   // nil when empty
	Priority         uint32       `json:"priority,omitzero"` // higher is placed first; absent and 0 are the same
}

// Identity names a node or a node type. Only the codename has an effect.
type Identity struct {
	ID       string `json:"id,omitzero"`
	Codename string `json:"codename"`
	Type     string `json:"type,omitzero"`
	Title    string `json:"title,omitzero"`
}

// AlertRules are the rules by which a node raises alerts; nil means no rule (seed 000, Alert Rules).
type AlertRules struct {
	RAM        *FractionRule   `json:"ram,omitzero"`
	CPU        *FractionRule   `json:"cpu,omitzero"`
	Partitions []PartitionRule `json:"partitions,omitzero"` // nil when empty; names are unique
	Download   *TrafficRule    `json:"download,omitzero"`
	Upload     *TrafficRule    `json:"upload,omitzero"`
}

// FractionRule is a rule for a usage. The thresholds are fractions from 0.0 to 1.0, and min is at most max.
type FractionRule struct {
	MinTimeout   duration.Duration `json:"minTimeout"` // absent in the input: 0, the first sample alerts
	MinThreshold float64           `json:"minThreshold"`
	MaxThreshold float64           `json:"maxThreshold"`
}

// PartitionRule is a FractionRule for the usage of the partition of that name.
type PartitionRule struct {
	Name         string            `json:"name"`
	MinTimeout   duration.Duration `json:"minTimeout"`
	MinThreshold float64           `json:"minThreshold"`
	MaxThreshold float64           `json:"maxThreshold"`
}

// Rule returns the partition's rule without its name.
func (p PartitionRule) Rule() FractionRule {
	return FractionRule{p.MinTimeout, p.MinThreshold, p.MaxThreshold}
}

// TrafficRule is a rule for a network rate. The thresholds are in bytes a second, and min is at most max.
type TrafficRule struct {
	MinTimeout   duration.Duration `json:"minTimeout"`
	MinThreshold uint64            `json:"minThreshold"`
	MaxThreshold uint64            `json:"maxThreshold"`
}

// EntryRatios are the resource ratios of an entry, in percent from 0 to 100; nil means absent.
type EntryRatios struct {
	CPU     *int `json:"cpu,omitzero"`
	RAM     *int `json:"ram,omitzero"`
	Storage *int `json:"storage,omitzero"`
	State   *int `json:"state,omitzero"`
}

// Resolved returns the ratios with the default, 50, for absent ones.
func (e EntryRatios) Resolved() ResourceRatios {
	or := func(p *int) int {
		if p == nil {
			return defaultRatio
		}
		return *p
	}
	return ResourceRatios{or(e.CPU), or(e.RAM), or(e.Storage), or(e.State)}
}

// ResourceRatios are the shares of a node's resources that service instances may use, in percent (seed 000, Resource
// Ratios).
type ResourceRatios struct {
	CPU     int `json:"cpu"`
	RAM     int `json:"ram"`
	Storage int `json:"storage"`
	State   int `json:"state"`
}

// NodeConfig is the configuration of one node: the body of a document of kind config. It has defaults for absent
// values. Version is the unit configuration's. Node is nil if the entry is for a type, so that all its nodes get the
// same bytes; NodeGroupSubject is nil in the default configuration.
type NodeConfig struct {
	FormatVersion    string          `json:"formatVersion"`
	Version          string          `json:"version"`
	Node             *Identity       `json:"node,omitzero"`
	NodeGroupSubject *Identity       `json:"nodeGroupSubject,omitzero"`
	AlertRules       AlertRules      `json:"alertRules,omitzero"`
	ResourceRatios   *ResourceRatios `json:"resourceRatios,omitzero"` // nil: the entry has none
	Labels           []string        `json:"labels,omitzero"`
	Priority         uint32          `json:"priority"`
}

// EncodeNode returns a node's configuration as compact JSON. Equal input gives equal bytes. It panics on NaN and on
// invalid UTF-8, which Parse and ParseNode never return.
func EncodeNode(c NodeConfig) []byte { return encode(c) }

// Encode returns a unit configuration as indented JSON that ends in a newline, for people and for the controller's
// readable copy. Parse returns the same value again. It panics as EncodeNode does.
func Encode(uc *UnitConfig) []byte {
	return append(encode(uc, jsontext.WithIndent("  ")), '\n')
}

func encode(v any, opts ...json.Options) []byte {
	var b bytes.Buffer
	if err := json.MarshalWrite(&b, v, append(opts, json.Deterministic(true))...); err != nil {
		panic("unitconfig: cannot encode: " + err.Error())
	}
	return b.Bytes()
}
