package node

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
)

func agentLog(a *command.App) *cobra.Command {
	var follow bool
	var in op.NodeLogIn
	cmd := &cobra.Command{
		Use: "logs NODE", Short: "Print the end of the log of a node's agent",
		Long: `Print the end of the log of a node's agent, and with -f what comes. The agent keeps the
last 64 KiB since its start in memory; its whole log is on the node, where its standard
error goes. What is asked for and gone is told. What a slot's process has written:
tandem workload logs.`,
		Example: "  tandem node logs node-1 --lines 20\n  tandem node logs node-1 -f --level warn",
		Args:    command.NodeArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if in.Node = args[0]; in.Lines == 0 && cmd.Flags().Changed("lines") {
				return command.Usage("--lines is a number from 1 to 1000")
			}
			if err := in.Check(); err != nil {
				return command.Usage("--%s", strings.TrimPrefix(err.Message, "the parameter "))
			}
			return a.Connect(func(c *client.Client) error {
				err := printAgentLog(cmd.Context(), a, func(in op.NodeLogIn) (view.NodeLog, error) {
					return client.Call(cmd.Context(), c, op.NodeLog, in)
				}, in, follow)
				if err != nil {
					err = unanswered(cmd.Context(), c, command.NearNode(in.Node)(cmd.Context(), c, err))
				}
				return err
			})
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&follow, "follow", "f", false, "go on with what is written until interrupted")
	f.IntVar(&in.Lines, "lines", 0, "begin with the last `N` lines (default: all that the agent has)")
	f.StringVar(&in.Level, "level", "", "only lines of this `LEVEL` and above: debug, info, warn or error")
	return cmd
}

// printAgentLog prints pieces of an agent's log as they come.
func printAgentLog(ctx context.Context, a *command.App, ask func(op.NodeLogIn) (view.NodeLog, error), in op.NodeLogIn,
	follow bool) error {

	left := cmp.Or(in.Lines, -1) // lines that are still to be shown; below 0: all
	waits, pace := waiting{}, pace{most: command.MaxLogPieces}
	if follow {
		pace.most = agentPieces
	}
	for {
		l, err := ask(in)
		switch {
		case follow && ctx.Err() != nil:
			return nil
		case err != nil && in.Cursor != "" && passing(err):
			waits.on(a, err)
		case err != nil:
			return err
		default:
			waits = waiting{}
			if !follow && left >= 0 {
				l.Lines = l.Lines[:min(len(l.Lines), left)]
				left -= len(l.Lines)
			}
			if err := agentPiece(a, l, in.Cursor == ""); err != nil {
				return err
			}
			in.Cursor, in.Lines = l.Cursor, 0
			more := l.More && left != 0
			if pace.goesOn(more && len(l.Lines) > 0) {
				continue
			}
			if more && !follow {
				a.Warn("there is more: the agent logs faster than it is read; -f goes on with it")
			}
		}
		if !follow || !command.Rest(ctx, logsPause) {
			return nil
		}
	}
}

// agentPiece prints one piece, and before it what is to be known of it.
func agentPiece(a *command.App, l view.NodeLog, begin bool) error {
	if a.JSON {
		if err := a.PrintJSON(l); err != nil {
			return err
		}
		return a.Flush()
	}
	if begin && !l.Until.IsZero() {
		a.Warn("this agent logs %s until %s", term.Clean(l.Level), a.Clock(l.Until))
	}
	if l.Restarted {
		a.Warn("the agent has started again; what it wrote before, and was not shown, is gone")
	}
	if l.Lost > 0 {
		verb := "were"
		if l.Lost == 1 {
			verb = "was"
		}
		a.Warn("%s %s lost: the agent keeps the last 64 KiB", term.Plural(int(min(l.Lost, 1<<31)), "line"), verb)
	}
	for _, line := range l.Lines {
		a.Print("%s\n", logLine(a, line))
	}
	return a.Flush()
}

// logLine puts a line of an agent's log, a JSON object, as people read it: when, how grave, what, and the rest. The
// names of unit and node are left out, which are the same in every line. What is no such object is shown as it is.
func logLine(a *command.App, line string) string {
	d := jsontext.NewDecoder(strings.NewReader(line), jsontext.AllowDuplicateNames(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return term.Clean(line)
	}
	at, level, text, rest := "", "", "", ""
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return term.Clean(line)
		}
		key := name.String()
		raw, err := d.ReadValue()
		if err != nil {
			return term.Clean(line)
		}
		value := plainValue(raw)
		switch key {
		case "time":
			if t, err := time.Parse(time.RFC3339Nano, value); err == nil {
				value = a.Clock(t)
			}
			at = value
		case "level":
			level = value
		case "msg":
			text = value
		case "unit", "node":
		default:
			if strings.ContainsAny(value, " \"") && raw.Kind() == '"' && !isJSON(value) {
				value = fmt.Sprintf("%q", value)
			}
			rest += " " + key + "=" + value
		}
	}
	if text == "" {
		return term.Clean(line)
	}
	return term.Clean(fmt.Sprintf("%s %-5s %s%s", at, level, text, rest))
}

// isJSON reports whether a text has its own beginning and end, as the details of events do.
func isJSON(text string) bool { return strings.HasPrefix(text, "{") && jsontext.Value(text).IsValid() }

// plainValue is a string without its quotes, and any other value as it is.
func plainValue(raw jsontext.Value) string {
	if raw.Kind() != '"' {
		return string(raw)
	}
	text, err := jsontext.AppendUnquote(nil, bytes.TrimSpace(raw))
	if err != nil {
		return string(raw)
	}
	return string(text)
}
