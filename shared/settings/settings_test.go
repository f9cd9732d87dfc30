package settings

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

type common struct {
	LogLevel string `name:"log-level" default:"info"`
}

func (*common) Help() map[string]string {
	return map[string]string{"log-level": "how much to log: debug, info, warn or error"}
}

type config struct {
	common
	Listen string            `name:"listen" default:"127.0.0.1:1883"`
	Retain bool              `name:"retain" default:"true"`
	Tries  int               `name:"tries" default:"3"`
	Limit  uint64            `name:"limit"`
	Ratio  float64           `name:"ratio" default:"0.5"`
	Beat   time.Duration     `name:"beat" default:"30s"`
	Peers  []string          `name:"peer"`
	Labels map[string]string `name:"label"`
	Token  string            `name:"token" secret:"true"`
	hidden int
}

func (*config) Help() map[string]string {
	return map[string]string{
		"listen": "address of the embedded broker, which every node of the unit must be able to reach at all times",
		"retain": "keep messages",
		"tries":  "attempts",
		"limit":  "bytes",
		"ratio":  "share",
		"beat":   "pause",
		"peer":   "other brokers",
		"label":  "what this is",
		"token":  "shared secret",
	}
}

func load(t *testing.T, file string, env map[string]string, args ...string) (config, []string, string, error) {
	t.Helper()
	var c config
	if file != "" {
		path := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append([]string{"--config", path}, args...)
	}
	var out bytes.Buffer
	rest, err := Load("tandem-x", &c, args, func(k string) (string, bool) { v, ok := env[k]; return v, ok }, &out)
	return c, rest, out.String(), err
}

func TestPrecedence(t *testing.T) {
	full := "listen: file:1\nretain: false\ntries: 7\nlimit: 5\nratio: 2\nbeat: 5m\npeer: [a, b]\nlabel: {k: v, w: " +
		"x}\ntoken: t\nlog-level: warn\n"
	env := map[string]string{"TANDEM_LISTEN": "env:1", "TANDEM_RETAIN": "true", "TANDEM_TRIES": "8",
		"TANDEM_LIMIT": "6", "TANDEM_RATIO": "1e3",
		"TANDEM_BEAT": "1s", "TANDEM_PEER": "c, d", "TANDEM_LABEL": "a=b, c=d=e", "TANDEM_TOKEN": "u",
		"TANDEM_LOG_LEVEL": "error", "TANDEM_OTHER": "!"}
	flags := []string{"one", "--listen=flag:1", "--retain=false", "--tries", "-9", "--limit=7", "--ratio", ".25",
		"--beat", "2h",
		"--peer", "e,f", "--peer=g", "--label", "x=y", "--token=", "--log-level", "debug", "two", "--", "--three"}
	base := config{common{"info"}, "127.0.0.1:1883", true, 3, 0, 0.5, 30 * time.Second, nil, nil, "", 0}
	for _, test := range []struct {
		name, file string
		env        map[string]string
		args       []string
		want       config
		rest       []string
	}{
		{"defaults", "", nil, nil, base, nil},
		{"an empty file", " \n# nothing\n", nil, nil, base, nil},
		{"an empty document", "---\n", nil, nil, base, nil},
		{"empty variables are not set", "", map[string]string{"TANDEM_TRIES": "", "TANDEM_LISTEN": "",
			"TANDEM_CONFIG": ""}, nil, base, nil},
		{"file", full, nil, nil, config{common{"warn"}, "file:1", false, 7, 5, 2, 5 * time.Minute, []string{"a", "b"},
			map[string]string{"k": "v", "w": "x"}, "t", 0}, nil},
		{"env over file", full, env, nil, config{common{"error"}, "env:1", true, 8, 6, 1000, time.Second,
			[]string{"c", "d"}, map[string]string{"a": "b", "c": "d=e"}, "u", 0}, nil},
		{"flags over all", full, env, flags, config{common{"debug"}, "flag:1", false, -9, 7, .25, 2 * time.Hour,
			[]string{"e,f", "g"}, map[string]string{"x": "y"}, "", 0}, []string{"one", "two", "--three"}},
		{"aliases, quotes", "listen: &a \"8080\"\ntoken: *a\npeer: [*a]\nretain: True\n", nil, nil,
			config{common{"info"}, "8080", true, 3, 0, 0.5, 30 * time.Second, []string{"8080"}, nil, "8080", 0}, nil},
		{"whole numbers as text", "listen: 8080\npeer: [5, a]\nlabel: {a: 0012, b: 5000000}\n", nil, nil,
			config{common{"info"}, "8080", true, 3, 0, 0.5, 30 * time.Second, []string{"5", "a"},
				map[string]string{"a": "0012", "b": "5000000"}, "", 0}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, rest, _, err := load(t, test.file, test.env, test.args...)
			if err != nil || !reflect.DeepEqual(got, test.want) || !reflect.DeepEqual(rest, test.rest) {
				t.Errorf("got  %+v %q %v\nwant %+v %q", got, rest, err, test.want, test.rest)
			}
		})
	}
}

