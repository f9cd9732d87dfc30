package policy

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// Agent is the group of commands about versions of the agent.
func Agent(a *command.App) *cobra.Command {
	return command.Group("agent", "Put versions of the agent on offer, for policies to upgrade nodes to",
		"  tandem agent list", releases(a), release(a), withdraw(a))
}

func releases(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the versions of the agent that are on offer", Example: "  tandem agent list",
		Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			print := func(a *command.App, v view.AgentReleases) {
				if len(v.Releases) == 0 {
					a.Print("no version of the agent is on offer\n")
					return
				}
				t := &term.Table{Head: []string{"VERSION", "FOR", "SIGNED", "RUNNING", "SINCE", "BY"}}
				for _, r := range v.Releases {
					var archs []string
					signed := "yes"
					for _, b := range r.Builds {
						archs = append(archs, b.Arch)
						if b.Minisign == "" {
							signed = "no"
						}
					}
					t.Add(r.Version, strings.Join(archs, ", "), signed, term.Plural(r.Running, "node"), a.Ago(r.At),
						r.Who)
				}
				a.Table(t)
			}
			return command.Ask(cmd.Context(), a, op.ListReleases, op.None{}, print)
		},
	}
}

func release(a *command.App) *cobra.Command {
	var version, base string
	cmd := &cobra.Command{
		Use: "release FILE… --version VERSION --url ADDRESS", Short: "Put a version of the agent on offer",
		Long: `Put a version of the agent on offer, for policies to upgrade nodes to. Each FILE is the
program for one architecture, which it says itself. Nodes fetch it from ADDRESS/FILE: any
web server that they reach. FILE.minisig beside it, if there is one, is a publisher's signature,
which nodes with --publisher-key demand. The version is the one that the program says it is.`,
		Example: "  tandem agent release tandem-node --version 1.5.0 --url https://files.example/1.5.0",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return command.Lacks(cmd, "FILE")
			case version == "":
				return command.Lacks(cmd, "--version VERSION")
			case base == "":
				return command.Lacks(cmd, "--url ADDRESS")
			}
			if _, err := unitconfig.Compare(version, version); err != nil {
				return command.Usage("--version: %s", wire.AsError(err).Message)
			}
			in := op.ReleaseIn{AgentVersionIn: op.AgentVersionIn{Version: version}}
			for _, file := range args {
				b, err := measure(file, base)
				if err != nil {
					return err
				}
				in.Builds = append(in.Builds, b)
			}
			return command.Ask(cmd.Context(), a, op.ReleaseAgent, in, func(a *command.App, v view.PolicyChange) {
				a.Print("version %s of the agent is on offer, rev %d: %s\n", version, v.Rev, changed(v.Issued))
			})
		},
	}
	cmd.Flags().StringVar(&version, "version", "", "the `version` that the program says it is")
	cmd.Flags().StringVar(&base, "url", "", "`address` below which nodes fetch the files")
	return cmd
}

// archs are the architectures of programs for Linux, as Go names them.
var archs = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_ARM: "arm",
	elf.EM_386: "386", elf.EM_RISCV: "riscv64", elf.EM_PPC64: "ppc64le", elf.EM_S390: "s390x",
	elf.EM_LOONGARCH: "loong64"}

