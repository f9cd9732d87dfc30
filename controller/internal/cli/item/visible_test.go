package item

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Files that nodes would leave out, because of what their names mean in images, are not packed.
func TestNothingIsPackedThatNodesLeaveOut(t *testing.T) {
	for _, name := range []string{".wh.config", ".wh..wh..opq", "etc/.wh.config", ".wh.d/file"} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := pack(t.Context(), dir, io.Discard); err == nil || !strings.Contains(err.Error(), ".wh.") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
