package node

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// logsPause is how long -f waits when nothing was written, or when it has read for long without a pause.
const logsPause = time.Second

// How many pieces -f reads without a pause: all that is kept, however small the pieces of honest nodes are.
const (
	agentPieces = 8                    // of the last 64 KiB, at least 8 KiB each
	slotPieces  = command.MaxLogPieces // of 2 MiB, 32 KiB each
)

// pace keeps -f from asking without a pause a node that always says that there is more, whether it sends it or not.
type pace struct {
	most int // pieces without a pause
	row  int // so many there were
}

// goesOn reports whether the next piece is asked for at once, if this one says that there is more.
func (p *pace) goesOn(more bool) bool {
	if p.row++; more && p.row < p.most {
		return true
	}
	p.row = 0
	return false
}

func slotLogs(a *command.App) *cobra.Command {
	var follow bool
	var tail int
	var hook string
	cmd := &cobra.Command{
		Use: "logs SLOT", Short: "Print the end of what a slot's processes have written",
		Long: `Print the end of what a slot's processes have written to standard output and standard
error, at most 32 KiB of it, and with -f what comes. Without --hook it is that of iss_hook_start; with "all" that of
each hook that has written something, under its name.`,
		Example: "  tandem workload logs web@node-1 --tail 20\n  tandem workload logs web@node-1 -f\n" +
			"  tandem workload logs web@node-1 --hook validate",
		Args: command.Args("SLOT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := parseSlot(args[0])
			if err != nil {
				return err
			}
			if tail < 0 || tail == 0 && cmd.Flags().Changed("tail") {
				return command.Usage("--tail is a number of lines, 1 or more")
			}
			hooks, err := hooksOf(hook)
			if err != nil {
				return err
			}
			if follow && len(hooks) > 1 {
				return command.Usage("-f follows one hook; name it with --hook")
			}
			return a.Connect(func(c *client.Client) error {
				for _, h := range hooks {
					p := op.LogsIn{SlotIn: op.SlotIn{Node: s.Node, Service: s.Service}, Tail: wire.MaxLogs, Hook: h}
					ask := func(p op.LogsIn) (view.Logs, error) { return client.Call(cmd.Context(), c, op.SlotLogs, p) }
					if err := printLogs(cmd.Context(), a, ask, p, len(hooks) > 1, tail, follow); err != nil {
						return unanswered(cmd.Context(), c, nearSlot(s)(cmd.Context(), c, err))
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is written until interrupted")
	cmd.Flags().IntVar(&tail, "tail", 0, "begin with the last `N` lines (default: all that fits)")
	cmd.Flags().StringVar(&hook, "hook", "", "of this `HOOK`, such as install, or all (default: start)")
	return cmd
}

// hooksOf are the hooks that --hook means; "" is the process, of agents of any age.
func hooksOf(name string) ([]string, error) {
	switch full := "iss_hook_" + strings.TrimPrefix(name, "iss_hook_"); {
	case name == "" || full == workload.HookStart:
		return []string{""}, nil
	case name == "all":
		return workload.Hooks, nil
	case slices.Contains(workload.Hooks, full):
		return []string{full}, nil
	}
	return nil, command.Usage("--hook is all or one of %s", strings.Join(workload.Hooks, ", "))
}

// printLogs prints pieces of the log of a hook as they come, if titled under its name.
func printLogs(ctx context.Context, a *command.App, ask func(op.LogsIn) (view.Logs, error), p op.LogsIn, titled bool,
	tail int, follow bool) error {

	out, pace := &logWriter{a: a}, pace{most: slotPieces}
	var waits waiting
	for {
		l, err := ask(p)
		switch {
		case follow && ctx.Err() != nil:
			return out.end()
		case err != nil && p.Cursor != "" && passing(err):
			waits.on(a, err)
		case err != nil:
			return err
		default:
			waits = waiting{}
			if p.Cursor == "" && tail > 0 {
				l.Data = lastLines(l.Data, tail)
			}
			if titled && len(l.Data) == 0 {
				return nil
			}
			if titled && !a.JSON {
				a.Print("==> %s <==\n", p.Hook)
			}
			if err := out.piece(l, p.Cursor != ""); err != nil {
				return err
			}
			p.Cursor, p.Tail = l.Cursor, 0
			if follow && pace.goesOn(len(l.Data) == wire.MaxLogs) {
				continue
			}
		}
		if !follow || !command.Rest(ctx, logsPause) {
			return out.end()
		}
	}
}

// passing reports whether an error does not end -f: the node is slow, or the controller starts again.
func passing(err error) bool {
	if _, ok := errors.AsType[*client.Unreachable](err); ok {
		return true
	}
	e, ok := errors.AsType[*wire.Error](err)
	return ok && slices.Contains([]wire.Code{
		wire.CodeNoAnswer, wire.CodeUnavailable, wire.CodeStorage, wire.CodeTimeout, wire.CodeWrongState,
	}, e.Code)
}

// waiting is what -f waits for. The same once more is not said once more: a controller may be away for the night.
type waiting struct{ text string }

func (w *waiting) on(a *command.App, err error) {
	if text := command.AsFailure(err).Error(); text != w.text {
		w.text = text
		a.Warn("%s; trying again every second", text)
	}
}

// lastLines keeps the last n lines.
func lastLines(data []byte, n int) []byte {
	at := len(data)
	if at > 0 && data[at-1] == '\n' {
		at--
	}
	for range n {
		if at = bytes.LastIndexByte(data[:at], '\n'); at < 0 {
			return data
		}
	}
	return data[at+1:]
}

// logWriter writes pieces to standard output: as they are, or, on a terminal, so that they cannot
// move its cursor.
type logWriter struct {
	a    *command.App
	rest []byte // on a terminal: an incomplete character at the end of the last piece
}

func (w *logWriter) piece(l view.Logs, further bool) error {
	if w.a.JSON {
		if err := w.a.PrintJSON(l); err != nil {
			return err
		}
		return w.a.Flush()
	}
	if l.Skipped && further {
		w.a.Warn("something that was written in between is gone")
	}
	data := l.Data
	if w.a.OutTerminal {
		data = append(w.rest, data...)
		whole := len(data)
		for whole > 0 && len(data)-whole < utf8.UTFMax && !utf8.RuneStart(data[whole-1]) {
			whole--
		}
		if whole > 0 && !utf8.FullRune(data[whole-1:]) {
			whole--
		} else {
			whole = len(data)
		}
		w.rest = slices.Clone(data[whole:])
		data = []byte(term.CleanLines(string(data[:whole])))
	}
	w.a.Print("%s", data)
	return w.a.Flush()
}

// end writes the rest of an incomplete character.
func (w *logWriter) end() error {
	if len(w.rest) > 0 {
		w.a.Print("%s", term.CleanLines(string(w.rest)))
	}
	return w.a.Flush()
}
