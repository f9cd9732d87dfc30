package cli

import (
	"os"
	"strings"
	"testing"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/shared/policy/constraint"
)

const policySamples = "../../../deploy/samples/policies/"

// words splits a command line as a shell does: white space stands between words, single quotes keep it.
func words(line string) (all []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}

// TestPolicyOffline runs the commands about policies that ask no controller, for people and as JSON.
func TestPolicyOffline(t *testing.T) {
	for _, c := range []struct{ name, args string }{
		{"policy-eval", "eval --constraint 'site == lab' --properties PROPERTIES"},
		{"policy-eval-false", "eval --constraint 'site == plant' --properties PROPERTIES"},
		{"policy-eval-several", "eval --constraint 'site == lab' --constraint 'labels == indoor' " +
			"--properties PROPERTIES"},
		{"policy-eval-list", `eval --constraint 'site in "plant,lab"' --properties PROPERTIES`},
		{"policy-eval-explain", "eval --constraint 'site == plant || firmware >= 1.9.0 AND absent != x' " +
			"--constraint 'openhorizon.memory < 4096' --properties PROPERTIES --explain"},
		{"policy-eval-malformed", "eval --constraint 'site == lab || ' --properties PROPERTIES"},
		{"policy-eval-two-malformed", "eval --constraint 'site == lab' --constraint 'a => 5' --constraint '!a == b' " +
			"--properties PROPERTIES"},
		{"policy-eval-empty", "eval --constraint '' --properties PROPERTIES"},
		{"policy-eval-nothing", "eval --properties PROPERTIES"},
		{"policy-eval-no-properties", "eval --constraint 'site == lab'"},
		{"policy-eval-no-file", "eval --constraint 'site == lab' --properties DIR/none.json"},
		{"policy-eval-bad-file", "eval --constraint 'site == lab' --properties TWICE"},
		{"policy-eval-hostile", "eval --constraint 'site == lab' --properties HOSTILE --explain"},
		{"policy-match", "match CAMERAS --node CAMERA"},
		{"policy-match-explain", "match CAMERAS --node CAMERA --explain"},
		{"policy-match-false", "match CAMERAS --node GATE"},
		{"policy-match-false-explain", "match CAMERAS --node GATE --explain"},
		{"policy-match-policy-side", "match GATES --node CAMERA --explain"},
		{"policy-match-node-side", "match RING --node CAMERA --explain"},
		{"policy-match-pattern", "match GATES --node GATE --explain"},
		{"policy-match-bad-policy", "match BAD --node CAMERA"},
		{"policy-match-bad-node", "match CAMERAS --node BAD"},
		{"policy-match-no-node", "match CAMERAS"},
		{"policy-match-nothing", "match --node CAMERA"},
	} {
		for _, suffix := range []string{"", "-json"} {
			t.Run(c.name+suffix, func(t *testing.T) {
				b := newBench(t, apitest.StartSample(t))
				b.env["TANDEM_SOCKET"] = b.dir + "/none" // no controller is asked
				copied := func(name string) string {
					data, err := os.ReadFile(policySamples + name)
					if err != nil {
						t.Fatal(err)
					}
					return b.write(name, string(data))
				}
				files := strings.NewReplacer("PROPERTIES", copied("properties.json"), "CAMERAS", copied("cameras.json"),
					"CAMERA", copied("node-camera.json"), "GATES", copied("gates.json"),
					"GATE", copied("node-gate.json"), "RING", b.write("ring.json",
						`{"properties": [{"name": "ring", "value": 3}], "enabled": true}`),
					"TWICE", b.write("twice.json",
						`{"properties": [{"name": "a", "value": 1}, {"name": "a", "value": 2}]}`),
					"HOSTILE", b.write("hostile.json",
						`{"properties": [{"name": "site", "value": "\u001b[31mlab\n"}]}`),
					"BAD", b.write("bad.json",
						`{"constraints": ["site == lab", "site ="], "enabeld": true, "patern": "p"}`),
					"DIR", b.dir)
				args := append([]string{"policy"}, words(c.args)...)
				for i := range args {
					args[i] = files.Replace(args[i])
				}
				b.golden(t, c.name, suffix, args)
			})
		}
	}
}

// TestPolicyExamples: the expressions in the document are accepted, and its commands print what stands below them.
func TestPolicyExamples(t *testing.T) {
	text, err := os.ReadFile("../../../shared/docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(policySamples)
	b := newBench(t, apitest.StartSample(t))
	b.env["TANDEM_SOCKET"] = b.dir + "/none"
	_, first, _ := strings.Cut(string(text), "\n```\n")
	first, _, _ = strings.Cut(first, "\n```")
	expressions := strings.Split(first, "\n")
	if list, err := constraint.ParseList(expressions); err != nil || len(list) != 3 {
		t.Errorf("%q: %v", expressions, err)
	}
	ran := 0
	for i, block := range strings.Split(string(text), "```") {
		rest, isExample := strings.CutPrefix(block, "\n$ tandem ")
		if i%2 == 0 || !isExample {
			continue
		}
		for example := range strings.SplitSeq(rest, "\n$ tandem ") {
			line, want, _ := strings.Cut(example, "\n")
			stdout, stderr, _ := b.run("", words(line)...)
			if got := strings.TrimSpace(stdout + stderr); got != strings.TrimSpace(want) {
				t.Errorf("tandem %s\n--- prints\n%s\n--- the document has\n%s", line, got, want)
			}
			ran++
		}
	}
	if ran < 6 {
		t.Errorf("only %d examples were found", ran)
	}
}