// measure says what the program in a file is.
func measure(file, base string) (b view.AgentBuild, err error) {
	f, err := os.Open(file)
	if err != nil {
		return b, command.Usage("%s", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	program, err := elf.NewFile(f)
	if err != nil {
		return b, command.Usage("%s is no program for Linux", file)
	}
	if b.Arch = archs[program.Machine]; b.Arch == "" {
		return b, command.Usage("%s is a program for %s, which agents do not run on", file, program.Machine)
	}
	sum := sha256.New()
	if b.Size, err = io.Copy(sum, io.NewSectionReader(f, 0, 1<<62)); err != nil {
		return b, fmt.Errorf("read %s: %w", file, err)
	}
	b.Hash = wire.HashPrefix + hex.EncodeToString(sum.Sum(nil))
	b.URLs = []string{strings.TrimSuffix(base, "/") + "/" + filepath.Base(file)}
	switch sig, err := os.ReadFile(file + ".minisig"); {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return b, command.Usage("%s", err)
	default:
		if _, err := publisher.Parse(string(sig)); err != nil {
			return b, command.Usage("%s.minisig: %s", file, err)
		}
		b.Minisign = string(sig)
	}
	return b, nil
}

func withdraw(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "withdraw VERSION", Short: "Take a version of the agent off the offer",
		Long:    "Take a version of the agent off the offer. Nodes that run it, or try it, go on.",
		Example: "  tandem agent withdraw 1.5.0", Args: command.Args("VERSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := op.AgentVersionIn{Version: args[0]}
			return command.Ask(cmd.Context(), a, op.WithdrawAgent, in, func(a *command.App, v view.PolicyChange) {
				a.Print("version %s of the agent is not on offer any more: %s\n", args[0], changed(v.Issued))
			})
		},
	}
}

// Property is the group of commands about the properties by which policies choose nodes.
func Property(a *command.App) *cobra.Command {
	return command.Group("property", "Show and set the properties by which policies choose nodes",
		"  tandem property list press-1\n  tandem property set press-1 line 4", properties(a), set(a), unset(a))
}

func properties(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "list NODE", Short: "List a node's properties, and where each is from",
		Example: "  tandem property list press-1", Args: command.NodeArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			in := op.NodeIn{Node: args[0]}
			return command.Ask(cmd.Context(), a, op.ShowProperties, in, func(a *command.App, v view.NodeProperties) {
				t := &term.Table{Head: []string{"PROPERTY", "VALUE", "TYPE", "FROM", "BY"}}
				for _, p := range v.Properties {
					t.Add(p.Name, string(p.Value), p.Type, p.From, p.Who)
				}
				a.Table(t)
				if v.Pattern != "" {
					a.Print("\nIt uses the pattern %s.\n", term.Clean(v.Pattern))
				}
				for i, c := range v.Constraints {
					if i == 0 {
						a.Print("\nIt takes policies of which this is true:\n")
					}
					a.Print("  %s\n", term.Clean(c))
				}
				if v.Error != nil {
					a.Print("\nWhat it says of itself does not count: %s\n", term.Clean(command.Brief(v.Error)))
				}
			}, command.NearNode(args[0]))
		},
	}
}

func set(a *command.App) *cobra.Command {
	var typ string
	cmd := &cobra.Command{
		Use: "set NODE NAME VALUE", Short: "Set a property of a node, in place of what the node says of it",
		Long: `Set a property of a node. VALUE is JSON: a number, true, false, "a text" or ["several",
"texts"]; what is none of these is a text as it is.`,
		Example: "  tandem property set press-1 line 4\n  tandem property set press-1 firmware 1.10.0 --type version",
		Args:    command.Args("NODE", "NAME", "VALUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckNode(cmd, args[0]); err != nil {
				return err
			}
			in := op.SetPropertyIn{PropertyIn: op.PropertyIn{NodeIn: op.NodeIn{Node: args[0]}, Property: args[1]},
				PropertyValue: op.PropertyValue{Value: jsontext.Value(args[2]), Type: typ}}
			text := typ == "string" || typ == "version"
			if !in.Value.IsValid() || text && in.Value.Kind() != '"' {
				in.Value = jsontext.Value(strconv.Quote(args[2]))
			}
			return command.Ask(cmd.Context(), a, op.SetProperty, in, func(a *command.App, v view.PolicyChange) {
				a.Print("%s of %s is set, rev %d: %s\n", args[1], args[0], v.Rev, changed(v.Issued))
			})
		},
	}
	cmd.Flags().StringVar(&typ, "type", "", "`type`: string, int, float, boolean, version or \"list of strings\" "+
		"(default: that of the value)")
	return cmd
}

func unset(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "unset NODE NAME", Short: "Take back what was set: what the node says counts again",
		Example: "  tandem property unset press-1 line", Args: command.Args("NODE", "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckNode(cmd, args[0]); err != nil {
				return err
			}
			in := op.PropertyIn{NodeIn: op.NodeIn{Node: args[0]}, Property: args[1]}
			return command.Ask(cmd.Context(), a, op.UnsetProperty, in, func(a *command.App, v view.PolicyChange) {
				a.Print("%s of %s is not set any more: %s\n", args[1], args[0], changed(v.Issued))
			})
		},
	}
}
