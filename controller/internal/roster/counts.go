package roster

import (
	"maps"

	"tandem.internal/controller/internal/view"
)

// Counts counts rows as they come, change and go. Its zero value has none.
type Counts struct {
	classes         view.FleetCounts
	types, versions map[string]int
	nodes           int
}

// Add counts a row in.
func (c *Counts) Add(r *view.Row) { c.add(r, 1) }

// Remove counts a row out that was counted in.
func (c *Counts) Remove(r *view.Row) { c.add(r, -1) }

func (c *Counts) add(r *view.Row, by int) {
	if c.types == nil {
		c.types, c.versions = map[string]int{}, map[string]int{}
	}
	c.nodes += by
	if n := c.classes.Of(r.Class); n != nil {
		*n += by
	}
	if r.Class == view.ClassRevoked {
		return
	}
	count(c.types, r.Type, by)
	count(c.versions, r.Version, by)
}

func count(in map[string]int, key string, by int) {
	if in[key] += by; in[key] == 0 {
		delete(in, key)
	}
}

// Fleet is what is counted.
func (c *Counts) Fleet() view.Fleet {
	return view.Fleet{
		Nodes: c.nodes, Online: c.nodes - c.classes.Offline - c.classes.Revoked, Counts: c.classes,
		Types: maps.Clone(c.types), Versions: maps.Clone(c.versions),
	}
}
