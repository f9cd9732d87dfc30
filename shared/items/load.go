package items

import (
	"fmt"
	"strconv"

	"tandem.internal/shared/duration"
	"tandem.internal/shared/strictjson"
)

// Load is what was measured of a unit.
type Load struct {
	Nodes     []NodeLoad     `json:"nodes,omitempty"`     // of nothing else is the load known
	Instances []InstanceLoad `json:"instances,omitempty"` // of services; of others what they reserve is taken
}

// NodeLoad is what is used of a node on average, as shares of its totals.
type NodeLoad struct {
	Node string            `json:"node"`                          // its ID
	CPU  *float64          `json:"cpu,omitempty" min:"0" max:"1"` // default: not known
	RAM  *float64          `json:"ram,omitempty" min:"0" max:"1"` // default: not known
	For  duration.Duration `json:"for,omitzero"`                  // for how long it has been so; default: since now
}

// InstanceLoad is what an instance of a service uses on average.
type InstanceLoad struct {
	Codename string `json:"codename"`                                     // of the service
	Subject  string `json:"subject"`                                      // codename of the subject for which it runs
	Index    int    `json:"index,omitzero" min:"0" max:"999"`             // of several instances
	Node     string `json:"node"`                                         // where it runs
	CPU      *int64 `json:"cpu,omitempty" min:"0" max:"1073741824"`       // DMIPS; default: not known
	RAM      *int64 `json:"ram,omitempty" min:"0" max:"1125899906842624"` // bytes; default: not known
}

// ParseLoad reads what was measured of a unit.
func ParseLoad(data []byte) (*Load, Problems) { return read(data, MaxCurrent, reader.load) }

func (r reader) load(a at, l *Load) {
	const most = 1_000_000 // the size of the file ends sooner
	r.Object(a,
		may("nodes", &l.Nodes, list(r, most, "node", r.nodeLoad, func(n NodeLoad) string { return n.Node })),
		may("instances", &l.Instances, list(r, most, "instance", r.instanceLoad, func(i InstanceLoad) string {
			if i.Codename == "" || i.Node == "" {
				return ""
			}
			return fmt.Sprintf("%s of %s, index %d, on %s", i.Codename, i.Subject, i.Index, i.Node)
		})),
	)
}

func (r reader) nodeLoad(a at) (n NodeLoad) {
	r.Object(a,
		must("node", &n.Node, r.name),
		may("cpu", &n.CPU, r.share),
		may("ram", &n.RAM, r.share),
		may("for", &n.For, r.span),
	)
	return n
}

func (r reader) instanceLoad(a at) (i InstanceLoad) {
	r.Object(a,
		must("codename", &i.Codename, r.name),
		must("subject", &i.Subject, r.name),
		may("index", &i.Index, whole[int](r, "an index", 0, MaxInstances-1)),
		must("node", &i.Node, r.name),
		may("cpu", &i.CPU, func(a at) *int64 { v := r.cpu(a); return &v }),
		may("ram", &i.RAM, func(a at) *int64 { v := r.bytes(a); return &v }),
	)
	return i
}

// share reads a fraction from 0 to 1.
func (r reader) share(a at) *float64 {
	lit, ok := r.Number(a)
	if !ok {
		return nil
	}
	v, err := strconv.ParseFloat(lit, 64)
	if err != nil || !(v >= 0 && v <= 1) {
		r.Bad(a, strictjson.Clipped(lit)+" is no share: a fraction from 0 to 1, not a percentage")
	}
	v += 0 // no negative zero
	return &v
}
