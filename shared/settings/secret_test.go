package settings

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type secrets struct {
	Token string            `name:"token" secret:"true"`
	Users map[string]string `name:"users" secret:"true"`
}

func (*secrets) Help() map[string]string {
	return map[string]string{"token": "a token", "users": "passwords"}
}

// An error about a secret does not contain the secret, whether it is from the file, a variable or a flag.
func TestErrorsKeepSecrets(t *testing.T) {
	const secret = "31415926535"
	for _, c := range []struct{ name, file, env, arg, place string }{
		{"number in the file", "token: " + secret + "\n", "", "", "c.yaml:1"},
		{"map in the file", "token: {a: " + secret + "}\n", "", "", "c.yaml:1"},
		{"number in a map", "users:\n  a: " + secret + "\n", "", "", "c.yaml:2"},
		{"variable", "", secret, "", "TANDEM_USERS"},
		{"flag", "", "", secret, "--users"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var cfg secrets
			path := filepath.Join(t.TempDir(), "c.yaml")
			if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"--config", path}
			if c.arg != "" {
				args = append(args, "--users", c.arg)
			}
			env := func(name string) (string, bool) { return c.env, name == "TANDEM_USERS" && c.env != "" }
			_, err := Load("test", &cfg, args, env, io.Discard)
			if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), c.place) ||
				!strings.Contains(err.Error(), "want a ") && !strings.Contains(err.Error(), "want key=value") {
				t.Errorf("%v", err)
			}
		})
	}
}
