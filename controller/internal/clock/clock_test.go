package clock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

const day = 24 * time.Hour

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// machine is one whose clock a test sets.
type machine struct {
	up   time.Duration
	wall time.Time
}

// pass lets time pass, for both clocks.
func (m *machine) pass(d time.Duration) { m.up, m.wall = m.up+d, m.wall.Add(d) }

func (m *machine) guard(path, boot string) *Guard {
	return New(Config{Path: path, Now: func() time.Time { return m.wall },
		Machine: Machine{Boot: boot, Uptime: func() time.Duration { return m.up }}})
}

func begin(t *testing.T, g *Guard, newest time.Time) {
	t.Helper()
	if err := g.Begin(newest); err != nil {
		t.Fatal(err)
	}
}

// expect sees what time a guard says that it is, and whether the clock has jumped by so much; 0: it has not.
func expect(t *testing.T, g *Guard, now time.Time, by time.Duration) {
	t.Helper()
	j, jumped := g.Jumped()
	if at := g.Now(); !at.Equal(now) || jumped != (by != 0) || j.By != by {
		t.Errorf("it is %v, the clock is off by %v (%v); want %v, %v", at, j.By, jumped, now, by)
	}
}

func TestJump(t *testing.T) {
	m := &machine{wall: noon}
	g := m.guard("", "")
	begin(t, g, time.Time{})
	m.pass(40 * day) // however long a pause between two looks is
	m.wall = m.wall.Add(23 * time.Hour)
	right := noon.Add(40*day + 23*time.Hour)
	expect(t, g, right, 0)

	m.wall = m.wall.Add(40 * day)
	expect(t, g, right, 40*day)
	m.pass(2 * time.Second)
	right = right.Add(2 * time.Second)
	expect(t, g, right, 40*day)
	m.wall = m.wall.Add(-40 * day) // it was the machine's mistake, and is over
	expect(t, g, right, 0)
	if _, err := g.Confirm(); !errors.Is(err, ErrNoJump) {
		t.Errorf("nothing was confirmed: %v", err)
	}

	m.wall = m.wall.Add(-2 * day)
	expect(t, g, right, -2*day)
	m.pass(time.Hour)
	j, err := g.Confirm()
	if err != nil || j.By != -2*day || !j.Since.Equal(right) || !j.Now.Equal(right.Add(time.Hour)) {
		t.Errorf("confirmed: %+v %v", j, err)
	}
	expect(t, g, m.wall, 0)
}

// A start knows the newest record of the journal only: it cannot tell a wrong clock from a machine that was off.
func TestStartByJournal(t *testing.T) {
	for _, c := range []struct {
		name          string
		newest, clock time.Time
		by            time.Duration
	}{
		{"a new journal", time.Time{}, time.Unix(0, 0), 0},
		{"off for three weeks", noon, noon.Add(21 * day), 0},
		{"set back by some hours", noon, noon.Add(-20 * time.Hour), 0},
		{"off for a season, or wrong", noon, noon.Add(40 * day), 40 * day},
		{"an empty battery", noon, noon.Add(-50 * 365 * day), -50 * 365 * day},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &machine{wall: c.clock}
			g := m.guard(filepath.Join(t.TempDir(), "clock.json"), "boot-1")
			begin(t, g, c.newest)
			now := c.clock
			if c.by != 0 {
				now = c.newest
			}
			expect(t, g, now, c.by)
			if c.by == 0 {
				return
			}
			m.pass(time.Minute)
			expect(t, g, now.Add(time.Minute), c.by)
			m.wall = c.newest.Add(5 * day) // the time service has set it: the machine was off for five days
			expect(t, g, m.wall, 0)
			m.wall = m.wall.Add(5 * day) // from then on a day counts
			expect(t, g, c.newest.Add(5*day), 5*day)
		})
	}
}

// Within a run of the machine the file tells exactly, however old the journal's newest record is.
func TestStartByFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clock.json")
	m := &machine{wall: noon, up: time.Hour}
	begin(t, m.guard(path, "boot-1"), time.Time{})
	m.pass(50 * day)
	g := m.guard(path, "boot-1")
	begin(t, g, noon)
	expect(t, g, m.wall, 0)

	right := m.wall
	m.wall = m.wall.Add(3 * day) // while no controller ran
	g = m.guard(path, "boot-1")
	begin(t, g, right)
	expect(t, g, right, 3*day)
	g = m.guard(path, "boot-1") // and was started twice
	begin(t, g, right)
	expect(t, g, right, 3*day)
	if _, err := g.Confirm(); err != nil {
		t.Fatal(err)
	}
	g = m.guard(path, "boot-1")
	begin(t, g, right)
	expect(t, g, m.wall, 0)

	m.up, m.wall = 0, m.wall.Add(10*day) // another run of the machine
	g = m.guard(path, "boot-2")
	begin(t, g, right)
	expect(t, g, m.wall, 0)
	for _, text := range []string{"", "{}", `{"boot":"boot-2","up":1,"at":`, "\x00"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		g = m.guard(path, "boot-2")
		begin(t, g, right)
		expect(t, g, m.wall, 0)
	}
}

// Without a machine the clock is believed.
func TestUnguarded(t *testing.T) {
	m := &machine{wall: noon}
	g := New(Config{Now: func() time.Time { return m.wall }})
	begin(t, g, noon.Add(400*day))
	m.wall = m.wall.Add(40 * day)
	expect(t, g, m.wall, 0)
}

func TestThisMachine(t *testing.T) {
	m := ThisMachine()
	if a, b := m.Uptime(), m.Uptime(); a <= 0 || b < a {
		t.Errorf("%v, then %v", a, b)
	}
	g := New(Config{Machine: m})
	begin(t, g, time.Now())
	if _, jumped := g.Jumped(); jumped || time.Since(g.Now()) > time.Minute {
		t.Errorf("it is %v", g.Now())
	}
}
