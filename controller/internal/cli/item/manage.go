package item

import (
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// types are those of items.
var types = []string{string(items.Component), string(items.Layer), string(items.Service)}

// argument is how people name an item.
func argument(r items.Ref) string { return string(r.Type) + "/" + r.Codename }

// known lists the items of the unit.
func known(ctx context.Context, c *client.Client) (all []items.Ref, err error) {
	v, err := client.Call(ctx, c, op.ListItems, op.ItemsIn{})
	for _, it := range v.Items {
		all = append(all, items.Ref{Type: it.Type, Codename: it.Codename})
	}
	return all, err
}

// names are how people name items: with the type, and without.
func names(all []items.Ref) (names []string) {
	for _, r := range all {
		names = append(names, argument(r))
	}
	for _, r := range all {
		if !slices.Contains(names, r.Codename) {
			names = append(names, r.Codename)
		}
	}
	return names
}

const listsItems = "tandem item list has those that there are"

// nearItem adds the nearest names to the error that an item is not there.
func nearItem(r items.Ref) command.Explain {
	return command.NearListed(argument(r), listsItems,
		func(ctx context.Context, c *client.Client) ([]string, error) {
			all, err := known(ctx, c)
			return names(all), err
		})
}

// typed reads the name of an item that says its type, type/codename; false: it does not.
func typed(arg string) (r items.Ref, yes bool, err error) {
	t, codename, yes := strings.Cut(arg, "/")
	switch {
	case yes && !slices.Contains(types, t):
		return r, true, command.Usage("%.80q is no item: the type is %s%s", arg, strings.Join(types, ", "),
			command.Suggest(t, types, ""))
	case !yes:
		codename = t
	}
	if !wire.ValidName(codename) {
		return r, yes, command.Usage("%.80q is no item: TYPE/CODENAME, or CODENAME where only one item has it", arg)
	}
	return items.Ref{Type: items.Type(t), Codename: codename}, yes, nil
}

// called returns the item that is meant: sensor is one where only one item is called so.
func called(ctx context.Context, c *client.Client, arg string) (r items.Ref, err error) {
	r, yes, err := typed(arg)
	if err != nil || yes {
		return r, err
	}
	all, err := known(ctx, c)
	if err != nil {
		return r, err
	}
	var meant []items.Ref
	var words []string
	for _, k := range all {
		if k.Codename == r.Codename {
			meant, words = append(meant, k), append(words, argument(k))
		}
	}
	switch len(meant) {
	case 0:
		return r, command.Refuse(command.ExitRefused, wire.CodeNotFound, "there is no item %s%s", arg,
			command.Suggest(arg, names(all), listsItems))
	case 1:
		return meant[0], nil
	}
	return r, command.Usage("several items are called %s: say %s", arg, strings.Join(words, " or "))
}

// onItem is a command about an item, by its name and, if the command takes one, a version.
func onItem[T any](a *command.App, cmd *cobra.Command,
	call func(context.Context, *client.Client, op.ItemIn, string) (T, error),
	print func(*command.App, items.Ref, string, T)) *cobra.Command {

	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if _, _, err := typed(args[0]); err != nil {
			return err
		}
		version := ""
		if len(args) > 1 {
			version = args[1]
			if _, err := items.ParseVersion(version); err != nil {
				return command.Usage("VERSION: %s", err)
			}
		}
		var ref items.Ref
		return command.Gather(cmd.Context(), a, func(ctx context.Context, c *client.Client) (v T, err error) {
			if ref, err = called(ctx, c, args[0]); err != nil {
				return v, err
			}
			return call(ctx, c, op.ItemIn{Type: string(ref.Type), Item: ref.Codename}, version)
		}, func(a *command.App, v T) { print(a, ref, version, v) },
			func(ctx context.Context, c *client.Client, err error) error { return nearItem(ref)(ctx, c, err) })
	}
	return cmd
}

// maybeVersion demands NAME, and takes VERSION.
func maybeVersion(c *cobra.Command, args []string) error {
	if len(args) < 2 {
		return command.Args("NAME")(c, args)
	}
	return command.Args("NAME", "VERSION")(c, args)
}

