package command

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// What completion with names of the unit may cost a person who presses the tab key.
const (
	completeWithin = time.Second
	mostCompleted  = 100
)

// harmless are the names that are completed: a shell takes them as they are.
var harmless = regexp.MustCompile(`^[A-Za-z0-9._@/:-]+$`)

// source is where names come from. The prefix may be passed over.
type source func(ctx context.Context, c *client.Client, prefix string) ([]string, error)

// listed is a source that lists everything of a sort.
func listed[Out, T any](o op.Op[op.None, Out], all func(Out) []T, name func(T) string) source {
	return func(ctx context.Context, c *client.Client, _ string) (names []string, err error) {
		v, err := client.Call(ctx, c, o, op.None{})
		for _, x := range all(v) {
			names = append(names, name(x))
		}
		return names, err
	}
}

// nodesNamed are the nodes whose names begin with a prefix.
func nodesNamed(ctx context.Context, c *client.Client, prefix string) (names []string, err error) {
	in := op.PickIn{Fields: "node"}
	in.Name, in.Limit = prefix+"*", mostCompleted
	found, err := client.Call(ctx, c, op.PickNodes, in)
	for _, n := range found.Nodes {
		var name string
		if err == nil {
			err = json.Unmarshal(n["node"], &name)
		}
		names = append(names, name)
	}
	return names, err
}

func slotsOf(ctx context.Context, c *client.Client, _ string) (names []string, err error) {
	v, err := client.Call(ctx, c, op.ListSlots, op.SlotsIn{})
	for i := range v.Slots {
		names = append(names, v.Slots[i].Slot)
	}
	return names, err
}

func itemsOf(ctx context.Context, c *client.Client, _ string) (names []string, err error) {
	v, err := client.Call(ctx, c, op.ListItems, op.ItemsIn{})
	for i := range v.Items {
		names = append(names, v.Items[i].Codename)
	}
	return names, err
}

var (
	policiesOf = listed(op.ListPolicies, func(v view.Policies) []view.Policy { return v.Policies },
		func(p view.Policy) string { return p.Name })
	rolloutsOf = listed(op.ListRollouts, func(v view.Rollouts) []view.Rollout { return v.Rollouts },
		func(r view.Rollout) string { return r.ID })
	subjectsOf = listed(op.ListSubjects, func(v view.Subjects) []view.Subject { return v.Subjects },
		func(s view.Subject) string { return s.Codename })
	tokensOf = listed(op.ListTokens, func(v op.Tokens) []view.Token { return v.Tokens },
		func(t view.Token) string { return t.Name })
	receiversOf = listed(op.ListNotices, func(v op.Notices) []view.NoticeReceiver { return v.Receivers },
		func(r view.NoticeReceiver) string { return r.Name })
)

// Texts are words of a type as plain texts.
func Texts[T ~string](words []T) []string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = string(w)
	}
	return all
}

// these is the source of some words.
func these[T ~string](words ...T) source {
	all := Texts(words)
	return func(context.Context, *client.Client, string) ([]string, error) { return all, nil }
}

// noWord is the source of what has no words.
var noWord = these[string]()

// placeholders are what an argument names, by how the usage of its command calls it. A filter names nothing, and is no
// file either.
var placeholders = map[string]source{
	"NODE": nodesNamed, "SLOT": slotsOf, "ITEM": itemsOf, "ROLLOUT": rolloutsOf, "SUBJECT": subjectsOf,
	"LEVEL": these(append(slices.Clone(wire.LogLevels), "default")...), "KIND": these(wire.Documents()...),
	"FILTER": noWord,
}

// flagWords are the words that a flag takes, by its name.
var flagWords = map[string]source{
	"role": these(op.Roles...), "sort": these(op.Sorts...), "where": noWord, "logs-where": noWord, "state": noWord,
}

// named are what NAME, and ID, mean in the commands of a group.
var named = map[string]source{
	"policy": policiesOf, "subject": subjectsOf, "item": itemsOf, "notify": receiversOf, "tandem": nodesNamed,
	"token": tokensOf,
}

