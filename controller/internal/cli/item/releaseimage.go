package item

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/oci"
	"tandem.internal/shared/items"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// images is what release knows of an image.
type images struct {
	from       asksImage
	is         bool
	user       string
	variables  []string   // that items may set
	under      []string   // diff IDs of layers below its own
	pack       string     // a directory for its files
	signatures string     // a directory with signatures of them
	image      *oci.Image // nil: no image is released
	configs    []string   // files that were written for it
}

func (m *images) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&m.is, "image", false, "PATH is an image layout of the OCI")
	cmd.Flags().StringVar(&m.from.registry, "registry", "",
		"`address` of a registry with the image; http:// for one without TLS")
	cmd.Flags().StringVar(&m.from.name, "name", "", "`name` of the image, of a layout that has several")
	cmd.Flags().StringVar(&m.user, "user", "", "`UID` or UID:GID that an image runs as, in place of its own user")
	cmd.Flags().StringArrayVar(&m.variables, "variable", nil, "`NAME` of a variable that others may set on nodes that "+
		"demand signatures; repeatable")
	cmd.Flags().StringArrayVar(&m.under, "under", nil, "`DIGEST` (diff ID) of a layer of an item that lies below the "+
		"image's own, the lowest first; repeatable")
	cmd.Flags().StringVar(&m.pack, "pack", "", "write the files of an image into this `directory`, and release nothing")
	cmd.Flags().StringVar(&m.signatures, "signatures", "",
		"`directory` with the signatures of an image's files, as --pack has named them; with --encrypted, also the "+
			"encrypted files")
}

// asked reports whether an image is to be released, and what contradicts that.
func (m *images) asked(r *releasing, args []string) (bool, error) {
	asked := m.is || m.from.registry != ""
	for flag, given := range map[string]bool{"--name": m.from.name != "", "--user": m.user != "",
		"--variable": m.variables != nil, "--under": m.under != nil, "--pack": m.pack != "",
		"--signatures": m.signatures != ""} {
		if given && !asked {
			return false, command.Usage("%s is of an image: say --image or --registry", flag)
		}
	}
	switch {
	case !asked:
		return false, nil
	case r.tree || r.signature != "":
		return false, command.Usage("--tree and --signature are not of images")
	case r.encrypted && m.signatures == "":
		return false, command.Usage("--encrypted of an image: have its files written with --pack DIR, sign each and " +
			"encrypt it (tandem item encrypt), and say --signatures DIR")
	case len(args) != 2:
		return false, command.Usage("an image has all its platforms: one PATH is possible")
	case (m.user != "" || m.variables != nil || m.under != nil) && r.meta.Type != items.Service:
		return false, command.Usage("--user, --variable and --under are of a service; this is a %s", r.meta.Type)
	case r.meta.Type == items.Component:
		return false, command.Usage("an image is of a service or layer, not of a component")
	}
	return true, nil
}

// readImage reads an image, and makes a build of it for each platform of the metadata.
func (r *releasing) readImage(ctx context.Context, a *command.App, arg string) error {
	img, err := r.from.read(ctx, a, arg)
	if err != nil {
		return imageFailure(err, arg)
	}
	r.image = img
	if len(r.meta.Platforms) == 0 {
		return command.Usage("the metadata has no platforms, and an image is for some: this one for %s; an example: "+
			"\"platforms\": [{\"architecture\": %q}]", platformsOf(img), img.Platforms[0].Arch)
	}
	for i := range r.meta.Platforms {
		want := &r.meta.Platforms[i]
		p := platformFor(img, want)
		if p == nil {
			return command.Usage("the image has no %s, which the metadata names; it is for %s%s", want.Name(),
				platformsOf(img), refused(img))
		}
		b := &build{of: items.Build{Platform: want}}
		if err := r.fill(ctx, a, b, p); err != nil {
			return err
		}
		if r.meta.Type == items.Service && b.anywhere() {
			a.Warn("%s: a signature of its files lets nodes use them outside of containers, too: tandem publisher "+
				"sign-file --container does not", p)
		}
		for _, l := range p.Layers {
			for _, remark := range l.Remarks {
				a.Warn("%s: %s", p, remark)
			}
		}
		for _, remark := range p.Remarks {
			a.Warn("%s: %s", p, remark)
		}
		r.builds = append(r.builds, b)
	}
	return nil
}

// fill makes the build of a platform.
func (r *releasing) fill(ctx context.Context, a *command.App, b *build, p *oci.Platform) error {
	if err := b.layers(p); err != nil {
		return err
	}
	if r.meta.Type == items.Service {
		if err := r.configure(ctx, a, b, p); err != nil {
			return err
		}
	} else if len(p.Layers) != 1 {
		return command.Usage("%s: an image that is a layer has one layer, not %d", p, len(p.Layers))
	}
	return r.sign(ctx, b)
}

// platformFor is the platform of an image that runs what metadata asks for.
func platformFor(img *oci.Image, want *items.Platform) *oci.Platform {
	for i := range img.Platforms {
		p := &img.Platforms[i]
		if p.Arch == want.Architecture && (want.OS == "" || p.OS == want.OS) &&
			(want.Variant == "" || p.Variant == "" || p.Variant == want.Variant) {
			return p
		}
	}
	return nil
}

func platformsOf(img *oci.Image) string {
	var all []string
	for i := range img.Platforms {
		all = append(all, img.Platforms[i].String())
	}
	return strings.Join(all, ", ")
}

// refused says which platforms of an image are refused.
func refused(img *oci.Image) (text string) {
	for _, r := range img.Refused {
		text += fmt.Sprintf("; %s is refused: %s", r.Platform, r.Why)
	}
	return text
}

