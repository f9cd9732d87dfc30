package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// MaxUnpacked is the most bytes of an archive that is unpacked.
const MaxUnpacked int64 = 4 << 30

// Unpack says that a resource is an archive, ustar compressed with gzip, of which the process finds the tree.
type Unpack struct {
	DiffID string `json:"diffId"` // of the archive, unpacked: sha256: and 64 hexadecimal digits
	Size   int64  `json:"size"`   // most bytes of the archive, unpacked
	// Path is the name of a file at the top of the tree that is meant: of a hook. "": the tree is.
	Path string `json:"path,omitempty"`
}

// unpack reads how a resource is unpacked.
func (p *parser) unpack(a strictjson.At) *Unpack {
	var u Unpack
	p.Object(a,
		strictjson.Required("diffId", func(a strictjson.At) {
			var ok bool
			if u.DiffID, ok = p.Str(a); ok && !wire.ValidHash(u.DiffID) {
				p.Bad(a, "the digest of the archive is sha256: and 64 lower-case hexadecimal digits")
			}
		}),
		strictjson.Required("size", func(a strictjson.At) {
			n, _ := p.Whole(a, 1, uint64(MaxUnpacked),
				fmt.Sprintf("the size of the archive is a whole number of bytes, 1 to %d", MaxUnpacked))
			u.Size = int64(n)
		}),
		strictjson.Optional("path", func(a strictjson.At) {
			var ok bool
			if u.Path, ok = p.Str(a); ok && (name(u.Path) != "" || strings.Contains(u.Path, "/") || u.Path == "." ||
				u.Path == "..") {
				p.Bad(a, "the path is the name of a file at the top of the archive")
			}
		}))
	return &u
}

// unpackable returns the reasons why resources cannot be unpacked: a tree is no program, and of what a running process
// has it cannot take the place.
func unpackable(resources map[string]Artifact) (all []defect) {
	for _, n := range slices.Sorted(maps.Keys(resources)) {
		a := resources[n]
		if a.Unpack == nil {
			continue
		}
		bad := func(code wire.Code, why string) {
			all = append(all, defect{code, "", strictjson.Show(n) + " is unpacked: " + why})
		}
		switch {
		case strings.HasPrefix(n, hookPrefix) && a.Unpack.Path == "":
			bad(wire.CodeBadValue, "a hook is a file: say which by path")
		case !strings.HasPrefix(n, hookPrefix) && a.Unpack.Path != "":
			bad(wire.CodeBadValue, "only a hook has a path")
		case a.Class == DynamicResource:
			bad(wire.CodeBadValue, "a dynamic resource is a file")
		case !holds(a.Verification.Checksum):
			bad(wire.CodeMissing, "it needs a checksum of SHA256")
		}
	}
	return all
}

// Equal reports whether both say the same.
func (u *Unpack) Equal(o *Unpack) bool {
	if u == nil || o == nil {
		return u == o
	}
	return *u == *o
}
