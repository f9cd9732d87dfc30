package distribute_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// A unit's set reaches the nodes that have a slot in it: those that are there, those that come back, and
// those that come for the first time. Who is no longer named is told to stop; who never was hears nothing.
func TestWorkloadsReachTheirNodes(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		one, two, three := u.worker("n1"), u.worker("n2"), u.worker("n3")
		two.stop()
		r := u.workloads(view.Submission{Document: setOf("web@n1:a", "map@n1:m", "web@n2:a", "web@n4:a")})
		if r.State != "accepted" || r.Version != "1.0.0" || r.Issued != 2 || r.Placed.Slots != 4 ||
			strings.Join(r.Placed.Unknown, " ") != "n4" ||
			r.Checks.Asked != 1 || strings.Join(r.Checks.Unchecked, " ") != "n2" {
			t.Fatalf("%+v %+v", r, r.Placed)
		}
		if got := one.gets() + three.gets(); got != "1.0.0[map:m web:a]" {
			t.Errorf("n1 and n3 got %s", got)
		}
		if got, want := u.told(),
			"1.0.0 2/4: map@n1 running, web@n1 running, web@n2 waiting (the node is offline), "+
				"web@n4 waiting (the node was never heard of)"; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		two.start()
		four := u.worker("n4")
		if got := two.gets() + four.gets(); got != "1.0.0[web:a]1.0.0[web:a]" {
			t.Errorf("n2 and n4 got %s", got)
		}
		u.audit()

		// The controller starts again, on a broker that kept everything, and on one that lost it.
		u.restart()
		if got := one.gets() + two.gets() + four.gets(); got != "" {
			t.Errorf("after a restart the nodes got %s", got)
		}
		u.stop()
		u.hub.Wipe()
		u.start()
		time.Sleep(time.Minute)
		if payload, ok := u.hub.Retained(one.topics.Desired(wire.KindWorkloads)); !ok ||
			!bytes.Contains(payload, []byte(`"map@n1"`)) {
			t.Errorf("an empty broker was not filled: %s", payload)
		}
		if got := one.gets() + two.gets() + four.gets(); got != "" {
			t.Errorf("after the broker was wiped the nodes got %s", got)
		}

		// Another set: n1 has another map, n2 the same, n4 nothing any more.
		r = u.workloads(view.Submission{Document: setOf("map@n1:m2", "web@n2:a")})
		if r.State != "accepted" || r.Version != "1.0.1" || strings.Join(r.Placed.Stops, " ") != "web@n1 web@n4" {
			t.Fatalf("%+v %+v", r, r.Placed)
		}
		for n, want := range map[*seedNode]string{one: "1.0.1[map:m2]", two: "", three: "", four: "1.0.1[]"} {
			if got := n.gets(); got != want {
				t.Errorf("%s got %q, want %q", n.name, got, want)
			}
		}
		if got, want := u.told(), "1.0.1 2/2: map@n1 running, web@n2 running"; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		if n, err := u.core.Node(t.Context(), op.NodeIn{
			Node: "n1",
		}); err != nil || len(n.Slots) != 1 || n.Slots[0].Slot != "map@n1" || !n.InSync {
			t.Errorf("%+v %v", n, err)
		}
		u.restart()
		if got, want := u.told(), "1.0.1 2/2: map@n1 running, web@n2 running"; got != want {
			t.Errorf("after a restart: %s\nwant %s", got, want)
		}
		u.audit()
	})
}

// What nodes have against a set refuses it; one that is too old for workloads is told of as that.
func TestWorkloadsAreCheckedByTheNodes(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		one := u.worker("n1")
		old := u.node("n2", "mainType")
		r := u.workloads(view.Submission{Document: setOf(`web@n1:a,"properties":{"refuse":"1"}`)})
		if r.State != "refused" || r.Error.Node != "n1" || !strings.Contains(r.Error.Message, "cannot be enforced") {
			t.Errorf("%+v", r)
		}
		r = u.workloads(view.Submission{Document: setOf("web@n1:a", "web@n2:a")})
		if r.State != "refused" || r.Error.Code != wire.CodeNotSupported || r.Error.Node != "n2" ||
			!strings.Contains(r.Error.Message, "does not run workloads; update it") {
			t.Errorf("%+v", r)
		}
		if r := u.workloads(view.Submission{Document: setOf("web@n1:a"), DryRun: true}); r.State != "acceptable" ||
			r.Checks.Agreed != 1 {
			t.Errorf("%+v", r)
		}
		if got := one.gets(); got != "" || u.entries("accepted") != 0 {
			t.Errorf("refused, and n1 got %s", got)
		}
		if r := u.workloads(view.Submission{Document: setOf("web@n1:a", "web@n2:a"),
			Offline: true}); r.State != "accepted" {
			t.Errorf("%+v", r)
		}
		if got, want := u.told(),
			"1.0.0 1/2: web@n1 running, web@n2 waiting (the node did not take the document: not-supported: "+
				"this agent does not know documents of this kind)"; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		s, err := u.core.Status(t.Context())
		if err != nil || !strings.Contains(strings.Join(s.Trouble, "; "), "1 node did not take the newest workloads") {
			t.Errorf("%v %v", s.Trouble, err)
		}
		old.work = &seedWork{} // it is updated
		old.reboot()
		if got := old.gets(); got != "1.0.0[web:a]" {
			t.Errorf("after its update n2 got %s", got)
		}
		u.audit()
	})
}

