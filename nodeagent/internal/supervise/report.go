package supervise

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"reflect"
	"slices"
	"time"

	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// NextDeadline returns when the next Tick is due; false: nothing is.
func (s State) NextDeadline() (time.Duration, bool) {
	at, ok := time.Duration(0), false
	due := func(t time.Duration) {
		if !ok || t < at {
			at, ok = t, true
		}
	}
	for _, p := range s.Places() {
		if p.Task != nil && p.Task.Run == "" && p.Task.at > s.now.Mono {
			due(p.Task.at)
		}
	}
	p := s.Main
	switch {
	case p == nil || p.Stopping != "" || p.Done || p.Run == "" && s.Stopped:
	case p.Run == "":
		if can(s.able, p) && len(s.unmet(p)) == 0 {
			due(s.at)
		}
	default:
		if t, open := s.Window(); open && s.Before != nil {
			due(t)
		}
		if p.Task == nil && has(p.Config, workload.HookStatus) {
			due(s.statusAt)
		}
		if p.Task == nil && has(p.Config, workload.HookReopenLogs) {
			due(s.reopenAt)
		}
		if p.Task == nil && p.NotifyAgain != nil {
			due(p.NotifyAgain.at)
		}
	}
	return at, ok
}

func (s State) state() wire.WorkloadState {
	p := s.Main
	switch {
	case s.Wanted == nil:
		return wire.WorkloadStopped
	case p == nil && s.Next == nil && s.Refused != nil:
		return wire.WorkloadFailed
	case p == nil:
		return wire.WorkloadPreparing
	case p.Done:
		return wire.WorkloadCompleted
	case s.Stopped && (p.Run == "" || p.Stopping == Halt):
		return wire.WorkloadStopped
	case p.Run == "" && p.Exit == nil && (!can(s.able, p) || len(s.waits()) > 0):
		return wire.WorkloadPreparing
	case p.Run == "" || p.Stopping == Again || p.Stopping == Anew || p.Stopping == Back || p.Stopping == Unhealthy:
		return wire.WorkloadRestarting
	}
	return wire.WorkloadRunning
}

// running is the run of the slot's process, "" without one.
func (s State) running() string {
	if s.Main == nil {
		return ""
	}
	return s.Main.Run
}

// Report is what the node tells of the slot, but for its resources. Of a slot that is Empty there is
// nothing to tell.
func (s State) Report() wire.WorkloadSlot {
	r := wire.WorkloadSlot{Slot: s.Slot.String(), State: s.Durable.State, Since: s.Since}
	of := s.Main
	switch {
	case of != nil:
	case s.Next != nil:
		of = s.Next
	case s.Wanted != nil:
		of = &Place{Config: *s.Wanted}
	case len(s.Gone) > 0:
		of = s.Gone[len(s.Gone)-1]
	default:
		return r
	}
	r.ID, r.Job = plain(of.Config.ConfigurationID), of.Config.Class == workload.Job
	r.Restarts, r.Error = of.Restarts, of.Error
	if of.Exit != nil {
		e := *of.Exit
		e.Signal, e.Text, e.Output = plain(e.Signal), plain(e.Text), plain(e.Output)
		r.Exit = &e
	}
	if p := s.Main; p != nil && p.Run == "" && p.Stopping == "" && !p.Done && !s.Stopped && can(s.able, p) {
		r.Next = s.next
	}
	if w := s.waits(); len(w) > 0 {
		r.Doing, r.Waits, r.Next = DoingNeeds, shown(w), time.Time{}
	}
	if n := s.Next; n != nil {
		r.Doing = string(n.Phase)
		if n.Phase == Install || n.Phase == Validate {
			r.Doing = "iss_hook_" + r.Doing
		}
		if n.Error != nil {
			r.Error = n.Error
		}
	}
	if s.Refused != nil {
		r.Error = s.Refused.Error
	}
	if s.Wanted != nil {
		if r.Wanted = plain(s.Wanted.ConfigurationID); r.Wanted == r.ID {
			r.Wanted = ""
		}
	}
	return r
}

// plain makes a text fit for the wire, which takes fewer than a configuration may have.
func plain(text string) string { return wire.Plain(text, wire.MaxText) }

// How two configurations of a slot differ.
const (
	same    = iota
	quiet   // in nothing that the process sees
	dynamic // in dynamic resources only
	other
)

// compare says what it takes to go from one configuration to another. A job is run again for
// whatever changes, for its configurationId does; an instance goes on for what it does not see.
func compare(from, to workload.Config) int {
	switch {
	case reflect.DeepEqual(from, to):
		return same
	case from.Class != to.Class, from.Class == workload.Job && from.ConfigurationID != to.ConfigurationID:
		return other
	case !maps.Equal(from.Properties, to.Properties):
		return other
	}
	if a, b := containerOf(from), containerOf(to); a.Runtime != b.Runtime || a.Network != b.Network ||
		!maps.Equal(a.Constraints, b.Constraints) {
		return other
	}
	change := quiet
	for _, name := range slices.Sorted(maps.Keys(joined(from.Resources, to.Resources))) {
		a, old := from.Resources[name]
		b, now := to.Resources[name]
		switch {
		case old && now && alike(a, b):
		case (!old || a.Class == workload.DynamicResource) && (!now || b.Class == workload.DynamicResource):
			change = dynamic
		default:
			return other
		}
	}
	return change
}

// containerOf is what a configuration says of its container, or of its process's groups.
func containerOf(c workload.Config) workload.Container {
	if c.Container == nil {
		return workload.Container{}
	}
	return *c.Container
}

func joined(a, b map[string]workload.Artifact) map[string]workload.Artifact {
	all := maps.Clone(a)
	if all == nil {
		return b
	}
	maps.Copy(all, b)
	return all
}

// alike reports whether two artifacts are one (seed 004, uuid): the same checksum, or the same uuid and
// no two checksums; the same addresses if there is neither.
func alike(a, b workload.Artifact) bool {
	if a.Class != b.Class || (a.Unpack == nil) != (b.Unpack == nil) ||
		a.Unpack != nil && (a.Unpack.DiffID != b.Unpack.DiffID || a.Unpack.Path != b.Unpack.Path) {
		return false
	}
	x, y := sum(a), sum(b)
	if x != "" && y != "" {
		return x == y
	}
	if a.UUID == "" && b.UUID == "" && x == y {
		return slices.Equal(a.URLs, b.URLs) // nothing else names them
	}
	return a.UUID != "" && a.UUID == b.UUID
}

func sum(a workload.Artifact) string {
	algorithm, sum, err := workload.ParseChecksum(a.Verification.Checksum)
	if err != nil || algorithm == workload.Empty {
		return ""
	}
	return algorithm + hex.EncodeToString(sum)
}

// key is made of everything in a configuration that its author decides, but for where its resources come
// from, which depends on the other slots of the node.
func key(c workload.Config) string {
	c.Resources = maps.Clone(c.Resources)
	for name, a := range c.Resources {
		a.URLs = nil
		c.Resources[name] = a
	}
	sum := sha256.Sum256(workload.Encode([]workload.Config{c}))
	return hex.EncodeToString(sum[:])
}
