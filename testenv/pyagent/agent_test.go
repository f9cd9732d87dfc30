package pyagent

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// An agent in another language takes part in a unit, at every broker.
func TestAgentInPython(t *testing.T) {
	for _, kind := range []string{"embedded", "mosquitto", "NATS"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			u := newUnit(t, kind)
			u.runs(u.apply())
			u.proves()
			u.verdicts()
			u.catchesUp()
			u.brokerIsWiped()
			u.trials()
			u.keysAreRotated()
			if u.broker != nil { // the embedded one lets nobody say anything to a node but the controller
				u.hearsGarbage()
			}
			u.agent.Stop()
			u.Online(node, false)
			if err := u.App.Audit(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// proves: the controller has seen a proof, and believes nothing else from now on.
func (u *unit) proves() {
	u.t.Helper()
	if n := len(u.Entries("proves")); n != 1 {
		u.t.Errorf("%d entries say that the node proves its messages, not 1", n)
	}
}

// verdicts: the node judges a document before it is issued.
func (u *unit) verdicts() {
	u.t.Helper()
	_, res := u.submit(limit+1, nil)
	if res.State != "refused" || len(res.Checks.Refused) != 1 ||
		res.Checks.Refused[0].Errors[0].Code != wire.CodeBadValue ||
		res.Checks.Refused[0].Errors[0].Path != "/priority" {
		u.t.Errorf("a document that the node must not take: %+v", res)
	}
	_, res = u.submit(1, func(s *controller.Submission) { s.DryRun = true })
	if res.State != "acceptable" || res.Checks.Agreed != 1 {
		u.t.Errorf("a document that the node would take: %+v", res)
	}
}

// catchesUp: what was applied while the node was away is there when it is back; and what it had stays its own.
func (u *unit) catchesUp() {
	u.t.Helper()
	u.agent.Stop()
	u.Online(node, false)
	u.apply()
	v := u.apply()
	u.start()
	u.runs(v)
	u.agent.Kill()
	u.Online(node, false) // by its last will
	v = u.apply()
	u.start()
	u.runs(v)
}

// brokerIsWiped: the broker forgets everything; the embedded one does whenever the controller starts.
func (u *unit) brokerIsWiped() {
	u.t.Helper()
	if u.broker != nil {
		u.broker.Wipe(u.t)
	} else {
		u.Stop()
		u.Start(u.change)
	}
	u.Online(node, true)
	u.runs(u.apply())
}

// trials: what is confirmed stays; what is not goes back, though the node was killed and the controller is away.
func (u *unit) trials() {
	u.t.Helper()
	try := func(within time.Duration) string {
		v, res := u.submit(7, func(s *controller.Submission) { s.Mode, s.ConfirmWithin = wire.ModeTry, within })
		if res.State != "accepted" {
			u.t.Fatalf("%+v", res)
		}
		u.Until("it tries "+v, func() string {
			if last := u.View(node).Documents[wire.KindConfig].Last; last == nil || last.Version != v ||
				last.State != wire.StateTrying {
				return fmt.Sprintf("%+v", last)
			}
			return ""
		})
		return v
	}
	kept := try(time.Minute)
	if _, err := u.App.Unit().Confirm(controller.As(u.t.Context(), "ann"), wire.KindConfig); err != nil {
		u.t.Fatal(err)
	}
	u.runs(kept)
	lost := try(3 * time.Second)
	u.agent.Kill()
	u.Stop()
	u.run()
	u.Until("it goes back", func() string {
		state, err := os.ReadFile(filepath.Join(u.dir(), "state.json"))
		for _, part := range []string{`"version":"` + lost + `"`, `"state":"rolledback"`, `"code":"unconfirmed"`} {
			if err != nil || !strings.Contains(string(state), part) {
				return fmt.Sprintf("state.json has no %s: %s %v", part, state, err)
			}
		}
		return u.fileHas(kept)
	})
	u.Start(u.change)
	u.runs(kept)
}

// keysAreRotated: the node follows the unit's signing keys; also through a rotation that it was away from.
func (u *unit) keysAreRotated() {
	u.t.Helper()
	unit, as := u.App.Unit(), controller.As(u.t.Context(), "ann")
	believes := func(want ...string) {
		u.t.Helper()
		u.Until("it believes the keys", func() string {
			if got := u.View(node).Info.Keys; !slices.Equal(got, want) {
				return fmt.Sprintf("%v, not %v", got, want)
			}
			return ""
		})
	}
	rotate := func(force bool) (kids []string) {
		u.t.Helper()
		k, err := unit.RotateKey(as, controller.RotateKey{Force: force})
		if err != nil {
			u.t.Fatal(err)
		}
		for _, key := range k.Keys {
			kids = append(kids, key.ID)
		}
		return kids
	}
	retire := func(kid string, force bool) {
		u.t.Helper()
		if _, err := unit.RetireKey(as, controller.RetireKey{ID: kid, Force: force}); err != nil {
			u.t.Fatal(err)
		}
	}
	keys := rotate(false)
	believes(keys...)
	rotate(false)
	retire(keys[0], false)
	believes(keys[1])
	u.runs(u.apply())
	u.agent.Stop()
	u.Online(node, false)
	keys = rotate(false)
	rotate(true)
	retire(keys[0], true)
	v := u.apply()
	u.start()
	believes(keys[1])
	u.runs(v)
}

// hearsGarbage: what nobody signed and nothing can read harms nothing, and is told.
func (u *unit) hearsGarbage() {
	u.t.Helper()
	hand := u.hand()
	body := []byte(`{"formatVersion":"7","version":"9.9.9"}`)
	deep := strings.Repeat("[", 100_000)
	for _, garbage := range []string{
		"", "{", "null", "[]", "\xff\xfe", `{"v":1}`, `{"v":2,"unit":"u1"}`, `{"v":1,"v":1}`, `{"a":` + deep, deep,
		`{"v":NaN}`, `{"v":1e99}`, `"` + strings.Repeat("x", 200_000) + `"`, `{"v":1,"unit":"\ud800"}`,
		`{"v":` + strings.Repeat("9", 5000) + `}`,
		`{"v":1,"unit":"u1","node":"ecu-1","kind":"config","epoch":1.5,"rev":1}`,
		fmt.Sprintf(`{"v":1,"unit":"u1","node":"ecu-1","kind":"config","epoch":%d,"rev":99,"version":"9.9.9",`+
			`"hash":%q,"issued":"2026-11-20T10:00:00Z","mode":"apply","body":%s}`, math.MaxInt64,
			wire.Hash(body), body),
		`{"v":1,"unit":"u1","node":"ecu-1","id":"q","method":"report","notAfter":"2099-01-01T00:00:00Z"}`,
		`{"v":1,"unit":"u1","epoch":99,"up":true,"time":"2099-01-01T00:00:00Z","keys":[{}],"jitter":""}`,
		`{"v":1,"unit":"u1","epoch":99,"up":true,"time":"2099-99-99T00:00:00Z","keys":[],"jitter":"P1Y"}`,
	} {
		for _, name := range []string{of().Desired(wire.KindConfig), of().Desired("other"), of().Request(),
			topic.ForController(unitName)} {
			if err := hand.Publish(name, garbage, false); err != nil {
				u.t.Fatal(err)
			}
		}
	}
	u.Until("the node says what it has refused", func() string {
		for _, e := range u.Entries("event") {
			if e.Kind == "refused-message" {
				return ""
			}
		}
		return "no event"
	})
	u.runs(u.apply())
	if !u.agent.Alive() {
		u.t.Error("the agent has ended")
	}
}
