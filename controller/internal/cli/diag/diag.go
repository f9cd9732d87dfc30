// Package diag owns the command that gathers what helps to find out what is wrong with a unit, in one file.
//
// It guarantees that the file says of everything what it is and what is missing; that what is known to be secret by its
// form, its name or its place is not in it; and that only its owner reads it. Of documents, of keys and of what records
// of the journal hold beside their words it takes nothing: what cannot be told from a secret is left out. The logs of
// agents it takes only of nodes that somebody names.
package diag

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/url"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/settings"
	"tandem.internal/shared/wire"
)

// mostEvents is how many events a bundle has at most.
const mostEvents = 10_000

// Command is the command.
func Command(a *command.App) *cobra.Command {
	output, force, events := "", false, 1000
	var logs agents
	cmd := &cobra.Command{
		Use: "diag", Short: "Gather what helps to find out what is wrong, without secrets, in one file",
		Long: `Gather what helps to find out what is wrong with a unit, without secrets, in one
compressed archive that only you may read.

MANIFEST.json in it says what each file is, and what was left out and why. Tokens,
passwords, keys and addresses of receivers of notices are replaced by ***; documents
are left out. Look into it before you pass it on: names of nodes and of people are in it.

With --logs, and --logs-where, it has the logs of agents, too, of at most 20 nodes. A
program may log anything; look into these above all.`,
		Example: "  tandem diag\n  tandem diag -o /tmp/line4.tar.gz --events 5000\n  tandem diag -o - | tar tzv\n" +
			"  tandem diag --logs node-1,node-2\n  tandem diag --logs-where 'state:failed'",
		Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := logs.check(cmd); err != nil {
				return err
			}
			switch {
			case events < 0 || events > mostEvents:
				return command.Usage("--events is from 0 to %d", mostEvents)
			case output == "-" && a.OutTerminal:
				return command.Usage("a terminal shows no archive: -o FILE, or send it elsewhere")
			case output != "" && output != "-":
				if err := forced(command.Vacant(output, force)); err != nil { // before anybody is asked
					return err
				}
			}
			b, err := gather(cmd.Context(), a, events, logs)
			if err != nil {
				return err
			}
			return save(a, b, output, force)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "",
		"write to this `file`, - for standard output (default: tandem-diag-UNIT-TIME.tar.gz here)")
	cmd.Flags().BoolVar(&force, "force", false, "replace the file if it exists")
	cmd.Flags().IntVar(&events, "events", events, "the newest `N` events, at most 10000")
	cmd.Flags().StringSliceVar(&logs.names, "logs", nil,
		"also the logs of the agents of these `NODES`, with commas between")
	cmd.Flags().StringVar(&logs.where, "logs-where", "",
		"also those of the first 20 nodes that this `FILTER` selects; see tandem nodes --help")
	return cmd
}

// forced adds to an error about a file that exists that --force replaces it.
func forced(err error) error {
	if f, ok := errors.AsType[*command.Failure](err); ok && f.Err.Code == wire.CodeAlreadyExists &&
		strings.HasPrefix(f.Err.Message, "the file exists") {
		f.Err.Message += "; --force replaces it"
	}
	return err
}

func save(a *command.App, b *bundle, output string, force bool) error {
	dir := "tandem-diag-" + b.Unit + "-" + b.Created.Format("20060102T150405Z")
	if output == "-" {
		for _, l := range b.missed {
			a.Warn("left out: %s: %s", l.What, l.Why)
		}
		return b.write(a.Out, dir)
	}
	err := a.Save(cmp.Or(output, dir+".tar.gz"), force, func(w io.Writer) error { return b.write(w, dir) })
	if err != nil || a.JSON {
		return forced(err)
	}
	a.Print("left out:\n")
	for _, l := range b.Left {
		a.Paragraph("- ", 2, l.What+": "+l.Why)
	}
	return nil
}

