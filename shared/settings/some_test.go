package settings

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Another program's settings are found whatever else there is that this one does not know; what is known is read as
// strictly as ever.
func TestSome(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n.yaml")
	if err := os.WriteFile(path, []byte("newer: {a: 1}\nkey: [file]\nlast: [x]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var bad = filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("key: file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		env  string
		want []string
		ok   bool
	}{
		{nil, "", nil, true},
		{nil, "env,two", []string{"env", "two"}, true},
		{[]string{"--key=a", "--newer", "value", "--other=x", "word", "-x", "--key", "b"}, "env",
			[]string{"a", "b"}, true},
		{[]string{"--newer", "--config", path}, "", []string{"file"}, true},
		{[]string{"--config=" + path}, "env", []string{"env"}, true},
		{[]string{"--version", "--help", "--print-config"}, "", nil, true},
		{[]string{"--", "--key", "a"}, "", nil, true},
		{[]string{"--key"}, "", nil, false},
		{[]string{"--config", bad}, "", nil, false},
		{[]string{"--config", path + "x"}, "", nil, false},
	} {
		var cfg struct {
			Keys []string `name:"key"`
		}
		err := Some(&cfg, c.args, func(name string) (string, bool) {
			return map[string]string{"TANDEM_KEY": c.env}[name], true
		})
		if (err == nil) != c.ok || c.ok && !slices.Equal(cfg.Keys, c.want) {
			t.Errorf("%q: %q, %v", c.args, cfg.Keys, err)
		}
	}
}
