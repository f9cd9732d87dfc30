package strictjson

import (
	"strings"
	"testing"
)

// TestYAML: a document that is YAML is said to be that; what is merely no JSON is not.
func TestYAML(t *testing.T) {
	for in, want := range map[string]bool{
		"version: 2.0.0\n":                 true,
		"format-version:\n  - 7":           true,
		"---\nversion: 1\n":                true,
		"---":                              true,
		"%YAML 1.2\n---\n":                 true,
		"# unit 7\n\n  # more\nnodes:\n":   true,
		"- a\n- b\n":                       true,
		"nodes:\r\n- a\r\n":                true,
		`{"on":true}`:                      false,
		"{version: 1}":                     false,
		"-1":                               false,
		"version":                          false,
		"http://example.org/":              false,
		"# only\n{}":                       false,
		`"version": "1"`:                   false,
		strings.Repeat("\n", 1<<10) + "[]": false,
	} {
		_, ps := parse(in)
		got := len(ps) > 0 && strings.Contains(ps[0].Message, "YAML")
		if got != want || got && len(ps) != 1 {
			t.Errorf("%.40q: %v", in, ps)
		}
	}
}
