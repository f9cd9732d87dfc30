package app

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// TestKeepExportIsThere: a directory for exports that is missing is refused at the start, and not with the first trim.
func TestKeepExportIsThere(t *testing.T) {
	dir := t.TempDir()
	c := Config{Unit: "u", StateDir: filepath.Join(dir, "state"), KeepExport: filepath.Join(dir, "none")}
	_, err := New(c, Deps{NoAPI: true})
	var usage *UsageError
	if want := "--keep-export: " + c.KeepExport + " is not there; "; !errors.As(err, &usage) ||
		!strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}
