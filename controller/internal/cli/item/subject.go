package item

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/items"
)

// Subjects is the group of commands about subjects.
func Subjects(a *command.App) *cobra.Command {
	return command.Group("subject", "Keep subjects: which items are desired, for whom",
		"  tandem subject apply line-4.json\n  tandem subject attach line-4 --item service/sensor@^1.0.0",
		applySubjects(a), listSubjects(a), showSubject(a), attach(a), detach(a), removeSubject(a), subjectHistory(a))
}

func rev(n uint64) string { return strconv.FormatUint(n, 10) }

// nearSubject adds the nearest names to the error that a subject is not there.
func nearSubject(name string) command.Explain {
	return command.NearListed(name, "tandem subject list has those that there are",
		func(ctx context.Context, c *client.Client) (names []string, err error) {
			all, err := client.Call(ctx, c, op.ListSubjects, op.None{})
			for _, s := range all.Subjects {
				names = append(names, s.Codename)
			}
			return names, err
		})
}

// appliedJSON is what apply prints with --json.
type appliedJSON struct {
	Subjects []oneAppliedJSON `json:"subjects"` // in the order of the files
}

type oneAppliedJSON struct {
	Codename string `json:"codename"`
	view.ItemChange
}

func applySubjects(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "apply FILE…", Short: "Set subjects, each in place of the one of its codename",
		Long: `Set subjects. All files are read before the first is set. Items that a subject names need not be
there yet: until then they are not desired.`,
		Example: "  tandem subject apply line-4.json", Args: command.AtLeast("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var all []*items.Subject
			for _, file := range args {
				from, err := a.Read(file)
				if err != nil {
					return err
				}
				s, problems := items.ParseSubject(from.Text)
				if problems != nil {
					return command.Malformed(problems, from)
				}
				all = append(all, s)
			}
			apply := func(ctx context.Context, c *client.Client) (v appliedJSON, err error) {
				for _, s := range all {
					change, err := set(ctx, c, s, 0)
					if err != nil {
						return v, after(v.Subjects, s.Codename, err)
					}
					v.Subjects = append(v.Subjects, oneAppliedJSON{s.Codename, change})
				}
				return v, nil
			}
			return command.Gather(cmd.Context(), a, apply, func(a *command.App, v appliedJSON) {
				for _, s := range v.Subjects {
					printSet(a, s.Codename, s.ItemChange)
				}
			})
		},
	}
}

// after says which subjects were set before one that was not.
func after(all []oneAppliedJSON, name string, err error) error {
	f := command.AsFailure(err)
	better := *f.Err
	better.Message = "subject " + name + ": " + better.Message
	if len(all) > 0 {
		better.Message += fmt.Sprintf("; set are those before it, up to %s", all[len(all)-1].Codename)
	}
	return &command.Failure{Exit: f.Exit, Err: &better, Where: f.Where}
}

// set sets a subject, which was made from the one of a rev; 0: of none.
func set(ctx context.Context, c *client.Client, s *items.Subject, from uint64) (v view.ItemChange, err error) {
	text, err := json.Marshal(s)
	if err != nil {
		return v, err
	}
	return client.Call(ctx, c, op.ApplySubject,
		op.ApplySubjectIn{SubjectIn: op.SubjectIn{Subject: s.Codename}, From: from, Document: text})
}

func printSet(a *command.App, name string, v view.ItemChange) {
	if v.Unchanged {
		a.Print("subject %s is so already\n", name)
	} else {
		a.Print("subject %s is set, rev %d\n", name, v.Rev)
	}
	if len(v.Unknown) > 0 {
		a.Print("  unknown  %s (never heard of; counts when it comes)\n", term.List(v.Unknown))
	}
	printWarnings(a, v)
}

func printWarnings(a *command.App, v view.ItemChange) {
	for _, w := range v.Warnings {
		a.Print("  warning  %s\n", term.Clean(w))
	}
}

func listSubjects(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the subjects", Example: "  tandem subject list", Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.Ask(cmd.Context(), a, op.ListSubjects, op.None{}, func(a *command.App, v view.Subjects) {
				if len(v.Subjects) == 0 {
					a.Print("there are no subjects\n")
					return
				}
				t := &term.Table{Head: []string{"SUBJECT", "TYPE", "PRIORITY", "FOR", "ITEMS", "CHANGED", "BY"}}
				for _, s := range v.Subjects {
					t.Add(s.Codename, string(s.Type), strconv.Itoa(s.Priority), whom(&s), strconv.Itoa(s.Items),
						a.Ago(s.At), s.Who)
				}
				a.Table(t)
			})
		},
	}
}

// whom says to which nodes a subject is attached.
func whom(s *view.Subject) string {
	text := "the unit"
	switch {
	case s.Type == items.NodeType:
		text = "nodes of the type"
	case s.Nodes > 0:
		text = term.Plural(s.Nodes, "node")
	}
	if s.Reported {
		text += ", while reported"
	}
	return text
}

// onSubject is a command about one subject, by its name.
func onSubject[T any](a *command.App, cmd *cobra.Command, o op.Op[op.SubjectIn, T],
	print func(*command.App, string, T) error) *cobra.Command {

	cmd.Args = command.Args("NAME")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := command.CheckName("subject", args[0]); err != nil {
			return err
		}
		var failed error
		err := command.Ask(cmd.Context(), a, o, op.SubjectIn{Subject: args[0]},
			func(a *command.App, v T) { failed = print(a, args[0], v) }, nearSubject(args[0]))
		return cmp.Or(err, failed)
	}
	return cmd
}

func showSubject(a *command.App) *cobra.Command {
	return onSubject(a, &cobra.Command{
		Use: "show NAME", Short: "Show a subject, as it can be edited and applied again",
		Example: "  tandem subject show line-4 > line-4.json",
	}, op.ShowSubject, func(a *command.App, _ string, v view.Subject) error {
		text, err := json.Marshal(v.Document)
		if err != nil {
			return err
		}
		return a.PrintIndented(text)
	})
}

func removeSubject(a *command.App) *cobra.Command {
	return onSubject(a, &cobra.Command{
		Use: "remove NAME", Short: "Remove a subject", Example: "  tandem subject remove line-4",
	}, op.RemoveSubject, func(a *command.App, name string, v view.ItemChange) error {
		a.Print("subject %s is removed\n", name)
		printWarnings(a, v)
		return nil
	})
}

func subjectHistory(a *command.App) *cobra.Command {
	return onSubject(a, &cobra.Command{
		Use: "history NAME", Short: "List what happened to a subject, the newest last",
		Example: "  tandem subject history line-4",
	}, op.HistoryOfSubject, func(a *command.App, _ string, v view.ItemHistory) error {
		t := &term.Table{Head: []string{"REV", "AGE", "WAS", "WHO"}}
		for _, e := range v.Events {
			t.Add(rev(e.Rev), a.Age(e.At), e.Did, e.Who)
		}
		a.Table(t)
		return nil
	})
}
