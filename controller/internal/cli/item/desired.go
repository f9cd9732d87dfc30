package item

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/desired"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/rebalance"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/why"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// Desired is the group of commands about what should run where.
func Desired(a *command.App) *cobra.Command {
	return command.Group("desired", "Decide what should run where, and say why",
		"  tandem desired plan\n  tandem desired why node-1 sensor\n  tandem desired apply --wait", plan(a), explain(a),
		apply(a), showState(a))
}

// asked are the flags of the commands.
type asked struct {
	dir     string // "": the controller is asked
	evict   command.Duration
	preempt bool
}

func (f *asked) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.dir, "offline", "", "`directory` with the unit; no controller is asked")
	f.decides(cmd)
}

// decides are the flags that say how it is decided.
func (f *asked) decides(cmd *cobra.Command) {
	cmd.Flags().Var(&f.evict, "evict-after", "services of a node that is offline for longer go elsewhere "+
		"(default: they stay)")
	cmd.Flags().BoolVar(&f.preempt, "preempt", false, "services make room for those of higher priority")
}

// input is how a controller is to decide.
func (f *asked) input() op.DecideIn {
	return op.DecideIn{EvictAfter: f.evict.Std(), Preempt: f.preempt}
}

// make reads the unit from files and decides.
func (f *asked) make(a *command.App) (*desired.Plan, error) {
	u, err := readUnit(a, f.dir)
	if err != nil {
		return nil, err
	}
	u.EvictAfter, u.Preempt = f.evict.Std(), f.preempt
	overloaded, err := u.relieve()
	if err != nil {
		return nil, err
	}
	p, err := why.Decide(&u.Input)
	if err != nil {
		return nil, err
	}
	p.Overloaded = overloaded
	return p, nil
}

// relieve finds what has to move, if something was measured.
func (u *unit) relieve() (all []desired.Relief, err error) {
	if u.load == nil {
		return nil, nil
	}
	s := rebalance.New(rebalance.Durable{}, rebalance.Limits{})
	effects, err := s.Step(time.Time{}, &u.Input, rebalance.Measured(*u.load))
	if err != nil {
		return nil, err
	}
	u.Moves = s.Moves()
	for _, e := range effects {
		if d, ok := e.(rebalance.Decided); ok {
			d.Why = why.Relief(&d.Relief)
			all = append(all, d.Relief)
		}
	}
	return all, nil
}

func plan(a *command.App) *cobra.Command {
	var f asked
	var all bool
	cmd := &cobra.Command{
		Use: "plan", Short: "Print what should run where, and what is to be done for it",
		Long: `Decide what should run where, and print the difference from what runs now, and why
something is not there. Nothing is changed. With --offline the unit is read from files: DIR has
items/*.json, subjects/*.json, nodes/*.json and, where wanted, unit.json (the unit
configuration: labels, priority, resource ratios, alert rules), current.json (what runs now) and
load.json (what is used of nodes on average): what leaves nodes that are overloaded is then
part of the plan.`,
		Example: "  tandem desired plan\n  tandem desired plan --offline unit --json",
		Args:    command.Args(),
	}
	f.flags(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "also what stays as it is, and versions that are not chosen")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f.dir == "" {
			return command.Ask(cmd.Context(), a, op.PlanDesired, f.input(), func(a *command.App, p desired.Plan) {
				printPlan(a, &p, all)
			})
		}
		p, err := f.make(a)
		if err != nil {
			return err
		}
		if a.JSON {
			return a.PrintJSON(p)
		}
		printPlan(a, p, all)
		return nil
	}
	return cmd
}

func printPlan(a *command.App, p *desired.Plan, all bool) {
	t := &term.Table{Head: []string{"NODE", "CHANGE", "ITEM", "VERSION", "SUBJECT", "RUNTIME", "REMARK"}}
	for _, n := range p.Nodes {
		changed := map[string]bool{}
		for _, c := range n.Changes {
			t.Add(n.Node, changeCell(c.Do), string(c.Type)+" "+c.Codename, c.Version, place(c.Subject, c.Index),
				c.Runtime, why.Remark(c))
			changed[key(c.Type, c.Codename, c.Subject, c.Index, c.Runtime)] = true
		}
		for _, i := range n.Instances {
			if all && !changed[key(i.Type, i.Codename, i.Subject, i.Index, i.Runtime)] {
				t.Add(n.Node, "keep", string(i.Type)+" "+i.Codename, i.Version, place(i.Subject, i.Index),
					i.Runtime, "")
			}
		}
	}
	if t.Len() > 0 {
		a.Table(t)
		a.Print("\n")
	}
	c := p.Changes
	a.Print("instances: %d start, %d update, %d move, %d stop, %d stay; layers: %d come, %d go\n",
		c.Start, c.Update, c.Move, c.Stop, c.Keep, c.Fetch, c.Remove)
	head := "\noverloaded:\n"
	for i := range p.Overloaded {
		r := &p.Overloaded[i]
		a.Print("%s  %s\n", head, term.Clean(r.Why))
		head = ""
		for k := range r.Stays {
			a.Print("    %s\n", term.Clean(why.Stay(&r.Stays[k])))
		}
	}
	left := 0
	head = "\nnot there:\n"
	for i := range p.Reasons {
		r := &p.Reasons[i]
		if !all && (r.Reason == desired.Superseded || r.By != nil && r.Version != r.By.Version &&
			(r.Reason == desired.NotReady || r.Reason == desired.Deprecated)) {
			left++
			continue
		}
		a.Print("%s  %s\n", head, term.Clean(r.Why))
		head = ""
	}
	if left > 0 {
		a.Print("\n%s not chosen; --all shows them\n", term.Plural(left, "other version"))
	}
}