// gather asks the controller. What cannot be had is left out, unless there is no controller.
func gather(ctx context.Context, a *command.App, events int, logs agents) (*bundle, error) {
	b := &bundle{manifest: manifest{Unit: "unit", Created: a.Now().UTC(), Program: settings.Version,
		Files: []listed{}}}
	err := a.Connect(func(c *client.Client) error {
		status, err := client.Call(ctx, c, op.UnitStatus, op.UnitStatusIn{})
		if unreachable, ok := errors.AsType[*client.Unreachable](err); ok {
			return unreachable
		}
		notices, noticesErr := client.Call(ctx, c, op.ListNotices, op.None{})
		b.scrub = newScrubber(addresses(notices.Receivers))
		b.Asked = "HTTP"
		if c.Local() {
			b.Asked = "unix socket"
		}
		if wire.ValidName(status.Unit) {
			b.Unit = status.Unit
		}
		add(b, "status.json", "the unit at a glance", status, err)
		b.versions(ctx, c, status)
		b.settings(ctx, c)
		b.journal(ctx, c, status)
		b.notices(notices, noticesErr)
		ask(ctx, b, c, "fleet.json", "counts of the nodes, and what to look at", op.ShowFleet, op.None{})
		ask(ctx, b, c, "alerts.json", "alerts that are raised", op.ListAlerts, op.None{})
		ask(ctx, b, c, "keys.json", "signing keys, without what is secret of them", op.ShowKeys, op.None{})
		ask(ctx, b, c, "cas.json", "CAs, without what is secret of them", op.ShowCAs, op.None{})
		b.events(ctx, a, c, events)
		b.stacks(ctx, a, c)
		b.agentLogs(ctx, c, logs)
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	b.leave("documents: unit configuration, workloads, items, policies", "they may have passwords in them; tandem "+
		"config show, and so on, have them")
	b.leave("keys, tokens, settings that are secret", "they are secrets")
	b.leave("the log of the controller", "no request asks for it: journalctl -u tandem-controller")
	if len(logs.names) == 0 && logs.where == "" {
		b.leave("logs of agents", "they may have anything in them; --logs NODE has that of a node")
	}
	b.leave("logs of workloads", "they may have anything in them; tandem workload logs has those of a slot")
	return b, nil
}

// add puts an answer into the bundle, or why there is none.
func add(b *bundle, name, what string, v any, err error) {
	if err != nil {
		b.leave(what, command.AsFailure(err).Err.Message)
		return
	}
	b.addJSON(name, what, v)
}

func ask[In, Out any](
	ctx context.Context, b *bundle, c *client.Client, name, what string, o op.Op[In, Out], in In,
) {
	v, err := client.Call(ctx, c, o, in)
	add(b, name, what, v, err)
}

// versions are the programs' versions.
type versions struct {
	Tandem     string         `json:"tandem"`
	System     string         `json:"system"` // of tandem
	Wire       int            `json:"wire"`   // version that tandem knows
	Controller string         `json:"controller,omitempty"`
	Agents     map[string]int `json:"agents,omitempty"` // nodes by what their agents told; "": nothing
}

func (b *bundle) versions(ctx context.Context, c *client.Client, st view.UnitStatus) {
	v := versions{Tandem: settings.Version, System: runtime.GOOS + "/" + runtime.GOARCH, Wire: wire.Version,
		Controller: st.Version, Agents: map[string]int{}}
	nodes, err := client.Call(ctx, c, op.ListNodes, op.NodesIn{})
	if err != nil {
		b.leave("versions of agents", command.AsFailure(err).Err.Message)
	}
	for _, n := range nodes.Nodes {
		agent := ""
		if n.Info != nil {
			agent = n.Info.AgentVersion
		}
		v.Agents[agent]++
	}
	b.addJSON("versions.json", "versions of the programs", v)
}

func (b *bundle) settings(ctx context.Context, c *client.Client) {
	v, err := client.Call(ctx, c, op.UnitSettings, op.None{})
	for i := range v.Settings {
		if s := &v.Settings[i]; isSecret.MatchString(s.Name) && len(s.Value) > 2 {
			s.Value = hidden
		}
	}
	add(b, "settings.json", "settings of the controller, without those that are secret", v, err)
}

// proof is what the controller says of its journal.
type proof struct {
	Epoch  uint64 `json:"epoch"`
	Rev    uint64 `json:"rev"` // newest record
	OK     bool   `json:"ok"`
	Report string `json:"report"`
}

func (b *bundle) journal(ctx context.Context, c *client.Client, st view.UnitStatus) {
	v, err := client.Call(ctx, c, op.VerifyJournal, op.None{})
	add(b, "journal.json", "newest record of the journal, and whether all records are as they were written",
		proof{st.Epoch, st.Rev, v.OK, v.Report}, err)
}

// notices are the receivers without their addresses.
func (b *bundle) notices(v op.Notices, err error) {
	for i := range v.Receivers {
		v.Receivers[i].URL = hidden
		b.scrub.found[ofReceiver]++
	}
	add(b, "notices.json", "receivers of notices, without their addresses", v, err)
}

// addresses are the texts by which receivers can be reached, the longest first. That of this machine is no secret.
func addresses(all []view.NoticeReceiver) (texts []string) {
	for i := range all {
		texts = append(texts, all[i].URL)
		if u, err := url.Parse(all[i].URL); err == nil && !command.Loopback(all[i].URL) {
			texts = append(texts, u.Host, u.Hostname())
		}
	}
	slices.SortFunc(texts, func(x, y string) int { return cmp.Compare(len(y), len(x)) })
	return slices.DeleteFunc(texts, func(s string) bool { return s == "" })
}

func (b *bundle) events(ctx context.Context, a *command.App, c *client.Client, most int) {
	const what = "the newest events, without their data"
	if most == 0 {
		b.leave(what, "--events is 0")
		return
	}
	limited, cancel := a.Limited(ctx)
	defer cancel()
	found := []view.Entry{}
	err := client.Follow(limited, c, op.Events, op.EventsIn{Newest: true, Limit: most}, func(e view.Entry) error {
		if strings.HasPrefix(e.Text, "{") {
			e.Text = "(not understood)" // it is the data
		}
		e.Data = nil
		found = append(found, e)
		return nil
	})
	add(b, "events.json", what+", the newest first", found, err)
}

// stacks are what the controller's goroutines do.
func (b *bundle) stacks(ctx context.Context, a *command.App, c *client.Client) {
	const what = "stacks of the controller's goroutines"
	if !c.Local() {
		b.leave(what, "only the unix socket gives them: run tandem diag on the controller's machine")
		return
	}
	limited, cancel := a.Limited(ctx)
	defer cancel()
	var text bounded
	if err := c.Profile(limited, "goroutine", 2, &text); err != nil {
		b.leave(what, command.AsFailure(err).Err.Message)
		return
	}
	b.add("stacks.txt", what, term.CleanLines(text.String()))
}

// bounded keeps the beginning of what is written to it.
type bounded struct{ strings.Builder }

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	b.Builder.Write(p[:min(len(p), mostFile-b.Len())])
	return len(p), nil
}
