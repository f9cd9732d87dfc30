package workloads

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/publisher/publishertest"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// unit is one set and one node.
type unit struct {
	kind.Unit
	set  *Placement
	node kind.Node
}

func (u *unit) Each(_ wire.Kind, fn func(kind.Node)) { fn(u.node) }

func (u *unit) Node(_ wire.Kind, name string) (kind.Node, bool) { return u.node, name == u.node.Name }

func (u *unit) Content(wire.Kind) kind.Content { return u.set }

func (u *unit) Damage(wire.Kind) *wire.Error { return nil }

func (u *unit) Progress(wire.Kind) view.Progress { return view.Progress{} }

// placedSet parses and places a set.
func placedSet(t *testing.T, entries ...string) *Placement {
	t.Helper()
	set, problems := workload.Parse([]byte("[" + strings.Join(entries, ",") + "]"))
	if problems != nil {
		t.Fatal(problems)
	}
	p, errs := place(set, nil)
	if errs != nil {
		t.Fatal(errs)
	}
	return p
}

// Whether what a node ran when it was last heard still runs is not known while it is offline: it is away, since when
// it went. What had ended stays as it was reported.
func TestSlotsOfAnOfflineNode(t *testing.T) {
	var set []string
	var reported []wire.WorkloadSlot
	for i, s := range []wire.WorkloadState{wire.WorkloadRunning, wire.WorkloadRestarting, wire.WorkloadPreparing,
		wire.WorkloadCompleted, wire.WorkloadFailed} {
		slot := fmt.Sprintf("s%d@n1", i)
		set = append(set, `{"@class":"Instance","slot":"`+slot+`","configurationId":"c","resources":{"iss_hook_start":`+
			`{"@class":"Resource","uuid":"u","urls":["http://127.0.0.1/x"],"size":0,"verification":{}}}}`)
		r := wire.WorkloadSlot{Slot: slot, ID: "c", State: s}
		if s == wire.WorkloadFailed {
			r.Error = wire.New(wire.CodeHashMismatch, "", "other content")
		}
		reported = append(reported, r)
	}
	went := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	u := &unit{set: placedSet(t, set...),
		node: kind.Node{Name: "n1", Up: true, Since: went, Detail: &wire.Workloads{Slots: reported}}}
	show := func() string {
		var all []string
		for _, s := range Slots(u, "") {
			all = append(all, fmt.Sprintf("%s %v", s.State, s.Settled))
			away := s.State == view.SlotAway
			if away != s.Since.Equal(went) || away != strings.Contains(s.Why, "last heard") {
				t.Errorf("%s %s: since %v, %q", s.Slot, s.State, s.Since, s.Why)
			}
		}
		v := view.SourceStatus{}
		showStatus(u, &v)
		s := v.Slots
		return fmt.Sprintf("%s; running %d, completed %d, failed %d, away %d, online missing %d, missing %d; %s",
			strings.Join(all, ", "), s.Running, s.Completed, s.Failed, s.Away, s.OnlineMissing, len(s.Missing),
			strings.Join(trouble(u), ", "))
	}
	if got, want := show(), "running true, restarting false, preparing false, completed true, failed false; "+
		"running 1, completed 1, failed 1, away 0, online missing 2, missing 3; "+
		"1 slot failed, see: tandem workload list, 1 slot ended and will be started again"; got != want {
		t.Errorf("online:\n got %s\nwant %s", got, want)
	}
	u.node.Up = false
	if got, want := show(), "away false, away false, away false, completed true, failed false; "+
		"running 0, completed 1, failed 1, away 3, online missing 0, missing 4; "+
		"1 slot failed, see: tandem workload list"; got != want {
		t.Errorf("offline:\n got %s\nwant %s", got, want)
	}
}

