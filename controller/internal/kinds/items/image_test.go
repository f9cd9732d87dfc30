package items

import (
	"strings"
	"testing"

	"tandem.internal/shared/items"
	"tandem.internal/shared/publisher/publishertest"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// imaged is a release of an image with a file of its configuration.
func imaged() Change {
	d := release(sensor, "1.0.0", "layer")
	c := *d.Content
	c.Form = items.Image
	c.Builds = []items.Build{{Image: &items.Blob{Digest: wire.Hash([]byte("config")), Size: 5},
		Blobs: []items.Blob{{Digest: wire.Hash([]byte("layer")), Size: 5, DiffID: wire.Hash([]byte("tar")),
			Unpacked: 9}}}}
	d.Content = &c
	return d
}

// TestImages: the file of an image's configuration is one of the version's, and what cannot be run is refused.
func TestImages(t *testing.T) {
	u := newUnit(t)
	u.must(KindItems, creation(sensor, 1))
	for name, row := range map[string]struct {
		change       func(*Change)
		path, reason string
	}{
		"none": {func(d *Change) { d.Content.Builds[0].Image = nil }, "/content/builds/0/image",
			"has its configuration"},
		"large": {func(d *Change) { d.Content.Builds[0].Image.Size = workload.MaxImage + 1 },
			"/content/builds/0/image/size", "at most"},
		"devices": {func(d *Change) { d.Meta.Devices = []string{"can0"} }, "/meta/devices", "no devices"},
		"component": {func(d *Change) { d.Type, d.Meta.Type = items.Component, items.Component }, "/content/form",
			"not of a component"},
		"unpacked": {func(d *Change) { d.Content.Builds[0].Blobs[0].Unpacked = workload.MaxUnpacked + 1 },
			"/content/builds/0/blobs/0/unpacked", "unpack at most"},
		"signature": {func(d *Change) {
			d.Content.Builds[0].Image.Minisign = publishertest.New(1).SignAs(nil, "sensor 0.9.0")
		}, "/content/builds/0/image/minisign", "0.9.0"},
	} {
		d := imaged()
		meta := *d.Meta
		d.Meta = &meta
		row.change(&d)
		if err := checkRelease(&d); err == nil || err.Path != row.path || !strings.Contains(err.Message, row.reason) {
			t.Errorf("%s: %v", name, err)
		}
	}
	u.must(KindItems, imaged())
	used := map[string]bool{}
	Set().Sources[0].Artefacts(u.contents[KindItems], func(digest, _ string) { used[digest] = true })
	if !used[wire.Hash([]byte("config"))] || len(used) != 2 {
		t.Errorf("%v", used)
	}
}
