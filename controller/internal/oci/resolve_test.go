package oci_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"tandem.internal/controller/internal/oci"
	"tandem.internal/controller/internal/oci/ocitest"
)

var none v1.ImageConfig

// refused says why a layout is refused; "" if it is not. It fails if that is not the image's fault.
func refused(t *testing.T, path string, o oci.Options) string {
	t.Helper()
	o.Dir = t.TempDir()
	img, err := oci.Open(t.Context(), path, o)
	if err == nil {
		if err := img.Close(); err != nil {
			t.Error(err)
		}
		return ""
	}
	if _, ok := errors.AsType[*oci.Invalid](err); !ok {
		t.Errorf("%v is no *oci.Invalid", err)
	}
	return err.Error()
}

// simple is an image with one file.
func simple(l *ocitest.Layout, change func(*v1.Manifest, *v1.Image)) v1.Descriptor {
	l.T.Helper()
	return l.Manifest(ocitest.Image(none), []ocitest.Layer{l.Layer(ocitest.Tar(l.T, ocitest.File("a", "a")))}, change)
}

// TestDistrust: documents that are not what refers to them, or that could be read in two ways.
func TestDistrust(t *testing.T) {
	other := ocitest.Digest("other")
	for _, c := range []struct {
		name, want string
		make       func(*ocitest.Layout)
	}{
		{"good", "", func(l *ocitest.Layout) { l.Index(simple(l, nil)) }},
		{"no image", "there is no image that can be used", func(l *ocitest.Layout) { l.Index() }},
		{"layout of a later version", `has the version "2.0.0"`, func(l *ocitest.Layout) {
			l.Index(simple(l, nil))
			l.Write("oci-layout", `{"imageLayoutVersion":"2.0.0"}`)
		}},
		{"digest that is a path", `"sha256:../index.json" is no digest`, func(l *ocitest.Layout) {
			d := simple(l, nil)
			d.Digest = "sha256:../index.json"
			l.Index(d)
		}},
		{"layer whose digest is a path", "is no digest", func(l *ocitest.Layout) {
			l.Index(simple(l, func(m *v1.Manifest, _ *v1.Image) {
				m.Layers[0].Digest = "sha256:../../../../../../../../../../../../../../../../../../etc/passwd"
			}))
		}},
		{"layer without a digest", `"" is no digest`, func(l *ocitest.Layout) {
			l.Index(simple(l, func(m *v1.Manifest, _ *v1.Image) { m.Layers[0].Digest = "" }))
		}},
		{"diff ID without an algorithm", `"abc" is no digest`, func(l *ocitest.Layout) {
			l.Index(simple(l, func(_ *v1.Manifest, c *v1.Image) { c.RootFS.DiffIDs[0] = "abc" }))
		}},
		{"another algorithm", "is no digest", func(l *ocitest.Layout) {
			l.Index(simple(l, func(_ *v1.Manifest, c *v1.Image) {
				c.RootFS.DiffIDs[0] = "sha512:" + other[7:] + other[7:]
			}))
		}},
		{"capital letters in a digest", "is no digest", func(l *ocitest.Layout) {
			d := simple(l, nil)
			d.Digest = "sha256:" + digest.Digest(strings.Repeat("A", 64))
			l.Index(d)
		}},
		{"manifest with another content", "has another content", func(l *ocitest.Layout) {
			d := simple(l, nil)
			l.Write("blobs/sha256/"+d.Digest.Encoded(), strings.Repeat(" ", int(d.Size)))
			l.Index(d)
		}},
		{"manifest that is longer", "has more than the", func(l *ocitest.Layout) {
			d := simple(l, nil)
			d.Size--
			l.Index(d)
		}},
		{"manifest that is shorter", "and what refers to it says", func(l *ocitest.Layout) {
			d := simple(l, nil)
			d.Size++
			l.Index(d)
		}},
		{"manifest that is not there", "is not in the layout", func(l *ocitest.Layout) {
			d := simple(l, nil)
			d.Digest = other
			l.Index(d)
		}},
		{"manifest too large", "at most 4194304 are taken", func(l *ocitest.Layout) {
			d := simple(l, nil)
			d.Size = oci.MaxDocument + 1
			l.Index(d)
		}},
		{"negative size", "at most 4194304 are taken", func(l *ocitest.Layout) {
			d := simple(l, nil)
			d.Size = -1
			l.Index(d)
		}},
		{"layer too large", "at most 4294967296 are taken", func(l *ocitest.Layout) {
			l.Index(simple(l, func(m *v1.Manifest, _ *v1.Image) { m.Layers[0].Size = oci.MaxLayer + 1 }))
		}},
		{"layer of another size", "and what refers to it says", func(l *ocitest.Layout) {
			l.Index(simple(l, func(m *v1.Manifest, _ *v1.Image) { m.Layers[0].Size++ }))
		}},
		{"config of another size", "and what refers to it says", func(l *ocitest.Layout) {
			l.Index(simple(l, func(m *v1.Manifest, _ *v1.Image) { m.Config.Size = 1 }))
		}},
		{"another diff ID", "and its diff ID is " + string(other), func(l *ocitest.Layout) {
			l.Index(simple(l, func(_ *v1.Manifest, c *v1.Image) { c.RootFS.DiffIDs[0] = other }))
		}},
		{"a diff ID too many", "has 2 diff IDs for 1 layers", func(l *ocitest.Layout) {
			l.Index(simple(l, func(_ *v1.Manifest, c *v1.Image) { c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, other) }))
		}},
		{"too many layers", "has 128 layers", func(l *ocitest.Layout) {
			y := l.Layer(ocitest.Tar(l.T))
			l.Index(l.Manifest(ocitest.Image(none), slices.Repeat([]ocitest.Layer{y}, oci.MaxLayers+1), nil))
		}},
		{"layers and manifests", "a manifest has a config and layers, and no manifests", func(l *ocitest.Layout) {
			confused(l, v1.MediaTypeImageManifest)
		}},
		{"manifests and layers", "an index has manifests, and neither layers nor a config", func(l *ocitest.Layout) {
			confused(l, v1.MediaTypeImageIndex)
		}},
		{"index that says it is a manifest", "and what refers to it says", func(l *ocitest.Layout) {
			d := simple(l, nil)
			d.MediaType = "application/vnd.docker.distribution.manifest.v2+json"
			l.Index(d)
		}},
		{"a name twice in JSON", "duplicate", func(l *ocitest.Layout) {
			l.Write("index.json", `{"schemaVersion":2,"manifests":[],"manifests":[]}`)
		}},
		{"two documents in one file", "cannot be read", func(l *ocitest.Layout) {
			l.Write("index.json", `{"schemaVersion":2,"manifests":[]}{}`)
		}},
		{"first schema", "only 2 is taken", func(l *ocitest.Layout) {
			l.Index(l.Blob(v1.MediaTypeImageManifest, `{"schemaVersion":1,"fsLayers":[],"config":{},"layers":[]}`))
		}},
		{"index that contains itself", "has another content", func(l *ocitest.Layout) {
			// That an index has the digest of itself cannot be; whoever says so has not hashed it.
			d := l.SubIndex(v1.Descriptor{MediaType: v1.MediaTypeImageIndex, Digest: other, Size: 999})
			text := l.JSON(v1.Index{Manifests: []v1.Descriptor{d}})
			l.Write("blobs/sha256/"+d.Digest.Encoded(), text+strings.Repeat(" ", int(d.Size)-len(text)))
			l.Index(d)
		}},
		{"indexes too deep", "stand in one another more than 4 deep", func(l *ocitest.Layout) {
			d := simple(l, nil)
			for range oci.MaxDepth + 1 {
				d = l.SubIndex(d)
			}
			l.Index(d)
		}},
		{"two platforms in one", `there are two images for linux/amd64, "1.0" and "1.1"`, func(l *ocitest.Layout) {
			a := simple(l, func(_ *v1.Manifest, c *v1.Image) { c.Author = "a" })
			b := simple(l, func(_ *v1.Manifest, c *v1.Image) { c.Author = "b" })
			a.Annotations = map[string]string{v1.AnnotationRefName: "1.0"}
			b.Annotations = map[string]string{v1.AnnotationRefName: "1.1"}
			l.Index(a, b)
		}},
		{"contradiction", `its architecture is "amd64", and the index says "arm64"`, func(l *ocitest.Layout) {
			d := simple(l, nil)
			d.Platform = &v1.Platform{OS: "linux", Architecture: "arm64"}
			l.Index(d)
		}},
		{"no platform", "does not say for which os and architecture", func(l *ocitest.Layout) {
			l.Index(simple(l, func(_ *v1.Manifest, c *v1.Image) { c.OS = "" }))
		}},
		{"for others only", "nodes run Linux", func(l *ocitest.Layout) {
			d := simple(l, nil)
			d.Platform = &v1.Platform{OS: "windows", Architecture: "amd64"}
			l.Index(d)
		}},
		{"no image but another artefact", "it is no image", func(l *ocitest.Layout) {
			l.Index(simple(l, func(m *v1.Manifest, _ *v1.Image) { m.ArtifactType = "application/x" }))
		}},
		{"unknown document", "nothing is known of the type", func(l *ocitest.Layout) {
			l.Index(l.Blob("application/x", "x"))
		}},
		{"unknown layer", "layers of the type", func(l *ocitest.Layout) {
			l.Index(simple(l, func(m *v1.Manifest, _ *v1.Image) { m.Layers[0].MediaType += "+encrypted" }))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := ocitest.New(t)
			c.make(l)
			for _, path := range []string{l.Dir, l.TarOf()} {
				got := refused(t, path, oci.Options{})
				if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
					t.Errorf("refused because %q, want %q", got, c.want)
				}
			}
		})
	}
}

