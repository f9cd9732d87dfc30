// Package judge decides whether what is watched is alive: the agent's own loops by their beats, and
// programs beside the agent by the files that they touch and the processes that they name (seed 002,
// Watchdog Time).
//
// The package is pure: a State is a value, Step takes it from one look to the next. It guarantees that
// progress is told from change alone, never from a wall clock: of a count, of a file's time of change,
// of a process. Time in which nobody was looked at — the machine slept, or the watch itself got no
// processor — is not held against anybody. It must not look itself.
//
//tandem:pure
package judge

import "time"

// The bounds of what counts as one.
const (
	// DefaultTime is the watchdog time: twelve times the 25 s in which a program is to touch its file.
	DefaultTime = 5 * time.Minute
	// DefaultTick is the time between two looks, unless a supervisor wants it shorter.
	DefaultTick = 10 * time.Second
)

// Settings are fixed for the life of a State.
type Settings struct {
	Tick       time.Duration // between two looks
	Time       time.Duration // the watchdog time: without progress for so long, something hangs
	Supervisor time.Duration // within which the supervisor wants to hear of us; 0: there is none
}

// Seen is one look at everything.
type Seen struct {
	Loops    []Loop    // each ID once
	Programs []Program // each name once
	Blind    bool      // the programs could not be looked at: nothing is said of them
}

// Loop is a loop of the agent.
type Loop struct {
	ID     uint64 // of this registration
	Name   string
	Period time.Duration // within which it is to beat
	Beats  uint64        // so far
}

// Program is a program beside the agent. Either part may be absent.
type Program struct {
	Name    string
	Touched string  // the touch file's time of change, in any form; "" without a file
	Process Process // what the process file names; the zero Process without one
	Trouble string  // why its files cannot be understood; ""
}

// Process is a process as a process file names it.
type Process struct {
	PID   int
	Named string // the process file's time of change, in any form
	Start uint64 // when it started, to tell it from another of the same PID; 0: it does not run
}

// Verdict is what became of something that is watched.
type Verdict string

// The verdicts. A program that is late is not told of: its time of touching is its own.
const (
	Late       Verdict = "late"       // a loop has missed a beat
	Hung       Verdict = "hung"       // no progress within the watchdog time
	Died       Verdict = "died"       // the named process does not run any more
	Unreadable Verdict = "unreadable" // a program's files cannot be understood
	Back       Verdict = "back"       // it was one of the above and is well again
	Gone       Verdict = "gone"       // it was one of the above and is not watched any more
)

// Report says that something changed.
type Report struct {
	Program bool // a program, not a loop of the agent
	Name    string
	Verdict Verdict
	For     time.Duration // Late, Hung: without progress for so long
	Trouble string        // Unreadable: why
}

// Effect is something that the shell must do.
type Effect interface{ effect() }

// Tell asks to pass a report on.
type Tell struct{ Report Report }

// Ping asks to tell the supervisor that all is well.
type Ping struct{}

// Fatal says that a loop of the agent hangs: the shell keeps the boot reason and all stacks, and ends
// the process. It comes once, and no Ping after it.
type Fatal struct {
	Loop string
	For  time.Duration
}

func (Tell) effect()  {}
func (Ping) effect()  {}
func (Fatal) effect() {}

// State is everything that is known about what is watched.
type State struct {
	set      Settings
	begun    bool
	last     time.Duration // of the newest look, by the shell's clock
	clock    time.Duration // the time that counts
	loops    []loop
	programs []program
	fatal    bool
}

type loop struct {
	Loop
	since   time.Duration // of the newest progress
	verdict Verdict       // "": well
}

type program struct {
	Program
	since   time.Duration
	start   uint64 // of the process that was meant when the file was written
	dead    int    // looks in a row that did not find that process
	trouble int    // looks in a row that could not understand the files
	verdict Verdict
}

// New returns a State that has seen nothing yet.
func New(set Settings) State { return State{set: set} }

// LateAfter is how long a loop of that period may be without a beat before it is late: a beat may be
// missed by as much again, and a look may come just before it.
func (s Settings) LateAfter(period time.Duration) time.Duration { return 2*period + s.Tick }

// HungAfter is how long it may be without a beat at all. Where a supervisor waits for pings, which end
// when the loop is late, it is soon enough that our own verdict comes before the supervisor's.
func (s Settings) HungAfter(period time.Duration) time.Duration {
	late := s.LateAfter(period)
	hung := max(s.Time, late+s.Tick)
	if s.Supervisor > 0 {
		hung = min(hung, late+s.Supervisor/2)
	}
	return hung
}
