package health

import (
	"fmt"
	"time"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/shared/wire"
)

// against says why what is staged is not tried: the same content has failed on one of the unit's nodes, and nobody
// insists.
func against(n kind.Node, known []kind.Node, m wire.Method, params []byte) *wire.Error {
	if m != wire.MethodTry {
		return nil
	}
	p, err := wire.Decode[wire.TryParams](params)
	if err != nil {
		return wire.AsError(err)
	}
	h, ok := n.Detail.(*wire.Health)
	if !ok || p.Force {
		return nil
	}
	hash := staged(h, p)
	if hash == "" {
		return nil
	}
	for _, o := range known {
		h, ok := o.Detail.(*wire.Health)
		if !ok {
			continue
		}
		for _, q := range h.Quarantine {
			if q.Component == p.Component && q.Hash == hash {
				return wire.New(wire.CodeQuarantined, "", fmt.Sprintf("version %s failed on node %s before: %s "+
					"(at %s); --force tries it all the same, or stage a newer version", q.Version, o.Name, q.Text,
					q.At.UTC().Format(time.RFC3339)))
			}
		}
	}
	return nil
}

// staged is the hash of what an order would have a node try, as far as the node has told; "": it has not.
func staged(h *wire.Health, p *wire.TryParams) string {
	if p.Component == "" {
		for _, s := range h.Slots {
			if s.Hash != "" && (p.Version == "" || p.Version == s.Version) {
				return s.Hash
			}
		}
		return ""
	}
	for _, c := range h.Components {
		if c.Name == p.Component && (p.Version == "" || p.Version == c.Next) {
			return c.Hash
		}
	}
	return ""
}
