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
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/artefact"
	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

func release(a *command.App) *cobra.Command {
	var version, base string
	cmd := &cobra.Command{
		Use: "release FILE…", Short: "Put a version of the agent on offer",
		Long: `Put a version of the agent on offer, for policies to upgrade nodes to. Each FILE is the
program for one architecture, which it says itself. It goes into the controller's store, from
which nodes fetch it; with --url they find it at ADDRESS/FILE, too. An upload that was
interrupted goes on when the same command is run again.

FILE.minisig beside it, if there is one, is a publisher's signature, which nodes with
--publisher-key demand. Without --version its trusted comment says the version. A FILE for this
machine is asked for its version (FILE version); of another one it is only looked at whether the
version stands in it.`,
		Example: "  tandem agent release tandem-node --version 1.5.0\n" +
			"  tandem agent release amd64/tandem-node arm64/tandem-node",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Lacks(cmd, "FILE")
			}
			var all []*program
			for _, file := range args {
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
			}
			return offer(cmd.Context(), a, version, base, all)
		},
	}
	cmd.Flags().StringVar(&version, "version", "", "the `version` that the program says it is (default: that of the "+
		"signatures)")
	cmd.Flags().StringVar(&base, "url", "", "`address` below which nodes find the files as well")
	return cmd
}

// program is a file that is to be released.
type program struct {
	file      string
	build     view.AgentBuild
	signature publisher.Signature
}

// archs are the architectures of programs for Linux, as Go names them.
var archs = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_ARM: "arm",
	elf.EM_386: "386", elf.EM_RISCV: "riscv64", elf.EM_PPC64: "ppc64le", elf.EM_S390: "s390x",
	elf.EM_LOONGARCH: "loong64"}

// look says what the program in a file is, and reads its signature.
func look(file string) (*program, error) {
	p := &program{file: file}
	f, err := os.Open(file)
	if err != nil {
		return nil, command.Usage("%s", err)
	}
	read, err := elf.NewFile(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, command.Usage("%s is no program for Linux", file)
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

// agree finds the version, unless it is given, and judges that all signatures are of it.
func agree(cmd *cobra.Command, version *string, all []*program) error {
	for _, p := range all {
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
		return command.Usage("%s is not version %s: that stands nowhere in it", p.file, version)
	}
	if p.build.Arch != runtime.GOARCH || runtime.GOOS != "linux" {
		return nil
	}
	says, err := ask(ctx, p.file)
	if err != nil {
		return command.Usage("%s does not say its version: %s", p.file, err)
	}
	if says != version {
		return command.Usage("%s says that it is version %s, not %s", p.file, term.Clean(says), version)
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
	if err != nil {
		return "", fmt.Errorf("tandem-node version: %w", err)
	}
	words := strings.Fields(string(out[:min(len(out), 1000)]))
	if len(words) < 2 || words[0] != publisher.AgentName {
		return "", fmt.Errorf("it is no node agent: it answers %.80q", out)
	}
	return words[1], nil
}

// offer uploads the programs and puts the version on offer.
func offer(ctx context.Context, a *command.App, version, base string, all []*program) error {
	in := op.ReleaseIn{AgentVersionIn: op.AgentVersionIn{Version: version}}
	return command.Gather(ctx, a, func(ctx context.Context, c *client.Client) (v view.PolicyChange, err error) {
		for _, p := range all {
			if err := p.put(ctx, a, c, version, base); err != nil {
				return v, err
			}
			in.Builds = append(in.Builds, p.build)
		}
		return client.Call(ctx, c, op.ReleaseAgent, in)
	}, func(a *command.App, v view.PolicyChange) {
		a.Print("version %s of the agent is on offer, rev %d: %s\n", version, v.Rev, changed(v.Issued))
		for _, p := range all {
			a.Print("  %-8s %s, %s\n", p.build.Arch, term.Size(uint64(p.build.Size)), p.signed())
		}
	})
}

// put brings a program to where nodes fetch it.
func (p *program) put(ctx context.Context, a *command.App, c *client.Client, version, base string) error {
	v, _, err := artefact.Put(ctx, a, c, p.file, wire.Plain(publisher.AgentName+" "+version+" "+p.build.Arch, 128))
	p.build.Hash, p.build.Size, p.build.Stored = v.Digest, v.Size, err == nil
	if e, ok := errors.AsType[*wire.Error](err); ok && e.Code == wire.CodeNotSupported && base != "" {
		err = nil // without a store, from that address alone
	}
	if err != nil {
		return err
	}
	if base != "" {
		p.build.URLs = []string{strings.TrimSuffix(base, "/") + "/" + filepath.Base(p.file)}
	}
	return nil
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
