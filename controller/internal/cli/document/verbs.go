package document

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// files is a verb that reads files.
func (g *group) files(name string) *cobra.Command {
	if g.many {
		return g.verb(name, "FILE…", cobra.ArbitraryArgs)
	}
	return g.verb(name, "FILE", command.Args("FILE (- for standard input)"))
}

func (g *group) check(a *command.App) *cobra.Command {
	var offline bool
	o := &options{dryRun: true}
	cmd := g.files("check")
	cmd.RunE = func(cmd *cobra.Command, files []string) error {
		in, err := g.read(a, cmd, files, o)
		if err != nil {
			return err
		}
		if offline {
			return g.readHere(a, in)
		}
		return g.submitted(cmd.Context(), a, in, o)
	}
	cmd.Flags().BoolVar(&offline, "offline", false, g.offline)
	if g.subject.Lenient {
		lenientFlag(cmd.Flags(), o)
	}
	return cmd
}

func (g *group) apply(a *command.App) *cobra.Command {
	o := &options{}
	cmd := g.files("apply")
	cmd.RunE = func(cmd *cobra.Command, files []string) error {
		if o.rollout != "" && o.try > 0 {
			return command.Usage("--rollout and --try exclude each other: a trial is on all nodes at once")
		}
		if o.rollout == "-" && slices.Contains(files, "-") {
			return command.Usage("only one of FILE and --rollout can be standard input")
		}
		in, err := g.read(a, cmd, files, o)
		if err != nil {
			return err
		}
		return g.submitted(cmd.Context(), a, in, o)
	}
	f := cmd.Flags()
	if g.subject.Trial {
		f.Var(&o.try, "try", "roll back on every node unless confirmed within this time (2m or PT2M)")
	}
	if g.subject.Versioned {
		f.StringVar(&o.version, "version", "", "the `version` that it gets, above the one before (default: the next)")
	}
	if g.subject.Lenient {
		lenientFlag(f, o)
	}
	if g.applyFlags != nil {
		g.applyFlags(f, o)
	}
	g.sendFlags(cmd, o)
	return cmd
}

// sendFlags are those of every command that submits.
func (g *group) sendFlags(cmd *cobra.Command, o *options) {
	f := cmd.Flags()
	f.BoolVar(&o.skipNodes, "skip-nodes", false, "do not ask the nodes first; they still judge what they receive")
	f.BoolVar(&o.force, "force", false, "also if the same document has failed before")
	f.StringVar(&o.rollout, "rollout", "", "bring it to the nodes in waves, by the plan in this `FILE`")
	g.waitFlag(cmd, o)
	f.Lookup("wait").Value, f.Lookup("wait").NoOptDefVal = &toTheEnd{&o.wait, o}, defaultWait
	f.Lookup("wait").Usage += "; the default is 30s, with --rollout its end"
}

// defaultWait is the value of --wait without one.
const defaultWait = "default"

// toTheEnd is the flag --wait of a command that may wait for the end of a rollout.
type toTheEnd struct {
	*command.Duration
	o *options
}

// Set is part of pflag.Value.
func (t *toTheEnd) Set(s string) error {
	if t.o.toTheEnd = s == defaultWait; t.o.toTheEnd {
		s = "30s"
	}
	return t.Duration.Set(s)
}

func lenientFlag(f *pflag.FlagSet, o *options) {
	f.BoolVar(&o.lenient, "lenient", false, "read files with missing or superfluous commas and brackets, comments, "+
		"and what else people leave out; each is told")
}

// waitFlag adds --wait, which may have a duration.
func (g *group) waitFlag(cmd *cobra.Command, o *options) {
	cmd.Flags().Var(&o.wait, "wait", "wait until "+g.waits+"; at most this long, as in --wait=2m")
	cmd.Flags().Lookup("wait").NoOptDefVal = "30s"
}

func (g *group) show(a *command.App) *cobra.Command {
	var version string
	cmd := g.verb("show", "", command.Args())
	cmd.Flags().StringVar(&version, "version", "", g.version)
	other := func(context.Context, string) (bool, error) { return false, nil }
	if g.showFlags != nil {
		other = g.showFlags(a, cmd, g)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if shown, err := other(cmd.Context(), version); shown || err != nil {
			return err
		}
		return a.Connect(func(c *client.Client) error {
			doc, err := g.fetched(cmd.Context(), c, version)
			if err != nil {
				return err
			}
			a.PrintDocument(doc)
			return nil
		})
	}
	return cmd
}

