package testenv_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	quotedPackage = regexp.MustCompile("`((?:shared|broker|controller|nodeagent|testenv)/[a-z/]+)`")
	namedTest     = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z][A-Za-z0-9]+\b`)
)

// TestThreatModel: every test that the threat model names exists in the package that it names, and
// a row that names none says that the attacker can, or that its defence is to come.
func TestThreatModel(t *testing.T) {
	data, err := os.ReadFile("../shared/docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for i, line := range strings.Split(string(data), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.HasPrefix(line, "|--") || strings.Contains(line, "| shown by |") {
			continue
		}
		today, shown := cells[2], cells[3]
		if strings.TrimSpace(shown) == "" {
			if !strings.Contains(today, "**can") && !strings.Contains(today, "**to come**") {
				t.Errorf("line %d claims a defence and names no test: %s", i+1, line)
			}
			continue
		}
		pkg := ""
		for _, token := range regexp.MustCompile("`[^`]+`|[A-Za-z0-9]+").FindAllString(shown, -1) {
			if m := quotedPackage.FindStringSubmatch(token); m != nil {
				pkg = m[1]
			} else if namedTest.MatchString(token) {
				named++
				if !hasTest(t, pkg, token) {
					t.Errorf("line %d: there is no %s in %q", i+1, token, pkg)
				}
			} else {
				t.Errorf("line %d: %q is neither a package nor a test", i+1, token)
			}
		}
	}
	if named < 40 {
		t.Errorf("only %d tests are named: has the form of the tables changed?", named)
	}
}

func hasTest(t *testing.T, pkg, name string) bool {
	t.Helper()
	if pkg == "" {
		return false
	}
	files, err := filepath.Glob(filepath.Join("..", pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
