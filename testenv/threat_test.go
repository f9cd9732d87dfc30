package testenv_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	quotedModule = regexp.MustCompile("^`((?:shared|broker|controller|nodeagent|testenv)(?:/\\.\\.\\./[a-z0-9]+)?)`$")
	namedTest    = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z][A-Za-z0-9]+\b`)
)

// TestThreatModel: every test that the threat model names exists in the module that it names
// (in the form of seed-*.md), and
// a row that names none says that the attacker can, or that its defence is to come.
func TestThreatModel(t *testing.T) {
	data, err := os.ReadFile("../shared/docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	named, ts := 0, &tests{"..", map[string][]*testPackage{}}
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
		where := ""
		for _, token := range regexp.MustCompile("`[^`]+`|[A-Za-z0-9]+").FindAllString(shown, -1) {
			if m := quotedModule.FindStringSubmatch(token); m != nil {
				where = m[1]
			} else if namedTest.MatchString(token) {
				named++
				if why := ts.check(where, token, ""); why != "" {
					t.Errorf("line %d: %s", i+1, why)
				}
			} else {
				t.Errorf("line %d: %q is neither a module nor a test", i+1, token)
			}
		}
	}
	if named < 40 {
		t.Errorf("only %d tests are named: has the form of the tables changed?", named)
	}
}
