package document

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// files is a verb that reads files.
func (k *kind) files(name string, t text) *cobra.Command {
	if k.file == "" {
		return verb(name+" FILE…", t, cobra.ArbitraryArgs)
	}
	return verb(name+" FILE", t, command.Args(k.file))
}

func (k *kind) check(a *command.App) *cobra.Command {
	var offline bool
	o := &options{dryRun: true}
	cmd := k.files("check", k.verbs.check)
	cmd.RunE = func(cmd *cobra.Command, files []string) error {
		in, err := k.read(a, cmd, files, o)
		if err != nil {
			return err
		}
		if offline {
			return k.readHere(a, in)
		}
		return k.submitted(cmd.Context(), a, in, o)
	}
	cmd.Flags().BoolVar(&offline, "offline", false, k.offline)
	if k.checkFlags != nil {
		k.checkFlags(cmd.Flags(), o)
	}
	return cmd
}

func (k *kind) apply(a *command.App) *cobra.Command {
	o := &options{}
	cmd := k.files("apply", k.verbs.apply)
	cmd.RunE = func(cmd *cobra.Command, files []string) error {
		in, err := k.read(a, cmd, files, o)
		if err != nil {
			return err
		}
		return k.submitted(cmd.Context(), a, in, o)
	}
	f := cmd.Flags()
	f.BoolVar(&o.skipNodes, "skip-nodes", false, "do not ask the nodes first; they still judge what they receive")
	if k.applyFlags != nil {
		k.applyFlags(f, o)
	}
	k.waitFlag(cmd, o)
	return cmd
}

// waitFlag adds --wait, which may have a duration.
func (k *kind) waitFlag(cmd *cobra.Command, o *options) {
	cmd.Flags().Var(&o.wait, "wait", "wait until "+k.waits+"; at most this long, as in --wait=2m")
	cmd.Flags().Lookup("wait").NoOptDefVal = "30s"
}

func (k *kind) show(a *command.App) *cobra.Command {
	var version string
	cmd := verb("show", k.verbs.show, command.Args())
	cmd.Flags().StringVar(&version, "version", "", k.version)
	other := k.showFlags(a, cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if shown, err := other(cmd.Context(), version); shown || err != nil {
			return err
		}
		return a.Connect(func(c *client.Client) error {
			doc, err := k.fetched(cmd.Context(), c, version)
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
func (k *kind) fetched(ctx context.Context, c *client.Client, version string) ([]byte, error) {
	doc, err := k.fetch(ctx, c, version)
	if err != nil {
		return nil, k.nearVersion(version)(ctx, c, err)
	}
	return doc, nil
}

// nearVersion adds the nearest versions to a not-found error.
func (k *kind) nearVersion(version string) command.Explain {
	otherwise := "tandem " + k.word + " history lists them"
	return command.Nearest(version, otherwise, func(ctx context.Context, c *client.Client) (known []string, err error) {
		h, err := client.Call(ctx, c, k.history, op.None{})
		for _, v := range h.Versions {
			if v.State == "accepted" || v.State == "imported" {
				known = append(known, v.Version)
			}
		}
		return known, err
	})
}

func (k *kind) showStatus(a *command.App) *cobra.Command {
	cmd := verb("status", k.verbs.status, command.Args())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return k.status(cmd.Context(), a) }
	return cmd
}

func (k *kind) showHistory(a *command.App) *cobra.Command {
	limit := 20
	cmd := verb("history", k.verbs.history, command.Args())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if limit < 0 {
			return command.Usage("--limit is 0 (everything) or more")
		}
		return command.Gather(cmd.Context(), a, func(ctx context.Context, c *client.Client) (op.History, error) {
			h, err := client.Call(ctx, c, k.history, op.None{})
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

func (k *kind) rollBack(a *command.App) *cobra.Command {
	var as string
	o := &options{}
	cmd := verb("rollback VERSION --as VERSION", k.verbs.rollback, command.Args("VERSION"))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if as == "" {
			return command.Lacks(cmd, "--as VERSION, the version that the old content gets")
		}
		return a.Connect(func(c *client.Client) error {
			res, err := k.rollback(cmd.Context(), c, args[0], as)
			if err != nil {
				return k.nearVersion(args[0])(cmd.Context(), c, err)
			}
			return k.finish(cmd.Context(), a, c, res, nil, o.wait.Std())
		})
	}
	cmd.Flags().StringVar(&as, "as", "", "the new `version`, above the installed one")
	k.waitFlag(cmd, o)
	return cmd
}

func (k *kind) wait(a *command.App) *cobra.Command {
	within := command.Duration(30 * time.Second)
	cmd := verb("wait", k.verbs.wait, command.Args())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.Connect(func(c *client.Client) error {
			res, err := k.newest(cmd.Context(), a, c)
			if err != nil {
				return err
			}
			o := waitFor(cmd.Context(), a, k.follow(c), res, within.Std())
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
	cmd.Flags().Var(&within, "within", "wait at most this long")
	return cmd
}

// newest is what was accepted last.
func (k *kind) newest(ctx context.Context, a *command.App, c *client.Client) (res view.Result, err error) {
	ctx, cancel := a.Limited(ctx)
	defer cancel()
	err = k.follow(c)(ctx, func(s stage) error {
		res.Rev, res.Version = s.rev, s.versions[len(s.versions)-1]
		return client.ErrStop
	})
	if err == nil && res.Version == "" {
		err = command.Refuse(command.ExitRefused, wire.CodeNotFound, "%s", k.nothing)
	}
	return res, err
}

func (k *kind) diff(a *command.App) *cobra.Command {
	cmd := verb("diff A B", k.verbs.diff, command.Args("A", "B"))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if args[0] == "-" && args[1] == "-" {
			return command.Usage("only one of A and B can be standard input")
		}
		var sides [2]*input
		for i, arg := range args {
			var err error
			if isFile(arg) {
				sides[i], err = k.read(a, cmd, []string{arg}, &options{})
			} else {
				sides[i], err = k.installed(cmd.Context(), a, arg)
			}
			if err != nil {
				return neither(arg, err)
			}
		}
		changes, err := k.compare(sides[0], sides[1])
		if err != nil {
			return err
		}
		return printDiff(a, sides[0], sides[1], changes)
	}
	return cmd
}

// installed fetches a version's document and reads it.
func (k *kind) installed(ctx context.Context, a *command.App, version string) (in *input, err error) {
	err = a.Connect(func(c *client.Client) error {
		doc, err := k.fetched(ctx, c, version)
		if err != nil {
			return err
		}
		in = &input{Source: command.Source{File: "version " + version, Text: doc}}
		err = k.parse(in)
		in.File = version
		return err
	})
	return in, err
}
