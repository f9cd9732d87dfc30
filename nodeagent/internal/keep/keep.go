// Package keep owns the keeper: one small process beside the agent whose children are the processes
// of workloads (seed 004, iss_hook_start and timeLimits), so that these outlive a restart, a crash and
// an upgrade of the agent. The agent has a Client; the process is Serve. Why it is a process of its
// own: shared/docs/adr/022-one-keeper.md.
//
// It guarantees
//   - that a run with one ID is started at most once, whoever is killed in between;
//   - that the end of a run is on the disk before anybody hears of it, and stays there until Forget;
//   - that nothing of a run is left when the run is said to have ended: its process group, its cgroups
//     and all that carries its mark are killed, also what made itself a daemon;
//   - that output never makes a process wait and never takes more disk than was said;
//   - that a keeper which was killed itself is followed by one that kills what is left of its runs and
//     says that they are lost.
//
// It must not decide what is to run, or when again: that is the agent's.
//
// A reader's way: this file, protocol.go, client.go, then serve_linux.go, run_linux.go and proc_linux.go; for output
// log.go and readlog.go.
package keep

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tandem.internal/nodeagent/internal/confine"
	"tandem.internal/shared/wire"
)

// Limits.
const (
	MaxRuns   = 4096      // that a keeper remembers, ended ones included
	MaxID     = 200       // bytes of an ID
	MaxArgs   = 128 << 10 // bytes of argv and environment together
	MaxGrace  = time.Hour // that a run may be given to end
	maxWords  = 4096      // arguments and variables
	maxDirs   = 16        // control groups of one run
	maxSignal = 64
)

// Defaults of a log.
const (
	DefaultLogBytes = 1 << 20
	DefaultLogFiles = 4
	maxLogFiles     = 1000
	minLogBytes     = 4 << 10
)

// Mark is the variable in the environment of every process of a run. Its value is the keeper's own ID, a
// slash, and the run's ID.
const Mark = "TANDEM_RUN"

// Run is what is to be run: one process, and whatever it starts.
type Run struct {
	// ID is chosen by the caller and names the run for ever: letters, digits and ._@:+-, not beginning with a dot.
	ID   string   `json:"id"`
	Argv []string `json:"argv"` // the first one is an absolute path
	Env  []string `json:"env"`  // all of it, NAME=value; Mark is added
	Dir  string   `json:"dir"`  // absolute; it has to exist
	// Cgroups are directories of control groups that the process is in from its first moment. They are
	// this run's alone: whatever is in them when it ends is killed. The caller makes and removes them.
	Cgroups []string `json:"cgroups,omitempty"`
	// MaxExecution is how long the run may take; then everything of it is killed. 0: without end.
	MaxExecution time.Duration `json:"maxExecution,omitzero"`
	// StopGrace is how long it has between SIGTERM and SIGKILL when the keeper itself is told to end.
	StopGrace time.Duration `json:"stopGrace,omitzero"`
	Log       Log           `json:"log"`
	User      *User         `json:"user,omitempty"` // nil: the keeper's own, or that of Slot
	// Slot names whose run it is. A keeper with users for slots starts it as the slot's own user, with no capabilities,
	// gives the slot's group Dir and what Dir is in, and starts nothing without a Slot and Confine. Others pass over
	// it.
	Slot string `json:"slot,omitempty"`
	// Confine says what it may reach; nil: it is not confined. Runs of one Dir at the same time have what the first of
	// them was given, and may signal each other. A keeper of protocol 1 confines nothing.
	Confine *Confine `json:"confine,omitempty"`
	// Contain says that Argv has this program become the runtime of a container (package container), which confines
	// what is in it: the run is started in namespaces in which it may, and has no Confine. A keeper of before protocol
	// 4 does not start it, nor does one with users for slots.
	Contain bool `json:"contain,omitzero"`
	// StopSignal is by which it is asked to end; 0: SIGTERM.
	StopSignal int `json:"stopSignal,omitzero"`
}