// The set is in the journal as it was given, or as the strict document of what was read leniently: it can be shown and
// filled.
func TestWorkloadsInTheJournal(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		if _, err := u.core.Document(t.Context(), wire.KindWorkloads, ""); wire.AsError(err).Code != wire.CodeNotFound {
			t.Errorf("%v", err)
		}
		sloppy := []byte(`[{"@class":"Instance" "slot":"web@n1", "resources":{"iss_hook_start":` +
			`{"@class":"Resource","uuid":"u","urls":["http://127.0.0.1/x"],"verification":{},}}}]`)
		if r := u.workloads(view.Submission{Document: sloppy}); r.State != "refused" || r.Problems == nil ||
			r.Problems[0].Line != 1 {
			t.Errorf("%+v", r)
		}
		r := u.workloads(view.Submission{Document: sloppy, Lenient: true})
		if r.State != "accepted" || len(r.Warnings) != 3 {
			t.Fatalf("%+v", r)
		}
		if r := u.workloads(view.Submission{Document: setOf("web@n1:b"),
			Version: "2.0.0-rc.1"}); r.State != "accepted" || r.Version != "2.0.0-rc.1" {
			t.Fatalf("%+v", r)
		}
		if r := u.workloads(view.Submission{Document: setOf("web@n1:c"), Version: "1.9.0"}); r.State != "refused" ||
			r.Error.Code != wire.CodeWrongState {
			t.Fatalf("%+v", r)
		}
		if r := u.workloads(view.Submission{Document: []byte("[]")}); r.State != "accepted" || r.Version != "2.0.0" {
			t.Fatalf("%+v", r)
		}
		for range 2 {
			doc, err := u.core.Document(t.Context(), wire.KindWorkloads, "1.0.0")
			if want := strictly(t, sloppy); err != nil || !bytes.Equal(doc, want) {
				t.Errorf("%v %s\nwant %s", err, doc, want)
			}
			doc, err = u.core.Filled(t.Context(), op.FilledIn{VersionIn: op.VersionIn{Version: "1.0.0"}})
			if set, ps := workload.Parse(doc); err != nil || ps != nil || len(set.Configs) != 1 ||
				set.Configs[0].Slot.String() != "web@n1" {
				t.Errorf("%v %v %s", err, ps, doc)
			}
			_, err = u.core.Document(t.Context(), wire.KindWorkloads, "1.9.0")
			if wire.AsError(err).Code != wire.CodeNotFound {
				t.Errorf("a refused version is shown: %v", err)
			}
			history, err := u.core.History(t.Context(), wire.KindWorkloads)
			var all []string
			for _, v := range history.Versions {
				all = append(all, v.Version+" "+v.State)
				if v.Lenient {
					t.Errorf("%s is to be read leniently again", v.Version)
				}
			}
			if got, want := strings.Join(all, ", "),
				" refused, 1.0.0 accepted, 2.0.0-rc.1 accepted, 1.9.0 refused, 2.0.0 accepted"; err != nil ||
				got != want {
				t.Errorf("%s (%v), want %s", got, err, want)
			}
			if configs, err := u.core.History(t.Context(), wire.KindConfig); err != nil || len(configs.Versions) != 0 {
				t.Errorf("the unit configuration has a history: %+v %v", configs, err)
			}
			u.audit()
			u.restart()
		}
	})
}

