package item

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/oci"
	"tandem.internal/controller/internal/term"
	"tandem.internal/shared/wire"
)

// The variables with the credentials for --registry.
const (
	envUser     = "TANDEM_REGISTRY_USER"
	envPassword = "TANDEM_REGISTRY_PASSWORD"
)

// imageJSON is what image prints with --json.
type imageJSON struct {
	Platforms []platformJSON `json:"platforms"`
	Refused   []refusedJSON  `json:"refused,omitempty"`
	Remarks   []string       `json:"remarks,omitempty"`
}

type platformJSON struct {
	OS         string      `json:"os"`
	Arch       string      `json:"architecture"`
	Variant    string      `json:"variant,omitempty"`
	OSFeatures []string    `json:"osFeatures,omitempty"`
	Manifest   string      `json:"manifest"`
	Config     configJSON  `json:"config"`
	Layers     []layerJSON `json:"layers"` // the lowest first
	Remarks    []string    `json:"remarks,omitempty"`
}

type configJSON struct {
	Args       []string          `json:"args,omitempty"`
	Env        []string          `json:"env,omitempty"`
	WorkingDir string            `json:"workingDir"`
	UID        uint32            `json:"uid"`
	GID        uint32            `json:"gid"`
	StopSignal string            `json:"stopSignal,omitempty"`
	Ports      []portJSON        `json:"ports,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
}

type portJSON struct {
	Port     uint16 `json:"port"`
	Protocol string `json:"protocol"`
}

type layerJSON struct {
	Digest   string       `json:"digest"`
	DiffID   string       `json:"diffId"`
	Size     int64        `json:"size"`     // bytes of the file, in gzip
	Unpacked int64        `json:"unpacked"` // bytes of the archive in it
	Entries  int          `json:"entries"`
	From     fromJSON     `json:"from"`
	Remarks  []remarkJSON `json:"remarks,omitempty"`
}

type fromJSON struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	DiffID    string `json:"diffId"`
	Size      int64  `json:"size"`
}

type remarkJSON struct {
	What  string   `json:"what"`
	Count int      `json:"count"`
	Paths []string `json:"paths"` // the first of them
}

type refusedJSON struct {
	Platform string `json:"platform,omitempty"`
	Manifest string `json:"manifest"`
	Why      string `json:"why"`
}

// asksImage are the flags of image.
type asksImage struct {
	registry  string
	name      string
	platforms []string
}

func image(a *command.App) *cobra.Command {
	var f asksImage
	cmd := &cobra.Command{
		Use: "image PATH|NAME", Short: "Say what nodes would get of an image of the OCI",
		Long: `Read an image, rewrite its layers as nodes get them, and say what it has: platforms,
configurations, layers with their sizes and digests, what was left out, and what is
refused and why. PATH is an image layout, a directory or a tar of one. With --registry
the image is pulled: NAME:TAG or NAME@DIGEST. Nothing is kept, and no controller is asked.
The layers wait in the directory for temporary files (variable TMPDIR).

Credentials for the registry are in the variables TANDEM_REGISTRY_USER and
TANDEM_REGISTRY_PASSWORD, else those of docker login.`,
		Example: "  tandem item image sensor-1.4.tar\n" +
			"  tandem item image team/sensor:1.4 --registry https://registry.example",
		Args: command.Args("PATH"),
	}
	cmd.Flags().StringVar(&f.registry, "registry", "",
		"`address` of a registry; http:// for one without TLS, which anybody on the way can read")
	cmd.Flags().StringVar(&f.name, "name", "", "`name` of the image, of a layout that has several")
	cmd.Flags().StringSliceVar(&f.platforms, "platform", nil,
		"only this `platform`, such as linux/arm64 or linux/arm/v7; several times: these (default: all)")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		img, err := f.read(cmd.Context(), a, args[0])
		if err != nil {
			return imageFailure(err, args[0])
		}
		defer func() { err = errors.Join(err, img.Close()) }()
		if a.JSON {
			return a.PrintJSON(asJSON(img))
		}
		printImage(a, img)
		return nil
	}
	return cmd
}

// read opens or pulls the image.
func (f *asksImage) read(ctx context.Context, a *command.App, arg string) (*oci.Image, error) {
	o := oci.Options{Name: f.name, Platforms: f.platforms}
	if f.registry == "" {
		return oci.Open(ctx, arg, o)
	}
	if f.name != "" {
		return nil, command.Usage("--name is of a layout; in a registry the name is the argument")
	}
	from := oci.Registry{URL: f.registry}
	from.User, _ = a.Env(envUser)
	from.Password, _ = a.Env(envPassword)
	return oci.Pull(ctx, from, arg, o)
}

// imageFailure is the failure of an image that cannot be had, or is not taken.
func imageFailure(err error, arg string) error {
	f := command.Refuse(command.ExitRefused, wire.CodeMalformed, "%s", err)
	switch _, isInvalid := errors.AsType[*oci.Invalid](err); {
	case errors.Is(err, context.Canceled):
		f.Exit, f.Err = command.ExitUnreachable, wire.New(wire.CodeUnavailable, "", "interrupted")
	case isInvalid:
		f.Exit = command.ExitUsage
	case errors.Is(err, oci.ErrNotFound):
		f.Err.Code = wire.CodeNotFound
	case errors.Is(err, oci.ErrDenied):
		f.Err.Code = wire.CodeNotAllowed
	case errors.Is(err, oci.ErrUnavailable):
		f.Exit, f.Err.Code = command.ExitUnreachable, wire.CodeUnavailable
	default:
		return unreadable(err, arg)
	}
	f.From.File = arg
	return f
}

// unreadable is the failure of a file that is not there or cannot be read or written: often, but not always, the image.
func unreadable(err error, arg string) error {
	p, is := errors.AsType[*fs.PathError](err)
	if !is {
		return err
	}
	failure := command.Unreadable(p.Path, p)
	if f, is := errors.AsType[*command.Failure](failure); is && p.Path == arg && f.Err.Code == wire.CodeNotFound {
		f.Err.Message += "; an image in a registry is given with --registry"
	}
	return failure
}

func asJSON(img *oci.Image) imageJSON {
	out := imageJSON{Remarks: img.Remarks}
	for i := range img.Platforms {
		p := &img.Platforms[i]
		c := &p.Config
		to := platformJSON{
			OS: p.OS, Arch: p.Arch, Variant: p.Variant, OSFeatures: p.OSFeatures, Manifest: p.Manifest,
			Config: configJSON{c.Args, c.Env, c.WorkingDir, c.User.UID, c.User.GID, c.StopSignal, nil, c.Labels},
			Layers: []layerJSON{}, Remarks: p.Remarks,
		}
		for _, port := range c.Ports {
			to.Config.Ports = append(to.Config.Ports, portJSON(port))
		}
		for _, l := range p.Layers {
			layer := layerJSON{string(l.Digest), string(l.DiffID), l.Size, l.Unpacked, l.Entries,
				fromJSON{l.From.MediaType, string(l.From.Digest), string(l.From.DiffID), l.From.Size}, nil}
			for _, r := range l.Remarks {
				layer.Remarks = append(layer.Remarks, remarkJSON(r))
			}
			to.Layers = append(to.Layers, layer)
		}
		out.Platforms = append(out.Platforms, to)
	}
	for _, r := range img.Refused {
		out.Refused = append(out.Refused, refusedJSON{r.Platform, r.Manifest, r.Why.Error()})
	}
	return out
}

func printImage(a *command.App, img *oci.Image) {
	line := func(format string, args ...any) { a.Print("%s\n", term.Clean(fmt.Sprintf(format, args...))) }
	for i := range img.Platforms {
		p := &img.Platforms[i]
		if i > 0 {
			a.Print("\n")
		}
		line("%s", p.String())
		for _, f := range configLines(&p.Config) {
			line("  %-7s %s", f[0], f[1])
		}
		t := &term.Table{Head: []string{"LAYER", "DIGEST", "SIZE", "UNPACKED", "ENTRIES", "MADE OF", "SIZE"}}
		var remarks []string
		for n, l := range p.Layers {
			t.Add(fmt.Sprint(n+1), command.ShortDigest(string(l.Digest)), command.Size(l.Size),
				command.Size(l.Unpacked),
				fmt.Sprint(l.Entries), command.ShortDigest(string(l.From.Digest)), command.Size(l.From.Size))
			for _, r := range l.Remarks {
				remarks = append(remarks, fmt.Sprintf("layer %d: %s", n+1, r))
			}
		}
		if t.Len() > 0 {
			a.Print("\n")
			a.Table(t)
		}
		if remarks = append(remarks, p.Remarks...); len(remarks) > 0 {
			a.Print("\n")
		}
		for _, r := range remarks {
			line("  %s", r)
		}
	}
	if len(img.Refused)+len(img.Remarks) > 0 {
		a.Print("\n")
	}
	for _, r := range img.Refused {
		name := r.Platform
		if name == "" {
			name = r.Manifest
		}
		a.Print("%s %s\n", a.Paint(term.Red, "refused:"), term.Clean(fmt.Sprintf("%s: %s", name, r.Why)))
	}
	for _, r := range img.Remarks {
		line("%s", r)
	}
}

// configLines are a configuration for people: a word, and what it is.
func configLines(c *oci.Config) (lines [][2]string) {
	add := func(word, text string) {
		if text != "" {
			lines = append(lines, [2]string{word, text})
		}
	}
	quoted := func(all []string) string { return strings.Trim(fmt.Sprintf("%q", all), "[]") }
	if len(c.Args) == 0 {
		add("runs", "nothing")
	} else {
		add("runs", quoted(c.Args))
	}
	as := c.User.String() + " in " + c.WorkingDir
	if c.User.UID == 0 {
		as += "; as a service it needs --user"
	}
	add("as", as)
	add("env", quoted(c.Env))
	add("stops", c.StopSignal)
	var ports []string
	for _, p := range c.Ports {
		ports = append(ports, fmt.Sprintf("%d/%s", p.Port, p.Protocol))
	}
	add("ports", strings.Join(ports, ", "))
	var labels []string
	for _, k := range slices.Sorted(maps.Keys(c.Labels)) {
		labels = append(labels, k+"="+c.Labels[k])
	}
	add("labels", quoted(labels))
	return lines
}