// key tells the rows of a node apart.
func key(t items.Type, name, subject string, index int, runtime string) string {
	return fmt.Sprintf("%s/%s/%s/%d/%s", t, name, subject, index, runtime)
}

func place(subject string, index int) string {
	if subject == "" {
		return ""
	}
	return fmt.Sprintf("%s/%d", subject, index)
}

func changeCell(d desired.Do) term.Cell {
	switch d {
	case desired.Start, desired.Fetch:
		return term.Green.Cell(string(d))
	case desired.Stop, desired.Remove:
		return term.Red.Cell(string(d))
	}
	return term.Yellow.Cell(string(d))
}

// Why is the command that says why, as it stands below the others of its name.
func Why(a *command.App) *cobra.Command {
	c := explain(a)
	c.Use, c.Example = "item NODE ITEM", "  tandem why item node-1 sensor"
	return c
}

func explain(a *command.App) *cobra.Command {
	var f asked
	typ := ""
	cmd := &cobra.Command{
		Use: "why NODE ITEM", Short: "Say what decided about an item on a node",
		Long: `Say which subject, priority, suppression, conflict or filter decided that an item is or is
not on a node. ITEM is a codename, or TYPE/CODENAME: where a service, a component and a
layer have the same one, that or --type tells them apart.`,
		Example: "  tandem desired why node-1 sensor\n  tandem desired why node-1 sensor --offline unit",
		Args:    command.Args("NODE", "ITEM"),
	}
	f.flags(cmd)
	cmd.Flags().StringVar(&typ, "type", "", "`type` of the item: service, component or layer")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := command.CheckNode(cmd, args[0]); err != nil {
			return err
		}
		if typ != "" && !slices.Contains(types, typ) {
			return command.Usage("--type is service, component or layer, not %.80q", typ)
		}
		named, yes, err := typed(args[1])
		switch {
		case err != nil:
			return err
		case yes && typ != "" && typ != string(named.Type):
			return command.Usage("%s is no %s: leave --type out", args[1], typ)
		}
		meant := items.Ref{Type: items.Type(typ), Codename: named.Codename}
		if yes {
			meant.Type = named.Type
		}
		if f.dir == "" {
			in := op.WhyDesiredIn{NodeIn: op.NodeIn{Node: args[0]}, Item: meant.Codename, Type: meant.Type,
				DecideIn: f.input()}
			return command.Ask(cmd.Context(), a, op.WhyDesired, in, func(a *command.App, e op.ItemWhy) {
				printWhy(a, &e)
			})
		}
		p, err := f.make(a)
		if err != nil {
			return err
		}
		e, err := find(p, args[0], meant)
		if err != nil {
			return err
		}
		both := op.ItemWhy{Explanation: *e, Why: why.ItemWhy(e)}
		if a.JSON {
			return a.PrintJSON(both)
		}
		printWhy(a, &both)
		return nil
	}
	return cmd
}

// find explains the item that is meant; without a type, the one that has the codename.
func find(p *desired.Plan, node string, meant items.Ref) (*desired.Explanation, error) {
	nodes, known := p.Known()
	if !slices.Contains(nodes, node) {
		return nil, command.Refuse(command.ExitRefused, wire.CodeNotFound, "there is no node %s%s", node,
			command.Suggest(node, nodes, "nodes/ has them"))
	}
	found := why.Items(p, node, meant.Codename, meant.Type)
	switch len(found) {
	case 0:
		return nil, command.Refuse(command.ExitRefused, wire.CodeNotFound, "there is no item %s%s", why.Named(meant),
			cmp.Or(items.Near(meant, known), "; items/ has them"))
	case 1:
		return &found[0], nil
	}
	var have []string
	for _, e := range found {
		have = append(have, string(e.Type))
	}
	return nil, command.Usage("a %s have the codename %s: --type tells which is meant", strings.Join(have, " and a "),
		meant.Codename)
}

func printWhy(a *command.App, e *op.ItemWhy) {
	a.PrintWhy(e.Why)
	line := func(format string, args ...any) { a.Print("  %s\n", term.Clean(fmt.Sprintf(format, args...))) }
	for _, i := range e.Here {
		line("%s of %s, instance %d: runtime %s", i.Version, i.Subject, i.Index, i.Runtime)
		for _, v := range i.Env {
			line("  %s=%s, of the %s", v.Name, v.Text, v.From)
		}
	}
	for _, l := range e.Layers {
		line("%s: for %s", l.Version, strings.Join(l.For, ", "))
	}
}
