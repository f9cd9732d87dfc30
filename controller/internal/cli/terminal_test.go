package cli

import (
	"strings"
	"testing"
	"unicode"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/shared/wire"
)

// What a node says does not reach a terminal as something to obey, not even as JSON, which escapes the first 32
// control characters only; and it is the same JSON.
func TestJSONIsHarmlessOnATerminal(t *testing.T) {
	const said = "\x1b[2J\u009b31m\x7f\u202e\u2066\U000e0041 — ok €\U0001f600"
	const node = "node-2"
	b := newBench(t, apitest.StartSample(t))
	b.unit.Report(node, wire.KindConfig, wire.StateRejected, wire.New(wire.CodeBadValue, "", said), nil)
	for _, args := range [][]string{{"nodes", "--json"}, {"node", node, "--json"}, {"node", node},
		{"config", "status", "--json"}, {"no-such-\u009b31m-command", "--json"}} {
		stdout, stderr, _ := b.run("", args...)
		for _, c := range stdout + stderr {
			if c != '\n' && !unicode.IsPrint(c) {
				t.Errorf("%q: %U comes out", args, c)
			}
		}
	}
	stdout, _, _ := b.run("", "node", node, "--json")
	if !strings.Contains(stdout, `\u001b[2J\u009b31m\u007f\u202e\u2066\udb40\udc41 — ok €😀`) {
		t.Errorf("%s", stdout)
	}
	var n struct {
		Documents map[wire.Kind]struct {
			Last struct{ Error *wire.Error }
		}
	}
	if err := json.Unmarshal([]byte(stdout), &n, json.MatchCaseInsensitiveNames(true)); err != nil ||
		n.Documents[wire.KindConfig].Last.Error.Message != said {
		t.Errorf("%v, %q", err, n.Documents[wire.KindConfig].Last.Error)
	}
}
