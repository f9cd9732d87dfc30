package workloads

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/shared/wire"
)

// Logs returns a piece of what a slot's process has written, at most wire.MaxLogs. It may be called by
// any goroutine.
func (m *Manager) Logs(p *wire.LogsParams) (*wire.LogsResult, *wire.Error) {
	if _, err := os.Stat(m.dir(p.Service, "")); errors.Is(err, fs.ErrNotExist) {
		return nil, wire.New(wire.CodeNotFound, "/service", fmt.Sprintf("this node has no slot %.64q", p.Service))
	}
	at, skipped := keep.Cursor{}, false
	if p.Cursor != "" {
		if _, err := fmt.Sscanf(p.Cursor, "%d:%d", &at.File, &at.Offset); err != nil || at.Offset < 0 {
			return nil, wire.New(wire.CodeBadValue, "/cursor", "not a cursor of an earlier answer")
		}
	} else if tail := p.Tail; tail > 0 {
		var err error
		if at, err = keep.Tail(m.logPath(p.Service), int64(tail)); err != nil {
			return nil, storage(err)
		}
	}
	data, next, err := keep.ReadLog(m.logPath(p.Service), at, wire.MaxLogs)
	if errors.Is(err, keep.ErrRotated) {
		skipped = at.File > 0
		data, next, err = keep.ReadLog(m.logPath(p.Service), next, wire.MaxLogs)
	}
	if err != nil && !errors.Is(err, keep.ErrRotated) {
		return nil, storage(err)
	}
	return &wire.LogsResult{Data: data, Cursor: fmt.Sprintf("%d:%d", next.File, next.Offset), Skipped: skipped}, nil
}

// said is the last line that a run has written.
func (m *Manager) said(run string) string {
	path, ok := m.paths.Load(run)
	if !ok {
		return ""
	}
	at, err := keep.Tail(path.(string), maxSaid)
	if err != nil {
		return ""
	}
	data, _, err := keep.ReadLog(path.(string), at, maxSaid)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return clip(strings.TrimSpace(lines[len(lines)-1])) // an earlier run may have written those before
}

// maxSaid is how much of it is told, in bytes.
const maxSaid = 200