// confused refers to a document that is a manifest and an index.
func confused(l *ocitest.Layout, mediaType string) {
	m := struct {
		v1.Manifest
		Manifests []v1.Descriptor `json:"manifests"`
	}{}
	m.SchemaVersion = 2
	m.Config = l.Blob(v1.MediaTypeImageConfig, "{}")
	m.Layers = []v1.Descriptor{}
	m.Manifests = []v1.Descriptor{simple(l, nil)}
	l.Index(l.Blob(mediaType, l.JSON(m)))
}

// TestManyIndexes: indexes that refer to one another are each read once, and only so many.
func TestManyIndexes(t *testing.T) {
	l := ocitest.New(t)
	d := simple(l, nil)
	for range oci.MaxDepth - 1 {
		d = l.SubIndex(slices.Repeat([]v1.Descriptor{d}, oci.MaxReferences/oci.MaxDepth)...)
	}
	l.Index(d)
	if got := refused(t, l.Dir, oci.Options{}); got != "" {
		t.Errorf("one image, referred to 10^10 times: %s", got)
	}
	l.Index(slices.Repeat([]v1.Descriptor{d}, oci.MaxReferences+1)...)
	if got := refused(t, l.Dir, oci.Options{}); !strings.Contains(got, "refer to more than 10000 things") {
		t.Errorf("a reference too many: %s", got)
	}
	var all []v1.Descriptor
	for i := range oci.MaxDocuments {
		x := v1.Descriptor{MediaType: "application/x", Digest: ocitest.Digest("x"), Size: int64(i)}
		all = append(all, l.SubIndex(x))
	}
	l.Index(all...)
	if got := refused(t, l.Dir, oci.Options{}); !strings.Contains(got, "there is no image") {
		t.Errorf("%d indexes: %s", oci.MaxDocuments, got)
	}
	l.Index(append(all, d)...)
	if got := refused(t, l.Dir, oci.Options{}); !strings.Contains(got, "more than 512 indexes") {
		t.Errorf("one index more: %s", got)
	}
}

