package diag

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/filter"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// What a bundle has of agents' logs at most.
const (
	mostAgents = 20
	mostLog    = 128 << 10 // bytes of one; an agent keeps 64 KiB
)

// agents are those whose logs were asked for.
type agents struct {
	names []string
	where string
}

// check says what cannot be meant.
func (l *agents) check(cmd *cobra.Command) error {
	for _, name := range l.names {
		if err := command.CheckNode(cmd, name); err != nil {
			return err
		}
	}
	if len(l.names) > mostAgents {
		return command.Usage("--logs takes at most %d nodes", mostAgents)
	}
	if !cmd.Flags().Changed("logs-where") {
		return nil
	}
	if _, err := filter.Parse(l.where); err != nil {
		return &command.Failure{Exit: command.ExitUsage, Err: err}
	}
	return nil
}

// agentLogs puts the logs of agents into the bundle. All are asked at once: those that do not answer cost their time
// once.
func (b *bundle) agentLogs(ctx context.Context, c *client.Client, of agents) {
	names := slices.Clone(of.names)
	if of.where != "" {
		found, err := client.Call(ctx, c, op.ListNodes, op.NodesIn{Q: of.where})
		if err != nil {
			b.miss("logs of the agents that --logs-where selects", command.AsFailure(err).Err.Message)
		}
		for i := range found.Nodes {
			names = append(names, found.Nodes[i].Node)
		}
		if err == nil && len(found.Nodes) == 0 {
			b.miss("logs of the agents that --logs-where selects", "it selects no node")
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if n := len(names) - mostAgents; n > 0 {
		names = names[:mostAgents]
		b.miss("logs of the agents of "+term.Plural(n, "more node"), "a bundle has at most 20, the first by name; "+
			"name others with --logs")
	}
	logs := make([]agentLog, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { logs[i] = askLog(ctx, c, name) })
	}
	all.Wait()
	for i, name := range names {
		b.agentLog(name, &logs[i])
	}
}

// agentLog is what came of one log.
type agentLog struct {
	lines []string
	cut   bool // there was more
	err   error
}

func askLog(ctx context.Context, c *client.Client, node string) (l agentLog) {
	in, size := op.NodeLogIn{NodeIn: op.NodeIn{Node: node}}, 0
	for range command.MaxLogPieces {
		var p view.NodeLog
		if p, l.err = client.Call(ctx, c, op.NodeLog, in); l.err != nil {
			return l
		}
		for _, line := range p.Lines {
			if size += len(line); size > mostLog {
				l.cut = true
				return l
			}
			l.lines = append(l.lines, line)
		}
		if in.Cursor = p.Cursor; !p.More {
			return l
		}
	}
	l.cut = true
	return l
}

// agentLog puts one log into the bundle, or why it is not there, or not whole.
func (b *bundle) agentLog(node string, l *agentLog) {
	what := "the log of the agent of " + node
	if l.err != nil {
		b.miss(what, command.AsFailure(l.err).Err.Message)
	}
	if l.cut {
		b.miss("what "+what[len("the log of "):]+" logged last", "it logs faster than it is read, or more than 128 KiB")
	}
	if l.err != nil && len(l.lines) == 0 || !wire.ValidName(node) {
		return
	}
	var text strings.Builder
	for _, line := range l.lines {
		text.WriteString(b.scrub.line(line))
		text.WriteByte('\n')
	}
	b.keep(file{"logs/" + node + ".jsonl", what + " since its start, at most 64 KiB", []byte(text.String())})
}

// noLine stands for a line of a log that is no JSON object: the search would take its escapes for letters.
const noLine = `"a line that is cut, or no JSON, is left out"`

// line returns a line of an agent's log without secrets, as JSON on one line.
func (s *scrubber) line(line string) string {
	if !strings.HasPrefix(line, "{") {
		return noLine
	}
	doc, err := s.members([]byte(line), inLogs)
	if err != nil {
		return noLine
	}
	v := jsontext.Value(bytes.TrimSpace(doc))
	if err := v.Compact(jsontext.AllowDuplicateNames(true)); err != nil || bytes.ContainsAny(v, "\r\n") {
		return noLine
	}
	return string(v)
}
