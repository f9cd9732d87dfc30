package settings

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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
	const secret = "31415926.535" // a whole number would count as text
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

type door struct {
	Broker string   `name:"broker"`
	Peers  []string `name:"peer"`
}

func (*door) Help() map[string]string {
	return map[string]string{"broker": "a URL", "peer": "URLs"}
}

// What --print-config shows of a URL has no user's name and no password.
func TestPrintMasksURLs(t *testing.T) {
	for _, c := range []struct{ given, shown string }{
		{"tcp://u:hunter2@h:1", `broker: "tcp://***@h:1"`},
		{"tcp://u:hunter2/x@y@h", `broker: "tcp://***@h"`},
		{"tcp://h:1", `broker: "tcp://h:1"`},
		{"eu@h", `broker: "eu@h"`},
	} {
		var out strings.Builder
		_, err := Load("test", &door{}, []string{"--broker", c.given, "--print-config"},
			func(string) (string, bool) { return "", false }, &out)
		if !errors.Is(err, ErrPrinted) || !strings.Contains(out.String(), c.shown) ||
			strings.Contains(out.String(), "hunter2") {
			t.Errorf("%s: %v, %s", c.given, err, out.String())
		}
	}
	var out strings.Builder
	_, err := Load("test", &door{}, []string{"--peer", "a://u:hunter2@h", "--peer", "b://v:hunter2@i",
		"--print-config"}, func(string) (string, bool) { return "", false }, &out)
	if !errors.Is(err, ErrPrinted) || strings.Contains(out.String(), "hunter2") {
		t.Errorf("%v, %s", err, out.String())
	}
}

// A settings file is a file: a FIFO would wait for a writer for ever, and a device never end.
func TestFileIsRegular(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load("test", &door{}, []string{"--config", fifo},
		func(string) (string, bool) { return "", false }, io.Discard)
	if e := (*Error)(nil); !errors.As(err, &e) || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("%v", err)
	}
}

// standardInput is a config with a secret that standard input has.
type standardInput struct {
	Token string `name:"token" secret:"true" flag:"stdin"`
}

func (*standardInput) Help() map[string]string { return map[string]string{"token": "a token"} }

// TestSecretOnStandardInput: what every user could read in the list of processes is refused, and not repeated.
func TestSecretOnStandardInput(t *testing.T) {
	none := func(string) (string, bool) { return "", false }
	for _, args := range [][]string{{"--token", "-"}, {"--token=-"}} {
		var c standardInput
		if _, err := Load("program", &c, args, none, io.Discard); err != nil || c.Token != Stdin {
			t.Errorf("%v: %q, %v", args, c.Token, err)
		}
	}
	for _, args := range [][]string{{"--token", "tdm1.xyz"}, {"--token=tdm1.xyz"}, {"--token", ""}} {
		var c standardInput
		_, err := Load("program", &c, args, none, io.Discard)
		if err == nil || strings.Contains(err.Error(), "xyz") || !strings.Contains(err.Error(), "TANDEM_TOKEN") {
			t.Errorf("%v: %v", args, err)
		}
	}
	var c standardInput
	env := func(name string) (string, bool) { return map[string]string{"TANDEM_TOKEN": "tdm1.xyz"}[name], true }
	if _, err := Load("program", &c, nil, env, io.Discard); err != nil || c.Token != "tdm1.xyz" {
		t.Errorf("by the environment: %q, %v", c.Token, err)
	}
}
