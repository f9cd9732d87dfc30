package steer

import (
	"fmt"
	"slices"

	kinditems "tandem.internal/controller/internal/kinds/items"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// contains reports whether a runtime runs services that are images.
func contains(runtime string) bool { return slices.Contains(wire.ContainerRuntimes, runtime) }

// ofServices reports whether a runtime runs services, and is no component.
func ofServices(runtime string) bool { return runtime == wire.RuntimeProcess || contains(runtime) }

// runtimesOf are the runtimes that a service needs that does not say so.
func (u *Unit) runtimesOf(m *items.Meta) []string {
	if v := u.Find(m.Ref(), m.Version); v != nil && v.Content.Form == items.Image {
		return wire.ContainerRuntimes
	}
	return []string{wire.RuntimeProcess}
}

// contain adds the files of a service that is an image, and has it run in a container. A layer of several images is one
// file on a node.
func (t *template) contain(v *kinditems.Version, runtime string, b *items.Build, uuid string) *wire.Error {
	if b.Image == nil {
		return wire.New(wire.CodeMissing, "", "its image has no configuration: release it as another version")
	}
	t.Container = &workload.Container{Runtime: runtime}
	if v.Meta.Network == items.NodeNetwork {
		t.Container.Network = workload.NodeNetwork
	}
	t.Resources[workload.HookStart] = artefact(b.Image, uuid)
	for i := range b.Blobs {
		a := unpacked(&b.Blobs[i], b.Blobs[i].Digest, "")
		a.Cached = true
		t.Resources[fmt.Sprintf("%s%03d", workload.LayerPrefix, i)] = a
	}
	return nil
}
