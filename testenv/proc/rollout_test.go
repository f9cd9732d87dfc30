package proc

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	controller "tandem.internal/controller/app"
)

// inFlightAtMost is how many nodes plans here may make unavailable.
const inFlightAtMost = 2

var fourNodes = []string{"n1", "n2", "n3", "n4"}

// rolling is a unit of four nodes that run 1.0.0, and the rollout of 2.0.0.
type rolling struct {
	*Unit
	id string
}

// newRolling begins the rollout. Each node runs a script as on-apply command, after it has noted the node, the mode and
// the version in the file marks.
func newRolling(t *testing.T, plan, script string) *rolling {
	t.Helper()
	u := &rolling{Unit: NewUnit(t)}
	u.start()
	note := "#!/bin/sh\ncd " + u.Dir + " && echo $1 $TANDEM_MODE $TANDEM_VERSION >>marks || exit\n"
	u.write("on-apply", note+script, 0o700)
	for _, name := range fourNodes {
		u.startNode(name)
	}
	for _, name := range fourNodes {
		u.AwaitOnline(name, true)
	}
	u.accept("1.0.0", 1)
	u.AwaitVersion("1.0.0", fourNodes...)
	u.write("unit.json", string(Document("2.0.0", 2)), 0o600)
	u.write("plan.json", plan, 0o600)
	o := u.Tandem("config", "apply", "unit.json", "--rollout", "plan.json", "--json")
	var res controller.Result
	if err := json.Unmarshal([]byte(o.Out), &res); o.Status != 0 || err != nil || res.Rollout == "" {
		t.Fatalf("apply: %+v, %v", o, err)
	}
	u.id = res.Rollout
	return u
}

func (u *rolling) start() { u.StartController("--report-jitter", "100ms") }

func (u *rolling) startNode(name string) {
	u.StartNode(name, "main", "--on-apply", filepath.Join(u.Dir, "on-apply")+" "+name)
}

func (u *rolling) write(name, text string, mode os.FileMode) {
	u.t.Helper()
	if err := os.WriteFile(filepath.Join(u.Dir, name), []byte(text), mode); err != nil {
		u.t.Fatal(err)
	}
}

// await waits until the rollout is as it should be, and returns it.
func (u *rolling) await(what string, is func(*controller.RolloutDetail) bool) (r controller.RolloutDetail) {
	u.t.Helper()
	Until(u.t, "the rollout is "+what, func() string {
		var err error
		if r, err = Get[controller.RolloutDetail](u.Unit, "/v1/rollouts/"+u.id); err != nil {
			return err.Error()
		}
		if !is(&r) {
			return r.Why
		}
		return ""
	})
	return r
}

// shows checks what tandem rollout show says.
func (u *rolling) shows(texts ...string) {
	u.t.Helper()
	o := u.Tandem("rollout", "show", u.id)
	for _, text := range texts {
		has(u.t, o, 0, text, "")
	}
}

// applied lists the nodes that were to put a version in place, in this order.
func (u *rolling) applied(version string) (nodes []string) {
	u.t.Helper()
	data, err := os.ReadFile(filepath.Join(u.Dir, "marks"))
	if err != nil {
		u.t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if name, ok := strings.CutSuffix(line, " apply "+version+"\n"); ok {
			nodes = append(nodes, name)
		}
	}
	return nodes
}

// told is what the journal says of a rollout.
type told struct {
	waves    [][]string // members
	starts   []int      // of the controller: in which wave, -1 before the first
	issued   []string
	passed   []string
	back     []string
	restored []string
	did      []string // paused, start, reverting, ended: in this order
}

// read follows the journal from entry to entry. No node is issued to before its wave, nor twice, nor more at a time
// than the wave has or may be unavailable; no wave follows while one is in flight; each document that is sent was
// decided before, and is sent once.
func (u *rolling) read() (h told) {
	u.t.Helper()
	o := u.Tandem("events", "--json", "--limit", "100000", "--type", "opened", "--type", "rollout", "--type", "issued")
	if o.Status != 0 {
		u.t.Fatalf("events: %+v", o)
	}
	var flying []string
	sent := map[string]int{} // documents by node
	for d := jsontext.NewDecoder(strings.NewReader(o.Out)); d.PeekKind() == '{'; {
		var e controller.Entry
		if err := json.UnmarshalDecode(d, &e); err != nil {
			u.t.Fatal(err)
		}
		switch e.Type {
		case "opened":
			h.starts, h.did = append(h.starts, len(h.waves)-1), append(h.did, "start")
		case "issued":
			u.send(&h, e.Seq, decoded[controller.IssuedData](u.t, &e), sent)
		case "rollout":
			flying = u.follow(&h, e.Seq, decoded[controller.RolloutData](u.t, &e), flying)
		}
	}
	return h
}

