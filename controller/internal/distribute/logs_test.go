package distribute_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// ownLog answers a question for the agent's own log, and has it log more or less.
func (w *seedWork) ownLog(n *seedNode, q *wire.Request) (result []byte, err *wire.Error) {
	if q.Method == wire.MethodLogLevel {
		p, derr := wire.Decode[wire.LogLevelParams](q.Params)
		if derr != nil {
			n.u.Error(derr)
		}
		w.level = fmt.Sprint(p.Level, " ", p.For)
		return []byte("null"), nil
	}
	p, derr := wire.Decode[wire.AgentLogParams](q.Params)
	if derr != nil {
		n.u.Error(derr)
	}
	if p.Cursor == "garbage" {
		return []byte(`{"lines":7}`), nil
	}
	lines := strings.Split(strings.TrimSpace(w.log), "\n")
	if p.Lines > 0 {
		lines = lines[max(0, len(lines)-p.Lines):]
	}
	return wire.Encode(&wire.AgentLog{Lines: lines, Cursor: "b:" + fmt.Sprint(len(w.log)), Level: "info"}), nil
}

// An agent's log comes through the controller; that somebody reads it is journaled, and what an older agent answers is
// a sentence. That an agent is to log more is an order in the journal.
func TestNodeLog(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		one := u.worker("n1")
		u.node("n2", "mainType")
		read := func(in op.NodeLogIn) (view.NodeLog, error) { return u.core.NodeLog(as(t.Context(), "ann"), in) }
		of := func(node string) op.NodeLogIn { return op.NodeLogIn{NodeIn: op.NodeIn{Node: node}} }
		for range 2 {
			l, err := read(op.NodeLogIn{NodeIn: op.NodeIn{Node: "n1"}, Lines: 1})
			if err != nil || l.Node != "n1" || strings.Join(l.Lines, "|") != "listening" || l.Cursor != "b:18" {
				t.Errorf("%+v %v", l, err)
			}
		}
		if n := u.entries("note"); n != 1 {
			t.Errorf("%d notes", n)
		}
		garbage := of("n1")
		garbage.Cursor = "garbage"
		for in, want := range map[op.NodeLogIn]string{
			of("n2"): "not-supported: the agent there does not show its own log: it is older than that; update it",
			of("n9"): "not-found: node \"n9\" has never been heard of",
			garbage:  "internal: the node's answer cannot be read",
		} {
			_, err := read(in)
			e := wire.AsError(err)
			if got := string(e.Code) + ": " + e.Message; !strings.HasPrefix(got, want) {
				t.Errorf("%+v: %s, want %s", in, got, want)
			}
		}
		set := func(node string) (view.Ordered, error) {
			return u.core.SetNodeLogLevel(as(t.Context(), "ann"), op.NodeLogLevel{NodeIn: op.NodeIn{Node: node},
				LogFor: op.LogFor{Level: "debug", For: "PT10M"}})
		}
		if o, err := set("n1"); err != nil || o.Method != wire.MethodLogLevel || one.work.level != "debug PT10M" {
			t.Errorf("%+v %v, the agent heard %q", o, err, one.work.level)
		}
		if _, err := set("n2"); wire.AsError(err).Code != wire.CodeNotSupported ||
			!strings.Contains(err.Error(), "older than that; update it") {
			t.Errorf("%v", err)
		}
		if requests, replies := u.entries("request"), u.entries("reply"); requests != 2 || replies != 2 {
			t.Errorf("%d requests and %d replies are journaled", requests, replies)
		}
		u.audit()
	})
}

// The controller's own level goes back by itself; the journal has who changed it.
func TestLogLevel(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		is := func(want string, until time.Time) {
			t.Helper()
			if l, err := u.core.LogLevel(t.Context()); err != nil || l.Level != want || !l.Until.Equal(until) {
				t.Errorf("%+v %v, want %s until %s", l, err, want, until)
			}
		}
		set := func(level, within string) view.LogLevel {
			t.Helper()
			l, err := u.core.SetLogLevel(as(t.Context(), "ann"), op.LogFor{Level: level, For: within})
			if err != nil {
				t.Error(err)
			}
			return l
		}
		is("info", time.Time{})
		until := time.Now().Add(10 * time.Minute)
		if l := set("debug", "PT10M"); l.Level != "debug" || !l.Until.Equal(until) {
			t.Errorf("%+v", l)
		}
		is("debug", until)
		time.Sleep(10 * time.Minute)
		is("info", time.Time{})
		set("error", "PT1H")
		set("", "")
		is("info", time.Time{})
		all, err := u.core.Entries(t.Context(), view.EntryFilter{Types: []string{"note"}})
		if err != nil || len(all) != 3 || !strings.Contains(all[0].Who, "ann") || all[0].Text !=
			"the log level of the controller is debug until "+until.UTC().Format(time.RFC3339) ||
			all[2].Text != "the log level of the controller is that of its settings again" {
			t.Errorf("%+v %v", all, err)
		}
		set("debug", "PT1H")
		u.stop()
		u.start()
		is("info", time.Time{}) // a restart is the end of it
		u.audit()
	})
}
