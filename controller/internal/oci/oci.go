// Package oci reads images of the OCI, from a layout on the disk or from a registry, and makes of them what nodes can
// have: for each platform the configuration, and the layers as plain ustar in gzip.
//
// Nothing that an image says is trusted. It guarantees that
//   - every document, layer and unpacked layer has the size and the digest that refer to it, or nothing is made of it;
//   - what is read is bounded (the constants below), whatever sizes are claimed;
//   - a rewritten layer has regular files, directories, symbolic links, hard links between its own files, and
//     whiteouts, all below its root and none through a link; no devices, no set-uid bits, no extended attributes;
//   - the same layer gives the same bytes on every machine, with one version of this program.
//
// It decides nothing about nodes, and asks no controller.
package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/opencontainers/go-digest"
)

// Limits of what is read.
const (
	// MaxDocument is the size of an index, manifest or configuration in bytes; registries take no larger manifests.
	MaxDocument = 4 << 20
	// MaxDocuments is how many of these are read of one image: indexes can refer to one another by the million.
	MaxDocuments = 512
	// MaxReferences is how many things its indexes refer to; large images have some hundreds.
	MaxReferences = 10_000
	// MaxDepth is how many indexes may stand in one another; builders need two.
	MaxDepth = 4
	// MaxLayers is how many layers an image has; Docker has the same limit, and overlayfs has room for it.
	MaxLayers = 127
	// MaxLayer is the size of a layer as it is stored.
	MaxLayer = 4 << 30
	// MaxUnpacked is the size of a layer's archive, and of all layers of a platform: a file in ustar ends at 8 GiB.
	MaxUnpacked = 8<<30 - 1
	// MaxPacked is the size of all rewritten layers of an image, which wait on the disk of whoever reads it.
	MaxPacked = 16 << 30
	// MaxEntries is how many files a layer has: their names are kept in memory while it is read.
	MaxEntries = 500_000
	// MaxNesting is how deep directories stand in one another: those who unpack may go down step by step.
	MaxNesting = 100
	// MaxAccounts is the size of a file of users or groups.
	MaxAccounts = 1 << 20
	// MaxWindow is the memory that unpacking zstd may take: the most that its command takes unless it is told to.
	MaxWindow = 128 << 20
)

// Image is what was read. Close it.
type Image struct {
	Platforms []Platform // usable, in the order of the image's indexes; at least one
	Refused   []Refused  // platforms that cannot be used
	Remarks   []string   // what was passed over, a sentence each

	dir string
}

// Close removes the rewritten layers from the disk.
func (i *Image) Close() error { return os.RemoveAll(i.dir) }

// Refused is a platform that cannot be used.
type Refused struct {
	Platform string // as Platform.String; "" if that is not known
	Manifest string // digest
	Why      error  // an *Invalid
}

// Platform is an image for one kind of machine.
type Platform struct {
	OS, Arch, Variant string   // as Go names them: linux, arm, v7; Variant may be ""
	OSFeatures        []string // all needed
	Manifest          string   // digest of its manifest
	Config            Config
	Layers            []*Layer // the lowest first; two platforms with one layer have the same pointer
	Remarks           []string // about its configuration, a sentence each
}

// String is os/arch or os/arch/variant.
func (p *Platform) String() string {
	s := p.OS + "/" + p.Arch
	if p.Variant != "" {
		s += "/" + p.Variant
	}
	return s
}

// Config is how a platform's image is to be run.
type Config struct {
	Args       []string // entry point and command; none in an image that is only files
	Env        []string // NAME=value
	WorkingDir string   // absolute and clean
	User       User
	StopSignal string // SIGTERM, SIGRTMIN+3; "" if the image does not say
	Ports      []Port // sorted
	Labels     map[string]string
}

// User is whom an image runs as, inside the container. A name in the image has been looked up in its own files.
type User struct{ UID, GID uint32 }

// String is uid:gid.
func (u User) String() string { return fmt.Sprintf("%d:%d", u.UID, u.GID) }

// Port is a port that an image listens on.
type Port struct {
	Port     uint16
	Protocol string // tcp, udp
}

// Layer is a rewritten layer, a file in gzip.
type Layer struct {
	Digest   digest.Digest // of the file
	DiffID   digest.Digest // of the archive in it
	Size     int64         // of the file, in bytes
	Unpacked int64         // of the archive in it, in bytes
	Entries  int           // of the archive
	From     Source
	Remarks  []Remark // what is not as it was

	file     string
	accounts map[string]account
}

// Source is a layer as the image has it.
type Source struct {
	MediaType string
	Digest    digest.Digest
	DiffID    digest.Digest
	Size      int64
}

// Open opens the layer's file. It is there until the image is closed.
func (l *Layer) Open() (*os.File, error) { return os.Open(l.file) }

// Remark says that something of a layer is not as it was.
type Remark struct {
	What  string // a phrase that follows "3 ×"
	Count int
	Paths []string // the first of them
}

// String is a line for people.
func (r Remark) String() string {
	s := fmt.Sprintf("%s: %q", r.What, r.Paths[0])
	if r.Count > 1 {
		s = fmt.Sprintf("%s: %q and %d more", r.What, r.Paths[0], r.Count-1)
	}
	return s
}

// Options are how an image is read. The zero value will do.
type Options struct {
	Dir       string   // for the rewritten layers; "": where the system has temporary files
	Name      string   // which image of a layout that has several (org.opencontainers.image.ref.name); "": all
	Platforms []string // as Platform.String, which are read; none: all of Linux
}

// Invalid is the error for an image that is not what it says, or that is not taken.
type Invalid struct {
	At  string // a digest, file or path in the image
	Why string
}

// Error is one line.
func (e *Invalid) Error() string {
	if e.At == "" {
		return e.Why
	}
	return e.At + ": " + e.Why
}

func invalid(at, format string, args ...any) error {
	return &Invalid{At: readable(at, 300), Why: readable(fmt.Sprintf(format, args...), 2000)}
}

// readable makes a text of an image one that can be shown and stand in JSON: valid, and no longer than most bytes.
func readable(s string, most int) string {
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// Open reads the image layout at path, a directory or a tar of one. It is an *Invalid if it is none or cannot be used.
func Open(ctx context.Context, path string, o Options) (img *Image, err error) {
	src, err := openLayout(path, o.Name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	return read(ctx, src, o)
}
