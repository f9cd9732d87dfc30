package identity

import (
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/shared/wire"
)

// Somebody who can write at the broker makes a node ask for the keys without end: the questions grow
// rare, and one that brings something new makes the next one quick again.
func TestKeysAreAskedForRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := keep(t)
		defer b.stop()
		b.set(func() { b.keysRev = 3 })
		nag := func(d time.Duration) (asked, answered int) {
			for range int(d / (10 * time.Second)) {
				b.k.AskKeys()
				pass(10 * time.Second)
			}
			b.set(func() { asked, answered = len(b.asked), len(b.lists); b.asked, b.lists = nil, nil })
			return asked, answered
		}
		if asked, answered := nag(10 * time.Second); asked != 1 || answered != 1 {
			t.Errorf("%d questions, %d answers, want one at once", asked, answered)
		}
		if asked, _ := nag(24 * time.Hour); asked < 20 || asked > 60 {
			t.Errorf("%d questions in a day", asked)
		}
		b.set(func() { b.keysRev = 4 })
		if asked, answered := nag(maxKeysPause + time.Minute); asked < 1 || asked != answered {
			t.Errorf("%d questions, %d answers", asked, answered)
		}
	})
}

// A door that does not answer is asked again without another reason.
func TestKeysAreAskedForUntilThereIsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := keep(t)
		defer b.stop()
		b.set(func() { b.keysRev, b.refuse = 3, wire.New(wire.CodeUnavailable, "", "later") })
		b.k.AskKeys()
		pass(5 * time.Minute)
		b.set(func() {
			if len(b.lists) != 0 || len(b.asked) < 2 {
				t.Errorf("%d questions, %d answers", len(b.asked), len(b.lists))
			}
			b.refuse = nil
		})
		pass(2 * maxKeysPause)
		b.set(func() {
			if len(b.lists) != 1 || b.lists[0].Rev != 3 || len(b.lists[0].List) != 1 {
				t.Errorf("%+v", b.lists)
			}
		})
		pass(24 * time.Hour)
		b.set(func() {
			if len(b.lists) != 1 {
				t.Errorf("%d answers, one was wanted", len(b.lists))
			}
		})
	})
}