func TestConfigFromEnv(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e.yaml")
	if err := os.WriteFile(path, []byte("tries: 4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _, _, err := load(t, "", map[string]string{"TANDEM_CONFIG": path})
	if err != nil || c.Tries != 4 {
		t.Errorf("%+v %v", c, err)
	}
	c, _, _, err = load(t, "tries: 5\n", map[string]string{"TANDEM_CONFIG": path})
	if err != nil || c.Tries != 5 {
		t.Errorf("--config does not win: %+v %v", c, err)
	}
}

func TestMistakes(t *testing.T) {
	for _, test := range []struct {
		file, env string
		args      []string
		want      string // FILE stands for the file's path
	}{
		{file: "listn: x\n", want: `FILE:1: listn: no such setting; did you mean listen?`},
		{file: "\nzzzzzzzz: x\n", want: `FILE:2: zzzzzzzz: no such setting; --help lists them`},
		{file: "version: x\n", want: `FILE:1: version: no such setting; --help lists them`},
		{file: "<<: {tries: 1}\n", want: `FILE:1: <<: no such setting; --help lists them`},
		{file: "tries: 1\nlisten: a\ntries: 2\n", want: `FILE:3: tries: already set in line 1`},
		{file: "listen: 80.5\n", want: `FILE:1: listen: want a string, not a number (80.5); quote it`},
		{file: "listen:\n", want: `FILE:1: listen: want a string, not nothing`},
		{file: "listen: [a]\n", want: `FILE:1: listen: want a string, not a list`},
		{file: "listen: 2020-01-01\n", want: `FILE:1: listen: want a string, not a date (2020-01-01); quote it`},
		{file: "retain: yes\n", want: `FILE:1: retain: want true or false, not a string (yes)`},
		{file: "retain: 1\n", want: `FILE:1: retain: want true or false, not a whole number (1)`},
		{file: "tries: 1.5\n", want: `FILE:1: tries: want a whole number, not a number (1.5)`},
		{file: "tries: \"1\"\n", want: `FILE:1: tries: want a whole number, not a string (1)`},
		{file: "tries: 99999999999999999999\n",
			want: `FILE:1: tries: want a whole number, not a number (99999999999999999999)`},
		{file: "limit: -1\n", want: `FILE:1: limit: "-1" is not a whole number from 0`},
		{file: "ratio: .inf\n", want: `FILE:1: ratio: ".inf" is not a number`},
		{file: "beat: 30\n", want: `FILE:1: beat: "30" is not a duration such as 500ms, 90s or 1h30m`},
		{file: "beat: soon\n", want: `FILE:1: beat: "soon" is not a duration such as 500ms, 90s or 1h30m`},
		{file: "peer: a\n", want: `FILE:1: peer: want a list of strings, not a string (a)`},
		{file: "peer:\n- a\n- true\n", want: `FILE:3: peer: want a string, not true or false (true); quote it`},
		{file: "label: [a]\n", want: `FILE:1: label: want a map of strings, not a list`},
		{file: "label:\n  a: b\n  c: 1.5\n", want: `FILE:3: label: c: want a string, not a number (1.5); quote it`},
		{file: "label:\n  a: b\n  a: c\n", want: `FILE:2: label: key "a" appears twice`},
		{file: "- a\n", want: `FILE:1: want lines of the form key: value`},
		{file: "tries: 1\n---\ntries: 2\n", want: `FILE:2: a second YAML document; one is allowed`},
		{file: "tries: 1\n  x: [\n", want: `FILE:2: not YAML: mapping values are not allowed in this context`},
		{env: "TANDEM_TRIES=many", want: `TANDEM_TRIES: "many" is not a whole number`},
		{env: "TANDEM_LABEL=a", want: `TANDEM_LABEL: "a" is not of the form key=value`},
		{args: []string{"--listne", "x"}, want: `--listne: no such flag; did you mean --listen?`},
		{args: []string{"--list=x"}, want: `--list: no such flag; did you mean --listen?`},
		{args: []string{"--hlep"}, want: `--hlep: no such flag; did you mean --help?`},
		{args: []string{"-listen", "x"}, want: `-listen: no such flag; did you mean --listen?`},
		{args: []string{"---listen", "x"}, want: `---listen: no such flag; did you mean --listen?`},
		{args: []string{"--qqqqqq"}, want: `--qqqqqq: no such flag; --help lists them`},
		{args: []string{"--b"}, want: `--b: no such flag; did you mean --beat?`},
		{args: []string{"--listen"}, want: `--listen: needs a value: string`},
		{args: []string{"--config="}, want: `--config: needs a value: file`},
		{args: []string{"--help=1"}, want: `--help: takes no value`},
		{args: []string{"--retain=maybe"}, want: `--retain: "maybe" is neither true nor false`},
		{args: []string{"--ratio=NaN"}, want: `--ratio: "NaN" is not a number`},
		{args: []string{"--tries=99999999999999999999"}, want: `--tries: 99999999999999999999 is out of range`},
		{args: []string{"--config", "/nonexistent/c.yaml"},
			want: `/nonexistent/c.yaml: the settings file cannot be read: no such file or directory`},
	} {
		env := map[string]string{}
		if k, v, ok := strings.Cut(test.env, "="); ok {
			env[k] = v
		}
		_, _, out, err := load(t, test.file, env, test.args...)
		var usage *Error
		if !errors.As(err, &usage) {
			t.Errorf("%q %q %q: %v, want a usage error", test.file, test.env, test.args, err)
			continue
		}
		got := err.Error()
		if i := strings.Index(got, "c.yaml:"); i >= 0 && test.file != "" {
			got = "FILE" + got[i+len("c.yaml"):]
		}
		if got != test.want || out != "" {
			t.Errorf("%q %q %q:\ngot  %s\nwant %s\nout %q", test.file, test.env, test.args, got, test.want, out)
		}
	}
}

func TestPrintConfigLoadsAgain(t *testing.T) {
	env := map[string]string{"TANDEM_LABEL": `a=b "c",d=1: # x`, "TANDEM_RATIO": "1e30"}
	args := []string{"--print-config", "--peer", "x\ty\u00a0ü, z", "--peer=- no", "--token=geheim", "--beat=-90s"}
	c, _, out, err := load(t, "tries: 12\n", env, args...)
	if !errors.Is(err, ErrPrinted) {
		t.Fatal(err)
	}
	if strings.Contains(out, "geheim") || !strings.Contains(out, "# token: ***  # flag --token\n") {
		t.Errorf("the secret: %s", out)
	}
	for _, want := range []string{"listen: \"127.0.0.1:1883\"  # default\n", "ratio: 1e+30  # env TANDEM_RATIO\n",
		"beat: -1m30s  # flag --beat\n", "/c.yaml:1\n", "tries: 12  # file "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	again, _, _, err := load(t, out, nil)
	c.Token = ""
	if c.Peers == nil || again.Peers == nil || again.Labels == nil || err != nil || !reflect.DeepEqual(again, c) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, again, c)
	}
}

type spoken struct{ config }

func (spoken) Usage() string { return "Usage: tandem-x FILE\n\nDoes it.\n" }

func TestHelpAndVersion(t *testing.T) {
	for _, arg := range []string{"--help", "-h"} {
		_, _, out, err := load(t, "", nil, "--tries", "5", arg)
		if !errors.Is(err, ErrPrinted) {
			t.Fatal(err)
		}
		for _, f := range collect(reflect.ValueOf(new(config)).Elem(), nil) {
			for _, want := range []string{"--" + f.name, f.env, "Default " + f.def + ";"} {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in the help", want)
				}
			}
		}
		for line := range strings.Lines(out) {
			if len(line) > 81 {
				t.Errorf("a line of %d columns: %s", len(line), line)
			}
		}
		for _, want := range []string{"Usage: tandem-x [flags]\n", "Example:\n  tandem-x --config /etc/tandem/x.yaml " +
			"--log-level info\n", "--print-config", "--version", "TANDEM_CONFIG",
			"--beat <duration>\n        pause\n        Default 30s; variable TANDEM_BEAT.\n"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	}
	var out bytes.Buffer
	if _, err := Load("tandem-x", &spoken{}, []string{"--help"}, os.LookupEnv, &out); !errors.Is(err, ErrPrinted) ||
		!strings.HasPrefix(out.String(), "Usage: tandem-x FILE\n\nDoes it.\n\nFlags win") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if _, _, out, err := load(t, "", nil, "--version"); !errors.Is(err, ErrPrinted) ||
		!strings.HasPrefix(out, "tandem-x devel (go1.") {
		t.Errorf("%q %v", out, err)
	}
}

// A field without a default tag has the value that the caller has set as its default.
func TestGivenDefaults(t *testing.T) {
	c := config{Peers: []string{"a"}, Limit: 9}
	if _, err := Load("x", &c, nil, func(string) (string, bool) { return "", false }, os.Stdout); err != nil ||
		c.Limit != 9 || len(c.Peers) != 1 {
		t.Errorf("%+v %v", c, err)
	}
}

func TestImpossibleStructsPanic(t *testing.T) {
	for _, cfg := range []any{
		&struct {
			A int8 `name:"a"`
		}{},
		&struct {
			A int `name:"a" default:"x"`
		}{},
		&struct {
			A, B int `name:"a"`
		}{},
		&struct {
			A int `name:"config"`
		}{},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%T is accepted", cfg)
				}
			}()
			collect(reflect.ValueOf(cfg).Elem(), nil)
		}()
	}
}

