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

// Limits of the format. The seed names none; these are far above any vehicle or plant and keep
// hostile input cheap. Lengths are in bytes of UTF-8.
const (
	MaxDocument   = 4 << 20 // a whole document
	MaxName       = 128     // a codename that is not a node's, an ID, type, partition name or label
	MaxTitle      = 256     // an identity's title
	MaxLabels     = 256     // labels of one entry
	MaxPartitions = 256     // partition rules of one entry
	maxDepth      = 32      // nesting; the format itself needs six levels
)

var limits = strictjson.Limits{Size: MaxDocument, Depth: maxDepth}

// MaxProblems bounds how many problems one reading reports.
const MaxProblems = strictjson.MaxProblems

// Problems are the reasons why a document is refused.
type Problems = strictjson.Problems

// defaultRatio is a resource ratio that a present resourceRatios object leaves out, in percent.
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

// Identity names a node or a node type. Only the codename decides anything.
type Identity struct {
	ID       string `json:"id,omitzero"`
	Codename string `json:"codename"`
	Type     string `json:"type,omitzero"`
	Title    string `json:"title,omitzero"`
}

// AlertRules are the monitoring thresholds of a node; a nil rule watches nothing. Seed 000, Alert
// Rules.
type AlertRules struct {
	RAM        *FractionRule   `json:"ram,omitzero"`
	CPU        *FractionRule   `json:"cpu,omitzero"`
	Partitions []PartitionRule `json:"partitions,omitzero"` // nil when empty; names are unique
	Download   *TrafficRule    `json:"download,omitzero"`
	Upload     *TrafficRule    `json:"upload,omitzero"`
}

// FractionRule watches a usage. The thresholds are fractions from 0.0 to 1.0, min at most max.
type FractionRule struct {
	MinTimeout   duration.Duration `json:"minTimeout"` // absent in the input: 0, the first sample alerts
	MinThreshold float64           `json:"minThreshold"`
	MaxThreshold float64           `json:"maxThreshold"`
}

// PartitionRule is a FractionRule for the partition of that name.
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

// TrafficRule watches a network rate. The thresholds are whole bytes per second, min at most max.
type TrafficRule struct {
	MinTimeout   duration.Duration `json:"minTimeout"`
	MinThreshold uint64            `json:"minThreshold"`
	MaxThreshold uint64            `json:"maxThreshold"`
}

// EntryRatios are resource ratios as an entry has them, in percent from 0 to 100; nil was absent.
type EntryRatios struct {
	CPU     *int `json:"cpu,omitzero"`
	RAM     *int `json:"ram,omitzero"`
	Storage *int `json:"storage,omitzero"`
	State   *int `json:"state,omitzero"`
}

// Resolved fills in the default of 50 for what is absent. An explicit 0 stays 0.
func (e EntryRatios) Resolved() ResourceRatios {
	or := func(p *int) int {
		if p == nil {
			return defaultRatio
		}
		return *p
	}
	return ResourceRatios{or(e.CPU), or(e.RAM), or(e.Storage), or(e.State)}
}

// ResourceRatios are the percentages of each resource that are there for service instances. Seed
// 000, Resource Ratios.
type ResourceRatios struct {
	CPU     int `json:"cpu"`
	RAM     int `json:"ram"`
	Storage int `json:"storage"`
	State   int `json:"state"`
}

// NodeConfig is what one node gets: the body of a document of kind config. Defaults are filled in.
// Version is the unit configuration's. Node is nil in what a type-level entry gives, so that its
// bytes are the same for every node; NodeGroupSubject is nil in what the default gives.
type NodeConfig struct {
	FormatVersion    string          `json:"formatVersion"`
	Version          string          `json:"version"`
	Node             *Identity       `json:"node,omitzero"`
	NodeGroupSubject *Identity       `json:"nodeGroupSubject,omitzero"`
	AlertRules       AlertRules      `json:"alertRules,omitzero"`
	ResourceRatios   *ResourceRatios `json:"resourceRatios,omitzero"` // nil: the configuration says nothing about them
	Labels           []string        `json:"labels,omitzero"`
	Priority         uint32          `json:"priority"`
}

// EncodeNode writes a node's configuration as compact JSON: equal input, equal bytes. It panics on
// what JSON cannot carry (NaN, broken UTF-8), which Parse and ParseNode never return.
func EncodeNode(c NodeConfig) []byte { return encode(c) }

// Encode writes a unit configuration as indented JSON that ends in a newline, for people and for
// the controller's readable file. Parse gives the same value back. It panics like EncodeNode.
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
