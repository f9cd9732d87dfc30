package deliver

import (
	"fmt"
	"strings"
	"time"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/notify"
)

// troubleAfter is how many tries in vain are told to whoever looks at the unit: some six minutes of them.
const troubleAfter = 9

// about says in words what a receiver is told, for the journal.
func about(r *notify.Receiver) string {
	text := r.Origin() + ", level " + r.Filter.Level
	for _, l := range []struct {
		name string
		all  []string
	}{{"types", r.Filter.Types}, {"nodes", r.Filter.Nodes}, {"who", r.Filter.Who}} {
		if len(l.all) > 0 {
			text += ", " + l.name + " " + strings.Join(l.all, " ")
		}
	}
	if r.Filter.Where != "" {
		text += ", where " + r.Filter.Where
	}
	if r.Always {
		text += ", also during maintenance"
	}
	if r.Insecure {
		text += ", without TLS"
	}
	return text
}

// Trouble is what an operator should look at, in words.
func (m *Manager) Trouble() (all []string) {
	if m.broken != nil {
		all = append(all, "no notices are sent: "+m.broken.Error())
	}
	head, err := m.cfg.Journal.NoticesHead()
	if err != nil {
		return all // whoever asks hears that from the journal itself
	}
	for _, r := range *m.set.Load() {
		w, err := m.worker(r.Name)
		if err != nil {
			continue // it was removed a moment ago
		}
		if v := w.view(head.Seq); v.Tries >= troubleAfter || v.State == "failing" && v.Tries == 0 {
			all = append(all, fmt.Sprintf("notices do not reach %s, %s behind, tried %d times, last at %s: %s",
				v.Name, kind.Many(int(v.Lag), "record"), v.Tries, v.ErrorAt.UTC().Format(time.RFC3339), v.Error))
		}
	}
	return all
}