type undescribed struct {
	config
	Extra int `name:"extra"`
}

type overdescribed struct{ config }

func (*overdescribed) Help() map[string]string {
	return map[string]string{"listn": "no field has this name"}
}

// Each setting has a help text, and each help text a setting; else the program does not start.
func TestHelpTextsMatchSettings(t *testing.T) {
	for _, test := range []struct {
		cfg  Config
		want string
	}{
		{&undescribed{}, "settings: extra has no help text"},
		{&overdescribed{}, "settings: the help text of listn has no setting"},
	} {
		func() {
			defer func() {
				if got := recover(); got != test.want {
					t.Errorf("%T: %v, want %q", test.cfg, got, test.want)
				}
			}()
			_, err := Load("tandem-x", test.cfg, nil, os.LookupEnv, io.Discard)
			t.Errorf("%T is accepted: %v", test.cfg, err)
		}()
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte("listen: a\npeer: [a, b]\nlabel: {a: b}\n"))
	f.Add([]byte("a: &a [*a]\nb: *a"))
	f.Add([]byte("? [a]\n: b"))
	f.Add([]byte("listen: &x {<<: *x}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var c config
		fields := collect(reflect.ValueOf(&c).Elem(), nil)
		var usage *Error
		if err := decodeFile("", "f", data, fields, false); err != nil && !errors.As(err, &usage) {
			t.Fatalf("%v is no usage error", err)
		}
	})
}
