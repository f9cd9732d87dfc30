package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/nodeagent/internal/update/disk"
	"tandem.internal/shared/clock"
	"tandem.internal/shared/wire"
)

// fakeOS is a component's program with its machine: the files active, trying, staged and running hold versions,
// "fails" the verb that fails, "reboots" is there if an activation takes a reboot.
const fakeOS = `#!/bin/sh
cd "$(dirname "$0")" || exit 1
get() { cat "$1" 2>/dev/null; }
put() { if [ -n "$2" ]; then echo "$2" >"$1"; else rm -f "$1"; fi; }
echo "$1 $TANDEM_VERSION" >>log
[ "$(get fails)" != "$1" ] || { echo "no sound" >&2; exit 1; }
case $1 in
install) cmp -s "$TANDEM_FILE" wanted || { echo "another file" >&2; exit 1; }; put staged "$TANDEM_VERSION" ;;
activate) [ "$(get staged)" != "$TANDEM_VERSION" ] || { put trying "$TANDEM_VERSION"; put staged ""; } ;;
commit) [ "$(get trying)" != "$TANDEM_VERSION" ] || { put active "$TANDEM_VERSION"; put trying ""; } ;;
rollback) put trying ""; put staged "" ;;
esac
want=$(get trying)
want=${want:-$(get active)}
reboot=false
if [ ! -e reboots ]; then put running "$want"; elif [ "$(get running)" != "$want" ]; then reboot=true; fi
printf '{"active":"%s","trying":"%s","staged":"%s",' "$(get active)" "$(get trying)" "$(get staged)"
printf '"running":"%s","reboot":%s}\n' "$(get running)" "$reboot"
`

// osRig is a patient with the component os in version 1.
type osRig struct {
	*patient
	os string // its directory
}

func osBubble(t *testing.T, f func(p osRig)) {
	t.Helper()
	healthBubble(t, func(p *patient) {
		o := osRig{p, p.TempDir()}
		o.put("program", fakeOS)
		if err := os.Chmod(filepath.Join(o.os, "program"), 0o755); err != nil {
			t.Fatal(err)
		}
		o.put("active", "1\n")
		o.put("running", "1\n")
		o.put("wanted", "the new one")
		p.cfg.TestTime = 90 * time.Second
		p.cfg.Components = map[string]string{"os": "/bin/sh " + filepath.Join(o.os, "program")}
		f(o)
	})
}

func (o osRig) put(name, text string) {
	o.Helper()
	if err := os.WriteFile(filepath.Join(o.os, name), []byte(text), 0o644); err != nil {
		o.Fatal(err)
	}
}

func (o osRig) has(name string) string {
	data, err := os.ReadFile(filepath.Join(o.os, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func (o osRig) parts() *disk.Store { return disk.OpenStore(o.dir, "os", nil) }

// hand does by hand what tandem-node slot does.
func (o osRig) hand(order update.Order) error {
	o.Helper()
	return o.parts().Update(time.Now(), byHand(order))
}

func (o osRig) stage(version string) {
	o.Helper()
	_, err := o.parts().Stage(o.Context(), filepath.Join(o.os, "wanted"), version, "", time.Now(),
		func(r update.Record, order update.Order) (update.Record, error) { return byHand(order)(r) })
	if err != nil {
		o.Fatal(err)
	}
	o.settle(6 * time.Second)
}

func (o osRig) try(version string) *wire.Reply {
	o.Helper()
	r := o.request(wire.MethodTry, wire.Encode(&wire.TryParams{Component: "os", Version: version}))
	o.settle(0)
	return r
}

// settle lets time pass, and the programs end.
func (o osRig) settle(d time.Duration) {
	o.Helper()
	o.pass(d)
	for range 20 { // a verb that has ended brings the next one
		o.pass(time.Millisecond)
	}
}

// live lets time pass with a beacon in each minute.
func (o osRig) live(d time.Duration) {
	o.Helper()
	for ; d > 0; d -= time.Minute {
		o.hearBeacon()
		o.settle(min(d, time.Minute))
	}
}

// component is how it is reported: "state version next phase".
func (o osRig) component() string {
	o.Helper()
	for _, c := range o.health().Components {
		if c.Name == "os" {
			return strings.TrimSpace(strings.Join(strings.Fields(string(c.State)+" "+c.Version+" "+c.Next+" "+c.Text),
				" "))
		}
	}
	return "none"
}

func (o osRig) wantComponent(want string) {
	o.Helper()
	if got := o.component(); got != want {
		o.Errorf("component os: %q, want %q\n%s", got, want, o.has("log"))
	}
}

// record is what is on the disk.
func (o osRig) record() update.Record {
	o.Helper()
	r, err := o.parts().Read()
	if err != nil {
		o.Fatal(err)
	}
	return r
}

// stageAnd stages version 2 and gives an order before the agent looks.
func (o osRig) stageAnd(order update.Order) {
	o.Helper()
	if _, err := o.parts().Stage(o.Context(), filepath.Join(o.os, "wanted"), "2", "", time.Now(),
		func(r update.Record, s update.Order) (update.Record, error) {
			r, err := byHand(s)(r)
			if err != nil || s.Hash == "" {
				return r, err
			}
			return byHand(order)(r)
		}); err != nil {
		o.Fatal(err)
	}
	o.settle(6 * time.Second)
}

// boot is the end and the start of the machine.
func (o osRig) boot() {
	o.Helper()
	o.stop()
	o.kernel.Add(1)
	want := o.has("trying")
	if want == "" {
		want = o.has("active")
	}
	o.put("running", want+"\n")
	o.start()
	o.settle(time.Second)
}

func byHand(order update.Order) func(update.Record) (update.Record, error) {
	return func(r update.Record) (update.Record, error) {
		next, effects := update.New(r).Step(update.Now{Now: clock.Now{Wall: time.Now()}}, order)
		for _, e := range effects {
			if a, ok := e.(update.Answer); ok && a.Err != nil {
				return r, a.Err
			}
		}
		return next.Record, nil
	}
}

var componentEvents = []string{health.EventTrialStarted, health.EventTrialCommitted, health.EventTrialRolledBack,
	health.EventRestartPlanned, health.EventRestartFailed,
	update.EventStaged, update.EventRefused, update.EventEnded}
