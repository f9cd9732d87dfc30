package watch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"tandem.internal/shared/durable"
)

// maxStacks bounds a file of stacks: enough for some thousand goroutines.
const maxStacks = 1 << 20

const stacksPattern = "stacks-*.txt"

// keepStacks writes the stacks of all goroutines to a file of its own in dir, named by the time, and
// removes the oldest of such files beyond keep.
func keepStacks(dir, detail string, keep int, now time.Time) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("stacks: %w", err)
	}
	buf := make([]byte, maxStacks)
	buf = buf[:runtime.Stack(buf, true)]
	text := fmt.Appendf(nil, "%s, %s\n\n%s", now.UTC().Format(time.RFC3339), detail, buf)
	path := filepath.Join(dir, "stacks-"+now.UTC().Format("20060102T150405.000")+".txt")
	if err := durable.WriteFile(path, text, 0o600, nil); err != nil {
		return fmt.Errorf("stacks: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(dir, stacksPattern))
	if err != nil {
		return fmt.Errorf("stacks: %w", err)
	}
	// By age of the file, not by name: a clock that was wrong must not cost the newest. Ours stays.
	type aged struct {
		path string
		at   time.Time
	}
	var others []aged
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && f != path {
			others = append(others, aged{f, info.ModTime()})
		}
	}
	slices.SortFunc(others, func(a, b aged) int { return b.at.Compare(a.at) })
	var errs []error
	for _, o := range others[min(len(others), max(0, keep-1)):] {
		errs = append(errs, os.Remove(o.path))
	}
	return errors.Join(errs...)
}
