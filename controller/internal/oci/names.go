package oci

import (
	"archive/tar"
	"slices"
	"strings"
)

// cleanName is a path in a layer, from its root, without a slash at either end; "" is the root. A name that leads out
// of the layer is refused, even if it came back.
func cleanName(name string) (string, error) {
	if strings.ContainsRune(name, 0) {
		return "", invalid(name, "the name has a zero byte")
	}
	parts := slices.DeleteFunc(strings.Split(name, "/"), func(p string) bool { return p == "" || p == "." })
	if slices.Contains(parts, "..") {
		return "", invalid(name, "the name leads upwards")
	}
	if len(parts) > MaxNesting {
		return "", invalid(strings.Join(parts[:3], "/")+"/…", "is %d directories deep; at most %d are taken",
			len(parts), MaxNesting)
	}
	return strings.Join(parts, "/"), nil
}

// How whiteouts are named (image-spec, layer.md, "Whiteouts").
const (
	whitePrefix = ".wh."
	metaPrefix  = ".wh..wh."
	opaque      = ".wh..wh..opq"
)

// whiteout reports whether a path is one, and whether it belongs to what aufs keeps for itself.
func whiteout(name string) (white, left bool, err error) {
	parts := strings.Split(name, "/")
	last := len(parts) - 1
	for i, p := range parts {
		switch {
		case !strings.HasPrefix(p, whitePrefix):
		case p == opaque && i == last:
			return true, false, nil
		case strings.HasPrefix(p, metaPrefix):
			return false, true, nil
		case i < last:
			return false, false, invalid(name, "has something below a whiteout")
		case p == whitePrefix, p == whitePrefix+".", p == whitePrefix+"..":
			return false, false, invalid(name, "is a whiteout of nothing, or of a directory above")
		default:
			return true, false, nil
		}
	}
	return false, false, nil
}

// isSparse reports whether a file's content has holes that the archive leaves out, in any of GNU's formats.
func isSparse(h *tar.Header) bool {
	if h.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for k := range h.PAXRecords {
		if strings.HasPrefix(k, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// attributes are the names of an entry's extended attributes, sorted.
func attributes(h *tar.Header) (names []string) {
	for k := range h.PAXRecords {
		for _, p := range []string{"SCHILY.xattr.", "LIBARCHIVE.xattr."} {
			if name, is := strings.CutPrefix(k, p); is {
				names = append(names, name)
			}
		}
		if strings.HasPrefix(k, "SCHILY.acl.") || strings.HasPrefix(k, "RHT.security.") {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	return names
}
