// Package scripttest plays stories, the files testdata/*.txt of a package under test. A story has input lines, in words
// that the package's test understands, and after each the output that follows. The package is for tests only.
package scripttest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what the scripts in testdata say now")

// Play plays every story of the package as a subtest with the name of its file. begin starts one story. The function
// that it returns gets each input line, and writes the output that follows to out, with an indent.
//
// In the file, indented lines are the expected output. Empty lines and lines that begin with # are prose; the first
// line says what could go wrong. A story whose output differs from the expected one fails, unless -rewrite is given. It
// is also a failure if a story named in must is missing.
func Play(t *testing.T, begin func(t *testing.T, out *strings.Builder) (line func(string)), must ...string) {
	t.Helper()
	for _, name := range must {
		if _, err := os.Stat(filepath.Join("testdata", name+".txt")); err != nil {
			t.Error(err)
		}
	}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts (%v)", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(want), "# ") {
				t.Error("a script opens with what could go wrong")
			}
			var out strings.Builder
			line := begin(t, &out)
			for l := range strings.Lines(string(want)) {
				if strings.HasPrefix(l, " ") {
					continue
				}
				l = strings.TrimSuffix(l, "\n")
				out.WriteString(l + "\n")
				if l != "" && l[0] != '#' {
					line(l)
				}
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			g, w := strings.Split(out.String(), "\n"), strings.Split(string(want), "\n")
			for i := range max(len(g), len(w)) {
				if at(g, i) != at(w, i) {
					t.Fatalf("%s:%d does not go as written; run with -rewrite and look at the difference:\n got "+
						"%s\nwant %s", file, i+1, at(g, i), at(w, i))
				}
			}
		})
	}
}

// at returns line i, or a text in its place after the end.
func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(the end)"
}
