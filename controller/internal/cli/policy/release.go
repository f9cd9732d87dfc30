package policy

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/artefact"
	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/bundle"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

func release(a *command.App) *cobra.Command {
	var version string
	var from []string
	var torrents bool
	cmd := &cobra.Command{
		Use: "release FILE…", Short: "Put a version of the agent on offer",
		Long: `Put a version of the agent on offer, for policies to upgrade nodes to. Each FILE is the
program for one architecture, which it says itself. It goes into the controller's store, from
which nodes fetch it; with --url they find it at ADDRESS/FILE, too. With --bittorrent those that
have BitTorrent fetch it from each other as well; of one FILE the ADDRESS may be a torrent's,
rbtorrent:… or magnet:…. An upload that was interrupted goes on when the same command is run
again.

FILE.minisig beside it, if there is one, is a publisher's signature, which nodes with
--publisher-key demand; it may be named, too, as FILE* does. Without --version its trusted
comment says the version. A FILE for this machine is asked for its version (FILE version); of
another one it is only looked at whether the version stands in it.`,
		Example: "  tandem agent release tandem-node --version 1.5.0\n" +
			"  tandem agent release amd64/tandem-node arm64/tandem-node",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Lacks(cmd, "FILE")
			}
			var all []*program
			for _, file := range programs(args) {
				p, err := look(file)
				if err != nil {
					return err
				}
				all = append(all, p)
			}
			if err := agree(cmd, &version, all); err != nil {
				return err
			}
			for _, p := range all {
				if err := p.is(cmd.Context(), version); err != nil {
					return err
				}
				if err := p.at(from, torrents, len(all) > 1); err != nil {
					return err
				}
			}
			return offer(cmd.Context(), a, version, all)
		},
	}
	cmd.Flags().StringVar(&version, "version", "", "the `version` that the program says it is (default: that of the "+
		"signatures)")
	cmd.Flags().StringArrayVar(&from, "url", nil, "`address` below which nodes find the files as well, or of the "+
		"torrent of FILE; may be repeated")
	cmd.Flags().BoolVar(&torrents, "bittorrent", false, "nodes with BitTorrent fetch the files from each other, too")
	return cmd
}

// programs are the files that are named without the signatures of others among them, as FILE* names both.
func programs(files []string) []string {
	return slices.DeleteFunc(slices.Clone(files), func(file string) bool {
		signed, ok := strings.CutSuffix(file, ".minisig")
		return ok && slices.Contains(files, signed)
	})
}

// program is a file that is to be released.
type program struct {
	file      string
	name      string // of the file, for people
	build     view.AgentBuild
	signature publisher.Signature
	version   string // that stands behind it with settings; "": it brings none
}

// archs are the architectures of programs for Linux, as Go names them.
var archs = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_ARM: "arm",
	elf.EM_386: "386", elf.EM_RISCV: "riscv64", elf.EM_PPC64: "ppc64le", elf.EM_S390: "s390x",
	elf.EM_LOONGARCH: "loong64"}

// look says what the program in a file is, and reads its signature.
func look(file string) (*program, error) {
	p := &program{file: file, name: file}
	f, err := os.Open(file)
	if err != nil {
		return nil, command.Usage("%s", err)
	}
	defer func() { _ = f.Close() }() // it is only read
	read, err := elf.NewFile(f)
	if err != nil {
		return nil, command.Usage("%s is no program for Linux", file)
	}
	if err := p.bundled(f); err != nil {
		return nil, command.Usage("%s: %s", file, err)
	}
	if p.build.Arch = archs[read.Machine]; p.build.Arch == "" {
		return nil, command.Usage("%s is a program for %s, which agents do not run on", file, read.Machine)
	}
	text, err := os.ReadFile(file + ".minisig")
	switch {
	case errors.Is(err, os.ErrNotExist):
		return p, nil
	case err != nil:
		return nil, command.Usage("%s", err)
	}
	p.build.Minisign = string(text)
	if p.signature, err = publisher.Parse(p.build.Minisign); err != nil {
		return nil, command.Usage("%s.minisig: %s", file, err)
	}
	return p, nil
}

// bundled reads which settings a program brings.
func (p *program) bundled(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	b, err := bundle.Read(f, info.Size())
	if err != nil {
		return err
	}
	p.version = b.Version
	p.build.Brings, err = b.Layer().Names()
	return err
}

// agree finds the version, unless it is given, and judges that all signatures are of it.
func agree(cmd *cobra.Command, version *string, all []*program) error {
	for _, p := range all {
		*version = cmp.Or(*version, p.version)
		if r := p.signature.Release(); p.build.Minisign != "" && r.Name == publisher.AgentName {
			*version = cmp.Or(*version, r.Version)
		}
	}
	if *version == "" {
		return command.Lacks(cmd, "--version VERSION")
	}
	if _, err := unitconfig.Compare(*version, *version); err != nil {
		return command.Usage("--version: %s", wire.AsError(err).Message)
	}
	for _, p := range all {
		if p.version != "" && p.version != *version {
			return command.Usage("%s is version %s with the settings that it brings, not %s", p.file, p.version,
				*version)
		}
		if p.build.Minisign == "" {
			continue
		}
		if err := p.signature.Names(publisher.Release{Name: publisher.AgentName, Version: *version}); err != nil {
			return command.Usage("%s.minisig: %s", p.file, err)
		}
	}
	return nil
}