// fetched fetches the document of a version; "": the newest.
func (g *group) fetched(ctx context.Context, c *client.Client, version string) ([]byte, error) {
	doc, err := client.Call(ctx, c, g.ops.Show, op.VersionIn{Version: version})
	if err != nil {
		return nil, g.nearVersion(version)(ctx, c, err)
	}
	return doc, nil
}

// nearVersion adds the nearest versions to a not-found error.
func (g *group) nearVersion(version string) command.Explain {
	otherwise := "tandem " + g.word + " history lists them"
	return command.Nearest(version, otherwise, func(ctx context.Context, c *client.Client) (known []string, err error) {
		h, err := client.Call(ctx, c, g.ops.History, op.None{})
		for _, v := range h.Versions {
			if v.State == "accepted" || v.State == "imported" {
				known = append(known, v.Version)
			}
		}
		return known, err
	})
}

func (g *group) showStatus(a *command.App) *cobra.Command {
	cmd := g.verb("status", "", command.Args())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return command.Ask(cmd.Context(), a, g.ops.Status, op.None{}, g.status)
	}
	return cmd
}

func (g *group) showHistory(a *command.App) *cobra.Command {
	limit := 20
	cmd := g.verb("history", "", command.Args())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if limit < 0 {
			return command.Usage("--limit is 0 (everything) or more")
		}
		return command.Gather(cmd.Context(), a, func(ctx context.Context, c *client.Client) (op.History, error) {
			h, err := client.Call(ctx, c, g.ops.History, op.None{})
			if limit > 0 && len(h.Versions) > limit {
				h.Versions = slices.Clone(h.Versions[len(h.Versions)-limit:])
			}
			return h, err
		}, printHistory)
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "show the newest `N` only; 0: all")
	return cmd
}

func printHistory(a *command.App, h op.History) {
	if len(h.Versions) == 0 {
		a.Print("nothing was submitted yet\n")
		return
	}
	t := &term.Table{Head: []string{"SEQ", "AGE", "VERSION", "STATE", "MODE", "WHO", "VIA", "WHY"}}
	for _, v := range h.Versions {
		colour := term.Plain
		switch v.State {
		case "refused", "failed", "expired":
			colour = term.Red
		case "accepted", "confirmed", "imported", "restored":
			colour = term.Green
		}
		mode := string(v.Mode)
		if v.Mode == wire.ModeApply {
			mode = ""
		}
		t.Add(fmt.Sprint(v.Seq), a.Age(v.At), v.Version, colour.Cell(v.State), mode, v.Who, v.Via,
			command.Brief(v.Error))
	}
	a.Table(t)
}

func (g *group) rollBack(a *command.App) *cobra.Command {
	var as string
	o := &options{}
	cmd := g.verb("rollback", "VERSION --as VERSION", command.Args("VERSION"))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if as == "" {
			return command.Lacks(cmd, "--as VERSION, the version that the old content gets")
		}
		return a.Connect(func(c *client.Client) error {
			res, err := client.Call(cmd.Context(), c, g.ops.RollBack, op.Rollback{Version: args[0], As: as})
			if err != nil {
				return g.nearVersion(args[0])(cmd.Context(), c, err)
			}
			return g.finish(cmd.Context(), a, c, res, nil, o.wait.Std())
		})
	}
	cmd.Flags().StringVar(&as, "as", "", "the new `version`, above the installed one")
	g.waitFlag(cmd, o)
	return cmd
}

func (g *group) retry(a *command.App) *cobra.Command {
	o := &options{}
	cmd := g.verb("retry", "", command.Args())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.Connect(func(c *client.Client) error {
			res, err := client.Call(cmd.Context(), c, g.ops.Retry, op.None{})
			if err != nil {
				return err
			}
			if !a.JSON {
				text := term.Clean(res.Version) + " is sent again: " + term.Plural(res.Issued, "document") + " issued"
				if res.Issued == 0 {
					text = "nothing is sent: no node has failed at " + term.Clean(res.Version)
				}
				a.Print("%s\n", text)
			}
			return g.conclude(cmd.Context(), a, c, res, nil, o.wait.Std())
		})
	}
	g.waitFlag(cmd, o)
	return cmd
}