func list(a *command.App) *cobra.Command {
	var in op.ItemsIn
	cmd := &cobra.Command{
		Use: "list", Short: "List the update items, with their versions",
		Example: "  tandem item list\n  tandem item list --type service --state ready", Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := in.Check(); err != nil {
				return command.Usage("%s", err.Message)
			}
			return command.Ask(cmd.Context(), a, op.ListItems, in, printItems)
		},
	}
	cmd.Flags().StringVar(&in.Type, "type", "", "of this `type` only: component, service or layer")
	cmd.Flags().StringVar(&in.State, "state", "", "versions in this `state` only: preparation, ready or deprecated")
	return cmd
}

func printItems(a *command.App, v view.Items) {
	if len(v.Items) == 0 {
		a.Print("there are no items\n")
		return
	}
	t := &term.Table{Head: []string{"ITEM", "VERSION", "STATE", "SIZE", "SIGNED", "CHANGED", "BY"}}
	for _, it := range v.Items {
		name := argument(items.Ref{Type: it.Type, Codename: it.Codename})
		for _, of := range it.Versions {
			t.Add(name, of.Version, state(of.State), command.Size(of.Size), term.YesNo(of.Signed),
				a.Ago(of.At), of.Who)
		}
		if len(it.Versions) == 0 {
			t.Add(name, "none", "", "", "", a.Ago(it.At), it.Who)
		}
	}
	a.Table(t)
}

func state(s items.State) term.Cell {
	switch s {
	case items.Ready:
		return term.Green.Cell(string(s))
	case items.Preparation:
		return term.Yellow.Cell("in preparation")
	}
	return term.Cell{Text: string(s)}
}

func show(a *command.App) *cobra.Command {
	version := func(ctx context.Context, c *client.Client, in op.ItemIn, version string) (any, error) {
		v, err := client.Call(ctx, c, op.ShowItem, in)
		if err != nil || version == "" {
			return v, err
		}
		i := slices.IndexFunc(v.Versions, func(of view.ItemVersion) bool { return of.Version == version })
		if i < 0 {
			var all []string
			for _, of := range v.Versions {
				all = append(all, of.Version)
			}
			ref := in.Ref()
			return v, command.Refuse(command.ExitRefused, wire.CodeNotFound, "%s has no version %s%s", ref, version,
				command.Suggest(version, all, "tandem item show "+argument(ref)+" lists them"))
		}
		return v.Versions[i], nil
	}
	return onItem(a, &cobra.Command{
		Use: "show NAME [VERSION]", Short: "Show an update item, or the metadata of a version",
		Long: `Show an update item with its versions, or the metadata of one version, as it can be edited and
released under another number. NAME is TYPE/CODENAME, or CODENAME where only one item has it.`,
		Example: "  tandem item show service/sensor\n  tandem item show sensor 1.4.0 > sensor.json",
		Args:    maybeVersion,
	}, version, func(a *command.App, ref items.Ref, _ string, v any) {
		if of, ok := v.(view.ItemVersion); ok {
			printVersion(a, ref, &of)
		} else if it, ok := v.(view.Item); ok {
			printItem(a, &it)
		}
	})
}

func printItem(a *command.App, it *view.Item) {
	a.Print("%s %s\n", it.Type, term.Clean(it.Codename))
	a.Print("  urn      %s\n  created  %s\n", term.Clean(it.URN), term.Clean(a.Ago(it.At)+command.By(it.Who)))
	if it.Owner != "" {
		a.Print("  owner    %s\n", term.Clean(it.Owner))
	}
	if it.Description != "" {
		a.Print("  about    %s\n", term.Clean(it.Description))
	}
	if len(it.Versions) == 0 {
		a.Print("it has no version: tandem item release\n")
		return
	}
	a.Print("\n")
	t := &term.Table{Head: []string{"VERSION", "STATE", "FORM", "SIZE", "SIGNED", "CHANGED", "BY"}}
	for _, of := range it.Versions {
		t.Add(of.Version, state(of.State), string(of.Form), command.Size(of.Size), term.YesNo(of.Signed),
			a.Ago(of.At), of.Who)
	}
	a.Table(t)
}

