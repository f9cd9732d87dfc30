package follow_test

import (
	"fmt"
	"strings"
	"testing"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/controller/internal/follow"
	"tandem.internal/controller/internal/steer"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// TestRefusedIsWhatIsNotThere: of what was decided with a document that was refused, what runs already is no failure,
// wherever it runs; a component of several nodes is one.
func TestRefusedIsWhatIsNotThere(t *testing.T) {
	placed := func(of items.Type, name, version string, index int) desired.Placed {
		return desired.Placed{Type: of, Codename: name, Version: version, Subject: "hall", Index: index}
	}
	base := placed(items.Component, "base", "7.0.0", 0)
	p := &desired.Plan{Nodes: []desired.NodePlan{
		{Node: "n1", Instances: []desired.Placed{base, placed(items.Service, "web", "1.0.0", 0)}},
		{Node: "n2", Instances: []desired.Placed{base, placed(items.Service, "web", "1.0.0", 1),
			placed(items.Service, "api", "2.0.0", 0)}}}}
	now := &items.Current{Instances: []items.Instance{
		{Type: items.Service, Codename: "web", Version: "1.0.0", Subject: "hall", Node: "n2"},
		{Type: items.Service, Codename: "api", Version: "1.0.0", Subject: "hall", Node: "n2"}}}
	why := wire.New(wire.CodeNotAllowed, "", "not today")
	for of, want := range map[items.Type]string{
		items.Service:   "service web 1.0.0 hall 1 not today, service api 2.0.0 hall 0 not today",
		items.Component: "component base 7.0.0 hall 0 not today"} {
		var got []string
		for _, f := range follow.Refused(p, of, now, why) {
			got = append(got, fmt.Sprint(f.Ref, " ", f.Version, " ", f.Subject, " ", f.Index, " ", f.Error.Message))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
}

// TestNoMovesWhereTheCloudSideSteers: moves that were decided before are none of it.
func TestNoMovesWhereTheCloudSideSteers(t *testing.T) {
	u := &steer.Unit{Input: desired.Input{Moves: []desired.ReliefMove{{Codename: "web"}}}}
	if follow.Input(u, wish()); len(u.Moves) > 0 {
		t.Errorf("%+v", u.Moves)
	}
}