// TestLayouts: what is no layout is refused, and nothing outside of one is read.
func TestLayouts(t *testing.T) {
	l := ocitest.New(t)
	d := simple(l, nil)
	l.Index(d)
	file := "blobs/sha256/" + d.Digest.Encoded()
	outside := ocitest.New(t)
	outside.Index(simple(outside, nil))
	for _, c := range []struct {
		name, want string
		change     func(l *ocitest.Layout) string
	}{
		{"blob outside", "escapes", func(l *ocitest.Layout) string {
			l.Remove(file)
			l.Link(file, outside.Dir+"/"+file)
			return l.Dir
		}},
		{"pipe", "is no regular file", func(l *ocitest.Layout) string {
			l.Remove("index.json")
			l.Pipe("index.json")
			return l.Dir
		}},
		{"no layout", "this is no OCI image layout: it has no file oci-layout", func(l *ocitest.Layout) string {
			return t.TempDir()
		}},
		{"no index", "this is no OCI image layout: it has no file index.json", func(l *ocitest.Layout) string {
			l.Remove("index.json")
			return l.Dir
		}},
		{"large index", "index.json: has more than 4194304 bytes", func(l *ocitest.Layout) string {
			l.Write("index.json", strings.Repeat(" ", oci.MaxDocument+1))
			return l.Dir
		}},
		{"no tar", "this is neither a directory nor a tar", func(l *ocitest.Layout) string {
			return l.Dir + "/index.json"
		}},
		{"tar in gzip", "this is neither a directory nor a tar", func(l *ocitest.Layout) string {
			l.Write("t.gz", ocitest.Gzip(t, ocitest.Tar(t, ocitest.File("oci-layout", "{}"))))
			return l.Dir + "/t.gz"
		}},
		{"a file twice", `has "index.json" twice`, func(l *ocitest.Layout) string {
			l.Write("t.tar", ocitest.Tar(t, ocitest.File("index.json", "{}"), ocitest.File("./index.json", "{}")))
			return l.Dir + "/t.tar"
		}},
		{"device", "this is neither a directory nor a file", func(l *ocitest.Layout) string { return "/dev/null" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := ocitest.New(t)
			l.Index(simple(l, nil))
			img, err := oci.Open(t.Context(), c.change(l), oci.Options{Dir: t.TempDir()})
			if err == nil {
				t.Error("it was taken", img.Close())
			} else if !strings.Contains(err.Error(), c.want) {
				t.Errorf("refused because %q, want %q", err, c.want)
			}
		})
	}
	if _, err := oci.Open(t.Context(), t.TempDir()+"/none", oci.Options{}); err == nil {
		t.Error("a file that does not exist was taken")
	}
}

