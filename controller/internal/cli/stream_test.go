package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
)

// followed runs a command that does not end by itself. Each time what it has written ends in one of
// the marks, the step of that mark is taken; at the last it is interrupted instead.
func followed(t *testing.T, b *bench, terminal bool, marks []string, step func(int), args ...string) (
	out string, exit int) {
	t.Helper()
	ctx, interrupt := context.WithCancel(context.Background())
	defer interrupt()
	seen := make(chan string, 100)
	var buf, errs bytes.Buffer
	io := b.io
	io.Out, io.Err, io.OutTerminal, io.Width = writer(func(text []byte) (int, error) {
		n, err := buf.Write(text)
		seen <- buf.String()
		return n, err
	}), &errs, terminal, 100
	io.Env = func(k string) (string, bool) { v, ok := b.env[k]; return v, ok }
	ended := make(chan int, 1)
	go func() { ended <- Run(ctx, args, io) }()
	for i, mark := range marks {
		for text := ""; strings.Count(text, mark) == 0; {
			select {
			case text = <-seen:
			case exit = <-ended:
				t.Fatalf("ended with %d before %q: %s%s", exit, mark, buf.String(), errs.String())
			case <-time.After(time.Minute):
				t.Fatalf("no %q in %s", mark, buf.String())
			}
		}
		if i < len(marks)-1 { // what follows the last mark may or may not be seen
			step(i)
		}
	}
	interrupt()
	exit = <-ended
	return buf.String() + errs.String(), exit
}

func TestNodesAreWatched(t *testing.T) {
	for name, c := range map[string]struct {
		terminal bool
		marks    []string
		args     []string
	}{
		"watch": {false, []string{"in step\n", "node-4 online", "node-1 is not known"},
			[]string{"nodes", "--watch"}},
		"watch-tty": {true, []string{"4 nodes, 3 online", "4 nodes, 4 online", "3 nodes, 3 online"},
			[]string{"nodes", "--watch"}},
		"watch-json": {false, []string{`{"complete":true}`, `"node":"node-4","type":"secondaryType","online":true`,
			`"gone":"node-1"`}, []string{"nodes", "--watch", "--json"}},
	} {
		t.Run(name, func(t *testing.T) {
			u := apitest.StartSample(t)
			var gone atomic.Bool
			nodes := func(ctx context.Context) (op.Nodes, error) {
				all, err := u.Nodes(ctx)
				if err == nil && gone.Load() {
					all.Nodes = all.Nodes[1:]
				}
				return all, err
			}
			back := func(i int) {
				if i == 0 {
					u.Connect("node-4", true)
				} else {
					gone.Store(true)
					must(u.Remark(t.Context(), view.Remark{Text: "node-1 is gone"})) // they look again
				}
			}
			b := benchOf(t, u, apitest.Instead(u, api.WatchNodes(nodes)))
			out, exit := followed(t, b, c.terminal, c.marks, back, c.args...)
			if exit != 0 {
				t.Errorf("status %d, %s", exit, out)
			}
			if !c.terminal && strings.Contains(out, "\x1b") {
				t.Errorf("terminal codes in %q", out)
			}
			if name == "watch" {
				golden(t, "nodes-watch", out)
			}
			if name == "watch-tty" &&
				(!strings.HasPrefix(out, "\x1b[H\x1b[2J\x1b[1mNODE") ||
					!strings.Contains(out, "\x1b[32minstalled\x1b[0m")) {
				t.Errorf("%q", out)
			}
		})
	}
}

func TestEventsAreFollowed(t *testing.T) {
	follow := func(limit string, marks func(seq uint64) []string, args ...string) (out string, exit int) {
		b := newBench(t, apitest.StartSample(t))
		last := b.newest().Seq
		add := func(i int) {
			b.unit.Event("a-node-with-a-long-name", uint64(1+i), "odd", `"\u001b[2J"`)
		}
		return followed(t, b, false, marks(last), add, append([]string{"events", "--follow", limit,
			fmt.Sprint(map[string]uint64{"--limit": 2, "--after": last - 2}[limit])}, args...)...)
	}
	out, exit := follow("--limit", func(seq uint64) []string {
		return []string{fmt.Sprint(seq, "  "), fmt.Sprint(seq+1, "  "), fmt.Sprint(seq+2, "  ")}
	})
	if exit != 0 {
		t.Errorf("status %d", exit)
	}
	golden(t, "events-follow", out)
	var before string
	out, exit = follow("--after", func(seq uint64) []string {
		before = fmt.Sprintf(`"seq":%d,`, seq-2)
		return []string{fmt.Sprintf(`"seq":%d,`, seq), fmt.Sprintf(`"seq":%d,`, seq+1)}
	}, "--json")
	if exit != 0 || strings.Count(out, "\n") < 3 || strings.Contains(out, before) {
		t.Errorf("status %d: %s", exit, out)
	}
}

// TestFollowersLearnOfTheEnd: when the controller stops, they do not end as if all was well.
func TestFollowersLearnOfTheEnd(t *testing.T) {
	for _, args := range [][]string{{"events", "--follow"}, {"nodes", "--watch"}} {
		b := newBench(t, apitest.StartSample(t))
		var errs bytes.Buffer
		wrote := make(chan struct{}, 100)
		io := b.io
		io.Out = writer(func(text []byte) (int, error) { wrote <- struct{}{}; return len(text), nil })
		io.Err = &errs
		io.Env = func(k string) (string, bool) { v, ok := b.env[k]; return v, ok }
		ended := make(chan int, 1)
		go func() { ended <- Run(context.Background(), args, io) }()
		<-wrote
		b.stop()
		if exit := <-ended; exit != exitUnreachable {
			t.Errorf("%v: status %d, %s", args, exit, errs.String())
		}
	}
}

// TestColours: none without a terminal, with NO_COLOR, or on a dumb one.
func TestColours(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	for _, c := range []struct {
		terminal bool
		env      map[string]string
		want     bool
	}{
		{true, nil, true}, {false, nil, false}, {true, map[string]string{"NO_COLOR": "1"}, false},
		{true, map[string]string{"TERM": "dumb"}, false},
	} {
		b.io.OutTerminal, b.io.Width = c.terminal, 110
		b.env = map[string]string{"TANDEM_SOCKET": b.socket}
		for k, v := range c.env {
			b.env[k] = v
		}
		stdout, _, _ := b.run("", "nodes")
		if strings.Contains(stdout, "\x1b[") != c.want {
			t.Errorf("%+v: %q", c, stdout)
		}
		for line := range strings.Lines(stdout) {
			if c.terminal && !c.want && len([]rune(line)) > 111 {
				t.Errorf("wider than the terminal: %q", line)
			}
		}
	}
}
