package app

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/nodeagent/internal/fetch"
)

// TestDecryptKey: the keys that open secrets are read where the agent has age, and only if nobody else can read them.
func TestDecryptKey(t *testing.T) {
	var read string
	errKeys := errors.New("no keys")
	with := func(keys []byte) (fetch.Decrypt, error) {
		if read = string(keys); read == "" {
			return nil, errKeys
		}
		return func(io.Writer, io.Reader) error { return errKeys }, nil
	}
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, row := range []struct {
		path string
		from fetch.NewDecrypt
		says string
	}{
		{"", nil, ""},
		{"", with, ""},
		{write("good", "KEY", 0o600), with, ""},
		{write("good", "KEY", 0o600), nil, "install the full agent"},
		{write("open", "KEY", 0o640), with, "chmod 600"},
		{write("empty", "", 0o600), with, "no keys"},
		{write("large", strings.Repeat("K", maxDecryptKeys+1), 0o600), with, "large"},
		{filepath.Join(dir, "none"), with, "no such file"},
	} {
		c := Config{DecryptKey: row.path}
		open, err := c.decrypt(row.from)
		switch {
		case row.says != "":
			var usage *UsageError
			if !errors.As(err, &usage) || usage.Setting != "decrypt-key" || !strings.Contains(err.Error(), row.says) {
				t.Errorf("%s: %v", row.path, err)
			}
		case err != nil || (open != nil) != (row.path != ""):
			t.Errorf("%s: %v", row.path, err)
		case open != nil && (read != "KEY" || !errors.Is(open(nil, nil), errKeys)):
			t.Errorf("%s: what was read is %q", row.path, read)
		}
	}
}
