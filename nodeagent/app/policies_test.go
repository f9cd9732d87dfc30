package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/shared/wire"
)

// --node-policy is a file with a JSON object, which the report of the node has; anything else stops the start.
func TestNodePolicy(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ text, want, refused string }{
		{"{\n \"org\": \"a\" }\n", `{"org":"a"}`, ""},
		{`[]`, "", "has no object"},
		{`{"a":`, "", "is no JSON"},
		{`{"a":"` + strings.Repeat("x", maxNodePolicy) + `"}`, "", "bytes"},
	} {
		path := filepath.Join(dir, "node.json")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Config{NodePolicy: path}.nodePolicy()
		e, usage := errors.AsType[*UsageError](err)
		switch {
		case c.refused == "" && (err != nil || string(got) != c.want):
			t.Errorf("%.40s: %s %v", c.text, got, err)
		case c.refused != "" && (!usage || e.Setting != "node-policy" || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%.40s: %v", c.text, err)
		}
	}
	if got, err := (Config{}).nodePolicy(); got != nil || err != nil {
		t.Errorf("%s %v", got, err)
	}
	if _, err := (Config{NodePolicy: filepath.Join(dir, "none")}).nodePolicy(); err == nil {
		t.Error("a file that is not there was taken")
	}
}

// The machine has a name of its own, which is not its machine ID; what is set on the node stays.
func TestMachine(t *testing.T) {
	set := map[string]string{"line": "4"}
	info := wire.NodeInfo{Attributes: set}
	describeMachine(&info)
	if info.Attributes["line"] != "4" || len(set) != 1 {
		t.Errorf("%v, %v", info.Attributes, set)
	}
	id, err := os.ReadFile("/etc/machine-id")
	if name := info.Attributes[wire.AttributeHardware]; err == nil &&
		(len(name) != 32 || strings.Contains(name, strings.TrimSpace(string(id)))) {
		t.Errorf("the machine is %q", name)
	}
}