// layers adds the layers of a platform to a build.
func (b *build) layers(p *oci.Platform) error {
	for _, l := range p.Layers {
		if l.Unpacked > workload.MaxUnpacked {
			return command.Usage("%s: the layer %s has %s unpacked, and nodes take %s", p, l.Digest,
				command.Size(l.Unpacked), command.Size(workload.MaxUnpacked))
		}
		f, err := l.Open()
		if err != nil {
			return err
		}
		b.files = append(b.files, f.Name())
		if err := f.Close(); err != nil {
			return err
		}
		b.of.Blobs = append(b.of.Blobs, items.Blob{Digest: string(l.Digest), Size: l.Size, DiffID: string(l.DiffID),
			Unpacked: l.Unpacked})
	}
	return nil
}

// configure writes the configuration of a service.
func (r *releasing) configure(ctx context.Context, a *command.App, b *build, p *oci.Platform) error {
	c := workload.Image{Args: p.Config.Args, Env: p.Config.Env, Dir: p.Config.WorkingDir, UID: p.Config.User.UID,
		GID: p.Config.User.GID, StopSignal: p.Config.StopSignal, Variables: r.variables, Layers: slices.Clone(r.under)}
	for _, l := range p.Layers {
		c.Layers = append(c.Layers, string(l.DiffID))
	}
	if r.user != "" {
		var err error
		if c.UID, c.GID, err = userOf(r.user); err != nil {
			return err
		}
	}
	if c.UID == 0 {
		return command.Usage("%s: the image runs as user 0, as whom nodes run none: say another one, as in "+
			"--user 1000", p)
	}
	text := c.Encode()
	if _, problems := workload.ParseImage(text); problems != nil {
		return command.Refuse(command.ExitUsage, wire.CodeMalformed, "%s: its configuration is none for nodes: %s", p,
			problems.First())
	}
	for _, name := range slices.Sorted(maps.Keys(r.meta.Env)) {
		if (r.pack != "" || r.signatures != "") && !slices.Contains(r.variables, name) {
			a.Warn("%s: nodes that demand signatures do not start it: its metadata sets %s, and no --variable names "+
				"that", p, name)
		}
	}
	f, err := os.CreateTemp("", "tandem-image-*.json")
	if err != nil {
		return err
	}
	r.configs = append(r.configs, f.Name())
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	blob, _, err := blobOf(ctx, f.Name(), false)
	b.of.Image, b.files = &blob, append(b.files, f.Name())
	return err
}

// userOf reads UID or UID:GID; the group is that of the user's number if there is none.
func userOf(text string) (uid, gid uint32, err error) {
	user, group, both := strings.Cut(text, ":")
	if !both {
		group = user
	}
	u, uerr := strconv.ParseUint(user, 10, 31)
	g, gerr := strconv.ParseUint(group, 10, 31)
	if uerr != nil || gerr != nil {
		return 0, 0, command.Usage("--user %s: it is written UID or UID:GID, in numbers", text)
	}
	return uint32(u), uint32(g), nil
}

// sign adds the signatures that there are of a build's files, and the files in which these are encrypted.
func (r *releasing) sign(ctx context.Context, b *build) error {
	if r.signatures == "" {
		return nil
	}
	one := func(i int, f *items.Blob) (err error) {
		file := filepath.Join(r.signatures, fileName(f))
		if r.encrypted {
			if f.Encrypted, err = encrypted(ctx, file); err != nil {
				return err
			}
			b.files[i] = file
		}
		path := file + ".minisig"
		text, err := command.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return command.Usage("%s is missing: have the files written anew with --pack, and sign each", path)
		}
		if err != nil {
			return command.Unreadable(path, err)
		}
		f.Minisign = string(text)
		return nil
	}
	for i := range b.of.Blobs {
		if err := one(i, &b.of.Blobs[i]); err != nil {
			return err
		}
	}
	if b.of.Image != nil {
		return one(len(b.of.Blobs), b.of.Image)
	}
	return nil
}

// anywhere reports whether a file of a build has a signature that is not for containers alone.
func (b *build) anywhere() bool {
	return slices.ContainsFunc(b.of.Files(), func(f items.Blob) bool {
		s, err := publisher.Parse(f.Minisign)
		return err == nil && !s.ForContainers() // what is malformed is refused later
	})
}

// fileName is what --pack calls a file: the digits of its digest.
func fileName(f *items.Blob) string { return strings.TrimPrefix(f.Digest, wire.HashPrefix) }

// write writes the files of an image, to be signed.
func (r *releasing) write(ctx context.Context, a *command.App) error {
	if err := os.MkdirAll(r.pack, 0o755); err != nil {
		return command.Unreadable(r.pack, err)
	}
	for _, b := range r.builds {
		for i, f := range b.of.Files() {
			path := filepath.Join(r.pack, fileName(&f))
			if err := copyFile(ctx, path, b.files[i]); err != nil {
				return command.Unreadable(path, err)
			}
			a.Print("%s %s\n", path, command.Size(f.Size))
		}
	}
	return nil
}

func copyFile(ctx context.Context, to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err == nil {
		_, err = io.Copy(out, untilDone{ctx, in})
		err = errors.Join(err, out.Close())
	}
	return errors.Join(err, in.Close())
}

// clear removes what was written for an image.
func (m *images) clear() (err error) {
	for _, file := range m.configs {
		err = errors.Join(err, os.Remove(file))
	}
	if m.image != nil {
		err = errors.Join(err, m.image.Close())
	}
	return err
}
