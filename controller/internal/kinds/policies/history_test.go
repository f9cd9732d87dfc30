package policies

import (
	"fmt"
	"strings"
	"testing"

	"tandem.internal/shared/wire"
)

// past is what the journal has of a policy; of version want the document is kept.
func (u *unit) past(name string, want uint64) *Past {
	p := &Past{Name: name, Want: want}
	for _, r := range u.journal {
		p.Add(r.at, r.data)
	}
	return p
}

// lists is the history of a policy in words.
func (u *unit) lists(name string) string {
	var all []string
	for _, v := range u.past(name, 0).Versions {
		text := fmt.Sprint(v.Rev, " ", v.State)
		if v.Back != 0 {
			text += fmt.Sprint(" ", v.Back)
		}
		if v.Enabled {
			text += " on"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// back makes a policy what it was.
func (u *unit) back(name string, to uint64, allNodes bool) *wire.Error {
	d, err := u.past(name, to).Back(allNodes)
	if err != nil {
		return err
	}
	return u.change(wire.KindPolicies, d)
}

// TestHistory: every change of a policy is a version; it is rolled back to any of them, to the one before, and to what
// was removed, through the same rules as any other change. A rollback of a rollback is the version before that.
func TestHistory(t *testing.T) {
	u := newUnit(t, "n1", "n2")
	u.must(u.line("n1", "4"))
	want := func(version string) {
		t.Helper()
		shown, err := Show(u, "p")
		u.must(err)
		if !strings.Contains(string(shown.Document), `"atLeastVersion":"`+version+`"`) {
			t.Errorf("%s, want version %s", shown.Document, version)
		}
	}
	doc := func(version string) string {
		return `{` + onPress + `,"agentUpgradePolicy":{"atLeastVersion":"` + version + `"}}`
	}
	u.refused(u.back("p", 0, false), wire.CodeNotFound, "no policy p")
	u.must(u.apply("p", doc("1.1.0"))) // 2
	u.must(u.apply("q", doc("9.0.0")))
	u.refused(u.back("p", 0, false), wire.CodeWrongState, "never said anything else")
	u.must(u.apply("p", doc("1.2.0"))) // 4
	u.must(u.apply("p", doc("1.2.0"))) // 5, the same
	u.must(u.back("p", 0, false))      // 6
	want("1.1.0")
	u.must(u.back("p", 0, false)) // 7
	want("1.2.0")
	u.refused(u.back("p", 4, false), wire.CodeWrongState, "says now what it said in version 4")
	u.refused(u.back("p", 3, false), wire.CodeNotFound, "has no version 3")
	u.must(u.change(wire.KindPolicies, Change{Name: "p", Enabled: new(false)})) // 8
	u.must(u.back("p", 2, false))                                               // 9
	want("1.1.0")
	u.is("n1", "q 9.0.0 from 09:03, p 1.1.0 from 09:09 by q conflict") // it had given up its place
	u.must(u.change(wire.KindPolicies, Change{Name: "p", Removed: true}))
	u.is("n1", "q 9.0.0 from 09:03")
	u.must(u.back("p", 0, false)) // 11
	want("1.1.0")
	if got, want := u.lists("p"), "2 applied on, 4 applied on, 5 applied on, 6 rolled-back 2 on, 7 rolled-back 5 on, "+
		"8 disabled, 9 rolled-back 2 on, 10 removed, 11 rolled-back 9 on"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	shown, err := u.past("p", 5).Shown(u)
	u.must(err)
	if text := string(shown.Document); !strings.Contains(text, "1.2.0") || shown.Rev != 5 || !shown.Enabled ||
		!strings.Contains(text, `"lastUpdated":"2026-11-24T09:05:00Z"`) || fmt.Sprint(shown.Nodes) != "[n1]" {
		t.Errorf("%s, %+v", text, shown)
	}
}

// TestRollbackIsWeighed: a rollback to what would hit every node has to be confirmed.
func TestRollbackIsWeighed(t *testing.T) {
	u := newUnit(t, "n1", "n2")
	u.must(u.change(wire.KindPolicies, Change{Name: "p", Document: []byte(`{"enabled":true}`), AllNodes: true}))
	u.must(u.apply("p", `{"enabled":true,"constraints":["tandem.node == n1"]}`))
	u.refused(u.back("p", 0, false), wire.CodeNotAllowed, "every node")
	u.must(u.back("p", 0, true))
	u.is("n2", "p")
}
