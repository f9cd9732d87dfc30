package browser

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTypes has TypeScript look at the page's modules, by what they say of types in comments and by what it finds
// itself: names that nothing has, arguments too many, text where a number is wanted. Vendored files are left as they
// are. One wrong line is put beside them, and has to be seen.
func TestTypes(t *testing.T) {
	tsc, err := exec.LookPath("tsc")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("SKIPPED: tsc is not installed (apt-get install node-typescript)")
	}
	dir := filepath.Join(t.TempDir(), "page")
	if err := os.CopyFS(dir, os.DirFS("../../controller/internal/dashboard")); err != nil {
		t.Fatal(err)
	}
	wrong := "import { count } from \"./ui.mjs\";\ncount(1, \"node\", 2);\n"
	if err := os.WriteFile(filepath.Join(dir, "files/app/wrong.mjs"), []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), tsc, "-p", dir, "--pretty", "false").CombinedOutput()
	if err == nil {
		t.Fatal("nothing is wrong, not even what is")
	}
	seen := false
	for line := range strings.Lines(string(out)) {
		switch {
		case strings.Contains(line, "files/app/wrong.mjs(2,"):
			seen = true
		case !strings.HasPrefix(line, " ") && !strings.Contains(line, "files/vendor/"):
			t.Errorf("%s", line)
		}
	}
	if !seen {
		t.Errorf("the wrong line was not seen: %s", out)
	}
}
