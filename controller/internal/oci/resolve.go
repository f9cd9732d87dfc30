package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// candidate is a manifest of an image, before its layers are read.
type candidate struct {
	platform Platform
	config   v1.ImageConfig
	layers   []v1.Descriptor
	diffIDs  []digest.Digest
	name     string // of the index that led to it, "" if that has none
}

// reading is one run over an image.
type reading struct {
	src       source
	options   Options
	documents int
	referred  int // by indexes
	seen      map[digest.Digest]bool
	known     []string // platforms that there are
	found     []*candidate
	image     *Image
	layers    map[Source]*Layer
	packed    int64 // bytes of the rewritten layers
}

// read reads the image at src. What it has written is gone if it returns an error.
func read(ctx context.Context, src source, o Options) (img *Image, err error) {
	r := &reading{src: src, options: o, seen: map[digest.Digest]bool{}, image: &Image{}, layers: map[Source]*Layer{}}
	roots, err := src.roots(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.index(ctx, roots, 0, ""); err != nil {
		return nil, err
	}
	if err := r.choose(); err != nil {
		return nil, err
	}
	if r.image.dir, err = os.MkdirTemp(o.Dir, "tandem-image-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.image.Close())
		}
	}()
	for _, c := range r.found {
		err := r.platform(ctx, c)
		if isInvalid(err) {
			r.refuse(c.platform.String(), c.platform.Manifest, err)
		} else if err != nil {
			return nil, err
		}
	}
	if len(r.image.Platforms) == 0 {
		return nil, r.nothing()
	}
	return r.image, nil
}

// nothing is why an image has no platform that can be used.
func (r *reading) nothing() error {
	if len(r.image.Refused) == 0 {
		why := strings.Join(append([]string{"there is no image that can be used"}, r.image.Remarks...), "; ")
		return invalid("", "%s", why)
	}
	var all []string
	for _, f := range r.image.Refused {
		all = append(all, strings.TrimPrefix(f.Platform+": ", ": ")+f.Why.Error())
	}
	return invalid("", "%s", strings.Join(all, "; "))
}

func (r *reading) refuse(platform, manifest string, why error) {
	r.image.Refused = append(r.image.Refused, Refused{platform, manifest, why})
}

func (r *reading) remark(format string, args ...any) {
	r.image.Remarks = append(r.image.Remarks, fmt.Sprintf(format, args...))
}

// document reads a document, of which an image has so many.
func (r *reading) document(ctx context.Context, d v1.Descriptor) ([]byte, error) {
	if r.documents++; r.documents > MaxDocuments {
		return nil, invalid("", "there are more than %d indexes, manifests and configurations", MaxDocuments)
	}
	return readDocument(ctx, r.src, d)
}

