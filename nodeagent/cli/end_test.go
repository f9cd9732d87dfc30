package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/nodeagent/internal/slot"
)

// An agent that the launcher has started, and that cannot even begin, leaves behind why.
func TestEndAtOnceSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		args   []string
		status int
		want   string
	}{
		"an unknown setting": {[]string{"--tset-time", "1m"}, exitUsage, "does not understand its settings"},
		"settings that do not go together": {[]string{"--unit", "u", "--node", "n", "--type", "t", "--fallback-time",
			"1m"}, exitUsage,
			"--fallback-time: PT1M is below the contact time of PT2M30S"},
		"a deadline that comes too soon": {[]string{"--unit", "u", "--node", "n", "--type", "t", "--deadline-time",
			"10m"}, exitUsage,
			"--deadline-time: PT10M is below test time and fallback time together"},
		"a broker that is none": {[]string{"--unit", "u", "--node", "n", "--type", "t", "--broker", "amqp://b"},
			exitUsage, `scheme "amqp"`},
	} {
		t.Run(name, func(t *testing.T) {
			state := t.TempDir()
			dir := filepath.Join(state, slot.Dir)
			t.Setenv(slot.EnvDir, dir)
			var stdout, stderr bytes.Buffer
			got := new(program).run(t.Context(), append(c.args, "--state-dir", state), &stdout, &stderr)
			if got != c.status {
				t.Fatalf("ended with %d: %s", got, &stderr)
			}
			st, err := slot.Open(slot.Config{Dir: dir}).Status()
			if err != nil || st.Next == nil || st.Next.Reason != "fatal" || !strings.Contains(st.Next.Detail, c.want) {
				t.Errorf("the record says %+v (%v), want %q", st.Next, err, c.want)
			}
		})
	}
}
