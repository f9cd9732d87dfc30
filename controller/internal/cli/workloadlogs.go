package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/near"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// parseSlot reads the argument of a command.
func parseSlot(arg string) (workload.Slot, error) {
	s, err := workload.ParseSlot(arg)
	if err != nil {
		return s, usage("%s", err)
	}
	return s, nil
}

// ofSlot makes an error about a slot one that helps: a name that was meant, or that there was no answer.
func (a *app) ofSlot(ctx context.Context, c *client.Client, s workload.Slot, err error) error {
	e, ok := errors.AsType[*wire.Error](err)
	switch {
	case ok && e.Code == wire.CodeNoAnswer:
		return &failure{exit: exitIncomplete, err: e}
	case !ok || e.Code != wire.CodeNotFound:
		return err
	}
	all, lerr := c.Slots(ctx, "")
	if lerr != nil {
		return err // what went wrong first is what counts
	}
	var known []string
	for _, k := range all.Slots {
		known = append(known, k.Slot)
	}
	found := near.All(s.String(), known)
	if slices.Contains(known, s.String()) {
		return err
	}
	if len(found) == 0 {
		if unknown := a.heardOf(ctx, c, s.Node); unknown != nil {
			return unknown
		}
	}
	again := *e
	again.Message += near.Suggest(found, "tandem workload list shows them")
	return &again
}

// logsPause is how long -f waits when nothing was written.
const logsPause = time.Second

func (a *app) slotLogs() *cobra.Command {
	var follow bool
	var tail int
	cmd := &cobra.Command{
		Use: "logs SLOT", Short: "Print the end of what a slot's processes have written",
		Long: `Print the end of what a slot's processes have written to standard output and standard
error, at most 32 KiB of it, and with -f what comes.`,
		Example: "  tandem workload logs web@node-1 --tail 20\n  tandem workload logs web@node-1 -f", Args: want("SLOT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := parseSlot(args[0])
			if err != nil {
				return err
			}
			if tail < 0 || tail == 0 && cmd.Flags().Changed("tail") {
				return usage("--tail is a number of lines, 1 or more")
			}
			return a.with(func(c *client.Client) error { return a.printLogs(cmd.Context(), c, s, tail, follow) })
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is written until interrupted")
	cmd.Flags().IntVar(&tail, "tail", 0, "begin with the last `N` lines (default: all that fits)")
	return cmd
}

// printLogs prints pieces of a log as they come.
func (a *app) printLogs(ctx context.Context, c *client.Client, s workload.Slot, tail int, follow bool) error {
	p := wire.LogsParams{Service: s.Service, Tail: wire.MaxLogs}
	out := &logWriter{a: a}
	for {
		l, err := c.SlotLogs(ctx, s.Node, p)
		switch {
		case follow && ctx.Err() != nil:
			return out.end()
		case err != nil && p.Cursor != "" && passing(err):
			if !a.json {
				fmt.Fprintf(a.Err, "tandem: %s; trying again\n", multiline(asFailure(err).Error()))
			}
		case err != nil:
			return a.ofSlot(ctx, c, s, err)
		default:
			if p.Cursor == "" && tail > 0 {
				l.Data = lastLines(l.Data, tail)
			}
			if err := out.piece(l, p.Cursor != ""); err != nil {
				return err
			}
			p.Cursor, p.Tail = l.Cursor, 0
			if follow && len(l.Data) == wire.MaxLogs {
				continue
			}
		}
		if !follow {
			return out.end()
		}
		pause := time.NewTimer(logsPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return out.end()
		}
	}
}

// passing tells the errors that do not end -f: the node is slow, or the controller starts again.
func passing(err error) bool {
	if _, ok := errors.AsType[*client.Unreachable](err); ok {
		return true
	}
	e, ok := errors.AsType[*wire.Error](err)
	return ok && (e.Code == wire.CodeNoAnswer || e.Code == wire.CodeUnavailable || e.Code == wire.CodeStorage || e.Code == wire.CodeTimeout || e.Code == wire.CodeWrongState)
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
	a    *app
	rest []byte // on a terminal: the beginning of a character whose end is still to come
}

func (w *logWriter) piece(l view.Logs, further bool) error {
	if w.a.json {
		if err := w.a.printJSON(l); err != nil {
			return err
		}
		return w.flush()
	}
	if l.Skipped && further {
		if _, err := io.WriteString(w.a.Err, "tandem: something that was written in between is gone\n"); err != nil {
			return fmt.Errorf("writing a warning: %w", err)
		}
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
		data = []byte(multiline(string(data[:whole])))
	}
	w.a.print("%s", data)
	return w.flush()
}

// end writes what is left of a character that never came to its end.
func (w *logWriter) end() error {
	if len(w.rest) > 0 {
		w.a.print("%s", multiline(string(w.rest)))
	}
	return w.flush()
}

func (w *logWriter) flush() error {
	if err := w.a.out.Flush(); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}