// send takes an entry about documents that are sent, and counts those of the rollout by node.
func (u *rolling) send(h *told, seq uint64, data controller.IssuedData, sent map[string]int) {
	u.t.Helper()
	if !strings.HasSuffix(data.Reason, "rollout "+u.id) {
		return
	}
	for _, doc := range data.Docs {
		for _, name := range doc.Nodes {
			decided := 0
			for _, o := range slices.Concat(h.issued, h.back) {
				if o == name {
					decided++
				}
			}
			if sent[name]++; sent[name] > decided {
				u.t.Errorf("entry %d sends %s document %d, of %d that were decided", seq, name, sent[name], decided)
			}
		}
	}
}

// follow takes an entry about the rollout, and returns who is in flight after that.
func (u *rolling) follow(h *told, seq uint64, data controller.RolloutData, flying []string) []string {
	u.t.Helper()
	switch {
	case data.WaveOpened != nil:
		if len(flying) > 0 || data.WaveOpened.Wave != len(h.waves) {
			u.t.Errorf("entry %d opens wave %d after %v with %v in flight", seq, data.WaveOpened.Wave, h.waves, flying)
		}
		h.waves = append(h.waves, data.WaveOpened.Nodes)
	case data.Issued != nil && len(h.waves) == 0:
		u.t.Fatalf("entry %d issues before the first wave: %+v", seq, data.Issued)
	case data.Issued != nil:
		wave := h.waves[len(h.waves)-1]
		for _, n := range data.Issued.Nodes {
			if !slices.Contains(wave, n.Node) || slices.Contains(h.issued, n.Node) {
				u.t.Errorf("entry %d issues to %s in the wave %v after %v", seq, n.Node, wave, h.issued)
			}
			h.issued, flying = append(h.issued, n.Node), append(flying, n.Node)
		}
		if len(flying) > min(len(wave), inFlightAtMost) {
			u.t.Errorf("entry %d: %v are in flight in the wave %v", seq, flying, wave)
		}
	case data.TakenBack != nil:
		for _, n := range data.TakenBack.Nodes {
			h.back = append(h.back, n.Node)
		}
	case data.Settled != nil:
		for _, n := range data.Settled.Nodes {
			flying = slices.DeleteFunc(flying, func(o string) bool { return o == n.Node })
			switch n.Status {
			case "passed":
				h.passed = append(h.passed, n.Node)
			case "restored":
				h.restored = append(h.restored, n.Node)
			}
		}
	case data.Paused != nil:
		h.did = append(h.did, "paused")
	case data.Reverting != nil:
		h.did = append(h.did, "reverting")
	case data.Ended != nil:
		h.did = append(h.did, string(data.Ended.Phase))
	}
	return flying
}

func decoded[T any](t testing.TB, e *controller.Entry) (v T) {
	t.Helper()
	if err := json.Unmarshal(e.Data, &v); err != nil {
		t.Fatalf("entry %d: %v", e.Seq, err)
	}
	return v
}

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }

// The controller is killed while the canary soaks, and in the second wave. The rollout goes on where it was, and each
// node is brought the document once.
func TestKilledInARollout(t *testing.T) {
	t.Parallel()
	u := newRolling(t, `{"waves": [{"count": 1, "canary": true}, {"percent": 50}, {"percent": 100}],
		"gate": {"soak": "PT5S"}, "maxUnavailable": {"count": 2}}`, "")
	u.await("at its canary, which soaks", func(r *controller.RolloutDetail) bool {
		return r.Wave == 1 && r.Nodes.Soaking == 1
	})
	u.Controller.Kill()
	u.start()
	u.await("in its second wave", func(r *controller.RolloutDetail) bool { return r.Wave == 2 })
	u.Controller.Kill()
	u.start()
	u.await("done", func(r *controller.RolloutDetail) bool { return r.Phase == "done" })
	u.shows("done", "4/4")
	u.AwaitVersion("2.0.0", fourNodes...)

	h := u.read()
	if !slices.Equal(h.starts, []int{-1, 0, 1}) {
		t.Errorf("the controller was started in the waves %v: the moments were missed, or are forgotten", h.starts)
	}
	if len(h.waves) != 3 || len(h.waves[0]) != 1 || len(h.waves[1]) != 1 || len(h.waves[2]) != 2 ||
		!slices.Equal(sorted(slices.Concat(h.waves...)), fourNodes) || !slices.Equal(sorted(h.passed), fourNodes) {
		t.Errorf("%+v", h)
	}
	if got := u.applied("2.0.0"); !slices.Equal(sorted(got), fourNodes) || !slices.Equal(got[:2], h.issued[:2]) {
		t.Errorf("the nodes put it in place in this order: %v; issued in this: %v", got, h.issued)
	}
	has(t, u.Tandem("journal", "verify"), 0, "", "")
}

