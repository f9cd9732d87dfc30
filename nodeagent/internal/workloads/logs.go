package workloads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Logs returns a piece of what a slot's process has written, or another hook, at most wire.MaxLogs. It may be called by
// any goroutine.
func (m *Manager) Logs(p *wire.LogsParams) (*wire.LogsResult, *wire.Error) {
	if _, ok := m.names.Load(p.Service); !ok {
		return nil, wire.New(wire.CodeNotFound, "/service", fmt.Sprintf("this node has no slot %.64q", p.Service))
	}
	hook := cmp.Or(p.Hook, workload.HookStart)
	if !slices.Contains(workload.Hooks, hook) {
		return nil, wire.New(wire.CodeBadValue, "/hook", "one of "+strings.Join(workload.Hooks, ", "))
	}
	log, skipped := m.hookLog(p.Service, hook), false
	at, err := cursor(p.Cursor)
	if err != nil {
		return nil, wire.New(wire.CodeBadValue, "/cursor", "not a cursor of an earlier answer")
	}
	if p.Cursor == "" {
		if at, err = keep.Tail(log, int64(p.Tail)); err != nil {
			return nil, storage(err)
		}
	}
	data, next, err := keep.ReadLog(log, at, wire.MaxLogs)
	if errors.Is(err, keep.ErrRotated) {
		skipped = at.File > 0
		data, next, err = keep.ReadLog(log, next, wire.MaxLogs)
	}
	if err != nil && !errors.Is(err, keep.ErrRotated) {
		return nil, storage(err)
	}
	return &wire.LogsResult{Data: data, Cursor: fmt.Sprintf("%d:%d", next.File, next.Offset), Skipped: skipped,
		Hook: p.Hook}, nil
}

// Process is what the process of a slot uses; nil: none runs. It may be called by any goroutine.
func (m *Manager) Process(ctx context.Context, service string) *wire.WorkloadProcess {
	type place struct{ run, dir string }
	answer := make(chan place, 1)
	m.call(func() {
		var at place
		if s := m.slots[service]; s != nil && s.state.Main != nil {
			at = place{s.state.Main.Run, s.state.Main.Dir}
		}
		answer <- at
	})
	var at place
	select {
	case at = <-answer:
	case <-m.ended:
	case <-ctx.Done():
	}
	if at.run == "" {
		return nil
	}
	k, err := m.cfg.Keeper(ctx)
	if err != nil {
		return nil // the manager's log has it
	}
	st, err := k.Get(ctx, at.run)
	if err != nil || st.State != keep.Running {
		return nil
	}
	used := m.cfg.Groups.Usage(group(service, at.dir), st.PID)
	return &used
}

// cursor reads a cursor; of "" it makes the zero one.
func cursor(text string) (at keep.Cursor, err error) {
	if text == "" {
		return at, nil
	}
	file, offset, _ := strings.Cut(text, ":")
	if at.File, err = strconv.ParseUint(file, 10, 64); err != nil {
		return at, err
	}
	n, err := strconv.ParseUint(offset, 10, 63)
	at.Offset = int64(n)
	return at, err
}

// output is where the output of a run is.
type output struct {
	path string
	from keep.Cursor // it begins behind that; zero: that is not known
}

// lastOutput is the last line that a run has written; an earlier one's, if it is not known where the run's begin.
func (m *Manager) lastOutput(run string) string {
	known, ok := m.paths.Load(run)
	if !ok {
		return ""
	}
	out := known.(output)
	at, err := keep.Tail(out.path, maxSaid)
	if err != nil {
		return ""
	}
	if from := out.from; from.File > at.File || from.File == at.File && from.Offset > at.Offset {
		at = from
	}
	data, _, err := keep.ReadLog(out.path, at, maxSaid)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return wire.Plain(strings.TrimSpace(lines[len(lines)-1]), wire.MaxText)
}

// maxSaid is how much of it is told, in bytes.
const maxSaid = 200