// The cloud side submits on inbox/workloads, and is answered once.
func TestWorkloadsFromTheCloud(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		one := u.worker("n1")
		submit := func(what, id string, doc []byte) *wire.Answer {
			t.Helper()
			if err := u.hub.Publish(topic.ForInbox(seedName, what),
				wire.Encode(&wire.Submission{V: wire.Version, ID: id, From: "fleet", Document: doc}),
				false); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			payload, _ := u.hub.Retained(topic.ForOutbox(seedName, what))
			a, err := wire.Decode[wire.Answer](payload)
			if err != nil {
				t.Fatalf("%v in %s", err, payload)
			}
			return a
		}
		if a := submit("workloads", "s-1", setOf("web@n1:a")); a.ID != "s-1" || a.State != "accepted" ||
			a.Version != "1.0.0" {
			t.Errorf("%+v", a)
		}
		if got := one.gets(); got != "1.0.0[web:a]" {
			t.Errorf("n1 got %s", got)
		}
		if a := submit("config", "s-1", []byte(seedDoc("1.0.0"))); a.State != "accepted" ||
			u.status().Version != "1.0.0" {
			t.Errorf("the same ID for another kind: %+v", a)
		}
		u.restart()
		if a := submit("workloads", "s-1", setOf("web@n1:a")); a.State != "accepted" || a.Version != "1.0.0" ||
			one.gets() != "" {
			t.Errorf("delivered again: %+v", a)
		}
		if a := submit("workloads", "s-1", setOf("web@n1:b")); a.State != "accepted" || a.Version != "1.0.1" ||
			one.gets() != "1.0.1[web:b]" {
			t.Errorf("another set under the same ID: %+v", a)
		}
		if a := submit("workloads", "s-2", []byte(`{}`)); a.State != "refused" || a.Error.Code != wire.CodeBadValue {
			t.Errorf("%+v", a)
		}
		if a := submit("health", "s-3", []byte(`[]`)); a.State != "refused" || a.Error.Code != wire.CodeNotSupported {
			t.Errorf("%+v", a)
		}
	})
}

// Logs come through the controller, piece by piece; that somebody reads them is journaled. A restart is
// an order that waits for its answer.
func TestSlotLogsAndRestart(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		one := u.worker("n1")
		u.node("n2", "mainType")
		read := func(node string, p wire.LogsParams) (string, error) {
			l, err := u.core.SlotLogs(as(t.Context(), "ann"), op.LogsIn{
				SlotIn: op.SlotIn{Node: node, Service: p.Service}, Cursor: p.Cursor, Tail: p.Tail, Hook: p.Hook,
			})
			return string(l.Data) + "|" + l.Cursor, err
		}
		if got, err := read("n1", wire.LogsParams{Service: "web", Tail: 10}); got != "listening\n|1:18" || err != nil {
			t.Errorf("%q %v", got, err)
		}
		if got, err := read("n1", wire.LogsParams{Service: "web", Cursor: "1:18"}); got != "|1:18" || err != nil {
			t.Errorf("%q %v", got, err)
		}
		if got, err := read("n1", wire.LogsParams{Service: "web", Hook: workload.HookStatus}); err != nil ||
			got != "well\n|1:18" {
			t.Errorf("of a hook: %q %v", got, err)
		}
		if got, err := read("n1", wire.LogsParams{Service: "web", Hook: workload.HookInstall}); got != "|" ||
			wire.AsError(err).Code != wire.CodeNotSupported {
			t.Errorf("of a hook, from an agent that shows another one's: %q %v", got, err)
		}
		if n := u.entries("note"); n != 1 {
			t.Errorf("%d notes", n)
		}
		for node, code := range map[string]wire.Code{"n2": wire.CodeNotSupported, "n9": wire.CodeNotFound} {
			if _, err := read(node, wire.LogsParams{Service: "web"}); wire.AsError(err).Code != code {
				t.Errorf("%s: %v", node, err)
			}
		}
		if _, err := read("n1", wire.LogsParams{Service: "a/b"}); err == nil {
			t.Error("a service that cannot be")
		}
		if o, err := u.core.RestartSlot(as(t.Context(), "ann"), op.SlotIn{
			Node: "n1", Service: "web",
		}); err != nil || o.Method != wire.MethodRestart || strings.Join(one.work.asked, " ") != "web" {
			t.Errorf("%+v %v", o, err)
		}
		if _, err := u.core.RestartSlot(as(t.Context(), "ann"), op.SlotIn{
			Node: "n1", Service: "map",
		}); wire.AsError(err).Code != wire.CodeNotFound || wire.AsError(err).Node != "n1" {
			t.Errorf("%v", err)
		}
		if requests, replies := u.entries("request"), u.entries("reply"); requests != 2 || replies != 2 {
			t.Errorf("%d requests and %d replies are journaled", requests, replies)
		}
		one.mute = true
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := u.core.SlotLogs(as(ctx, "ann"), op.LogsIn{
			SlotIn: op.SlotIn{Node: "n1", Service: "web"},
		}); err == nil {
			t.Error("nobody answered")
		}
		if _, err := read("n1", wire.LogsParams{Service: "web"}); wire.AsError(err).Code != wire.CodeNoAnswer {
			t.Errorf("%v", err)
		}
		u.audit()
	})
}
