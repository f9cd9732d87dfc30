package fleet

import (
	"bytes"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

const topologies = `[
 {"@class":"TopologicalInstance","slot":"web@n1","properties":{"kind":"web"}},
 {"@class":"TopologicalInstance","slot":"web@n2","properties":{"kind":"web"}},
 {"@class":"Instance","slot":"map@n1","resources":{"iss_hook_start":{"@class":"Resource","uuid":"bin","urls":["http://127.0.0.2/bin"],"size":0,"verification":{"checksum":"EMPTY:","checkPeriod":"0d0h0m"}}}},
 {"@class":"InstanceFiller","name":"web","instance":{"properties":{"kind":"web"},"resources":{"iss_hook_start":{"@class":"Resource","uuid":"bin","urls":["http://127.0.0.1/bin"],"size":0,"verification":{"checksum":"EMPTY:","checkPeriod":"0d0h0m"}}}}}
]`

// What a node gets is what it is to run: filled, named, with the addresses of all that are the same
// there, and always in the same bytes, in whatever order the set has its entries.
func TestPlace(t *testing.T) {
	set, problems := workload.Parse([]byte(topologies))
	if problems != nil {
		t.Fatal(problems)
	}
	p, errs := Place(set)
	if errs != nil {
		t.Fatal(errs)
	}
	if got := fmt.Sprint(p.names(), p.slots); got != "[n1 n2] 3" {
		t.Error(got)
	}
	for node, want := range map[string]string{
		"n1": "map@n1 [http://127.0.0.2/bin http://127.0.0.1/bin], web@n1 [http://127.0.0.2/bin http://127.0.0.1/bin]",
		"n2": "web@n2 [http://127.0.0.1/bin]",
	} {
		n := p.of(node)
		configs, errs := workload.ParseDocument(n.body, node)
		if errs != nil {
			t.Fatal(errs[0])
		}
		var got []string
		for i, c := range configs {
			got = append(got, fmt.Sprint(c.Slot, " ", c.Resources[workload.HookStart].URLs))
			if w := n.slots[i]; w.slot != c.Slot.String() || w.id != c.ConfigurationID || !strings.HasPrefix(w.id, "auto-") {
				t.Errorf("%+v, but %s gets %s", w, c.Slot, c.ConfigurationID)
			}
		}
		if strings.Join(got, ", ") != want || n.hash != wire.Hash(n.body) {
			t.Errorf("%s: %v", node, got)
		}
	}
	if p.of("n3") != nil || (*Placement)(nil).of("n1") != nil {
		t.Error("a node that is not named has something")
	}
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewSource(rapid.Int64().Draw(t, "order")))
		again := *set
		again.Configs, again.Topologies = slices.Clone(set.Configs), slices.Clone(set.Topologies)
		random.Shuffle(len(again.Topologies), func(i, j int) {
			again.Topologies[i], again.Topologies[j] = again.Topologies[j], again.Topologies[i]
		})
		q, errs := Place(&again)
		if errs != nil {
			t.Fatal(errs[0])
		}
		for _, node := range p.names() {
			if !bytes.Equal(q.of(node).body, p.of(node).body) {
				t.Fatalf("%s gets other bytes", node)
			}
		}
	})
}

// A set is refused whole: for what cannot be filled, for what no document could carry, and if it would
// stop everything by mistake.
func TestPlaceRefuses(t *testing.T) {
	// texts that do not shrink, of more than a document has
	random := rand.New(rand.NewSource(1))
	noise := make([]string, 40)
	for i := range noise {
		b := make([]byte, 3000)
		for k := range b {
			b[k] = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[random.Intn(62)]
		}
		noise[i] = fmt.Sprintf("%q:%q", fmt.Sprint("p", i), b)
	}
	large := `[{"@class":"Instance","slot":"web@n2","properties":{` + strings.Join(noise, ",") + `},"resources":{"iss_hook_start":{"@class":"Resource","uuid":"u","urls":["http://127.0.0.1/x"],"size":0,"verification":{"checksum":"EMPTY:","checkPeriod":"0d0h0m"}}}}]`
	for _, c := range []struct {
		name, text string
		code       wire.Code
		node       string
	}{
		{"only fillers", `[{"@class":"InstanceFiller","name":"f","instance":{"properties":{"a":"1"},"resources":{}}}]`, wire.CodeMissing, ""},
		{"nothing fits", `[{"@class":"TopologicalInstance","slot":"web@n1","properties":{"kind":"web"}}]`, wire.CodeNotFound, ""},
		{"too large", large, wire.CodeTooLarge, "n2"},
		{"a long ID", strings.Replace(topologies, `"slot":"map@n1"`, `"slot":"map@n1","configurationId":"`+strings.Repeat("x", 257)+`"`, 1), wire.CodeBadValue, ""},
	} {
		set, problems := workload.Parse([]byte(c.text))
		if problems != nil {
			t.Fatalf("%s: %v", c.name, problems)
		}
		if p, errs := Place(set); p != nil || len(errs) == 0 || errs[0].Code != c.code || errs[0].Node != c.node {
			t.Errorf("%s: %v %v", c.name, p, errs)
		}
	}
	if p, errs := Place(&workload.Set{}); errs != nil || p.slots != 0 {
		t.Errorf("an empty set, which stops everything on purpose: %v", errs)
	}
}

