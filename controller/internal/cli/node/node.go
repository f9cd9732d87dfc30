package node

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/controller/internal/why"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

func show(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "node ID", Short: "Show everything that is known of one node, let it in and cut it off, or order it about",
		Example: "  tandem node node-1\n  tandem node enroll node-1", Args: command.NodeOrCommand("ID"),
		RunE: asked(a, op.ShowNode, printNode),
	}
}

// asked asks about the node that the argument names, which may also be a command that was mistyped.
func asked[Out any](
	a *command.App, o op.Op[op.NodeIn, Out], show func(*command.App, Out),
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return command.Ask(cmd.Context(), a, o, op.NodeIn{Node: args[0]}, show,
			command.NearNode(args[0], command.Names(cmd)...))
	}
}

func printNode(a *command.App, n view.Node) {
	t := &term.Table{}
	t.Add("Node", n.Node)
	t.Add("Type", cmp.Or(n.Type, "not reported yet"))
	if n.FirstSeen.IsZero() {
		identityRow(a, t, n.Identity)
		t.Add("Presence", "has not connected yet")
		a.Table(t)
		return
	}
	up := term.Green.Cell("online for " + a.Age(n.Since))
	if !n.Online {
		up = term.Yellow.Cell("offline for " + a.Age(n.Since))
	}
	t.Add("Presence", up)
	t.Add("First seen", a.Ago(n.FirstSeen))
	identityRow(a, t, n.Identity)
	if i := n.Info; i != nil {
		t.Add("System", fmt.Sprintf("%s on %s, %s, %s RAM", i.OS, i.Arch, term.Plural(i.CPUs, "CPU"), term.Size(i.RAM)))
		for _, p := range i.Partitions {
			use := ""
			if len(p.Types) > 0 {
				use = ", for " + strings.Join(p.Types, " and ")
			}
			t.Add("Partition", fmt.Sprintf("%s at %s, %s%s", p.Name, p.Path, term.Size(p.Size), use))
		}
		offerRows(t, i)
		for _, k := range slices.Sorted(maps.Keys(i.Attributes)) {
			t.Add("Attribute", k+" = "+i.Attributes[k])
		}
		t.Add("Agent", i.AgentVersion)
		if i.Error != nil {
			t.Add("Trouble", term.Red.Cell(command.Brief(i.Error)))
		}
	}
	if n.Boot != "" {
		t.Add("Boot", fmt.Sprintf("%s, session %d, %s", n.Boot, n.Session, term.Plural(int(n.Events), "event")))
	}
	if n.Health != nil {
		t.Add("Health", healthCell(n))
	}
	a.Table(t)
	for _, kind := range slices.Sorted(maps.Keys(n.Documents)) {
		a.Print("\n")
		printDocumentState(a, string(kind), n.Documents[kind])
	}
	if len(n.Slots) > 0 {
		a.Print("\nslots\n")
		printSlots(a, n.Slots, "  ")
	}
	printComponents(a, n.Components)
	printAlerts(a, n.Raised)
}

// offerRows show what a node tells for placement.
func offerRows(t *term.Table, i *wire.NodeInfo) {
	if i.CPU > 0 {
		t.Add("Power", fmt.Sprintf("%d DMIPS", i.CPU))
	}
	for _, r := range i.Runtimes {
		text := r.ID
		if r.Type != r.ID {
			text += " of type " + r.Type
		}
		text += " for " + platform(r)
		if r.MaxInstances > 0 {
			text += ", at most " + term.Plural(r.MaxInstances, "instance")
		}
		t.Add("Runtime", text)
	}
	shares := func(what string, all []wire.Shared) {
		for _, s := range all {
			text := "any number of instances"
			if s.Shared > 0 {
				text = term.Plural(s.Shared, "instance") + " at a time"
			}
			t.Add(what, s.Name+", for "+text)
		}
	}
	shares("Resource", i.Resources)
	shares("Device", i.Devices)
	if len(i.Subjects) > 0 {
		t.Add("Subjects", strings.Join(i.Subjects, " "))
	}
}

// platform is what a runtime runs, as images are named: linux/arm64/v8.
func platform(r wire.Runtime) string {
	p := items.Platform{OS: r.OS, Architecture: r.Architecture, Variant: r.Variant}
	return strings.Join(append([]string{p.Name()}, r.OSFeatures...), " ")
}

// printDocumentState shows the desired, running and last reported document of one kind.
func printDocumentState(a *command.App, kind string, d view.Document) {
	state := "not in step"
	if d.InSync {
		state = "in step"
	}
	a.Print("%s, %s\n", term.Clean(kind), state)
	t := &term.Table{Indent: "  "}
	if d.Desired != nil {
		mode := ""
		if onTrial(d) {
			mode = ", on trial"
		}
		t.Add("desired", docRef(&d.Desired.DocRef)+mode+", issued "+a.Ago(d.Desired.Issued))
	}
	if d.Running != nil {
		t.Add("running", docRef(d.Running))
	} else {
		t.Add("running", "nothing reported")
	}
	if l := d.Last; l != nil {
		of := docRef(&wire.DocRef{Epoch: l.Epoch, Rev: l.Rev, Version: l.Version})
		text := fmt.Sprintf("%s %s, %s", of, l.State, a.Ago(l.At))
		if l.Attempt > 1 {
			text += fmt.Sprintf(", attempt %d", l.Attempt)
		}
		t.Add("last", command.StateColour(l.State).Cell(text))
		if l.Error != nil {
			t.Add("error", term.Red.Cell(command.Brief(l.Error)))
			if m, ok := wire.Meanings[l.Error.Code]; ok {
				t.Add("", m)
			}
		}
	}
	if d.Error != nil {
		t.Add("error", term.Red.Cell(command.Brief(d.Error)))
	}
	a.Table(t)
}

// onTrial reports whether the node may still try what it should run: it has not told that the trial is over.
func onTrial(d view.Document) bool {
	over := d.Last != nil && d.Last.Stamp() == d.Desired.Stamp() && d.Last.State.Settled()
	return d.Desired.Mode == wire.ModeTry && !over
}

func docRef(r *wire.DocRef) string {
	return strings.TrimSpace(fmt.Sprintf("%s (epoch %d, rev %d)", r.Version, r.Epoch, r.Rev))
}

// identityRow describes the state of a node's certificate.
func identityRow(a *command.App, t *term.Table, id *view.Identity) {
	if id == nil {
		return
	}
	text, level := why.Identity(id, a.Now(), a.Clock, a.Ago)
	t.Add("Identity", command.LevelColour(level).Cell(text))
	if id.State == "joined" {
		text, level := why.Proof(id, a.Clock)
		t.Add("Messages", command.LevelColour(level).Cell(text))
	}
}
