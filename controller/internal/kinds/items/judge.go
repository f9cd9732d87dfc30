package items

import (
	"bytes"
	"slices"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/items"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Bounds of a unit.
const (
	maxItems    = 1000
	maxVersions = 100     // of an item
	maxBytes    = 8 << 20 // of metadata and contents together
)

// judge says why a change is refused.
func judge(c kind.Content, data any) *wire.Error {
	all, d := kind.As[Collection](c), data.(Change)
	had := all.List[Key(d.Ref())]
	switch {
	case d.ID != "":
		return all.judgeNew(&d)
	case had == nil && d.Meta != nil:
		return refusal(wire.CodeNotFound, "", "there is no %s: create it first (tandem item create)", show(d.Ref()))
	case had == nil:
		return missing(d.Ref())
	case d.Meta != nil:
		return all.judgeRelease(had, &d)
	case d.Version == "" && !d.Removed:
		return refusal(wire.CodeMissing, "/version", "required")
	case d.Version == "" && len(had.Versions) > 0:
		return refusal(wire.CodeWrongState, "", "%s has %s: remove what it has first", had.Ref(),
			kind.Many(len(had.Versions), "version"))
	case d.Version == "":
		return nil
	}
	v := had.Versions[d.Version]
	switch {
	case v == nil:
		return refusal(wire.CodeNotFound, "", "%s has no version %.80s", had.Ref(), d.Version)
	case d.Removed && v.State == items.Ready:
		return refusal(wire.CodeWrongState, "", "%s %s is ready, and may be deployed: deprecate it first", had.Ref(),
			d.Version)
	case d.Removed:
		return nil
	}
	return v.comesOn(had.Ref(), d.State)
}

func missing(r items.Ref) *wire.Error {
	return refusal(wire.CodeNotFound, "", "there is no %s; tandem item list has those that there are", show(r))
}

// show names an item that may be anything.
func show(r items.Ref) string { return wire.Plain(r.String(), 100) }

// judgeNew says why an item is not created.
func (c *Collection) judgeNew(d *Change) *wire.Error {
	if had := c.List[Key(d.Ref())]; had != nil {
		return refusal(wire.CodeAlreadyExists, "/codename", "%s is there already, since %s, as %s", had.Ref(),
			had.At.UTC().Format("2006-01-02T15:04:05Z"), had.URN())
	}
	bare := items.Meta{Type: d.Type, Codename: d.Codename, Description: d.Description, Owner: d.Owner}
	if _, problems := items.Parse(record.Encode(&bare)); problems != nil {
		return problems.First()
	}
	switch {
	case d.Codename == publisher.AgentName:
		return refusal(wire.CodeBadValue, "/codename", "%s is the agent: signatures of its versions have that name",
			d.Codename)
	case !items.ValidID(d.ID):
		return refusal(wire.CodeBadValue, "/id", "%s is not a UUID in lower case", strictjson.Show(d.ID))
	case len(c.List) >= maxItems:
		return refusal(wire.CodeTooLarge, "", "a unit has at most %d items: remove those that it does not need",
			maxItems)
	}
	for _, it := range c.List {
		if it.ID == d.ID {
			return refusal(wire.CodeAlreadyExists, "/id", "%s has the ID %s", it.Ref(), d.ID)
		}
	}
	return nil
}

// judgeRelease says why a version is not released.
func (c *Collection) judgeRelease(it *Item, d *Change) *wire.Error {
	if err := checkRelease(d); err != nil {
		return err
	}
	version, digest := d.Meta.Version, d.Content.Digest()
	if gone := it.Gone[version]; gone != "" && gone != digest {
		return refusal(wire.CodeAlreadyExists, "/content", "%s %s was there with another content, %s, which nodes may "+
			"have: release another version", it.Ref(), version, gone)
	}
	if had := it.Versions[version]; had != nil {
		return had.again(d, digest)
	}
	size := sizeOf(&Version{Meta: *d.Meta, Content: *d.Content})
	for _, other := range c.List {
		for _, v := range other.Versions {
			size += v.size
		}
	}
	switch {
	case len(it.Versions) >= maxVersions:
		return refusal(wire.CodeTooLarge, "", "%s has %d versions: remove those that the unit does not need", it.Ref(),
			len(it.Versions))
	case size > maxBytes:
		return refusal(wire.CodeTooLarge, "", "the metadata and contents of all versions would have %d bytes; at most "+
			"%d are allowed: remove versions that the unit does not need", size, maxBytes)
	}
	return nil
}

// again says why a version that is there is not released once more: that is nothing new, or makes it ready.
func (v *Version) again(d *Change, digest string) *wire.Error {
	switch {
	case v.Digest != digest:
		return refusal(wire.CodeAlreadyExists, "/content", "%s %s is there with another content, %s; a version "+
			"does not change: release another one", d.Meta.Ref(), d.Meta.Version, v.Digest)
	case !bytes.Equal(record.Encode(&v.Meta), record.Encode(d.Meta)):
		return refusal(wire.CodeAlreadyExists, "/meta", "%s %s is there with other metadata; a version does not "+
			"change: release another one", d.Meta.Ref(), d.Meta.Version)
	case d.State == items.Ready && v.State == items.Deprecated:
		return v.comesOn(d.Meta.Ref(), d.State)
	}
	return nil
}

// same reports whether a release is of a version that is there, and as far as it is to come.
func same(c kind.Content, data any) bool {
	d := data.(Change)
	if d.Meta == nil {
		return false
	}
	v := Find(c, d.Ref(), d.Meta.Version)
	return v != nil && (d.State == items.Preparation || d.State == v.State)
}

// comesOn says why a version does not come to a state: it goes from preparation to ready to deprecated (seed 001).
func (v *Version) comesOn(of items.Ref, to items.State) *wire.Error {
	version := v.Meta.Version
	switch {
	case to != items.Ready && to != items.Deprecated:
		return refusal(wire.CodeBadValue, "/state", "a version comes to %s or %s, not %s", items.Ready,
			items.Deprecated, strictjson.Show(string(to)))
	case v.State == to:
		return refusal(wire.CodeWrongState, "", "%s %s is %s already", of, version, to)
	case v.State == items.Deprecated:
		return refusal(wire.CodeWrongState, "", "%s %s is deprecated, and does not come back: release its content as "+
			"another version", of, version)
	case to == items.Deprecated && v.State == items.Preparation:
		return refusal(wire.CodeWrongState, "", "%s %s is in preparation, and runs nowhere: remove it", of, version)
	}
	return nil
}

// checkRelease says what is wrong with a release by itself.
func checkRelease(d *Change) *wire.Error {
	switch {
	case d.Content == nil:
		return refusal(wire.CodeMissing, "/content", "required")
	case d.State != items.Preparation && d.State != items.Ready:
		return refusal(wire.CodeBadValue, "/state", "a version begins as %s or %s, not %s", items.Preparation,
			items.Ready, strictjson.Show(string(d.State)))
	case d.Meta.Ref() != d.Ref():
		return refusal(wire.CodeInvalidArgument, "/meta/codename", "the metadata is of %s, not of %s",
			show(d.Meta.Ref()), d.Ref())
	}
	if _, problems := items.Parse(record.Encode(d.Meta)); problems != nil {
		return under("/meta", problems.First())
	}
	if d.Meta.Version == "" {
		return refusal(wire.CodeMissing, "/meta/version", "a version is released with its number")
	}
	if _, problems := items.ParseContent(d.Content.Encode()); problems != nil {
		return under("/content", problems.First())
	}
	if err := platforms(d.Meta, d.Content); err != nil {
		return err
	}
	if err := image(d); err != nil {
		return err
	}
	for i := range d.Content.Builds {
		if d.Type == items.Service && d.Content.Form == items.Tree &&
			!slices.Contains(d.Content.Builds[i].Hooks, workload.HookStart) {
			return refusal(wire.CodeMissing, blobAt(i, -1)+"/hooks", "a service that is a directory starts by the "+
				"file %s at its top, and there is none", workload.HookStart)
		}
		for j, b := range d.Content.Builds[i].Files() {
			switch {
			case d.Type == items.Component && b.Size == 0:
				return refusal(wire.CodeBadValue, blobAt(i, j)+"/size", "nodes install no empty file")
			case d.Content.Form != items.File && b.Unpacked > workload.MaxUnpacked:
				return refusal(wire.CodeTooLarge, blobAt(i, j)+"/unpacked", "nodes unpack at most %d bytes",
					workload.MaxUnpacked)
			case b.Minisign == "":
				continue
			}
			if err := names(d, b.Minisign); err != nil {
				return refusal(wire.CodeBadValue, fileAt(d, i, j)+"/minisign", "%s", err)
			}
		}
	}
	return nil
}

// image says what is wrong with a release that is an image; nil: nothing, or it is none.
func image(d *Change) *wire.Error {
	if d.Content.Form != items.Image {
		return nil
	}
	if d.Type == items.Component {
		return refusal(wire.CodeBadValue, "/content/form", "an image is of a service or layer, not of a component")
	}
	if d.Type == items.Service && len(d.Meta.Devices) > 0 {
		return refusal(wire.CodeNotSupported, "/meta/devices", "a container gets no devices of its node: a service "+
			"that needs some is a file or directory")
	}
	for i := range d.Content.Builds {
		switch b := &d.Content.Builds[i]; {
		case d.Type == items.Service && b.Image == nil:
			return refusal(wire.CodeMissing, blobAt(i, -1)+"/image", "an image that is a service has its configuration")
		case b.Image != nil && b.Image.Size > workload.MaxImage:
			return refusal(wire.CodeTooLarge, blobAt(i, -1)+"/image/size", "a configuration has at most %d bytes",
				workload.MaxImage)
		}
	}
	return nil
}

// names says why a signature is not of a version; nil: it is. To nodes that demand one a component is called as the
// runtime that it is in.
func names(d *Change, signature string) error {
	sig, err := publisher.Parse(signature)
	if err != nil {
		return err
	}
	err = sig.Names(publisher.Release{Name: d.Codename, Version: d.Meta.Version})
	if err != nil && d.Type == items.Component && slices.Contains(d.Meta.Runtimes, sig.Release().Name) {
		return sig.Names(publisher.Release{Name: sig.Release().Name, Version: d.Meta.Version})
	}
	return err
}

// platforms says where the builds are not those of the metadata.
func platforms(m *items.Meta, c *items.Content) *wire.Error {
	for i := range c.Builds {
		p, known := c.Builds[i].Platform, false
		for j := range m.Platforms {
			known = known || p != nil && m.Platforms[j].Equal(p)
		}
		if p != nil && !known {
			return refusal(wire.CodeBadValue, blobAt(i, -1)+"/platform", "the metadata does not have this platform")
		}
	}
	for j := range m.Platforms {
		if p := &m.Platforms[j]; c.Build(p) == nil {
			return refusal(wire.CodeMissing, "/content/builds", "there is no build for a platform of the metadata, %s",
				p.Name())
		}
	}
	return nil
}

// inUse says which node is to have a version, now or by a rollout that goes on; nil: none is.
func inUse(u kind.Unit, ref items.Ref, version string) *wire.Error {
	for _, name := range []wire.Kind{wire.KindComponents, wire.KindWorkloads} {
		all := []kind.Content{u.Content(name)}
		if r := u.Rolled(name); r != nil {
			all = append(all, r.Content)
		}
		for _, c := range all {
			user, ok := c.(kind.ItemUser)
			if !ok {
				continue
			}
			if node := user.Uses(ref, version); node != "" {
				return refusal(wire.CodeWrongState, "", "%s %s is to run on %s: have another version applied first "+
					"(tandem desired apply)", ref, version, node)
			}
		}
	}
	return nil
}

// weigh refuses what nodes would look for in the controller's store in vain, and to remove what they have.
func weigh(u kind.Unit, _ kind.Content, data any) *wire.Error {
	d := data.(Change)
	if d.Removed && d.Version != "" {
		return inUse(u, d.Ref(), d.Version)
	}
	if d.Content == nil {
		return nil
	}
	for i := range d.Content.Builds {
		for j, b := range d.Content.Builds[i].Files() {
			at := fileAt(&d, i, j)
			if b.Encrypted != nil {
				at += "/encrypted"
			}
			digest, bytes := b.Stored()
			switch size, there := u.Artefact(digest); {
			case !there:
				return refusal(wire.CodeNotFound, at+"/digest", "the controller's store has no artefact %s: "+
					"add it first (tandem artefact add)", digest)
			case size != bytes:
				return refusal(wire.CodeBadValue, at+"/size", "the artefact has %d bytes", size)
			}
		}
	}
	return nil
}
