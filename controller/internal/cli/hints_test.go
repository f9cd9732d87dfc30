package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/controller/internal/view"
)

// TestErrorsNameWhatIsMeant: what was probably meant, where a setting came from, and no more than the role can do.
func TestErrorsNameWhatIsMeant(t *testing.T) {
	none := answered(apitest.Fixed(op.ShowProperties, view.NodeProperties{Node: "node-1"}))
	socket := map[string]string{"TANDEM_SOCKET": "/none/s"}
	for _, c := range []struct {
		args  string
		state change
		env   map[string]string // nil: that of the bench
		exit  int
		want  string
		not   string
	}{
		{"token create prom --role metrics", nil, nil, 0, "The token reads https://gateway:8885/metrics", "ashboard"},
		{"token create ann --role view", nil, nil, 0, "The dashboard is at https://gateway:8885/", "/metrics"},
		{"token create prom --role metrics --link", nil, nil, exitUsage, "the role metrics opens no dashboard", ""},
		{"dashboard --print --role metrics", nil, nil, exitUsage, "the role metrics opens no dashboard", ""},
		{"why document node-1 conf", nil, nil, exitUsage, "did you mean config?", ""},
		{"why document node-1 x", nil, nil, exitUsage, "there are components, config, health, policies, workloads", ""},
		{"why press-1", nil, nil, exitUsage, "of a node: tandem why node press-1", ""},
		{"why web@press-1", nil, nil, exitUsage, "of a slot: tandem why slot web@press-1", ""},
		{"why docment", nil, nil, exitUsage, "did you mean document?", "tandem why node"},
		{"notify add pager http://10.0.0.9/in", nil, nil, exitUsage, "--insecure-http", ""},
		{"nodes", nil, socket, exitUnreachable, "(/none/s, by TANDEM_SOCKET)", ""},
		{"nodes --socket /none/s", nil, socket, exitUnreachable, "(/none/s)", ""},
		{"property list node-1", none, nil, 0, "node-1 has no properties", "PROPERTY"},
	} {
		b := c.state.bench(t)
		if c.env != nil {
			b.env = c.env
		}
		stdout, stderr, exit := b.run("", strings.Fields(c.args)...)
		all := stdout + stderr
		if exit != c.exit || !strings.Contains(all, c.want) || c.not != "" && strings.Contains(all, c.not) {
			t.Errorf("%s: status %d, want %d, %q and not %q\n%s", c.args, exit, c.exit, c.want, c.not, all)
		}
	}
}

// TestTokensAreNotRepeated: one that stands where a name is expected is in no error.
func TestTokensAreNotRepeated(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	token := b.tokens[tokens.View]
	b.env = map[string]string{}
	for want, args := range map[string][]string{
		"--token-file: it is the name of a file; here stands a token": {"--url", b.tcp, "--token-file", token, "nodes"},
		"is no command of tandem":                                     {token},
		"not-found: there is no such file":                            {"config", "check", token},
	} {
		for _, more := range []string{"", "--json"} {
			stdout, stderr, exit := b.run("", append(args, strings.Fields(more)...)...)
			if strings.Contains(stdout+stderr, token[:20]) || exit != exitUsage ||
				more == "" && !strings.Contains(stderr, want) {
				t.Errorf("%s %s: status %d, %s%s", want, more, exit, stdout, stderr)
			}
		}
	}
}

// TestNothingIsWrittenForNobody: where all of a list are skipped there are no tokens, and no directory without any.
func TestNothingIsWrittenForNobody(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	list := b.write("known.csv", "node\nnode-1\nnode-2\n")
	for _, flag := range []string{"--dir", "--out"} {
		path := filepath.Join(b.dir, "tokens")
		stdout, stderr, exit := b.run("", "enrol", "list", list, flag, path, "--known", "skip")
		if exit != 0 || !strings.Contains(stdout, "no tokens were made, and nothing was written\n") ||
			!strings.Contains(stdout, "the unit knows 2 nodes, which got none: node-1, node-2") {
			t.Errorf("%s: status %d, %s%s", flag, exit, stdout, stderr)
		}
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
