package load_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/load"
	"tandem.internal/shared/alert"
)

// What is told, and when: a sample every ten seconds, of which each word is the average of CPU in percent, or words of
// its own.
func TestWatch(t *testing.T) {
	steady := strings.Repeat(" 50", 24)
	for _, c := range []struct{ name, samples, want string }{
		{"the first, and what stays after four minutes", "50" + steady + " 50 50", "0s=0.5 4m0s=0.5"},
		{"small changes are none", "50 51 51.9 48.1 50 51 51 51", "0s=0.5"},
		{"a change after a minute", "50 60 60 60 60 60 60 60 60", "0s=0.5 1m0s=0.6"},
		{"no more than one in a minute", "50 60 70 80 89 60 70 80 60 70 80 89 60", "0s=0.5 1m0s=0.7 2m0s=0.6"},
		{"a fall below the maximum at once, and its rise later", "95 95 89.99 95 89 95 95 95 95 95 95",
			"0s=0.95 20s=0.899 1m20s=0.95"},
		{"flapping: one fall for each rise that was told", "95 80 95 80 95 80 95 80 95 80 95 80 95 80",
			"0s=0.95 10s=0.8 1m20s=0.95 1m30s=0.8"},
		{"at the maximum is not below it", "90 90 90 89", "0s=0.9 30s=0.89"},
		{"not known", "? ? 50", "20s=0.5"},
	} {
		var w load.Watch
		w.Rules([]alert.Rule{{Parameter: alert.CPU, Max: 0.9, Min: 0.5}})
		var got []string
		for i, word := range strings.Fields(c.samples) {
			now := time.Duration(i) * 10 * time.Second
			averages := map[alert.Parameter]float64{alert.RAM: 0.4}
			var v float64
			if n, err := fmt.Sscan(word, &v); n == 1 && err == nil {
				averages[alert.CPU] = v / 100
			}
			if w.Averages(now, averages) {
				got = append(got, fmt.Sprintf("%v=%v", now, w.Reported().CPU))
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
		if w.Reported().RAM != 0.4 {
			t.Errorf("%s: RAM %v", c.name, w.Reported().RAM)
		}
	}
}
