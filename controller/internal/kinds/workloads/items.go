package workloads

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	"tandem.internal/shared/items"
	"tandem.internal/shared/workload"
)

// The properties of a slot that runs an instance of a service (seed 001). Hooks find them in their environment, as
// every property.
const (
	PropertyItem    = "tandem.item"    // codename of the service
	PropertyVersion = "tandem.version" // of the service
	PropertySubject = "tandem.subject" // for which it runs
	PropertyIndex   = "tandem.index"   // among the instances for the subject, from 0
	PropertyRuntime = "tandem.runtime" // ID of the node's runtime
	PropertyEnv     = "tandem.env"     // digest of its environment; none: it has none
)

// layerPrefix begins the uuid of a resource that is a layer; codename and version follow.
const layerPrefix = "layer "

// LayerUUID is the uuid of a layer's resource.
func LayerUUID(codename, version string) string { return layerPrefix + codename + " " + version }

// instanceOf is the instance of a service that a slot runs; nil: it runs none.
func instanceOf(c *workload.Config) *items.Instance {
	p := c.Properties
	index, err := strconv.Atoi(p[PropertyIndex])
	if err != nil || index < 0 || index >= items.MaxInstances || p[PropertyItem] == "" || p[PropertySubject] == "" ||
		p[PropertyRuntime] == "" {
		return nil
	}
	if _, err := items.ParseVersion(p[PropertyVersion]); err != nil {
		return nil
	}
	return &items.Instance{Type: items.Service, Codename: p[PropertyItem], Version: p[PropertyVersion],
		Subject: p[PropertySubject], Index: index, Node: c.Slot.Node, Runtime: p[PropertyRuntime],
		EnvDigest: p[PropertyEnv]}
}

// addLayers notes the layers of a slot.
func (n *placed) addLayers(c *workload.Config) {
	for _, r := range c.Resources {
		rest, is := strings.CutPrefix(r.UUID, layerPrefix)
		codename, version, two := strings.Cut(rest, " ")
		if !is || !two {
			continue
		}
		l := items.InstalledLayer{Node: c.Slot.Node, Codename: codename, Version: version}
		if !slices.Contains(n.layers, l) {
			n.layers = append(n.layers, l)
		}
	}
}

// Current are the instances of services, and the layers, of a set.
func (p *Placement) Current() (c items.Current) {
	for _, i := range p.Instances() {
		c.Instances = append(c.Instances, i)
	}
	for _, node := range p.names() {
		c.Layers = append(c.Layers, p.nodes[node].layers...)
	}
	return c
}

// Uses implements kind.ItemUser.
func (p *Placement) Uses(ref items.Ref, version string) string {
	for _, i := range p.Instances() {
		if i.Ref() == ref && i.Version == version {
			return i.Node
		}
	}
	for _, node := range p.names() {
		if ref.Type == items.Layer && slices.Contains(p.nodes[node].layers,
			items.InstalledLayer{Node: node, Codename: ref.Codename, Version: version}) {
			return node
		}
	}
	return ""
}

// Instances are the instances of services of a set, with their slots.
func (p *Placement) Instances() iter.Seq2[string, items.Instance] {
	return func(yield func(string, items.Instance) bool) {
		for _, node := range p.names() {
			for _, w := range p.nodes[node].slots {
				if w.instance != nil && !yield(w.slot, *w.instance) {
					return
				}
			}
		}
	}
}
