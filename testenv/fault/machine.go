package fault

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"tandem.internal/shared/durable"
)

// ErrDead is what every operation of a dead machine returns.
var ErrDead = errors.New("fault: the machine is dead")

// Op names an operation of a process on the world: "commit before", "file sync", "publish", …
type Op string

// Flavour is what goes wrong at an operation.
type Flavour string

// The flavours.
const (
	Crash Flavour = "crash" // the machine dies just before the operation
	Fail  Flavour = "fail"  // this one operation returns an error
)

// Machine is the computer that one process runs on. Its methods are safe for concurrent use; the
// process's seams call Commit, Step and Do, the test the others. A dead machine does nothing any
// more: what is on the disk at that moment is what the next start finds.
type Machine struct {
	// Dir holds the files that are written with package durable; what a crash leaves of them is kept
	// although the dying process still tidies up.
	Dir string
	// Died is called once for each death, on the goroutine that met it. It must not block. Nil:
	// nobody is told.
	Died func()

	mu      sync.Mutex
	dead    bool
	full    bool
	failed  bool
	count   int // operations since Arm
	at      int // the one that goes wrong; 0: none
	how     Flavour
	trace   []Op
	tracing bool
	torn    map[string][]byte
}

// Arm counts operations from now on and lets the at-th go wrong; 0 only counts. On a dead machine it
// is for the time after Revive.
func (m *Machine) Arm(at int, how Flavour) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count, m.at, m.how, m.trace, m.tracing = 0, at, how, nil, true
}

// Disarm stops counting and returns the operations since Arm.
func (m *Machine) Disarm() []Op {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at, m.tracing = 0, false
	return m.trace
}

// Fill makes the disk full, or frees it.
func (m *Machine) Fill(full bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.full = full
}

// Full reports whether the disk is full.
func (m *Machine) Full() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.full
}

// Dead reports whether the machine is dead.
func (m *Machine) Dead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

// Armed reports whether an operation has gone wrong, or will, since Arm.
func (m *Machine) Armed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tracing
}

// Failed reports whether any operation has failed since the last Revive.
func (m *Machine) Failed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed || m.dead
}

// Kill lets the machine die now.
func (m *Machine) Kill() {
	m.mu.Lock()
	first := m.die()
	m.mu.Unlock()
	m.tell(first)
}

func (m *Machine) die() bool {
	if m.dead {
		return false
	}
	m.dead, m.at, m.tracing = true, 0, false
	m.torn = map[string][]byte{}
	for _, name := range m.temporary() {
		if data, err := os.ReadFile(name); err == nil {
			m.torn[name] = data
		}
	}
	return true
}

func (m *Machine) tell(died bool) {
	if died && m.Died != nil {
		m.Died()
	}
}

// temporary lists what an unfinished durable.WriteFile has in Dir.
func (m *Machine) temporary() []string {
	if m.Dir == "" {
		return nil
	}
	names, err := filepath.Glob(filepath.Join(m.Dir, ".*.tmp*"))
	if err != nil {
		panic("fault: " + err.Error()) // the pattern is ours
	}
	return names
}

// Revive starts the machine again, after the dead process is gone. The files are as they were at
// its death, half-written ones included.
func (m *Machine) Revive() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for name, data := range m.torn {
		errs = append(errs, os.WriteFile(name, data, 0o600))
	}
	m.dead, m.failed, m.torn = false, false, nil
	return errors.Join(errs...)
}

// Do is met before an operation, which must not happen if it returns an error: failure, or ErrDead.
func (m *Machine) Do(op Op, failure error) error { return m.meet(op, failure) }

// Leftovers lists what unfinished writes have left in Dir.
func (m *Machine) Leftovers() []string { return m.temporary() }

// Commit is met before and after the commit of a database. After the commit, an error stands for a
// sync that failed although the data are on the disk.
func (m *Machine) Commit(after bool) error {
	if after {
		return m.meet("commit after", syscall.EIO)
	}
	if m.noSpace() {
		return syscall.ENOSPC
	}
	return m.meet("commit before", syscall.EIO)
}

// Step is met before each step of writing a file; it is a durable.Steps.
func (m *Machine) Step(s durable.Step) error {
	if s == durable.Write && m.noSpace() {
		return syscall.ENOSPC
	}
	return m.meet(Op("file "+s), syscall.ENOSPC)
}

// noSpace is met by what wants to write.
func (m *Machine) noSpace() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed = m.failed || m.full
	return m.full
}

func (m *Machine) meet(op Op, failure error) error {
	m.mu.Lock()
	err, died := m.met(op, failure)
	m.mu.Unlock()
	m.tell(died)
	return err
}

func (m *Machine) met(op Op, failure error) (err error, died bool) {
	if m.dead {
		return ErrDead, false
	}
	if !m.tracing {
		return nil, false
	}
	m.count++
	m.trace = append(m.trace, op)
	if m.count != m.at {
		return nil, false
	}
	m.failed = true
	if m.how == Crash {
		return ErrDead, m.die()
	}
	return failure, false
}
