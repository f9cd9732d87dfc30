package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/apitoken"
	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/cli/contexts"
	"tandem.internal/controller/internal/tokens"
)

// aim is a bench whose user has a directory of settings, and files with tokens of two roles.
func aim(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, apitest.StartSample(t))
	b.io.Config = filepath.Join(b.dir, "home")
	delete(b.env, "TANDEM_SOCKET")
	b.write("view", "# of ann\n"+b.tokens[tokens.View]+"\n")
	b.write("metrics", b.tokens[tokens.Metrics]+"\n")
	return b
}

// file is where the contexts of a bench are.
func (b *bench) file() string { return contexts.File(b.io.Config) }

var gaps = regexp.MustCompile(" {3,}")

// TestContexts is a day with several controllers, for people and as JSON.
func TestContexts(t *testing.T) {
	for _, suffix := range []string{"", "-json"} {
		t.Run("context"+suffix, func(t *testing.T) {
			b := aim(t)
			pin := "sha256:" + strings.Repeat("ab", 32)
			var text strings.Builder
			for _, line := range []string{
				"context list",
				"context show",
				"context use line4",
				"context add line4 --url " + b.tcp + " --token-file " + b.dir + "/view",
				"context add line4 --url " + b.tcp,
				"context add line5 --url https://gateway:8885/ --ca " + pin + " --token-file " + b.dir + "/view",
				"context add here --socket " + b.socket + " --use",
				"context add a/b --url " + b.tcp,
				"context add none",
				"context add both --url " + b.tcp + " --socket " + b.socket,
				"context add sock --socket " + b.socket + " --token-file " + b.dir + "/view",
				"context add clear --url " + b.tcp + " --ca " + pin,
				"context add word --url gateway",
				"context add gone --url " + b.tcp + " --token-file " + b.dir + "/nothing",
				"context list",
				"context show",
				"context show --context line5",
				"context show --context lime5",
				"nodes --context line4 --limit 1",
				"nodes --context other",
				"context use line4",
				"context show --token-file " + b.dir + "/metrics",
				"nodes --limit 1",
				"context add line4 --socket " + b.socket + " --replace",
				"context show",
				"context remove line4",
				"context remove line5",
				"context remove line5",
				"context use --none",
				"context list",
			} {
				args := strings.Fields(line)
				if suffix != "" {
					args = append(args, "--json")
				}
				text.WriteString(b.transcript("", args...))
			}
			golden(t, "context"+suffix, gaps.ReplaceAllString(text.String(), "  ")) // paths differ in their lengths
		})
	}
}

// TestContextOrder: a flag stands over a variable, and both over the context in use; a context's token goes to its own
// address only.
func TestContextOrder(t *testing.T) {
	b := aim(t)
	b.runs("context", "add", "few", "--url", b.tcp, "--token-file", b.dir+"/metrics")
	b.runs("context", "add", "all", "--url", b.tcp, "--token-file", b.dir+"/view", "--use")
	const none, few, refused = "no token", "its token may read figures alone", ""
	for _, c := range []struct {
		name string
		env  map[string]string
		args []string
		want string // part of what is refused; "": it is not
	}{
		{"in use", nil, nil, refused},
		{"variable over use", map[string]string{"TANDEM_CONTEXT": "few"}, nil, few},
		{"flag over variable", map[string]string{"TANDEM_CONTEXT": "few"}, []string{"--context", "all"}, refused},
		{"variable of an address over use", map[string]string{"TANDEM_URL": b.tcp}, nil, none},
		{"address over use", nil, []string{"--url", b.tcp}, none},
		{"socket over use", nil, []string{"--socket", b.socket}, refused},
		{"token over that of the context", nil, []string{"--context", "few", "--token-file", b.dir + "/view"}, refused},
		{"token in a variable over that of the context",
			map[string]string{"TANDEM_TOKEN": b.tokens[tokens.View]}, []string{"--context", "few"}, refused},
		{"what belongs to another address stays there",
			map[string]string{"TANDEM_URL": "http://127.0.0.1:1", "TANDEM_TOKEN": b.tokens[tokens.View]},
			[]string{"--context", "few"}, few},
		{"two flags", nil, []string{"--context", "all", "--url", b.tcp}, "--url and --context exclude each other"},
		{"two variables", map[string]string{"TANDEM_CONTEXT": "all", "TANDEM_URL": b.tcp}, nil, "are both set"},
		{"CA over that of the context", nil, []string{"--ca", "sha256:" + strings.Repeat("ab", 32)}, "without TLS"},
	} {
		b.env = c.env
		_, errs, exit := b.run("", append([]string{"nodes"}, c.args...)...)
		switch {
		case c.want == "" && exit != 0, c.want == "" && errs != "":
			t.Errorf("%s: %d %s", c.name, exit, errs)
		case c.want == none && !strings.Contains(errs, "this door needs a token"),
			c.want == few && !strings.Contains(errs, "metrics"),
			c.want != "" && c.want != none && c.want != few && !strings.Contains(errs, c.want):
			t.Errorf("%s: %d %s", c.name, exit, errs)
		}
	}
}

// TestContextFile: the file is its user's alone and has no secret; one that was altered is refused without showing what
// stands there, and stands in nobody's way who names a controller.
func TestContextFile(t *testing.T) {
	b := aim(t)
	secret := b.tokens[tokens.View]
	b.runs("context", "add", "all", "--url", b.tcp, "--token-file", b.dir+"/view", "--use")
	info, err := os.Stat(b.file())
	if err != nil || command.FileModes && info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	text, err := os.ReadFile(b.file())
	if err != nil || strings.Contains(string(text), apitoken.Prefix) {
		t.Errorf("%s %v", text, err)
	}
	if _, errs, exit := b.run("", "context", "add", "x", "--url", b.tcp, "--token-file", secret); exit != exitUsage ||
		strings.Contains(errs, secret) {
		t.Errorf("a token instead of a file: %d %s", exit, errs)
	}
	for _, c := range []struct{ text, want string }{
		{"", "it is not JSON"}, {"{", "it is not JSON"}, {"[]", "it is not a file of contexts"},
		{`{"contexts":{"a":{"url":7}}}`, "(at /contexts/a/url)"},
		{`{"contexts":{"a":{"url":"` + b.tcp + `","token":"` + secret + `"}}}`, "(at /contexts/a/token)"},
		{`{"contexts":{"a":{"url":"` + b.tcp + `","tokenFile":"` + secret + `"}}}`, "the context a: tokenFile"},
		{`{"contexts":{"a":{"url":"https://u:` + secret + `@h"}}}`, "the address carries credentials"},
		{`{"contexts":{"a":{}}}`, "a socket or an address"},
		{`{"contexts":{"a/b":{"url":"` + b.tcp + `"}}}`, "cannot be the name"},
		{`{"use":"alle","contexts":{"all":{"socket":"` + b.socket + `"}}}`, "tandem context use names another"},
	} {
		if err := os.WriteFile(b.file(), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"nodes"}, {"context", "show"}} {
			out, errs, exit := b.run("", args...)
			if exit != exitUsage || !strings.Contains(errs, c.want) || strings.Contains(out+errs, secret) {
				t.Errorf("%s: %v: %d %s", c.text, args, exit, errs)
			}
		}
		b.runs("nodes", "--socket", b.socket)
	}
	b.io.Config = ""
	if _, errs, exit := b.run("", "context", "list"); exit != exitUsage || !strings.Contains(errs, "HOME") {
		t.Error(fmt.Sprint(exit, errs))
	}
}