func printVersion(a *command.App, ref items.Ref, of *view.ItemVersion) {
	text, err := json.Marshal(of.Meta)
	if err == nil {
		err = a.PrintIndented(text)
	}
	if err != nil { // what was read as JSON is written as JSON
		a.Warn("the metadata cannot be shown: %s", err)
	}
	a.Warn("%s %s is %s, changed %s%s; its content is %s", ref, of.Version, state(of.State).Text, a.Ago(of.At),
		command.By(of.Who), of.Digest)
	for i := range of.Content.Builds {
		b := &of.Content.Builds[i]
		for _, blob := range b.Files() {
			in := ""
			if blob.Encrypted != nil {
				in = ", encrypted in " + blob.Encrypted.Digest
			}
			a.Warn("  %s %s, %s%s", platform(b.Platform), command.Size(blob.Size), blob.Digest, in)
		}
	}
}

// changed prints what a change of an item came to.
func changed(words string) func(*command.App, items.Ref, string, view.ItemChange) {
	return func(a *command.App, ref items.Ref, version string, _ view.ItemChange) {
		a.Print("%s is %s\n", strings.TrimSpace(ref.String()+" "+version), words)
	}
}

func ready(a *command.App) *cobra.Command {
	return onItem(a, &cobra.Command{
		Use: "ready NAME VERSION", Short: "Have a version that is in preparation be deployed",
		Example: "  tandem item ready service/sensor 1.4.0", Args: command.Args("NAME", "VERSION"),
	}, func(ctx context.Context, c *client.Client, in op.ItemIn, version string) (view.ItemChange, error) {
		return client.Call(ctx, c, op.ReadyItem, op.ItemVersionIn{ItemIn: in, Version: version})
	}, changed("ready"))
}

func deprecate(a *command.App) *cobra.Command {
	return onItem(a, &cobra.Command{
		Use: "deprecate NAME VERSION", Short: "Have a version not be deployed anew",
		Long: `Have a version that is ready not be deployed anew. It stays where it runs. It does not come back: to
deploy its content again, release it as another version.`,
		Example: "  tandem item deprecate sensor 1.3.0", Args: command.Args("NAME", "VERSION"),
	}, func(ctx context.Context, c *client.Client, in op.ItemIn, version string) (view.ItemChange, error) {
		return client.Call(ctx, c, op.DeprecateItem, op.ItemVersionIn{ItemIn: in, Version: version})
	}, changed("deprecated"))
}

func remove(a *command.App) *cobra.Command {
	return onItem(a, &cobra.Command{
		Use: "remove NAME [VERSION]", Short: "Remove a version, or an item that has none",
		Long: `Remove a version that is in preparation or deprecated, or an item that has no version. The files of
a version stay in the controller's store until they are removed there: tandem artefact list.`,
		Example: "  tandem item remove sensor 1.3.0\n  tandem item remove service/sensor", Args: maybeVersion,
	}, func(ctx context.Context, c *client.Client, in op.ItemIn, version string) (view.ItemChange, error) {
		if version == "" {
			return client.Call(ctx, c, op.RemoveItem, in)
		}
		return client.Call(ctx, c, op.RemoveItemVersion, op.ItemVersionIn{ItemIn: in, Version: version})
	}, changed("removed"))
}

func history(a *command.App) *cobra.Command {
	return onItem(a, &cobra.Command{
		Use: "history NAME", Short: "List what happened to an update item",
		Long: `List what happened to the items of this name, the newest last. One that was removed is named with its
type: service/sensor.`,
		Example: "  tandem item history service/sensor", Args: command.Args("NAME"),
	}, func(ctx context.Context, c *client.Client, in op.ItemIn, _ string) (view.ItemHistory, error) {
		return client.Call(ctx, c, op.HistoryOfItem, in)
	}, func(a *command.App, _ items.Ref, _ string, v view.ItemHistory) { printHistory(a, v) })
}

func printHistory(a *command.App, v view.ItemHistory) {
	t := &term.Table{Head: []string{"REV", "AGE", "VERSION", "WAS", "WHO"}}
	for _, e := range v.Events {
		t.Add(rev(e.Rev), a.Age(e.At), e.Version, e.Did, e.Who)
	}
	a.Table(t)
}
