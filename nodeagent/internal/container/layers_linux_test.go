package container

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHiddenTogether: what all layers of an image hide is bounded, however many there are.
func TestHiddenTogether(t *testing.T) {
	dir := t.TempDir()
	layer := func(name string, names, bytes int) string {
		text := ""
		for i := range names {
			path := fmt.Sprintf("%s%05d", name, i)
			text += path + strings.Repeat("x", bytes-len(path)-1) + "\x00"
		}
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Join(at, "tree"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, "whiteouts"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(at, "tree")
	}
	few, many := layer("few", 1096, 10), layer("many", 3000, 10)
	long, last := layer("long", 10, 1<<16), layer("last", 6, 1<<16)
	one := layer("one", 1, 10)
	for name, row := range map[string]struct {
		layers  []string
		refused bool
	}{
		"as many as can be":   {[]string{many, few}, false},
		"one more":            {[]string{many, one, few}, true},
		"one layer, twice":    {[]string{many, many, few}, false},
		"as long as can be":   {[]string{long, last}, false},
		"longer by one of it": {[]string{long, one, last}, true},
	} {
		_, err := Spec{Layers: row.layers}.lowers(t.TempDir())
		if (err != nil) != row.refused || row.refused &&
			!strings.Contains(err.Error(), "hide more than 4096 paths, or 1048576 bytes") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
