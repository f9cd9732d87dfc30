// Package limits owns what the constraints of a workload (seed 004, container) mean: which control file of
// cgroup v1 or v2 each one is, how its value is written, and whether a node can enforce it. It is pure.
//
// A constraint that is not known, or that the node cannot enforce, is an error and never passed over:
// who asked for 20G of memory at most must not get a process without a limit.
//
// table.go has the constraints, value.go their values, io.go those of block devices.
//
//tandem:pure
package limits

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// Version is the version of control groups.
type Version int

// The versions. A node with controllers in both, as systemd's hybrid layout has them, is V1.
const (
	None Version = 0 // there are none that could be used
	V1   Version = 1
	V2   Version = 2
)

func (v Version) String() string {
	if v == None {
		return "none"
	}
	return fmt.Sprintf("v%d", int(v))
}

// Capabilities are what the control groups of a node can do.
type Capabilities struct {
	Version Version
	// Files are the control files that a new group has, by controller: memory, cpu, io (v2) or blkio (v1), pids.
	Files map[string][]string
	// Idle are those of them that take a value and that nothing obeys.
	Idle []string
	// Why says, for people, why what is missing is missing: "" or a sentence without its full stop.
	Why string

	any bool // stands for every node: it has all files
}

// has says whether new groups have a file.
func (c Capabilities) has(controller, file string) bool {
	return c.any || slices.Contains(c.Files[controller], file)
}

// Setting is one line for one control file.
type Setting struct {
	Controller string // memory, cpu, io, blkio or pids
	File       string // memory.max
	Value      string // as the kernel reads it
}

// Map turns constraints into settings for a node, in the order of writing, or says what is wrong with
// them. at is the JSON pointer of the constraints.
func Map(constraints map[string]string, caps Capabilities, at string) ([]Setting, []*wire.Error) {
	m := mapping{caps: caps, at: at, given: constraints, meant: map[resource]string{}}
	for _, name := range slices.Sorted(maps.Keys(constraints)) {
		m.read(name, constraints[name])
	}
	if len(m.errors) > 0 {
		return nil, m.errors
	}
	m.together()
	m.write()
	if len(m.errors) > 0 {
		return nil, m.errors
	}
	return m.settings, nil
}

// Check says what is wrong with constraints; see Map.
func Check(constraints map[string]string, caps Capabilities, at string) []*wire.Error {
	_, errs := Map(constraints, caps, at)
	return errs
}

// CheckAny says what is wrong with constraints on every node, whatever it can do; see Map.
func CheckAny(constraints map[string]string, at string) []*wire.Error {
	if len(constraints) == 0 || Check(constraints, Capabilities{Version: V1, any: true}, at) == nil {
		return nil
	}
	return Check(constraints, Capabilities{Version: V2, any: true}, at)
}

type mapping struct {
	caps  Capabilities
	at    string
	given map[string]string

	meant    map[resource]string // the constraint that says it
	values   values
	settings []Setting
	errors   []*wire.Error
}

func (m *mapping) fail(code wire.Code, name, format string, args ...any) {
	m.errors = append(m.errors, wire.New(code, strictjson.Member(m.at, name), fmt.Sprintf(format, args...)))
}

// read understands one constraint.
func (m *mapping) read(name, value string) {
	c, known := table[name]
	switch {
	case porto[name]:
		m.fail(wire.CodeNotSupported, name, "%s is a property of Porto and its patched kernel, which nodes do not "+
			"have; leave it out", name)
		return
	case !known:
		m.fail(wire.CodeNotSupported, name, "%s is no constraint that a node can enforce; there are %s",
			strictjson.Show(name), Names())
		return
	}
	if m.caps.Version == None {
		m.fail(wire.CodeNotSupported, name, "this node has no control groups to enforce %s with%s", name, m.why())
		return
	}
	for _, r := range c.sets {
		if other, twice := m.meant[r]; twice {
			m.fail(wire.CodeDuplicate, name, "%s and %s set the same limit; leave one out", other, name)
			return
		}
		m.meant[r] = name
	}
	if err := c.read(&m.values, strings.TrimSpace(value)); err != nil {
		m.fail(wire.CodeBadValue, name, "%s: %v", name, err)
	}
}

func (m *mapping) why() string {
	if m.caps.Why == "" {
		return ""
	}
	return ": " + m.caps.Why
}

// together checks what no constraint alone can be wrong in.
func (m *mapping) together() {
	v := &m.values
	if name := m.meant[memoryAndSwap]; name != "" {
		switch {
		case m.meant[memoryMax] == "":
			m.fail(wire.CodeMissing, name, "%s is a limit of memory and swap together and needs "+
				"memory.limit_in_bytes beside it", name)
		case v.memoryAndSwap < v.memoryMax:
			m.fail(wire.CodeBadValue, name, "%s is below %s", name, m.meant[memoryMax])
		}
		if other := m.meant[swapMax]; other != "" {
			m.fail(wire.CodeDuplicate, name, "%s and %s set the same limit; leave one out", other, name)
		}
	}
	if name := m.meant[swapMax]; name != "" && m.caps.Version == V1 && m.meant[memoryMax] == "" {
		m.fail(wire.CodeMissing, name, "on this node with cgroup v1, %s needs memory.limit_in_bytes beside it", name)
	}
	if name := m.meant[cpuPeriod]; name != "" && m.meant[cpuQuota] == "" {
		m.fail(wire.CodeMissing, name, "%s limits nothing without cpu.cfs_quota_us", name)
	}
	if name := m.meant[cpuBurst]; name != "" && v.cpuBurst > 0 && (m.meant[cpuQuota] == "" || v.cpuBurst > v.cpuQuota) {
		m.fail(wire.CodeBadValue, name, "%s is a part of cpu.cfs_quota_us, which has to be given and not to be smaller",
			name)
	}
}

// set adds a setting for a resource, if the node has the file.
func (m *mapping) set(r resource, controller, value, file string) {
	name := m.meant[r]
	if !m.caps.has(controller, file) {
		m.fail(wire.CodeNotSupported, name, "this node cannot enforce %s: its control groups %v have no %s%s", name,
			m.caps.Version, file, m.why())
		return
	}
	m.settings = append(m.settings, Setting{controller, file, value})
}