// index follows the descriptors of an index. What refers to an index already read adds nothing.
func (r *reading) index(ctx context.Context, all []v1.Descriptor, depth int, name string) error {
	if r.referred += len(all); r.referred > MaxReferences {
		return invalid("", "indexes refer to more than %d things", MaxReferences)
	}
	for _, d := range all {
		if r.seen[d.Digest] {
			continue
		}
		r.seen[d.Digest] = true
		name := name
		if depth == 0 {
			name = d.Annotations[v1.AnnotationRefName]
		}
		switch {
		case isManifest(d.MediaType):
			if err := r.manifest(ctx, d, name); isInvalid(err) && r.documents <= MaxDocuments {
				platform := ""
				if p := d.Platform; p != nil {
					platform = (&Platform{OS: p.OS, Arch: p.Architecture, Variant: p.Variant}).String()
				}
				r.refuse(platform, d.Digest.String(), err)
			} else if err != nil {
				return err
			}
		case !isIndex(d.MediaType):
			r.remark("%s is passed over: nothing is known of the type %.80q", d.Digest, d.MediaType)
		case depth == MaxDepth:
			return invalid(d.Digest.String(), "indexes stand in one another more than %d deep", MaxDepth)
		default:
			text, err := r.document(ctx, d)
			if err != nil {
				return err
			}
			inner, err := parseIndex(text, d.MediaType, d.Digest.String())
			if err != nil {
				return err
			}
			if err := r.index(ctx, inner, depth+1, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// manifest reads a manifest and its configuration, and not yet its layers.
func (r *reading) manifest(ctx context.Context, d v1.Descriptor, name string) error {
	const attestation = "vnd.docker.reference.type" // BuildKit, attestation-storage.md
	if t := d.Annotations[attestation]; t != "" {
		r.remark("%s is passed over: %.80q says something of another manifest", d.Digest, t)
		return nil
	}
	if p := d.Platform; p != nil && p.OS != "" && p.Architecture != "" && !r.maybe(p, d) {
		return nil
	}
	text, err := r.document(ctx, d)
	if err != nil {
		return err
	}
	m, err := parseManifest(text, d.MediaType, d.Digest.String())
	if err != nil {
		return err
	}
	if m.ArtifactType != "" || !isConfig(m.Config.MediaType) {
		r.remark("%s is passed over: it is no image, its configuration is of the type %.80q", d.Digest,
			m.Config.MediaType)
		return nil
	}
	if text, err = r.document(ctx, m.Config); err != nil {
		return err
	}
	i, err := parseImage(text, len(m.Layers), d.Platform, m.Config.Digest.String())
	if err != nil {
		return err
	}
	c := &candidate{config: i.Config, layers: m.Layers, diffIDs: i.RootFS.DiffIDs, name: name}
	c.platform = Platform{OS: i.OS, Arch: i.Architecture, Variant: i.Variant, OSFeatures: i.OSFeatures,
		Manifest: d.Digest.String()}
	if r.wanted(&c.platform, d) {
		r.found = append(r.found, c)
	}
	return nil
}

// maybe reports whether the platform that an index gives can be asked for, so that others need not be read.
func (r *reading) maybe(from *v1.Platform, d v1.Descriptor) bool {
	p := &Platform{OS: from.OS, Arch: from.Architecture, Variant: from.Variant}
	if p.OS != "linux" {
		return r.wanted(p, d)
	}
	machine := p.OS + "/" + p.Arch
	asked := r.options.Platforms
	return len(asked) == 0 || slices.ContainsFunc(asked, func(a string) bool { return isOf(a, machine) }) ||
		r.wanted(p, d)
}

// wanted reports whether a platform is asked for. It remarks on one that nobody can ask for.
func (r *reading) wanted(p *Platform, d v1.Descriptor) bool {
	name := p.String()
	if p.OS != "linux" {
		r.remark("%s is passed over: it is for %.80q, and nodes run Linux", d.Digest, name)
		return false
	}
	if !slices.Contains(r.known, name) {
		r.known = append(r.known, name)
	}
	asked := r.options.Platforms
	return len(asked) == 0 || slices.ContainsFunc(asked, func(a string) bool { return isOf(name, a) })
}

// isOf reports whether a platform is another one, or a variant of it.
func isOf(name, of string) bool { return name == of || strings.HasPrefix(name, of+"/") }

// choose refuses what was found if it leaves a choice open, or lacks what was asked for.
func (r *reading) choose() error {
	for _, asked := range r.options.Platforms {
		if !slices.ContainsFunc(r.known, func(name string) bool { return isOf(name, asked) }) &&
			!slices.ContainsFunc(r.image.Refused, func(f Refused) bool { return isOf(f.Platform, asked) }) {
			return invalid("", "there is no image for %.80q; there are some for %s", asked, strings.Join(r.known, ", "))
		}
	}
	for i, a := range r.found {
		for _, b := range r.found[:i] {
			p, q := &a.platform, &b.platform
			if p.String() == q.String() && slices.Equal(p.OSFeatures, q.OSFeatures) {
				return invalid("", "there are two images for %s, %s and %s: say which is meant", p, b.called(),
					a.called())
			}
		}
	}
	return nil
}

// called is what people call a candidate.
func (c *candidate) called() string {
	if c.name != "" {
		return fmt.Sprintf("%.80q", c.name)
	}
	return c.platform.Manifest
}

// platform reads the layers of a candidate, and adds it to the image.
func (r *reading) platform(ctx context.Context, c *candidate) error {
	p := c.platform
	total := int64(0)
	for i, d := range c.layers {
		key := Source{d.MediaType, d.Digest, c.diffIDs[i], d.Size}
		l := r.layers[key]
		if l == nil {
			var err error
			if l, err = rewriteLayer(ctx, r.src, d, c.diffIDs[i], r.image.dir); isInvalid(err) {
				return invalid(fmt.Sprintf("layer %d", i+1), "%v", err)
			} else if err != nil {
				return err
			}
			r.layers[key] = l
			r.packed += l.Size
		}
		p.Layers = append(p.Layers, l)
		if total += l.Unpacked; total > MaxUnpacked || r.packed > MaxPacked {
			return invalid(d.Digest.String(), "with this layer the image has more than %d bytes, or %d unpacked",
				int64(MaxPacked), int64(MaxUnpacked))
		}
	}
	var err error
	if p.Config, p.Remarks, err = makeConfig(&c.config, p.Layers); err != nil {
		return err
	}
	r.image.Platforms = append(r.image.Platforms, p)
	return nil
}
