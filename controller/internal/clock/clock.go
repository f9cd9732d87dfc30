// Package clock owns what time it is for the controller. Nodes take what a signed beacon says for the time, so a
// machine's clock that has jumped is not believed until it is right again or somebody confirms it (ADR 040).
//
// It guarantees that Now runs evenly: a step of the machine's clock by more than MaxJump is left out of it, in this
// process, and across restarts of it as far as the machine or the journal can tell. It does not keep anybody from
// speaking; that is the part of who asks for Jumped. It must not know what the time is used for.
package clock

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/shared/durable"
)

// What a clock may do and is believed.
const (
	MaxJump = 24 * time.Hour      // more than that, within a run of the machine or back, is a jump
	MaxAway = 30 * 24 * time.Hour // more than that since the newest record, if the machine was off, is one, too
)

// FileName is the name of the file in the controller's state directory.
const FileName = "clock.json"

// Machine is what the kernel says about time.
type Machine struct {
	Uptime func() time.Duration // since the machine began to run; runs evenly, also while it sleeps
	Boot   string               // names this run of the machine; "": not known
}

// Config is what a Guard needs.
type Config struct {
	Now     func() time.Time // the machine's clock, which may jump; nil: time.Now
	Machine Machine          // without Uptime nothing is guarded: Now is believed
	Path    string           // of the file that outlives this process; "": none
	Steps   durable.Steps    // fault seam; nil in production
}

// Guard is the controller's clock. Its methods may be called by many goroutines.
type Guard struct {
	cfg Config

	mu     sync.Mutex
	at     time.Time     // what time it was, without a monotonic reading
	up     time.Duration // when the machine had run for so long
	most   time.Duration // that the clock may be ahead of that
	begun  bool
	jumped bool
	since  time.Time // by Now
}

// Jump is a jump of the machine's clock that nobody has confirmed.
type Jump struct {
	Since time.Time     // when it was noticed, by Now
	Now   time.Time     // what time it would be without it
	Clock time.Time     // what the machine's clock shows
	By    time.Duration // Clock minus Now
}

// mark is the file: once it was at, when that run of the machine was up old.
type mark struct {
	Boot string    `json:"boot"`
	Up   int64     `json:"up"` // nanoseconds
	At   time.Time `json:"at"`
}

// New makes a guard that believes the machine's clock until Begin.
func New(cfg Config) *Guard {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Guard{cfg: cfg}
}

// Begin begins to guard. newest is the time of the journal's newest record, zero if it has none: the clock is judged
// by that, or, within the same run of the machine, by the file. The error says that the file could not be written.
func (g *Guard) Begin(newest time.Time) error {
	if g.cfg.Machine.Uptime == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.begun {
		return nil // the journal was opened again
	}
	g.begun, g.at, g.up, g.most = true, g.cfg.Now().Round(0), g.cfg.Machine.Uptime(), MaxJump
	if expected, ok := g.expected(g.up); ok {
		g.at = expected
	} else if !newest.IsZero() {
		g.at, g.most = newest, MaxAway
	}
	if g.look(); g.jumped {
		return nil
	}
	return g.save()
}

// expected is what time the file says that it is, if it is of this run of the machine.
func (g *Guard) expected(up time.Duration) (time.Time, bool) {
	if g.cfg.Path == "" || g.cfg.Machine.Boot == "" {
		return time.Time{}, false
	}
	data, err := os.ReadFile(g.cfg.Path)
	var m mark
	if err != nil || json.Unmarshal(data, &m) != nil || m.Boot != g.cfg.Machine.Boot || m.At.IsZero() ||
		time.Duration(m.Up) > up {
		return time.Time{}, false // the journal tells what it can
	}
	return m.At.Add(up - time.Duration(m.Up)), true
}

// save is called with mu held.
func (g *Guard) save() error {
	if g.cfg.Path == "" || g.cfg.Machine.Boot == "" {
		return nil
	}
	m := mark{Boot: g.cfg.Machine.Boot, Up: int64(g.up), At: g.at.UTC()}
	data, err := json.Marshal(&m, json.Deterministic(true))
	if err == nil {
		err = durable.WriteFile(g.cfg.Path, data, 0o600, g.cfg.Steps)
	}
	if err != nil {
		return fmt.Errorf("the clock's mark: %w", err)
	}
	return nil
}

// look is called with mu held. It returns what the machine's clock shows, and what time it is.
func (g *Guard) look() (wall, now time.Time) {
	up := max(g.up, g.cfg.Machine.Uptime())
	wall, now = g.cfg.Now(), g.at.Add(up-g.up)
	// Compared as points in time: the monotonic reading of a time.Time does not see a jump.
	switch by := wall.Round(0).Sub(now); {
	case by >= -MaxJump && by <= g.most:
		g.at, g.up, g.most, g.jumped = wall.Round(0), up, MaxJump, false
		now = wall
	case !g.jumped:
		g.jumped, g.since = true, now
	}
	return wall, now
}

// Now is what time it is: the machine's clock, or as if it had not jumped.
func (g *Guard) Now() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.begun {
		return g.cfg.Now()
	}
	_, now := g.look()
	return now
}

// Jumped tells whether the machine's clock has jumped and nobody has confirmed it.
func (g *Guard) Jumped() (Jump, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.begun {
		return Jump{}, false
	}
	wall, now := g.look()
	if !g.jumped {
		return Jump{}, false
	}
	clock := wall.Round(0)
	return Jump{Since: g.since, Now: now, Clock: clock, By: clock.Sub(now)}, true
}

// ErrNoJump says that there is nothing to confirm.
var ErrNoJump = errors.New("the clock has not jumped")

// Confirm has Now show what the machine's clock shows. The jump is that which is over. An error that is not ErrNoJump
// says that the file could not be written: after a restart it may have to be confirmed again.
func (g *Guard) Confirm() (Jump, error) {
	j, ok := g.Jumped()
	if !ok {
		return j, ErrNoJump
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at, g.up, g.most, g.jumped = g.cfg.Now().Round(0), g.cfg.Machine.Uptime(), MaxJump, false
	return j, g.save()
}

// bootID is where Linux names the run of the machine.
const bootID = "/proc/sys/kernel/random/boot_id"

// ThisMachine is the machine that the program runs on.
func ThisMachine() Machine {
	id, err := os.ReadFile(bootID)
	if err != nil {
		id = nil // another system, or no /proc: then the journal alone tells
	}
	return Machine{Uptime: uptime, Boot: strings.TrimSpace(string(id))}
}