// is judges that a program is of a version, as far as this machine can tell.
func (p *program) is(ctx context.Context, version string) error {
	f, err := os.Open(p.file)
	if err != nil {
		return command.Unreadable(p.file, err)
	}
	found, err := contains(f, version)
	if err = errors.Join(err, f.Close()); err != nil {
		return command.Unreadable(p.file, err)
	}
	if !found {
		return command.Usage("%s is not version %s: that stands nowhere in it", p.name, version)
	}
	if p.build.Arch != runtime.GOARCH || runtime.GOOS != "linux" {
		return nil
	}
	says, err := ask(ctx, p.file)
	if err != nil {
		return command.Usage("%s does not say its version: %s", p.name, err)
	}
	if says != version {
		return command.Usage("%s says that it is version %s, not %s", p.name, term.Clean(says), version)
	}
	return nil
}

// contains reports whether a text stands in what is read.
func contains(r io.Reader, text string) (bool, error) {
	buf, n := make([]byte, 1<<20), 0
	for {
		m, err := r.Read(buf[n:])
		n += m
		if bytes.Contains(buf[:n], []byte(text)) {
			return true, nil
		}
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		keep := min(n, len(text)-1)
		copy(buf, buf[n-keep:n])
		n = keep
	}
}

// askLimit is how long a program may take to say its version, as on nodes.
const askLimit = 10 * time.Second

// ask has the agent in a file say its version.
func ask(ctx context.Context, file string) (string, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "version")
	cmd.Dir, cmd.Env, cmd.WaitDelay = "/", []string{}, time.Second
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && len(failed.Stderr) > 0 {
		return "", errors.New(wire.Plain(string(bytes.TrimSpace(failed.Stderr)), 500))
	} else if err != nil {
		return "", fmt.Errorf("tandem-node version: %w", err)
	}
	words := strings.Fields(string(out[:min(len(out), 1000)]))
	if len(words) < 2 || words[0] != publisher.AgentName {
		return "", fmt.Errorf("it is no node agent: it answers %.80q", out)
	}
	return words[1], nil
}

// offer uploads the programs and puts the version on offer.
func offer(ctx context.Context, a *command.App, version string, all []*program) error {
	in := op.ReleaseIn{AgentVersionIn: op.AgentVersionIn{Version: version}}
	return command.Gather(ctx, a, func(ctx context.Context, c *client.Client) (v view.PolicyChange, err error) {
		for _, p := range all {
			if err := p.put(ctx, a, c, version); err != nil {
				return v, err
			}
			in.Builds = append(in.Builds, p.build)
		}
		return client.Call(ctx, c, op.ReleaseAgent, in)
	}, func(a *command.App, v view.PolicyChange) {
		a.Print("version %s of the agent is on offer, rev %d: %s\n", version, v.Rev, changed(v))
		for _, p := range all {
			a.Print("  %-8s %s, %s\n", p.build.Arch, term.Size(uint64(p.build.Size)), p.signed())
			if len(p.build.Brings) > 0 {
				a.Print("           brings settings: %s\n", strings.Join(p.build.Brings, ", "))
			}
		}
	})
}

// at says where nodes find a program beside the controller's store: at these addresses, and by its plain torrent if
// torrents. several: it is not the only one.
func (p *program) at(from []string, torrents, several bool) error {
	for _, address := range from {
		if !workload.IsTorrent(address) {
			address = strings.TrimSuffix(address, "/") + "/" + filepath.Base(p.file)
		} else if several {
			return command.Usage("--url %s: a torrent is of one FILE; --bittorrent makes one of each", address)
		}
		if err := workload.CheckURL(address); err != nil {
			return command.Usage("--url: %s", err)
		}
		p.build.URLs = append(p.build.URLs, address)
	}
	if !torrents {
		return nil
	}
	f, err := os.Open(p.file)
	if err != nil {
		return command.Unreadable(p.file, err)
	}
	info, err := plainTorrent(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return command.Unreadable(p.file, err)
	}
	p.build.URLs = append(p.build.URLs, workload.TorrentURL(info))
	return nil
}

func plainTorrent(f *os.File) ([]byte, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return workload.PlainTorrent(f, st.Size())
}

// put brings a program to where nodes fetch it.
func (p *program) put(ctx context.Context, a *command.App, c *client.Client, version string) error {
	v, _, err := artefact.Put(ctx, a, c, p.file, wire.Plain(publisher.AgentName+" "+version+" "+p.build.Arch, 128))
	p.build.Hash, p.build.Size, p.build.Stored = v.Digest, v.Size, err == nil
	if e, ok := errors.AsType[*wire.Error](err); ok && e.Code == wire.CodeNotSupported && len(p.build.URLs) > 0 {
		return nil // without a store, from these addresses alone
	}
	return err
}

// signed says in words who vouches for the program.
func (p *program) signed() string {
	if p.build.Minisign == "" {
		return "not signed"
	}
	words := "signed with the key " + string(p.signature.ID())
	if at := p.signature.Expires(); !at.IsZero() {
		words += ", until " + at.UTC().Format(time.RFC3339)
	}
	if floor := p.signature.Floor(); floor != "" {
		words += "; nodes that have tried it take nothing below " + term.Clean(floor)
	}
	return words
}