// TestChoice: what is read of an image with several names and platforms.
func TestChoice(t *testing.T) {
	l := ocitest.New(t)
	arch := func(name, variant, author string) v1.Descriptor {
		d := simple(l, func(_ *v1.Manifest, c *v1.Image) {
			c.Architecture, c.Variant, c.Author = name, variant, author
		})
		d.Platform = &v1.Platform{OS: "linux", Architecture: name, Variant: variant}
		return d
	}
	gone := v1.Descriptor{MediaType: v1.MediaTypeImageManifest, Digest: ocitest.Digest("gone"), Size: 5,
		Platform: &v1.Platform{OS: "linux", Architecture: "riscv64"}}
	one := l.SubIndex(arch("amd64", "", "1"), arch("arm", "v6", "1"), arch("arm", "v7", "1"), gone)
	one.Annotations = map[string]string{v1.AnnotationRefName: "1"}
	two := arch("amd64", "", "2")
	two.Annotations = map[string]string{v1.AnnotationRefName: "2"}
	l.Index(one, two)
	for _, c := range []struct {
		name, platforms, want string
	}{
		{"1", "", "linux/amd64 linux/arm/v6 linux/arm/v7 refused linux/riscv64"},
		{"1", "linux/arm", "linux/arm/v6 linux/arm/v7"},
		{"1", "linux/arm/v7 linux/amd64", "linux/amd64 linux/arm/v7"},
		{"2", "", "linux/amd64"},
		{"", "", `there are two images for linux/amd64, "1" and "2": say which is meant`},
		{"", "linux/arm/v6", "linux/arm/v6"},
		{"3", "", `index.json: has no image of the name "3"; it has ["1" "2"]`},
		{"2", "linux/arm64", `there is no image for "linux/arm64"; there are some for linux/amd64`},
		{"1", "linux/riscv64", "linux/riscv64: " + string(gone.Digest) + ": is not in the layout"},
	} {
		o := oci.Options{Name: c.name, Platforms: strings.Fields(c.platforms), Dir: t.TempDir()}
		img, err := oci.Open(t.Context(), l.Dir, o)
		var got []string
		if err != nil {
			got = []string{err.Error()}
		} else {
			for _, p := range img.Platforms {
				got = append(got, p.String())
			}
			for _, r := range img.Refused {
				got = append(got, "refused "+r.Platform)
			}
			if err := img.Close(); err != nil {
				t.Error(err)
			}
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("of %q for %q: %s\nwant %s", c.name, c.platforms, got, c.want)
		}
	}
}

// TestOthersGoOn: one platform that cannot be used does not take the others with it.
func TestOthersGoOn(t *testing.T) {
	l := ocitest.New(t)
	arm := simple(l, func(_ *v1.Manifest, c *v1.Image) { c.Architecture, c.Config.User = "arm64", "nobody" })
	l.Index(arm, simple(l, nil))
	img := open(t, l.Dir, oci.Options{})
	if len(img.Platforms) != 1 || img.Platforms[0].Arch != "amd64" {
		t.Errorf("%+v", img.Platforms)
	}
	if len(img.Refused) != 1 || img.Refused[0].Platform != "linux/arm64" ||
		img.Refused[0].Manifest != string(arm.Digest) || !strings.Contains(img.Refused[0].Why.Error(), "etc/passwd") {
		t.Errorf("%+v", img.Refused)
	}
}
