package settings

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// What a program has brought counts where nobody else says something: not the file, a variable or a flag.
func TestLayerIsBelowAllOthers(t *testing.T) {
	brought := Layer{Where: "version 2", Text: []byte("tries: 7\npeer: [a, b]\nretain: false\nratio: 2\n"),
		May: []string{"tries", "peer", "retain", "ratio", "limit"}}
	for _, c := range []struct {
		name  string
		layer Layer
		file  string
		env   map[string]string
		args  []string
		want  string // what --print-config shows of tries and peer
	}{
		{"alone", brought, "", nil, nil, "tries: 7  # version 2:1\npeer: [\"a\", \"b\"]  # version 2:2\n"},
		{"none", Layer{}, "", nil, nil, "tries: 3  # default\npeer: []  # default\n"},
		{"an empty one", Layer{Where: "version 2", Text: []byte("# nothing\n")}, "", nil, nil,
			"tries: 3  # default\npeer: []  # default\n"},
		{"file", brought, "tries: 4\npeer: [c]\n", nil, nil, "tries: 4  # file FILE:1\npeer: [\"c\"]  # file FILE:2\n"},
		{"env", brought, "", map[string]string{"TANDEM_TRIES": "5"}, nil,
			"tries: 5  # env TANDEM_TRIES\npeer: [\"a\", \"b\"]  # version 2:2\n"},
		{"flag", brought, "tries: 4\n", nil, []string{"--tries", "6", "--peer", "d"},
			"tries: 6  # flag --tries\npeer: [\"d\"]  # flag --peer\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, args := writeFile(t, c.file), c.args
			if c.file != "" {
				args = append([]string{"--config", path}, args...)
			}
			lookup := func(k string) (string, bool) { v, ok := c.env[k]; return v, ok }
			var out bytes.Buffer
			if _, err := LoadOver(c.layer, "tandem-x", new(config), append(args, "--print-config"), lookup,
				&out); !errors.Is(err, ErrPrinted) {
				t.Fatal(err)
			}
			got := ""
			for line := range strings.Lines(out.String()) {
				if strings.HasPrefix(line, "tries:") || strings.HasPrefix(line, "peer:") {
					got += line
				}
			}
			if want := strings.ReplaceAll(c.want, "FILE", path); got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
			var shown, again config
			_, err := LoadOver(c.layer, "tandem-x", &shown, args, lookup, &out)
			if err == nil && c.layer.Text == nil {
				_, err = Load("tandem-x", &again, args, lookup, &out)
				if !reflect.DeepEqual(shown, again) {
					t.Errorf("%+v, and without a layer %+v", shown, again)
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// What may not stand in a layer is refused by name, whatever else stands there, and so are mistakes.
func TestLayerMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"tries: 1\ntoken: x\n":     "version 2:2: token: it is not yours; these may: tries, limit",
		"listn: x\n":               "version 2:1: listn: it is not yours; these may: tries, limit",
		"config: /etc/x\n":         "version 2:1: config: it is not yours; these may: tries, limit",
		"<<: {token: x}\n":         "version 2:1: <<: it is not yours; these may: tries, limit",
		"tries: 1\ntries: 2\n":     "version 2:2: tries: already set in line 1",
		"tries: many\n":            "version 2:1: tries: want a whole number, not a string (many)",
		"- tries\n":                "version 2:1: want lines of the form key: value",
		"tries: 1\n---\nlimit: 1":  "version 2:2: a second YAML document; one is allowed",
		"tries: [":                 "version 2:1: not YAML: did not find expected node content",
		"limit: 1\ntries: *gone\n": "version 2: not YAML: unknown anchor 'gone' referenced",
	} {
		l := Layer{Where: "version 2", Text: []byte(text), May: []string{"tries", "limit"}, Why: "it is not yours"}
		c := new(config)
		_, err := LoadOver(l, "tandem-x", c, []string{"--token", "own", "--tries", "1"}, noEnv, nil)
		var usage *Error
		if !errors.As(err, &usage) || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
		_, err = l.Names()
		if knowsValues := strings.Contains(want, "many"); (err == nil) != knowsValues {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// --version says what has been brought, and is answered even if that is no good.
func TestVersionShowsLayer(t *testing.T) {
	for text, want := range map[string]string{"tries: 1\npeer: [x]\n": "settings that it brings: tries, peer\n",
		"": "", "token: x\n": ""} {
		var out bytes.Buffer
		_, err := LoadOver(Layer{Where: "version 2", Text: []byte(text), May: []string{"tries", "peer"}}, "tandem-x",
			new(config), []string{"--version"}, noEnv, &out)
		first, rest, _ := strings.Cut(out.String(), "\n")
		if !errors.Is(err, ErrPrinted) || !strings.HasPrefix(first, "tandem-x devel (") || rest != want {
			t.Errorf("%q: %q %v", text, out.String(), err)
		}
	}
}

func noEnv(string) (string, bool) { return "", false }

// writeFile returns a file with this content.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
