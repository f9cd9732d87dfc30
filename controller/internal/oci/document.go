package oci

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// The media types that Docker gave what the OCI then specified. They differ in nothing that is read here.
const (
	dockerIndex    = "application/vnd.docker.distribution.manifest.list.v2+json"
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	dockerConfig   = "application/vnd.docker.container.image.v1+json"
	dockerLayer    = "application/vnd.docker.image.rootfs.diff.tar"
)

func isIndex(t string) bool    { return t == v1.MediaTypeImageIndex || t == dockerIndex }
func isManifest(t string) bool { return t == v1.MediaTypeImageManifest || t == dockerManifest }
func isConfig(t string) bool   { return t == v1.MediaTypeImageConfig || t == dockerConfig }

// packings are how layers are packed, by media type.
var packings = map[string]packing{
	v1.MediaTypeImageLayer: plain, v1.MediaTypeImageLayerGzip: gzipped, v1.MediaTypeImageLayerZstd: zstandard,
	dockerLayer: plain, dockerLayer + ".gzip": gzipped, dockerLayer + ".zstd": zstandard,
}

type packing int

const (
	plain packing = iota
	gzipped
	zstandard
)

// document has what indexes and manifests are told apart by.
type document struct {
	SchemaVersion int            `json:"schemaVersion"`
	MediaType     string         `json:"mediaType"`
	Manifests     jsontext.Value `json:"manifests"`
	Config        jsontext.Value `json:"config"`
	Layers        jsontext.Value `json:"layers"`
	FSLayers      jsontext.Value `json:"fsLayers"`
	Blobs         jsontext.Value `json:"blobs"`
}

// parseIndex reads an index of this media type; at names it for people. An index that could be taken for a manifest
// as well is refused (CVE-2021-41190).
func parseIndex(text []byte, mediaType, at string) ([]v1.Descriptor, error) {
	d, err := parseDocument(text, mediaType, at)
	if err != nil {
		return nil, err
	}
	if d.Manifests == nil || d.Config != nil || d.Layers != nil {
		return nil, invalid(at, "an index has manifests, and neither layers nor a config")
	}
	var all []v1.Descriptor
	if err := json.Unmarshal(d.Manifests, &all); err != nil {
		return nil, invalid(at, "cannot be read: %v", err)
	}
	for _, m := range all {
		if err := checkDescriptor(&m, MaxDocument); err != nil {
			return nil, invalid(at, "%v", err)
		}
	}
	return all, nil
}

// parseManifest reads a manifest in the same way.
func parseManifest(text []byte, mediaType, at string) (*v1.Manifest, error) {
	d, err := parseDocument(text, mediaType, at)
	if err != nil {
		return nil, err
	}
	if d.Config == nil || d.Layers == nil || d.Manifests != nil {
		return nil, invalid(at, "a manifest has a config and layers, and no manifests")
	}
	m := &v1.Manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, invalid(at, "cannot be read: %v", err)
	}
	if len(m.Layers) > MaxLayers {
		return nil, invalid(at, "has %d layers; at most %d are taken", len(m.Layers), MaxLayers)
	}
	if err := checkDescriptor(&m.Config, MaxDocument); err != nil {
		return nil, invalid(at, "%v", err)
	}
	for i := range m.Layers {
		if err := checkDescriptor(&m.Layers[i], MaxLayer); err != nil {
			return nil, invalid(at, "%v", err)
		}
	}
	return m, nil
}

func parseDocument(text []byte, mediaType, at string) (*document, error) {
	d := &document{}
	switch err := json.Unmarshal(text, d); {
	case err != nil:
		return nil, invalid(at, "cannot be read: %v", err)
	case d.FSLayers != nil || d.SchemaVersion != 2:
		return nil, invalid(at, "schemaVersion is %d; only 2 is taken", d.SchemaVersion)
	case d.Blobs != nil:
		return nil, invalid(at, "has blobs, which are of no image")
	case d.MediaType != "" && d.MediaType != mediaType:
		return nil, invalid(at, "is a %.80q, and what refers to it says %.80q", d.MediaType, mediaType)
	}
	return d, nil
}

// checkDescriptor refuses what refers to nothing that can be read.
func checkDescriptor(d *v1.Descriptor, most int64) error {
	if err := checkDigest(d.Digest); err != nil {
		return err
	}
	if d.Size < 0 || d.Size > most {
		return invalid(d.Digest.String(), "says that it has %d bytes; at most %d are taken", d.Size, most)
	}
	return nil
}

// checkDigest takes SHA-256 in lower case only: a digest becomes the name of a file, and nodes know no other.
func checkDigest(d digest.Digest) error {
	if d.Validate() != nil || d.Algorithm() != digest.SHA256 {
		return invalid("", "%.90q is no digest; only sha256: and 64 hexadecimal digits are taken", string(d))
	}
	return nil
}

// digestOf is the digest of a hash's sum.
func digestOf(sum []byte) digest.Digest {
	return digest.NewDigestFromEncoded(digest.SHA256, hex.EncodeToString(sum))
}

func digestOfText(text []byte) digest.Digest {
	sum := sha256.Sum256(text)
	return digestOf(sum[:])
}

// image has what is read of an image's configuration.
type image struct {
	v1.Platform
	Config v1.ImageConfig `json:"config"`
	RootFS v1.RootFS      `json:"rootfs"`
}

// parseImage reads the configuration of an image that has so many layers. Its platform completes the one of the index,
// which may be nil, and may not contradict it.
func parseImage(text []byte, layers int, from *v1.Platform, at string) (*image, error) {
	c := &image{}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, invalid(at, "cannot be read: %v", err)
	}
	if c.RootFS.Type != "layers" || len(c.RootFS.DiffIDs) != layers {
		return nil, invalid(at, "has %d diff IDs for %d layers", len(c.RootFS.DiffIDs), layers)
	}
	for _, d := range c.RootFS.DiffIDs {
		if err := checkDigest(d); err != nil {
			return nil, invalid(at, "%v", err)
		}
	}
	if from != nil {
		for _, p := range []struct {
			name, index string
			config      *string
		}{
			{"os", from.OS, &c.OS}, {"architecture", from.Architecture, &c.Architecture},
			{"variant", from.Variant, &c.Variant},
		} {
			if *p.config == "" {
				*p.config = p.index
			} else if p.index != "" && p.index != *p.config {
				return nil, invalid(at, "its %s is %.40q, and the index says %.40q", p.name, *p.config, p.index)
			}
		}
		if c.OSFeatures == nil {
			c.OSFeatures = from.OSFeatures
		}
	}
	slices.Sort(c.OSFeatures)
	if c.OS == "" || c.Architecture == "" {
		return nil, invalid(at, "does not say for which os and architecture it is")
	}
	return c, nil
}