// Program is in Argv the program of the keeper itself.
const Program = "/proc/self/exe"

// Confine is how a run is confined, as far as the kernel lets it.
type Confine struct {
	Least confine.Level `json:"least,omitempty"` // with less it is not started
	Room  confine.Room  `json:"room"`
}

// Log says where standard output and standard error go: to Path.1, Path.2 and so on, of which the
// newest Files are kept. One path belongs to one run at a time; a later run goes on in it.
type Log struct {
	Path  string `json:"path"`           // absolute; "": nowhere
	Bytes int64  `json:"bytes,omitzero"` // of one file; 0: DefaultLogBytes
	Files int    `json:"files,omitzero"` // 0: DefaultLogFiles
}

// User is whom a process belongs to. Only a keeper of root can give one.
type User struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
}

// State is where a run is.
type State string

// The states.
const (
	Running State = "running"
	Exited  State = "exited" // and nothing of it is left
	// Lost says that the run ended with a keeper that was killed, or with the machine: how is not known, and
	// nothing of it is left.
	Lost State = "lost"
)

// Cause is why the keeper ended a run.
type Cause string

// The causes; "" is a run that ended by itself.
const (
	CauseStop    Cause = "stop"    // Stop was asked for
	CauseTimeout Cause = "timeout" // MaxExecution was over
	CauseQuit    Cause = "quit"    // the keeper was told to end
)

// Status is what is known of a run.
type Status struct {
	ID      string    `json:"id"`
	State   State     `json:"state"`
	PID     int       `json:"pid,omitzero"` // of the main process; it leads its session and process group
	Started time.Time `json:"started,omitzero"`
	// Up is for how long a run that runs has been up, by a clock that nobody sets. 0: nobody knows, as with
	// keepers of before there was this.
	Up       time.Duration `json:"up,omitzero"`
	Ended    time.Time     `json:"ended,omitzero"`    // when the main process ended; of a lost run, when that was found
	ExitCode int           `json:"exitCode,omitzero"` // of an exited run without Signal and Error
	Signal   int           `json:"signal,omitzero"`   // that ended the main process
	Cause    Cause         `json:"cause,omitempty"`   // why the keeper ended it; while it runs: why it is being ended
	// OOMKills counts the processes of the run that were killed because its control group had no memory
	// left. 0 also where that cannot be told.
	OOMKills uint64        `json:"oomKills,omitzero"`
	Dropped  int64         `json:"dropped,omitzero"`   // bytes of output that the disk did not take
	Confined confine.Level `json:"confined,omitempty"` // how far it is, or was
	UID      uint32        `json:"uid,omitzero"`       // of its slot; 0: the keeper's own
	// processes of it that the kernel did not let be killed within half a minute
	Left  int    `json:"left,omitzero"`
	Error string `json:"error,omitempty"` // why it could not be started; State is Exited then
}

// Success says that the run ended by itself and well.
func (s Status) Success() bool {
	return s.State == Exited && s.ExitCode == 0 && s.Signal == 0 && s.Error == ""
}

// Keeper is what a keeper says of itself.
type Keeper struct {
	Protocol int    `json:"protocol"` // the newest that it speaks, see protocol.go
	Version  string `json:"version"`  // of its program
	PID      int    `json:"pid"`
	Users    string `json:"users,omitempty"` // for slots, as ParseUsers reads them
}

// ErrAbsent says that no keeper listens in the directory.
var ErrAbsent = errors.New("no keeper runs")

