// Package bundle knows how a version of the node agent brings settings: they stand at the end of its program's own
// file, with a version for both (ADR 062). The program runs as before; what measures, signs, stages, tries or gives up
// the file does so with the settings, and needs not know of them.
//
//	the program
//	line feed
//	settings, YAML as in the agent's settings file, at most MaxSettings bytes; line feed
//	tandem-settings/1 VERSION LENGTH, where LENGTH is that of the settings in bytes; line feed
//
// It guarantees that a file has at most one reading: what ends with such a line and is no bundle is an error. It must
// not know what the settings mean, only which may come so.
package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"tandem.internal/shared/settings"
	"tandem.internal/shared/unitconfig"
)

// May are the settings of the agent that may come with a version. All others are the node owner's alone: whom the node
// trusts, what it takes, who it is, its paths, addresses, commands and users, and by what a trial is judged.
var May = []string{"beat", "event-limit", "fetch-keep-free", "fetch-parallel", "fetch-rate", "interface", "log-level",
	"on-apply-timeout", "peer-rate", "repair-drift", "sample-period", "workload-grace", "workload-log-bytes",
	"workload-log-files", "workload-reopen", "workload-status", "workload-window"}

// whyNot is why another setting may not come with a version.
const whyNot = "it is the node owner's alone, and does not come with a version"

// Bounds.
const (
	MaxSettings = 16 << 10 // bytes
	maxVersion  = 100      // bytes
	maxLine     = 200      // bytes of the last line
)

// Mark opens the last line of a bundle. It stands in every program that reads its own settings; older ones have it
// nowhere.
const Mark = "tandem-settings/1 "

// family opens it in every format.
const family = "tandem-settings/"

// Bundle is what a program brings.
type Bundle struct {
	Version  string // of program and settings together
	Settings []byte // YAML
}

// Layer returns the settings as the agent loads them, below its own.
func (b Bundle) Layer() settings.Layer {
	return settings.Layer{Where: "version " + b.Version, Text: b.Settings, May: May, Why: whyNot}
}

// Tail returns what makes a program one that brings the settings: it is appended to the file.
func (b Bundle) Tail() ([]byte, error) {
	if _, err := unitconfig.Compare(b.Version, b.Version); err != nil || len(b.Version) > maxVersion {
		return nil, fmt.Errorf("%.100q is no semantic version of at most %d bytes", b.Version, maxVersion)
	}
	text := append([]byte{'\n'}, b.Settings...)
	if !bytes.HasSuffix(text, []byte{'\n'}) {
		text = append(text, '\n')
	}
	n := len(text) - 1
	if n > MaxSettings {
		return nil, fmt.Errorf("the settings are longer than %d bytes", MaxSettings)
	}
	return fmt.Appendf(text, "%s%s %d\n", Mark, b.Version, n), nil
}

// Read finds what a program of so many bytes brings; the zero Bundle: nothing.
func Read(file io.ReaderAt, size int64) (Bundle, error) {
	end := make([]byte, min(size, maxLine))
	if _, err := file.ReadAt(end, size-int64(len(end))); err != nil && !errors.Is(err, io.EOF) {
		return Bundle{}, err
	}
	end, whole := bytes.CutSuffix(end, []byte{'\n'})
	line := string(end[bytes.LastIndexByte(end, '\n')+1:])
	if !whole || !strings.HasPrefix(line, family) {
		return Bundle{}, nil
	}
	words, known := strings.CutPrefix(line, Mark)
	version, length, _ := strings.Cut(words, " ")
	n, err := strconv.ParseInt(length, 10, 64)
	start := size - int64(len(line)) - 1 - n
	if !known || err != nil || n < 0 || n > MaxSettings || start < 2 { // a program has a byte
		return Bundle{}, fmt.Errorf("its last line, %.100q, says that it brings settings, but not which", line)
	}
	has := make([]byte, size-start+1) // with the line feed before
	if _, err := file.ReadAt(has, start-1); err != nil && !errors.Is(err, io.EOF) {
		return Bundle{}, err
	}
	b := Bundle{version, has[1 : 1+n]}
	if tail, err := b.Tail(); err != nil || !bytes.Equal(tail, has) {
		return Bundle{}, fmt.Errorf("its last line, %.100q, does not fit the settings before it", line)
	}
	return b, nil
}