// Of two canaries one fails at the document, when the other has it: the others keep what they have. The controller is
// killed while one canary is being taken back, and the other, which is away, is still to be. Both come back to their
// last good document.
func TestKilledInATakeBack(t *testing.T) {
	t.Parallel()
	u := newRolling(t, `{"waves": [{"count": 2, "canary": true}, {"percent": 100}],
		"gate": {"soak": "PT1H"}, "deadline": "PT2H", "maxUnavailable": {"count": 2}}`, `
case "$TANDEM_MODE $TANDEM_VERSION" in
"apply 2.0.0") mkfifo both; if mkdir first; then read line <both; exit 1; fi; echo >both ;;
"apply 1.0.0") if [ -p held ]; then read line <held; fi ;;
esac
exit 0
`)
	r := u.await("paused", func(r *controller.RolloutDetail) bool {
		return r.Phase == "paused" && r.Nodes.Failed == 1 && r.Nodes.Soaking == 1
	})
	u.shows("paused", "0/4")
	away := ""
	for _, n := range r.List {
		if n.Status == "soaking" {
			away = n.Node
		}
	}
	u.CheckFile(away, "2.0.0")
	held := filepath.Join(u.Dir, "held")
	if err := syscall.Mkfifo(held, 0o600); err != nil {
		t.Fatal(err)
	}
	u.Nodes[away].Kill()
	u.AwaitOnline(away, false)
	has(t, u.Tandem("rollout", "abort", "--take-back"), 0, "", "")
	hold := u.opened(held)
	u.Controller.Kill()
	u.start()
	u.await("taking back", func(r *controller.RolloutDetail) bool { return r.Phase == "reverting" })
	if err := errors.Join(os.Remove(held), hold.Close()); err != nil {
		t.Fatal(err)
	}
	u.startNode(away)
	u.await("aborted", func(r *controller.RolloutDetail) bool { return r.Phase == "aborted" })
	u.shows("aborted", "restored")
	u.AwaitVersion("1.0.0", fourNodes...)

	h := u.read()
	if !slices.Equal(h.did, []string{"start", "paused", "reverting", "start", "aborted"}) {
		t.Errorf("it went like this: %v", h.did)
	}
	canaries := sorted(h.waves[0])
	if len(h.waves) != 1 || !slices.Equal(sorted(h.issued), canaries) || len(h.passed) > 0 ||
		!slices.Equal(sorted(h.back), canaries) || !slices.Equal(sorted(h.restored), canaries) || h.back[1] != away {
		t.Errorf("%s was away: %+v", away, h)
	}
	if got := sorted(u.applied("2.0.0")); !slices.Equal(got, canaries) {
		t.Errorf("%v were to put it in place, not %v", got, canaries)
	}
	if got := u.applied("1.0.0"); !slices.Equal(sorted(got[:4]), fourNodes) || !slices.Equal(got[4:], h.back) {
		t.Errorf("%v were to put the old one in place; taken back were %v", got, h.back)
	}
	has(t, u.Tandem("journal", "verify"), 0, "", "")
}

// opened opens a pipe for writing once somebody reads it.
func (u *rolling) opened(path string) (pipe *os.File) {
	u.t.Helper()
	Until(u.t, "the on-apply command waits", func() string {
		var err error
		if pipe, err = os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err != nil {
			return err.Error()
		}
		return ""
	})
	u.t.Cleanup(func() { _ = pipe.Close() }) // closed before, if all went well
	return pipe
}
