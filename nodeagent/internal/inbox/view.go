package inbox

import (
	"maps"
	"slices"
	"time"

	"tandem.internal/shared/wire"
)

// View is what a node knows of whether its documents are the newest that the controller has issued to it. Each beacon
// has a mark that changes when anything is issued in the unit. For a mark that it does not know the node asks which
// documents it should have; if it has not got them in time, or no answer, somebody in between withholds them.
//
// It has no goroutine and no clock: now is monotonic.
type View struct {
	heard, answered string                   // mark of the newest beacon; of the newest answer
	since           time.Duration            // when the wait for an answer and its documents began in this session
	spent           time.Duration            // how long earlier sessions have waited for it
	newest          map[wire.Kind]wire.Stamp // stamps of the documents that the node should have, by that answer
	askAt           time.Duration            // 0: not due
	lateAt          time.Duration            // when the view is stale, unless it is complete by then; 0: it is
	late            bool                     // it is stale, and an event says so
}

// Times of a view.
const (
	ViewJitter = 20 * time.Second // nodes spread their questions over it
	ViewGrace  = 45 * time.Second // for the question, its answer, and documents on their way; in session
	ViewLeast  = 10 * time.Second // of that in a session that goes on, so that a new one can bring what is missing
	ViewAgain  = 10 * time.Second // without an answer: the controller answers a node every few seconds only
)

// Hear takes in the mark of a beacon; "": the controller has none. jitter is when to ask, from now, at most ViewJitter.
func (v *View) Hear(now time.Duration, mark string, jitter time.Duration) {
	if mark == "" || mark == v.answered && v.lateAt == 0 {
		return
	}
	if v.lateAt == 0 {
		v.since, v.lateAt = now, now+max(ViewGrace-v.spent, ViewLeast)
	}
	if mark != v.heard {
		v.heard, v.answered = mark, "" // an answer from before says nothing of an old beacon that is played again
	}
	if v.askAt == 0 {
		if v.spent > 0 {
			jitter /= 4 // sessions may be short
		}
		v.askAt = now + max(jitter, 1)
	}
}

// Offline ends a session. What was asked is forgotten, and an answer that named what has not come: a node without a
// session hears nothing, and says so in other ways. The wait goes on in the next session, so that whoever ends sessions
// again and again does not put its end off; if it was long enough, Look has to be called.
func (v *View) Offline(now time.Duration) {
	v.askAt = 0
	if v.lateAt == 0 {
		return
	}
	if v.spent += now - v.since; v.spent >= ViewGrace && !v.late {
		v.lateAt = max(now, 1)
		return
	}
	v.answered, v.lateAt = "", 0
}

// Tell takes in the controller's answer: the mark that was asked for, and the stamps of the node's documents.
func (v *View) Tell(mark string, newest map[wire.Kind]wire.Stamp) {
	if mark == v.heard {
		v.answered, v.newest, v.askAt = mark, newest, 0
	}
}

// Due is when Look has something to do; false: never.
func (v *View) Due() (time.Duration, bool) {
	switch {
	case v.askAt != 0 && (v.late || v.lateAt == 0 || v.askAt < v.lateAt):
		return v.askAt, true
	case v.lateAt != 0 && !v.late:
		return v.lateAt, true
	}
	return 0, false
}

// Looked is what a look at the view came to.
type Looked struct {
	Ask     string      // the mark to ask for; "": nothing
	Changed bool        // Stale is news
	Stale   bool        // the node knows that it has not got everything
	Missing []wire.Kind // with Stale: the kinds whose newest document it has not got; none: there was no answer
}

// Look compares what the node has with what it should have. high returns the newest stamp that was accepted of a kind;
// false: the agent does not know the kind.
func (v *View) Look(now time.Duration, high func(wire.Kind) (wire.Stamp, bool)) Looked {
	l := Looked{}
	if v.askAt != 0 && now >= v.askAt {
		l.Ask, v.askAt = v.heard, 0
		if again := now + ViewAgain; !v.late && again < v.lateAt {
			v.askAt = again
		}
	}
	if v.answered == v.heard {
		for _, k := range slices.Sorted(maps.Keys(v.newest)) {
			if h, ok := high(k); ok && h.Compare(v.newest[k]) < 0 {
				l.Missing = append(l.Missing, k)
			}
		}
		if len(l.Missing) == 0 {
			l.Changed, v.late, v.lateAt, v.spent = v.late, false, 0, 0
			return l
		}
	}
	if l.Changed = v.lateAt != 0 && now >= v.lateAt && !v.late; l.Changed {
		v.late = true
	}
	l.Stale = v.late
	return l
}
