package node

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// screen is an app whose output is kept.
func screen() (a *command.App, out, warned *bytes.Buffer) {
	out, warned = &bytes.Buffer{}, &bytes.Buffer{}
	return &command.App{Screen: &term.Screen{Out: bufio.NewWriter(out), Err: warned}}, out, warned
}

// The details of events are shown as they are, not as text in text; what is ambiguous stays in quotes.
func TestLineOfAnAgentsLog(t *testing.T) {
	a := &command.App{Screen: &term.Screen{Zone: time.UTC, Now: func() time.Time { return time.Unix(0, 0) }}}
	for _, c := range [][2]string{
		{`{"time":"1970-01-01T00:00:01Z","level":"warn","msg":"event","detail":"{\"a\":\"b c\"}"}`,
			`00:00:01 warn  event detail={"a":"b c"}`},
		{`{"level":"warn","msg":"event","detail":"{cut \"off"}`, ` warn  event detail="{cut \"off"`},
		{`{"level":"info","msg":"x","text":"no session"}`, ` info  x text="no session"`},
	} {
		line, want := c[0], c[1]
		if got := logLine(a, line); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// An agent that says again and again that there is more keeps nobody.
func TestLogOfAnAgentEnds(t *testing.T) {
	for _, c := range []struct {
		lines []string
		asked int
	}{{[]string{"line"}, command.MaxLogPieces}, {nil, 1}} {
		a, out, warned := screen()
		asked := 0
		err := printAgentLog(t.Context(), a, func(op.NodeLogIn) (view.NodeLog, error) {
			asked++ // after so many, else the test would not end either
			more := asked <= 2*command.MaxLogPieces
			return view.NodeLog{AgentLog: wire.AgentLog{Lines: c.lines, Cursor: "c", Level: "info", More: more}}, nil
		}, op.NodeLogIn{}, false)
		if err != nil || asked != c.asked || strings.Count(out.String(), "line") != len(c.lines)*asked ||
			!strings.Contains(warned.String(), "there is more") {
			t.Errorf("%q: asked %d times: %v %q, %q", c.lines, asked, err, out.String(), warned.String())
		}
	}
}

// An agent that always says that there is more, with lines or without, is not asked by -f without a pause, nor is a
// node of whose process there is always more. What is there at once is read at once.
func TestFollowHasPauses(t *testing.T) {
	full := make([]byte, wire.MaxLogs)
	agent := func(l wire.AgentLog, honest int) func(context.Context, *command.App, func() int) error {
		return func(ctx context.Context, a *command.App, asked func() int) error {
			return printAgentLog(ctx, a, func(op.NodeLogIn) (view.NodeLog, error) {
				n := asked()
				l.Cursor, l.More = fmt.Sprint(n), l.More && (honest == 0 || n < honest)
				return view.NodeLog{AgentLog: l}, nil
			}, op.NodeLogIn{}, true)
		}
	}
	slot := func(data []byte) func(context.Context, *command.App, func() int) error {
		return func(ctx context.Context, a *command.App, asked func() int) error {
			return printLogs(ctx, a, func(op.LogsIn) (l view.Logs, err error) {
				l.Cursor, l.Data = fmt.Sprint(asked()), data
				return l, nil
			}, op.LogsIn{}, false, 0, true)
		}
	}
	for _, c := range []struct {
		name   string
		follow func(context.Context, *command.App, func() int) error
		asked  int // in the first ten seconds
	}{
		{"nothing", agent(wire.AgentLog{}, 0), 10},
		{"more, of which there is nothing", agent(wire.AgentLog{More: true}, 0), 10},
		{"more without end", agent(wire.AgentLog{More: true, Lines: []string{"x"}}, 0), 10 * agentPieces},
		{"all that is kept, and no more", agent(wire.AgentLog{More: true, Lines: []string{"x"}}, agentPieces),
			agentPieces + 9},
		{"no output", slot(nil), 10},
		{"output without end", slot(full), 10 * slotPieces},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, end := context.WithTimeout(t.Context(), 10*time.Second-time.Millisecond)
			defer end()
			a, _, _ := screen()
			asked := 0
			err := c.follow(ctx, a, func() int {
				if asked++; asked > 100*slotPieces { // else a test that fails would not end
					end()
				}
				return asked
			})
			if err != nil || asked != c.asked {
				t.Errorf("%s: asked %d times in 10 s, not %d: %v", c.name, asked, c.asked, err)
			}
		})
	}
}
