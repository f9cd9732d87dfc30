package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/shared/alert"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/event"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// patient is a rig whose test holds the node's machine in its hands.
type patient struct {
	*rig
	dead   atomic.Bool // the machine has died: nothing more reaches its disk
	full   atomic.Bool // the disk takes nothing
	kernel atomic.Int64
	ram    atomic.Int64 // per mille

	runsMu sync.Mutex
	runs   []string // "program REASON or indicator", of all commands but the on-apply one
	fail   error    // of the reboot command
	at     func()   // called by it
}

// healthBubble runs a test with a patient whose agent has pinned the unit's key.
func healthBubble(t *testing.T, f func(p *patient)) {
	t.Helper()
	bubble(t, func(r *rig) {
		p := &patient{rig: r}
		p.ram.Store(250)
		broken := errors.New("disk: broken")
		r.cfg.SamplePeriod = 10 * time.Second
		r.deps.Machine = func() Evidence { return Evidence{Kernel: fmt.Sprint("kernel ", p.kernel.Load())} }
		r.deps.SlotSteps = func(durable.Step) error {
			if p.dead.Load() {
				return broken
			}
			return nil
		}
		r.deps.StoreFaults = func(Point) error {
			if p.dead.Load() || p.full.Load() {
				return broken
			}
			return nil
		}
		began := time.Now()
		r.deps.Sources.CPU = func() (Times, error) {
			s := time.Since(began).Seconds()
			return Times{Busy: s / 10, Idle: s * 9 / 10}, nil
		}
		r.deps.Sources.RAM = func() (float64, error) { return float64(p.ram.Load()) / 1000, nil }
		notify := r.deps.RunCommand
		r.deps.RunCommand = func(ctx context.Context, env, argv []string) error {
			if argv[0] == "notify" {
				return notify(ctx, env, argv)
			}
			p.runsMu.Lock()
			defer p.runsMu.Unlock()
			p.runs = append(p.runs, strings.Join(slices.Concat(argv, env), " "))
			if argv[0] != "reboot" {
				return nil
			}
			if p.at != nil {
				p.at()
			}
			return p.fail
		}
		f(p)
	})
}

// crash ends the agent as kill -9 would, and starts it again.
func (p *patient) crash() {
	p.Helper()
	p.dead.Store(true)
	p.stop()
	p.dead.Store(false)
	p.start()
}

// commands returns what ran since the last call.
func (p *patient) commands() string {
	p.runsMu.Lock()
	defer p.runsMu.Unlock()
	s := strings.Join(p.runs, ", ")
	p.runs = nil
	return s
}

// health is what the node reported last of its health.
func (r *rig) health() *wire.Health {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.reports[wire.KindHealth]
	if len(all) == 0 {
		r.Fatal("no report of health")
	}
	return decode[wire.Health](r, all[len(all)-1].Detail)
}

// check says how a check is reported: "ok", "absent", or why it is not.
func (r *rig) check(name string) string {
	r.Helper()
	for _, c := range r.health().Checks {
		switch {
		case c.Name != name:
		case c.OK:
			return "ok"
		default:
			return "bad: " + c.Message
		}
	}
	return "absent"
}

// told lists the events of these types in short, each once however often it was sent, and forgets them.
func (r *rig) told(types ...string) string {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	seen := map[uint64]bool{}
	// older ones may have been asked for
	slices.SortStableFunc(r.events, func(a, b *wire.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	left := r.events[:0]
	for _, e := range r.events {
		if !slices.Contains(types, e.Type) {
			left = append(left, e)
			continue
		}
		if !seen[e.Seq] {
			out = append(out, r.short(e))
		}
		seen[e.Seq] = true
	}
	r.events = left
	return strings.Join(out, ", ")
}

func (r *rig) short(e *wire.Event) string {
	var err error
	words := []string{e.Type}
	add := func(all ...any) {
		for _, a := range all {
			if s := fmt.Sprint(a); s != "" {
				words = append(words, s)
			}
		}
	}
	switch e.Type {
	case EventAlert:
		var a alert.Alert
		err = json.Unmarshal(e.Detail, &a)
		words = words[:0]
		add(a.State, a.Parameter, a.Value, a.Reason)
	case "watchdog":
		var w event.WatchdogDetail
		err = json.Unmarshal(e.Detail, &w)
		add(w.Name, w.Verdict)
	default:
		var d health.Detail
		err = json.Unmarshal(e.Detail, &d)
		add(d.Check, d.Reason)
		if e.Type == health.EventBoot {
			add(d.Restarts)
		}
	}
	if err != nil {
		r.Errorf("event %s: %v", e.Detail, err)
	}
	return strings.Join(words, " ")
}

func (r *rig) wantTold(want string, types ...string) {
	r.Helper()
	if got := r.told(types...); got != want {
		r.Errorf("told %q, want %q", got, want)
	}
}

// announce publishes a beacon of now that announces a maintenance.
func (r *rig) announce(left time.Duration) {
	r.Helper()
	r.sayBeacon(true, time.Now(), left)
}

// sayBeacon publishes a beacon of that time; one of 0 left announces no maintenance.
func (r *rig) sayBeacon(up bool, at time.Time, left time.Duration) {
	r.Helper()
	b := wire.Beacon{V: wire.Version, Unit: "u1", Epoch: 1, Up: up, Time: at, Jitter: "PT10S",
		Keys: []wire.Key{r.signer.Key()}}
	if left > 0 {
		b.Maintenance = at.Add(left)
	}
	b.Sig = r.signer.Sign(seal.BeaconPreimage(&b))
	r.publish(topic.ForController("u1"), wire.Encode(&b), true)
}

// hearBeacon publishes an ordinary beacon of now.
func (r *rig) hearBeacon() { r.beacon(1, r.signer) }

// healthDoc makes a document of kind health.
func healthDoc(rev uint64, body string) *wire.Desired {
	d := doc(1, rev)
	d.Kind, d.Version = wire.KindHealth, fmt.Sprint(rev)
	return with(d, body)
}

// ruled makes a configuration with this alert rule for RAM, or without any.
func ruled(rev uint64, rule string) *wire.Desired {
	d := doc(1, rev)
	if rule != "" {
		rule = `,"alertRules":{"ram":` + rule + `}`
	}
	return with(d, `{"formatVersion":"7","version":"`+d.Version+`"`+rule+`}`)
}

const above80 = `{"minThreshold":0.3,"maxThreshold":0.8}`

// slots are the node's, as a person at the node sees them.
func (r *rig) slots() slot.Status {
	r.Helper()
	st, err := slot.Open(slot.Config{Dir: filepath.Join(r.dir, slot.Dir), Machine: r.deps.Machine}).Status()
	if err != nil {
		r.Error(err)
	}
	return st
}

func (r *rig) wantRefused(reply *wire.Reply, code wire.Code) {
	r.Helper()
	switch {
	case code == "" && reply.Error != nil:
		r.Errorf("refused: %v", reply.Error)
	case code != "" && (reply.Error == nil || reply.Error.Code != code):
		r.Errorf("answered with %v, want %s", reply.Error, code)
	}
}