// Check says what is wrong with a run, nil if nothing is. The pointer of the error is into Run's JSON.
func (r *Run) Check() *wire.Error {
	bad := func(path, format string, args ...any) *wire.Error {
		return wire.New(wire.CodeInvalidArgument, path, fmt.Sprintf(format, args...))
	}
	if !goodID(r.ID) {
		return bad("/id", "an ID is made of 1 to %d letters, digits and ._@:+-, and does not begin with a dot", MaxID)
	}
	if len(r.Argv) == 0 || !filepath.IsAbs(r.Argv[0]) {
		return bad("/argv", "the program has to be given by its absolute path")
	}
	if !filepath.IsAbs(r.Dir) || r.Slot != "" && filepath.Clean(r.Dir) != r.Dir {
		return bad("/dir", "the directory has to be an absolute path")
	}
	if r.Contain && r.Confine != nil {
		return bad("/confine", "a container is confined by itself")
	}
	if r.StopSignal < 0 || r.StopSignal > maxSignal {
		return bad("/stopSignal", "%d is no signal", r.StopSignal)
	}
	if len(r.Slot) > MaxID {
		return bad("/slot", "a slot's name has at most %d bytes", MaxID)
	}
	size := 0
	texts := [][]string{r.Argv, r.Env, r.Cgroups, {r.Dir, r.Log.Path}}
	if c := r.Confine; c != nil {
		texts = append(texts, c.Room.Write, c.Room.Read, c.Room.Known)
		for _, path := range slices.Concat(texts[len(texts)-3:]...) {
			if !filepath.IsAbs(path) {
				return bad("/confine/room", "%.200q is no absolute path", path)
			}
		}
	}
	for _, words := range texts {
		if len(words) > maxWords {
			return wire.New(wire.CodeTooLarge, "", fmt.Sprintf("there are more than %d arguments "+
				"or variables", maxWords))
		}
		for _, w := range words {
			if strings.IndexByte(w, 0) >= 0 {
				return bad("", "a text has a zero byte in it")
			}
			size += len(w) + 1
		}
	}
	if size > MaxArgs {
		return wire.New(wire.CodeTooLarge, "", fmt.Sprintf("arguments and environment take %d bytes; %d "+
			"are possible", size, MaxArgs))
	}
	for i, v := range r.Env {
		if strings.IndexByte(v, '=') < 1 {
			return bad(fmt.Sprintf("/env/%d", i), "a variable is written NAME=value")
		}
	}
	if len(r.Cgroups) > maxDirs {
		return bad("/cgroups", "there are more than %d control groups", maxDirs)
	}
	for i, d := range r.Cgroups {
		if !filepath.IsAbs(d) || filepath.Clean(d) != d {
			return bad(fmt.Sprintf("/cgroups/%d", i), "a control group has to be given by its absolute path")
		}
	}
	if r.MaxExecution < 0 {
		return bad("/maxExecution", "a time limit is not negative")
	}
	if r.StopGrace < 0 || r.StopGrace > MaxGrace {
		return bad("/stopGrace", "a run has 0 to %v to end", MaxGrace)
	}
	switch l := r.Log; {
	case l.Path == "" && (l.Bytes != 0 || l.Files != 0):
		return bad("/log", "a log without a path has no limits")
	case l.Path != "" && (!filepath.IsAbs(l.Path) || filepath.Clean(l.Path) != l.Path):
		return bad("/log/path", "the log has to be given by its absolute path")
	case l.Bytes != 0 && l.Bytes < minLogBytes:
		return bad("/log/bytes", "a file of a log has at least %d bytes", minLogBytes)
	case l.Files < 0 || l.Files > maxLogFiles:
		return bad("/log/files", "a log has 1 to %d files", maxLogFiles)
	}
	return nil
}

// goodID says whether id can be an ID, and so part of a file's name.
func goodID(id string) bool {
	if id == "" || len(id) > MaxID || id[0] == '.' {
		return false
	}
	for _, c := range []byte(id) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
			strings.IndexByte("._@:+-", c) >= 0) {
			return false
		}
	}
	return true
}

// resolved is the log with its defaults.
func (l Log) resolved() Log {
	if l.Bytes == 0 {
		l.Bytes = DefaultLogBytes
	}
	if l.Files == 0 {
		l.Files = DefaultLogFiles
	}
	return l
}
