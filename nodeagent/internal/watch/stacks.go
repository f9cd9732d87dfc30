package watch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"tandem.internal/shared/durable"
)

// maxStacks bounds a file of stacks: enough for some thousand goroutines.
const maxStacks = 1 << 20

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
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("stacks: %w", err)
	}
	// By age of the file, not by name: a clock that was wrong must not cost the newest. Ours stays.
	var others []string // age and name
	for _, e := range entries {
		spared := e.Name() == filepath.Base(path) || !strings.HasPrefix(e.Name(), "stacks-") ||
			filepath.Ext(e.Name()) != ".txt"
		if info, err := e.Info(); err == nil && !spared {
			others = append(others, fmt.Sprintf("%020d %s", info.ModTime().UnixNano(), e.Name()))
		}
	}
	slices.Sort(others)
	var errs []error
	for _, o := range others[:max(0, len(others)-max(0, keep-1))] {
		errs = append(errs, os.Remove(filepath.Join(dir, o[21:])))
	}
	return errors.Join(errs...)
}