// A checkpoint from before there were workloads.
func TestOldCheckpointTakesWorkloads(t *testing.T) {
	const old = `{"seq":3,"config":{"state":"absent"},"docs":[],"nodes":[{"name":"n1","firstSeen":"2026-01-01T00:00:00Z","up":true,"since":"2026-01-01T00:00:00Z",` +
		`"boot":"b","session":1,"info":{"type":"mainType","os":"linux","arch":"arm64","cpus":2,"ram":1073741824,"agentVersion":"1.0.0"},"kinds":{"info":{"boot":"b","seq":1,"at":"2026-01-01T00:00:00Z"}}}]}`
	w := newWorld(t)
	f, err := Restored(w.opt, []byte(old))
	if err != nil {
		t.Fatal(err)
	}
	s := w.set("w1", "web@n1:a")
	s.Sub.Offline = true
	var out Out
	f.Step(origin, s, &out)
	a := answerOrNone(out.Effects)
	wantCode(t, "a set", a, "")
	if a.Result.Version != "1.0.0" || a.Result.Issued != 1 || f.Lookup("n1").Kinds[wire.KindWorkloads].Desired == nil {
		t.Errorf("%+v", a.Result)
	}
}

// Many slots and many unknown nodes do not make a verdict grow without bound, nor the list of what is
// missing.
func TestWorkloadsAreBounded(t *testing.T) {
	w := newWorld(t)
	var entries []string
	for i := range 500 {
		entries = append(entries, fmt.Sprintf("web@x%03d:a", i))
	}
	do := func(s Submit) view.Result {
		s.Sub.Offline = true
		_, effects := w.step(origin, s)
		return answerOrNone(effects).Result
	}
	if r := do(w.set("w1", entries...)); len(r.Placed.Unknown) != maxNamed || r.Placed.Omitted != 300 {
		t.Errorf("%d unknown, %d omitted", len(r.Placed.Unknown), r.Placed.Omitted)
	}
	if s := w.live.WorkloadStatus(); len(s.Slots.Missing) != maxSlotsMissing || s.Slots.Omitted != 400 || len(s.Unknown) != maxNamed {
		t.Errorf("%d missing, %d omitted, %d unknown", len(s.Slots.Missing), s.Slots.Omitted, len(s.Unknown))
	}
	if r := do(w.set("w2")); len(r.Placed.Stops) != maxNamed || r.Placed.Omitted != 300 || r.Version != "1.0.1" {
		t.Errorf("%d stop, %d omitted", len(r.Placed.Stops), r.Placed.Omitted)
	}
	w.step(origin, w.heard("n1", &wire.Live{V: wire.Version, Node: "n1", Boot: "b", Session: 1, Up: true}))
	query := func(who string) error {
		_, effects := w.step(origin, Query{Ticket: 9, Node: "n1", Method: wire.MethodLogs, Who: who, What: "read"})
		return answerOrNone(effects).Err
	}
	for i := range maxQueries {
		if err := query(fmt.Sprint("who", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := query("one more"); wire.AsError(err).Code != wire.CodeUnavailable {
		t.Errorf("%v", err)
	}
	w.step(origin.Add(queryLife), Tick{})
	if len(w.live.queries.open) != 0 {
		t.Errorf("%d questions are kept", len(w.live.queries.open))
	}
	for i := range maxNoted + 10 {
		w.step(origin.Add(time.Duration(i)*queryLife), Query{Node: "n1", Method: wire.MethodLogs, Who: fmt.Sprint("who", i), What: "read"})
		w.step(origin.Add(time.Duration(i+1)*queryLife), Tick{})
	}
	if len(w.live.queries.noted) > maxNoted {
		t.Errorf("%d people are remembered", len(w.live.queries.noted))
	}
	w.check()
}
