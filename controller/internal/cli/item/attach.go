package item

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// edit is what attach and detach do to a subject.
type edit struct {
	nodes, items, labels []string
	instances            int
	preRelease           bool
}

// read reads the flags; a range is only of what is attached.
func (e *edit) read(cmd *cobra.Command, args []string, ranges bool) (all []items.Attachment, err error) {
	if err := command.CheckName("subject", args[0]); err != nil {
		return nil, err
	}
	if len(e.nodes)+len(e.items) == 0 {
		return nil, command.Lacks(cmd, "--node ID or --item TYPE/NAME")
	}
	for _, n := range e.nodes {
		if err := command.CheckNode(cmd, n); err != nil {
			return nil, err
		}
	}
	if ranges && (e.instances < 1 || e.instances > items.MaxInstances) {
		return nil, command.Usage("--instances is 1 to %d", items.MaxInstances)
	}
	for _, text := range e.items {
		name, versions, with := strings.Cut(text, "@")
		r, yes, err := typed(name)
		switch {
		case err != nil:
			return nil, err
		case !yes || r.Type == items.Layer:
			return nil, command.Usage("--item %.80q: component/NAME or service/NAME", text)
		case with && !ranges:
			return nil, command.Usage("--item %.80q: an item is attached once, and detached without its range", text)
		}
		t := items.Attachment{Type: r.Type, Codename: r.Codename, IncludePreRelease: e.preRelease, Labels: e.labels}
		if with {
			if t.Versions, err = items.ParseRange(versions); err != nil {
				return nil, command.Usage("--item %.80q: %s", text, err)
			}
		}
		if r.Type == items.Service {
			t.Instances = e.instances
		}
		all = append(all, t)
	}
	return all, nil
}

// change reads a subject, has it changed, and sets it if nobody else has in between.
func change(ctx context.Context, a *command.App, name string, by func(*items.Subject) error) error {
	return command.Gather(ctx, a, func(ctx context.Context, c *client.Client) (v view.ItemChange, err error) {
		s, err := client.Call(ctx, c, op.ShowSubject, op.SubjectIn{Subject: name})
		if err != nil {
			return v, err
		}
		if err := by(s.Document); err != nil {
			return v, err
		}
		return set(ctx, c, s.Document, s.Rev)
	}, func(a *command.App, v view.ItemChange) { printSet(a, name, v) }, nearSubject(name))
}

func attach(a *command.App) *cobra.Command {
	var e edit
	cmd := &cobra.Command{
		Use: "attach SUBJECT", Short: "Attach nodes and items to a subject",
		Long: `Attach nodes and items to a subject. An item that is attached gets the range, instances and labels
that are given here. Of the range the highest version that is ready is meant. Nodes are attached
to a subject that has some: one without has all of the unit, and is narrowed by its file.`,
		Example: "  tandem subject attach line-4 --node press-1\n" +
			"  tandem subject attach line-4 --item 'service/sensor@>=1.0.0,<2.0.0' --instances 2",
		Args: command.Args("SUBJECT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			attached, err := e.read(cmd, args, true)
			if err != nil {
				return err
			}
			return change(cmd.Context(), a, args[0], func(s *items.Subject) error {
				if len(e.nodes) > 0 && len(s.Nodes) == 0 {
					return command.Refuse(command.ExitRefused, wire.CodeWrongState, "subject %s has all nodes of the "+
						"unit, or of its type: name its nodes in its file, and apply that", s.Codename)
				}
				for _, n := range e.nodes {
					if !slices.Contains(s.Nodes, n) {
						s.Nodes = append(s.Nodes, n)
					}
				}
				for _, t := range attached {
					if i := indexOf(s, t.Ref()); i >= 0 {
						s.Items[i] = t
					} else {
						s.Items = append(s.Items, t)
					}
				}
				return nil
			})
		},
	}
	e.flags(cmd)
	cmd.Flags().IntVar(&e.instances, "instances", 1, "`number` of instances, of services")
	cmd.Flags().StringArrayVar(&e.labels, "label", nil, "`label` that a node has to have")
	cmd.Flags().BoolVar(&e.preRelease, "pre-release", false, "pre-releases in the range are meant, too")
	return cmd
}

func (e *edit) flags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&e.nodes, "node", nil, "a node, by its `ID`")
	cmd.Flags().StringArrayVar(&e.items, "item", nil, "an `item`: TYPE/NAME, or when it is attached TYPE/NAME@RANGE")
}

// indexOf finds an item that is attached; -1: it is not.
func indexOf(s *items.Subject, r items.Ref) int {
	return slices.IndexFunc(s.Items, func(t items.Attachment) bool { return t.Ref() == r })
}

func detach(a *command.App) *cobra.Command {
	var e edit
	cmd := &cobra.Command{
		Use: "detach SUBJECT", Short: "Detach nodes and items from a subject",
		Example: "  tandem subject detach line-4 --item service/sensor\n  tandem subject detach line-4 --node press-1",
		Args:    command.Args("SUBJECT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			detached, err := e.read(cmd, args, false)
			if err != nil {
				return err
			}
			return change(cmd.Context(), a, args[0], func(s *items.Subject) error {
				for _, t := range detached {
					i := indexOf(s, t.Ref())
					if i < 0 {
						var all []string
						for j := range s.Items {
							all = append(all, argument(s.Items[j].Ref()))
						}
						return notAttached(s, argument(t.Ref()), all)
					}
					s.Items = slices.Delete(s.Items, i, i+1)
				}
				for _, n := range e.nodes {
					i := slices.Index(s.Nodes, n)
					if i < 0 {
						return notAttached(s, "node "+n, s.Nodes)
					}
					s.Nodes = slices.Delete(s.Nodes, i, i+1)
				}
				if len(e.nodes) > 0 && len(s.Nodes) == 0 {
					return command.Refuse(command.ExitRefused, wire.CodeWrongState, "subject %s would be left without "+
						"a node, and then have all of the unit: remove it, or detach its items", s.Codename)
				}
				return nil
			})
		},
	}
	e.flags(cmd)
	return cmd
}

func notAttached(s *items.Subject, what string, all []string) error {
	lists := "tandem subject show " + s.Codename + " lists them"
	return command.Refuse(command.ExitRefused, wire.CodeNotFound, "%s is not attached to subject %s%s", what,
		s.Codename, command.Suggest(strings.TrimPrefix(what, "node "), all, lists))
}