// complete has shells complete the names in the arguments of a command and all of its commands, and what flags take
// that name nodes or are one of a few words.
func (a *App) complete(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.complete(sub)
	}
	for _, name := range []string{"node", "logs"} {
		f, completes := c.Flags().Lookup(name), a.completion(nodesNamed)
		if f == nil || strings.Contains(f.Usage, "`file`") {
			continue
		}
		if f.Value.Type() == "stringSlice" {
			completes = lastOf(completes)
		}
		completesFlag(c, name, completes)
	}
	for name, words := range flagWords {
		if f := c.LocalFlags().Lookup(name); f != nil {
			completesFlag(c, name, a.completion(words))
		}
	}
	sources := sourcesOf(c)
	if len(sources) == 0 || c.ValidArgsFunction != nil {
		return
	}
	c.ValidArgsFunction = func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		at := len(args)
		if repeats := strings.Contains(c.Use, "…") || strings.Contains(c.Use, "..."); repeats {
			at = min(at, len(sources)-1)
		}
		switch {
		case at >= len(sources):
			return nil, cobra.ShellCompDirectiveNoFileComp
		case sources[at] == nil:
			return nil, cobra.ShellCompDirectiveDefault
		}
		return a.completion(sources[at])(c, args, prefix)
	}
}

// completesFlag has shells complete what a flag takes.
func completesFlag(c *cobra.Command, name string, completes cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(name, completes); err != nil {
		panic(err) // there is no such flag, or two of them
	}
}

// choice is an argument, or a flag instead of it: (NODE | --where FILTER).
var choice = regexp.MustCompile(`\(([A-Z]+)[^)]*\)`)

// sourcesOf returns where the names of each argument come from; nil: the argument is something else.
func sourcesOf(c *cobra.Command) (sources []source) {
	if c.Parent() == nil || c.Name() == "add" || c.Name() == "create" {
		return nil // what is named there is new
	}
	for _, word := range strings.Fields(choice.ReplaceAllString(c.Use, "$1"))[1:] {
		word = strings.Trim(word, "[]….")
		if strings.HasPrefix(word, "-") {
			break
		}
		from := placeholders[word]
		if word == "NAME" || word == "ID" && c.Name() == "node" {
			from = named[c.Parent().Name()]
			if c.Name() == "policy" { // why policy
				from = policiesOf
			}
		}
		sources = append(sources, from)
	}
	if !slices.ContainsFunc(sources, func(s source) bool { return s != nil }) {
		return nil
	}
	return sources
}

// completion completes with names that a controller has, if it answers soon. It says nothing about what went wrong:
// that would stand in the middle of what is being typed.
func (a *App) completion(from source) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		a.JSON = true // no warnings
		ctx, cancel := context.WithTimeout(c.Context(), completeWithin)
		defer cancel()
		var names []string
		err := a.Connect(func(c *client.Client) (err error) {
			names, err = from(ctx, c, prefix)
			return err
		})
		if err != nil {
			names = nil
		}
		return completed(names, prefix), cobra.ShellCompDirectiveNoFileComp
	}
}

// lastOf completes the last one of a list with commas between, with what is not in the list yet. Another comma may
// follow what was completed.
func lastOf(one cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		at := strings.LastIndexByte(prefix, ',') + 1
		names, directive := one(c, args, prefix[at:])
		there := strings.Split(prefix[:at], ",")
		names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(there, name) })
		for i := range names {
			names[i] = prefix[:at] + names[i]
		}
		return names, directive | cobra.ShellCompDirectiveNoSpace
	}
}

// CompleteContexts completes with the names of contexts.
func (a *App) CompleteContexts(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	set, err := a.Contexts()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return completed(set.Names(), prefix), cobra.ShellCompDirectiveNoFileComp
}

// completed are those of some names that can be meant, in order.
func completed(names []string, prefix string) []string {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !strings.HasPrefix(name, prefix) || !harmless.MatchString(name)
	})
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), mostCompleted)]
}
