package desired

import "tandem.internal/shared/items"

// Live is a candidate that is there, with the layers that it needs, placed or not.
type Live struct {
	Item    *items.Item
	Subject string
	Layers  []*items.Item
}

// LiveOf are the candidates of a plan that are there.
func LiveOf(p *Plan) (all []Live) {
	for _, c := range p.w.live() {
		l := Live{Item: c.Item, Subject: c.subject.Codename}
		for _, v := range c.layers {
			l.Layers = append(l.Layers, v.Item)
		}
		all = append(all, l)
	}
	return all
}
