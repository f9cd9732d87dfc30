package attack

import (
	"strings"
	"testing"

	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/rawmqtt"
)

// whole sees that after all of it the unit is what it was: nothing of an attacker is retained, the
// journal is whole and agrees with what the controller acts on, and a new node can join.
func (u *unit) whole() {
	u.t.Run("the unit is whole", func(t *testing.T) {
		for _, id := range []string{"operator/witness", "cloud/hand"} {
			if id == "cloud/hand" && u.kind == embedded {
				continue
			}
			for _, w := range u.witnesses {
				w.Leave()
			}
			u.witnesses = nil
			late, filter := u.client(t, id), "tandem/1/"+unitName+"/#"
			if id == "cloud/hand" {
				filter = "#"
			}
			if u.kind != embedded { // on the embedded broker nobody could have put it there
				if err := late.FindsMessage(filter, topic.ForOutbox(unitName, "kept"), "kept"); err != nil {
					t.Error(err)
				}
			}
			if err := late.Finds(filter, "the documents of all", func(all []rawmqtt.Message) bool {
				found := map[string]bool{}
				for _, m := range all {
					found[m.Topic] = found[m.Topic] || m.Retained
				}
				for _, name := range bystanders {
					if !found[of(name).Desired(wire.KindConfig)] || !found[of(name).Reported(wire.KindConfig)] {
						return false
					}
				}
				return found[topic.ForController(unitName)]
			}); err != nil {
				t.Error(err)
			}
			for _, m := range late.Heard() {
				if strings.Contains(m.Payload, "poison ") {
					t.Errorf("%q is retained on %q", m.Payload, m.Topic)
				}
			}
		}
		u.Joined("late")
		u.startAgent("late")
		bystanders := append([]string{"late"}, bystanders...)
		v := u.submit(t)
		u.installed(t, v)
		for _, name := range bystanders {
			if !eventually(func() bool { n := u.View(name); return n.Online && n.InSync }) {
				t.Errorf("%s: %+v", name, u.View(name))
			}
		}
		if err := u.App.Audit(t.Context()); err != nil {
			t.Error(err)
		}
		if v, err := u.App.Unit().Verify(t.Context()); err != nil || !v.OK {
			t.Errorf("the journal: %s %v", v.Report, err)
		}
		for _, name := range []string{"n1", "n2", "n3", "late"} {
			for _, e := range u.Entries("trouble") {
				if e.Node == name && strings.Contains(string(e.Data), "takeover") {
					t.Errorf("%s: %s", name, e.Data)
				}
			}
		}
	})
}
