// Package clock has the one type for an instant that the agent's pure state machines take their time from.
//
// The package is pure: it reads no clock. Whoever owns a machine fills in Now before each step.
//
//tandem:pure
package clock

import "time"

// Now is one instant, on both clocks of a node.
type Now struct {
	Mono time.Duration // since its owner started; never jumps, and decides
	Wall time.Time     // may jump either way; is shown, and decides only what must outlive a restart
}

// Steady is Mono as a time, for what wants one: it means nothing but its distance from another.
func (n Now) Steady() time.Time { return time.Time{}.Add(n.Mono) }
