package items

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"tandem.internal/shared/near"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Bounds of a content.
const (
	MaxBlobs = 128     // of a build
	MaxBlob  = 1 << 40 // bytes of a file, packed or not
)

// Form is what nodes make of the files of a version.
type Form string

// The forms.
const (
	File  Form = "file"  // one file, as it is
	Tree  Form = "tree"  // a directory, in a tar file (ustar) that gzip has packed
	Image Form = "image" // the layers of an OCI image, the lowest first, and its configuration
)

// Content is what a version of an item consists of: files in the controller's store.
type Content struct {
	Form   Form    `json:"form"`   // what nodes make of the files
	Builds []Build `json:"builds"` // one without a platform, or one for each platform of the metadata
}

// Build is a version for one platform.
type Build struct {
	Platform *Platform `json:"platform,omitempty"` // one of the metadata; default: any
	Blobs    []Blob    `json:"blobs"`              // the file, or the layers of an image, the lowest first
	Image    *Blob     `json:"image,omitempty"`    // of an image that is a service: its configuration
	// of a tree: the files at its top that are hooks of a service, such as iss_hook_start
	Hooks []string `json:"hooks,omitempty"`
}

// Blob is a file in the controller's store, or what is in one that is encrypted.
type Blob struct {
	Digest string `json:"digest"`                           // of the file: sha256: and 64 hexadecimal digits
	Size   int64  `json:"size" min:"0" max:"1099511627776"` // of the file, in bytes
	DiffID string `json:"diffId,omitzero"`                  // digest of the tar file in it, of a tree or layer
	// of that tar file, in bytes; default: not known
	Unpacked int64  `json:"unpacked,omitzero" min:"0" max:"1099511627776"`
	Minisign string `json:"minisign,omitzero"` // a publisher's signature of the file
	// the file that the store has in its place, with the file in it; default: the store has the file itself
	Encrypted *wire.Encrypted `json:"encrypted,omitempty"`
}

// Stored is the digest and the size of the file in the store.
func (b *Blob) Stored() (digest string, size int64) {
	if b.Encrypted != nil {
		return b.Encrypted.Digest, b.Encrypted.Size
	}
	return b.Digest, b.Size
}

// Files are all files of a build, the blobs first.
func (b *Build) Files() []Blob {
	if b.Image == nil {
		return b.Blobs
	}
	return append(slices.Clip(b.Blobs), *b.Image)
}

// ParseContent reads the content of a version strictly.
func ParseContent(data []byte) (*Content, Problems) { return read(data, MaxDocument, reader.content) }

// Encode is the content as its digest has it: equal contents are equal bytes.
func (c *Content) Encode() []byte {
	text, err := json.Marshal(c, json.Deterministic(true))
	if err != nil {
		panic("items: a content: " + err.Error()) // only our own types come here
	}
	return text
}

// Digest names the content: sha256: and 64 hexadecimal digits, of Encode.
func (c *Content) Digest() string { return wire.Hash(c.Encode()) }

// Build returns the build for a platform of the metadata; nil is any platform. Nil: there is none.
func (c *Content) Build(p *Platform) *Build {
	for i := range c.Builds {
		b := &c.Builds[i]
		if b.Platform == nil || p != nil && b.Platform.Equal(p) {
			return b
		}
	}
	return nil
}

// Equal reports whether two platforms are written alike.
func (p *Platform) Equal(q *Platform) bool { return p.key() == q.key() }

func (r reader) content(a at, c *Content) {
	buildsAt := a
	ok := r.Object(a,
		must("form", &c.Form, among(r, File, Tree, Image)),
		must("builds", &c.Builds, func(a at) []Build {
			buildsAt = a
			all := list(r, MaxList, "build for", r.build, Build.key)(a)
			if len(all) == 0 && !r.Over() {
				r.Bad(a, "a version has a build for some platform, or one for any")
			}
			return all
		}),
	)
	if !ok || r.Over() {
		return
	}
	for i := range c.Builds {
		r.formed(c, i, buildsAt)
	}
}

