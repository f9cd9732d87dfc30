package main

import (
	"strings"
	"testing"
)

// TestSettingsOfKeyProgram: the agent is another user than the program's, and not root.
func TestSettingsOfKeyProgram(t *testing.T) {
	good := config{Socket: "/run/k/s", Dir: "/var/k", Agent: "64001"}
	for _, tc := range []struct {
		name, want string
		change     func(*config)
		own        int
	}{
		{"good", "", func(*config) {}, 7},
		{"root by name", "root could read", func(c *config) { c.Agent = "root" }, 7},
		{"root", "root could read", func(c *config) { c.Agent = "0" }, 7},
		{"its own", "own user", func(*config) {}, 64001},
		{"nobody's name", "unknown user", func(c *config) { c.Agent = "no-such-user" }, 7},
		{"a relative socket", "--socket", func(c *config) { c.Socket = "s" }, 7},
		{"a relative directory", "--dir", func(c *config) { c.Dir = "k" }, 7},
		{"no control group", "--refuse-group", func(c *config) { c.Group = "tandem.slice" }, 7},
	} {
		c := good
		tc.change(&c)
		if _, err := c.check(tc.own); (err == nil) != (tc.want == "") || err != nil &&
			!strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}