func (g *group) confirm(a *command.App) *cobra.Command {
	cmd := g.verb("confirm", "", command.Args())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.Connect(func(c *client.Client) error {
			res, err := client.Call(cmd.Context(), c, g.ops.Confirm, op.None{})
			if err != nil {
				return err
			}
			if a.JSON {
				if err := a.PrintJSON(res); err != nil {
					return err
				}
			} else if res.State != "refused" {
				a.Print("confirmed %s: it stays\n", term.Clean(res.Version))
			}
			return refusal(res, nil)
		})
	}
	return cmd
}

func (g *group) restore(a *command.App) *cobra.Command {
	cmd := g.verb("restore", "", command.Args())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		show := func(a *command.App, st view.SourceStatus) {
			a.Print("restored %s from the journal: %s\n", term.Clean(st.Version), term.Clean(st.State))
		}
		return command.Ask(cmd.Context(), a, g.ops.Restore, op.None{}, show)
	}
	return cmd
}

func (g *group) wait(a *command.App) *cobra.Command {
	within := command.Duration(30 * time.Second)
	cmd := g.verb("wait", "", command.Args())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.Connect(func(c *client.Client) error {
			res, err := g.newest(cmd.Context(), a, c)
			if err != nil {
				return err
			}
			o := waitFor(cmd.Context(), a, g.follow(c), res, within.Std())
			failed := o.failure()
			if a.JSON {
				if err := a.PrintJSON(o); err != nil {
					return err
				}
			} else if failed == nil {
				a.Print("%s: %s\n", term.Clean(res.Version), o.words())
			}
			return failed
		})
	}
	cmd.Flags().Var(&within, "within", "wait at most this long for the nodes; --timeout is for the controller")
	return cmd
}

// newest is what was accepted last.
func (g *group) newest(ctx context.Context, a *command.App, c *client.Client) (res view.Result, err error) {
	ctx, cancel := a.Limited(ctx)
	defer cancel()
	err = g.follow(c)(ctx, func(s stage) error {
		res.Rev, res.Version = s.rev, s.versions[len(s.versions)-1]
		return client.ErrStop
	})
	if err == nil && res.Version == "" {
		err = command.Refuse(command.ExitRefused, wire.CodeNotFound, "%s", g.nothing)
	}
	return res, err
}

func (g *group) diff(a *command.App) *cobra.Command {
	cmd := g.verb("diff", "A B", command.Args("A", "B"))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if args[0] == "-" && args[1] == "-" {
			return command.Usage("only one of A and B can be standard input")
		}
		if !isFile(args[0]) && !isFile(args[1]) {
			return g.diffVersions(cmd.Context(), a, args[0], args[1])
		}
		var names [2]string
		var sides [2]kind.Reading
		for i, arg := range args {
			in, err := g.side(cmd, a, arg)
			if err != nil {
				return neither(arg, err)
			}
			stored := !isFile(arg)
			names[i] = in.File
			sides[i] = kind.Reading{Document: in.Text, Stored: stored, Lenient: stored && g.subject.Lenient}
		}
		changes, err := g.src.Changes(sides[0], sides[1])
		if err != nil {
			return err
		}
		return a.PrintDiff(view.Diff{From: names[0], To: names[1], Changes: changes.List, Omitted: changes.Omitted})
	}
	return cmd
}

// diffVersions has the controller compare two versions.
func (g *group) diffVersions(ctx context.Context, a *command.App, from, to string) error {
	return a.Connect(func(c *client.Client) error {
		v, err := client.Call(ctx, c, g.ops.Diff, op.DiffIn{From: from, To: to})
		if err != nil {
			for _, version := range []string{from, to} {
				better := g.nearVersion(version)(ctx, c, err)
				if command.AsFailure(better).Err.Message != command.AsFailure(err).Err.Message {
					return better
				}
			}
			return err
		}
		return a.PrintDiff(v)
	})
}

// side reads one side of a comparison: a file, or a version that the controller has.
func (g *group) side(cmd *cobra.Command, a *command.App, arg string) (in *input, err error) {
	if isFile(arg) {
		return g.read(a, cmd, []string{arg}, &options{})
	}
	err = a.Connect(func(c *client.Client) error {
		doc, err := g.fetched(cmd.Context(), c, arg)
		in = &input{Source: command.Source{File: arg, Text: doc}}
		return err
	})
	return in, err
}

func printStatus(a *command.App, word string, st view.SourceStatus) {
	t := &term.Table{}
	a.StatusRows(t, word, st)
	a.Table(t)
	a.Laggards(st.Progress)
}