// What is in force by a signature that has expired, or waits for a new one, is said by name, and so is a keeper that is
// away; it is not taken for a resource that cannot be fetched.
func TestSignaturesThatHaveExpired(t *testing.T) {
	var set []string
	var reported []wire.WorkloadSlot
	waits := []wire.WorkloadResource{{Name: "x", State: "failed"}}
	for i, r := range []wire.WorkloadSlot{{State: wire.WorkloadRunning},
		{State: wire.WorkloadPreparing, Doing: "fetch", Resources: waits},
		{State: wire.WorkloadRunning, Error: wire.New(wire.CodeUnavailable, "", "no keeper runs")}} {
		r.Slot, r.ID = fmt.Sprintf("s%d@n1", i), "c"
		if r.Error == nil {
			r.Error = wire.New(wire.CodeExpired, "", "nobody has renewed it")
		}
		if len(r.Resources) > 0 {
			r.Resources[0].Error = r.Error
		}
		reported = append(reported, r)
		set = append(set, `{"@class":"Instance","slot":"`+r.Slot+`","configurationId":"c","resources":`+
			`{"iss_hook_start":{"@class":"Resource","uuid":"u","urls":["http://127.0.0.1/x"],"size":0,`+
			`"verification":{}}}}`)
	}
	u := &unit{set: placedSet(t, set...), node: kind.Node{Name: "n1", Up: true,
		Detail: &wire.Workloads{Slots: reported}}}
	want := "of 1 slot its node does not know whether it runs, see: tandem workload list, " +
		"nobody has renewed publishers' signatures in 2 slots, see: tandem workload list"
	if got := strings.Join(trouble(u), ", "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, s := range Slots(u, "") {
		if s.Settled || !strings.Contains(s.Why, s.Report.Error.Error()) {
			t.Errorf("%+v", s)
		}
	}
}

// What an offline node cannot run by what it reported last is known before it is back; what nobody knows is not
// guessed.
func TestWhatAnOfflineNodeLacks(t *testing.T) {
	entry := func(slot, urls string) string {
		return `{"@class":"Instance","slot":"` + slot + `","resources":{"iss_hook_start":` +
			`{"@class":"Resource","uuid":"` + slot + `","urls":[` + urls + `],"size":0,"verification":{}}}}`
	}
	signed := func(slot string, by publishertest.Signer) string {
		text, err := json.Marshal(by.Sign(nil))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Replace(entry(slot, `"https://h/x"`), `"verification":{`, `"verification":{"checksum":"SHA256:`+
			strings.Repeat("0", 64)+`","minisign":`+string(text), 1)
	}
	const torrent = `"rbtorrent:00112233445566778899aabbccddeeff00112233"`
	bounded := func(slot, constraints string) string {
		return strings.TrimSuffix(entry(slot, `"https://h/x"`), "}") +
			`,"container":{"constraints":{` + constraints + `}}}`
	}
	p := placedSet(t, entry("a@n1", torrent), entry("b@n1", torrent+`,"https://h/x"`), entry("c@n2", torrent),
		bounded("d@n4", `"memory.max":"64M"`), bounded("e@n4", `"pids.max":"9","cpu.weight":"50"`),
		signed("i@n6", publishertest.New(1)), signed("j@n6", publishertest.New(2)), entry("k@n7", `"https://h/x"`),
		entry("f@n4", torrent), entry("g@n5", `"https://h/x"`), entry("h@n5", `"http://h/x"`))
	for _, c := range []struct {
		node       string
		attributes map[string]string
		want       string
	}{
		{"n1", nil, ""},
		{"n1", map[string]string{"site": "north", wire.AttributeBitTorrent: "yes"}, ""},
		{"n3", map[string]string{wire.AttributeWorkloads: wire.AttributeNone}, ""},
		{"n1", map[string]string{wire.AttributeWorkloads: wire.AttributeNone},
			"not-allowed : this node runs no workloads"},
		{"n1", map[string]string{wire.AttributeBitTorrent: wire.AttributeNone}, "not-supported " +
			`/resources/iss_hook_start/urls: slot a@n1: resource "iss_hook_start": this agent is built without `},
		{"n1", map[string]string{wire.AttributeLimits: "none"}, ""}, // nothing of it is limited
		{"n4", map[string]string{wire.AttributeLimits: "v2 cpu.weight memory.max pids.max"}, ""},
		{"n4", map[string]string{wire.AttributeLimits: "v3 of a newer agent"}, ""},
		{"n4", map[string]string{wire.AttributeLimits: "v2 cpu.weight memory.max"}, "not-supported " +
			"/container/constraints/pids.max: slot e@n4: this node cannot enforce pids.max: "},
		{"n4", map[string]string{wire.AttributeLimits: "v1 cpu.shares memory.limit_in_bytes"}, "not-supported " +
			"/container/constraints/pids.max: slot e@n4: "}, // the names of either version are understood
		{"n5", nil, ""},
		{"n5", map[string]string{wire.AttributeUnproved: wire.AttributeNone}, "not-allowed " +
			`/resources/iss_hook_start/verification: slot h@n5: resource "iss_hook_start": by plain HTTP it is `},
		{"n7", map[string]string{wire.AttributePublishers: ""}, ""},
		{"n7", map[string]string{wire.AttributePublishers: "what a newer agent says"}, ""},
		{"n7", map[string]string{wire.AttributePublishers: "0101010101010101"}, "unsigned " +
			`/resources/iss_hook_start/verification/minisign: slot k@n7: resource "iss_hook_start": it is not `},
		{"n6", nil, ""},
		{"n6", map[string]string{wire.AttributePublishers: "0202020202020202 0101010101010101"}, ""},
		{"n6", map[string]string{wire.AttributePublishers: "0202020202020202"}, "unknown-key " +
			`/resources/iss_hook_start/verification/minisign: slot i@n6: resource "iss_hook_start": it is sig`},
		{"n4", map[string]string{wire.AttributeLimits: "v2 cpu.weight pids.max", wire.AttributeWorkloads: "none"},
			"not-allowed : this node runs no workloads"},
	} {
		facts := kind.Facts{Node: c.node, Info: &wire.NodeInfo{Attributes: c.attributes}}
		errs := known(p, facts)
		got := ""
		for _, e := range errs {
			got += fmt.Sprintf("%s %s: %s", e.Code, e.Path, e.Message)
		}
		if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) || len(errs) > 1 {
			t.Errorf("%s %v: %s, want %s", c.node, c.attributes, got, c.want)
		}
	}
	all := map[string]string{wire.AttributeLimits: "none", wire.AttributeBitTorrent: wire.AttributeNone}
	for range 2 { // what is kept of the set is not changed by asking
		errs := known(p, kind.Facts{Node: "n4", Info: &wire.NodeInfo{Attributes: all}})
		if len(errs) != 4 || errs[0].Path != "/resources/iss_hook_start/urls" ||
			errs[1].Path != "/container/constraints/memory.max" || !strings.Contains(errs[1].Message, "--skip-nodes") {
			t.Errorf("%v", errs)
		}
	}
	if errs := known(p, kind.Facts{Node: "n1"}); errs != nil {
		t.Errorf("nothing is known of it: %v", errs)
	}
}