// formed checks a build against the form.
func (r reader) formed(c *Content, i int, a at) {
	b, here := &c.Builds[i], at{Ptr: fmt.Sprintf("%s/%d", a.Ptr, i), Off: a.Off}
	blobs := at{Ptr: here.Ptr + "/blobs", Off: a.Off}
	switch {
	case b.Platform == nil && len(c.Builds) > 1:
		r.Bad(here, "a build for any platform is the only one")
	case c.Form != Image && b.Image != nil:
		r.Bad(at{Ptr: here.Ptr + "/image", Off: a.Off}, "only an image has a configuration; this is a "+string(c.Form))
	case b.Image != nil && (b.Image.DiffID != "" || b.Image.Unpacked != 0):
		r.Bad(at{Ptr: here.Ptr + "/image", Off: a.Off}, "a file is not unpacked, and has neither diffId nor unpacked")
	case c.Form != Tree && len(b.Hooks) > 0:
		r.Bad(at{Ptr: here.Ptr + "/hooks", Off: a.Off}, "only a tree has hooks; this is a "+string(c.Form))
	case len(b.Blobs) == 0:
		r.Bad(blobs, "a build has a file")
	case c.Form != Image && len(b.Blobs) > 1:
		r.Bad(blobs, "a "+string(c.Form)+" is one file; only an image has several layers")
	}
	for j := range b.Blobs {
		one, at := &b.Blobs[j], at{Ptr: fmt.Sprintf("%s/%d", blobs.Ptr, j), Off: a.Off}
		switch {
		case c.Form == File && (one.DiffID != "" || one.Unpacked != 0):
			r.Bad(at, "a file is not unpacked, and has neither diffId nor unpacked")
		case c.Form != File && one.DiffID == "":
			at.Ptr += "/diffId"
			r.Add(at, wire.CodeMissing, "the digest of the tar file is required")
		}
	}
}

// key tells builds apart.
func (b Build) key() string {
	if b.Platform == nil {
		return "any platform"
	}
	return b.Platform.key()
}

func (r reader) build(a at) (b Build) {
	r.Object(a,
		may("platform", &b.Platform, func(a at) *Platform { p := r.platform(a); return &p }),
		must("blobs", &b.Blobs, list(r, MaxBlobs, "file", r.blob, func(Blob) string { return "" })),
		may("image", &b.Image, func(a at) *Blob { f := r.blob(a); return &f }),
		may("hooks", &b.Hooks, list(r, MaxList, "hook", r.hook, func(s string) string { return s })),
	)
	return b
}

// hook reads the name of a hook.
func (r reader) hook(a at) string {
	s := r.text(a)
	if s != "" && !slices.Contains(workload.Hooks, s) {
		r.Bad(a, strictjson.Show(s)+" is no hook"+near.Hint(s, workload.Hooks))
	}
	return s
}

func (r reader) blob(a at) (b Blob) {
	r.Object(a,
		must("digest", &b.Digest, r.digest),
		must("size", &b.Size, whole[int64](r, "a size in bytes", 0, MaxBlob)),
		may("diffId", &b.DiffID, r.digest),
		may("unpacked", &b.Unpacked, whole[int64](r, "a size in bytes", 0, MaxBlob)),
		may("minisign", &b.Minisign, r.minisign),
		may("encrypted", &b.Encrypted, func(a at) *wire.Encrypted { e := r.encrypted(a); return &e }),
	)
	return b
}

func (r reader) encrypted(a at) (e wire.Encrypted) {
	r.Object(a,
		must("digest", &e.Digest, r.digest),
		must("size", &e.Size, whole[int64](r, "a size in bytes", 1, MaxBlob)),
	)
	return e
}

func (r reader) minisign(a at) string {
	s, ok := r.Str(a)
	if !ok {
		return ""
	}
	if _, err := publisher.Parse(s); err != nil {
		r.Bad(a, "it is not what minisign writes: "+err.Error())
	}
	return s
}
