package item

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/artefact"
	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/items"
)

// releasing is a release that is being made.
type releasing struct {
	signature   string // of the one file
	ready, tree bool
	encrypted   bool // the store gets FILE.age
	images
	meta   *items.Meta
	text   []byte // of the metadata
	builds []*build
}

// build is what one PATH becomes.
type build struct {
	path, file string // file: path, or what it was packed into
	of         items.Build
	files      []string // where those of the build are
}

func release(a *command.App) *cobra.Command {
	var r releasing
	cmd := &cobra.Command{
		Use: "release META PATH…", Short: "Release a version of an update item",
		Long: `Release a version of an item that was created. PATH is a file, or a directory, which is packed.
It goes into the controller's store; an upload that was interrupted goes on when the same command
is run again, and what is there is not sent again. An item for several platforms has one PATH for
any of them, or PLATFORM=PATH for each, where PLATFORM is an architecture, or architecture/variant.

With --image, PATH is an image layout of the OCI, a directory or a tar of one; with --registry it is
NAME:TAG or NAME@DIGEST there (see tandem item image). It is rewritten for each platform of the
metadata, whose image runs as --user, if that is given. An image that is a layer has one layer.

PATH.minisig beside a file, or --signature, is a publisher's signature. To sign a directory, pack
it first (tandem item pack), sign what that writes, and release it with --tree. To sign an image, have
its files written with --pack DIR, sign each of them, and release it with --signatures DIR. With
--encrypted the store gets PATH.age in the place of PATH, which tandem item encrypt has written.

A version never changes: the same release again changes nothing, another one is refused. Without
--ready it is in preparation, and not deployed.`,
		Example: "  tandem item release sensor.json ./sensor --ready\n" +
			"  tandem item release camera.json amd64=out/amd64 arm64/v8=out/arm64\n" +
			"  tandem item release python.json python.tar.gz --tree\n" +
			"  tandem item release sensor.json sensor-1.4.tar --image --user 1000",
		Args: command.AtLeast("META", "PATH"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			defer func() { err = errors.Join(err, r.clear()) }()
			if err := r.read(cmd.Context(), a, args); err != nil {
				return err
			}
			if r.pack != "" {
				return r.write(cmd.Context(), a)
			}
			return r.send(cmd.Context(), a)
		},
	}
	cmd.Flags().StringVar(&r.signature, "signature", "", "`file` with the signature of the one file")
	cmd.Flags().BoolVar(&r.ready, "ready", false, "it may be deployed")
	cmd.Flags().BoolVar(&r.encrypted, "encrypted", false, "the store gets PATH.age, from tandem item encrypt")
	cmd.Flags().BoolVar(&r.tree, "tree", false, "PATH is a directory that tandem item pack has packed")
	r.images.flags(cmd)
	return cmd
}

