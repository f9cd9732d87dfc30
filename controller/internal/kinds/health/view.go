package health

import (
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// List returns what is set.
func List(u kind.Unit) view.HealthSettings {
	t := settingsOf(u.Content(wire.KindHealth))
	v := view.HealthSettings{Rev: t.Rev, Types: map[string]view.HealthSetting{}, Nodes: map[string]view.HealthSetting{}}
	if e := t.All; e != nil {
		v.All = e.view()
	}
	for name, e := range t.Types {
		v.Types[name] = *e.view()
	}
	for name, e := range t.Nodes {
		v.Nodes[name] = *e.view()
	}
	return v
}

func (t *Setting) view() *view.HealthSetting {
	return &view.HealthSetting{Settings: t.Health, Rev: t.Rev, At: t.At, Who: t.Who}
}

// OfNode returns what is set for one node, and what is in effect there as far as it has told.
func OfNode(u kind.Unit, node string) view.NodeSettings {
	v := view.NodeSettings{Node: node}
	if n, ok := u.Node(wire.KindHealth, node); ok {
		v.Type = n.Type()
		if h, ok := n.Detail.(*wire.Health); ok {
			inEffect := h.Settings
			v.InEffect = &inEffect
		}
		if n.Document != nil && n.Document.Desired != nil {
			d := n.Document.View()
			v.Document = &d
		}
	}
	if e, rule := settingsOf(u.Content(wire.KindHealth)).of(node, v.Type); e != nil {
		v.Rule, v.Set = rule, e.view()
	}
	return v
}