// read reads the metadata, and packs and hashes what is released.
func (r *releasing) read(ctx context.Context, a *command.App, args []string) error {
	meta, from, err := readMeta(a, args[0])
	if err != nil {
		return err
	}
	if r.meta = meta; meta.Version == "" {
		return command.Usage("%s has no version: a version is released with its number", from.File)
	}
	if r.text, err = json.Marshal(meta); err != nil {
		return err
	}
	if isImage, err := r.images.asked(r, args); err != nil || isImage {
		return errors.Join(err, r.readImage(ctx, a, args[len(args)-1]))
	}
	if len(args) > 2 && r.signature != "" {
		return command.Usage("--signature is of one file; of several each has its own beside it, FILE.minisig")
	}
	for _, arg := range args[1:] {
		b, err := r.named(arg, len(args) > 2)
		if err != nil {
			return err
		}
		r.builds = append(r.builds, b)
	}
	for _, b := range r.builds {
		if err := b.read(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// named says what an argument is: a path, or one for a platform.
func (r *releasing) named(arg string, several bool) (*build, error) {
	name, path, has := strings.Cut(arg, "=")
	if has {
		var found []*items.Platform
		for i := range r.meta.Platforms {
			if p := &r.meta.Platforms[i]; name == p.Architecture || name == p.Architecture+"/"+p.Variant {
				found = append(found, p)
			}
		}
		if len(found) > 1 {
			return nil, command.Usage("%s are several platforms of the metadata: say architecture/variant", name)
		}
		if len(found) == 1 {
			return &build{path: path, of: items.Build{Platform: found[0]}}, nil
		}
	}
	if !several {
		return &build{path: arg}, nil
	}
	var all []string
	for _, p := range r.meta.Platforms {
		all = append(all, p.Architecture)
	}
	return nil, command.Usage("%s: of several each is PLATFORM=PATH%s", arg,
		command.Suggest(name, all, "the metadata has "+term.List(all)))
}

// read finds out what a path is.
func (b *build) read(ctx context.Context, r *releasing) error {
	info, err := os.Stat(b.path)
	if err != nil {
		return command.Unreadable(b.path, err)
	}
	b.file = b.path
	if info.IsDir() != r.builds[0].packed() && b != r.builds[0] {
		return command.Usage("%s and %s: either all are directories or none is", r.builds[0].path, b.path)
	}
	signature := r.signature
	if info.IsDir() {
		if b.file, err = packed(ctx, b.path); err != nil {
			return err
		}
	} else if signature == "" {
		signature = b.path + ".minisig"
	}
	blob, hooks, err := blobOf(ctx, b.file, info.IsDir() || r.tree)
	if err != nil {
		return err
	}
	if signature != "" {
		text, err := command.ReadFile(signature)
		if err != nil && (r.signature != "" || !errors.Is(err, fs.ErrNotExist)) {
			return command.Unreadable(signature, err)
		}
		blob.Minisign = string(text)
	}
	if r.encrypted {
		if info.IsDir() {
			return command.Usage("%s is a directory: pack it, encrypt what that writes (tandem item encrypt), and "+
				"release it with --tree --encrypted", b.path)
		}
		if err = current(b.file); err != nil {
			return err
		}
		if blob.Encrypted, err = encrypted(ctx, b.file); err != nil {
			return err
		}
	}
	b.of.Blobs, b.files = []items.Blob{blob}, []string{b.file}
	if r.meta.Type == items.Service {
		b.of.Hooks = hooks
	}
	return nil
}

// packed reports whether the path was a directory.
func (b *build) packed() bool { return b.file != b.path }

// clear removes what was packed.
func (r *releasing) clear() (err error) {
	if err := r.images.clear(); r.image != nil {
		return err
	}
	for _, b := range r.builds {
		if b.file != "" && b.packed() {
			err = errors.Join(err, os.Remove(b.file))
		}
	}
	return err
}

// content is what is released.
func (r *releasing) content() *items.Content {
	c := &items.Content{Form: items.File}
	switch {
	case r.image != nil && r.meta.Type == items.Service:
		c.Form = items.Image
	case r.image != nil || r.tree || r.builds[0].packed():
		c.Form = items.Tree
	}
	for _, b := range r.builds {
		c.Builds = append(c.Builds, b.of)
	}
	return c
}

// send asks whether the version would be taken, brings its files to the controller, and releases it.
func (r *releasing) send(ctx context.Context, a *command.App) error {
	ref := r.meta.Ref()
	in := op.ReleaseItemIn{ItemIn: op.ItemIn{Type: string(ref.Type), Item: ref.Codename}, DryRun: true,
		ItemRelease: op.ItemRelease{Meta: r.text, Content: r.content().Encode(), State: items.Preparation}}
	if r.ready {
		in.State = items.Ready
	}
	return command.Gather(ctx, a, func(ctx context.Context, c *client.Client) (v view.ItemChange, err error) {
		if v, err = client.Call(ctx, c, op.ReleaseItem, in); err != nil {
			return v, err
		}
		sent := map[string]bool{}
		for _, b := range r.builds {
			for i, f := range b.of.Files() {
				digest, _ := f.Stored()
				if sent[digest] {
					continue
				}
				name := ref.Codename + " " + r.meta.Version
				name = name[:min(len(name), maxName)]
				if _, _, err := artefact.Put(ctx, a, c, stored(&f, b.files[i]), name); err != nil {
					return v, err
				}
				sent[digest] = true
			}
		}
		in.DryRun = false
		return client.Call(ctx, c, op.ReleaseItem, in)
	}, r.print, nearItem(ref))
}

// maxName bounds the name of an artefact.
const maxName = 128

func (r *releasing) print(a *command.App, v view.ItemChange) {
	name := r.meta.Ref().String() + " " + r.meta.Version
	switch {
	case v.Unchanged:
		a.Print("%s is there already, just so\n", name)
	case r.ready:
		a.Print("%s is released, and ready\n", name)
	default:
		a.Print("%s is released, in preparation; to have it deployed: tandem item ready %s %s\n", name,
			argument(r.meta.Ref()), r.meta.Version)
	}
	for _, b := range r.builds {
		signed, size := "signed", int64(0)
		for _, f := range b.of.Files() {
			if size += f.Size; f.Minisign == "" {
				signed = "not signed"
			}
		}
		if len(b.of.Blobs) > 0 && b.of.Blobs[0].Encrypted != nil {
			signed += ", encrypted"
		}
		a.Print("  %s %s, %s\n", platform(b.of.Platform), command.Size(size), signed)
	}
}

// platform is a platform for people.
func platform(p *items.Platform) string {
	if p == nil {
		return "any platform:"
	}
	return p.Name() + ":"
}

func packCommand(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "pack DIR FILE", Short: "Pack a directory as release does, to sign it",
		Long: `Write a directory into one file, as release sends it: the same files are the same bytes, whoever
packs them and when. Modes are 0755 where somebody may execute, else 0644; owners and times do not
count; links have to stay in the directory. No controller is asked.`,
		Example: "  tandem item pack ./python python.tar.gz\n" +
			"  tandem publisher sign-file python.tar.gz --key publisher.key --component python --version 3.12.4",
		Args: command.Args("DIR", "FILE"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			f, err := os.OpenFile(args[1], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
			if err != nil {
				return command.Unreadable(args[1], err)
			}
			if err = errors.Join(pack(cmd.Context(), args[0], f), f.Close()); err != nil {
				return command.Unreadable(args[0], errors.Join(err, os.Remove(args[1])))
			}
			blob, _, err := blobOf(cmd.Context(), args[1], true)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(blob)
			}
			a.Print("%s: %s, unpacked %s\n%s\n", args[1], command.Size(blob.Size),
				command.Size(blob.Unpacked), blob.Digest)
			return nil
		},
	}
}
