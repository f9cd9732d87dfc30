package inbox

import "tandem.internal/shared/wire"

// inPlace is the document that should be in place.
func (s State) inPlace() Doc {
	if s.Flight.Phase == Trying {
		return s.Flight.Doc
	}
	return s.Running
}

// looks reports whether what is in place is looked at again by time: nothing is out, half done, or tried again anyhow.
func (s State) looks() bool {
	switch s.Flight.Phase {
	case Idle, Trying, Waiting:
		return s.look > 0 && s.busy == opNone && !s.unsure && s.inPlace().Exists()
	}
	return false
}

// placed says that a document was put in place just now, whole.
func (t *step) placed() { t.drift, t.lookAt = nil, t.now.Mono+t.look }

func (t *step) verify(want Doc) {
	t.unsure = false
	if want.Exists() {
		t.busy = opVerify
		t.do(Verify{Want: want})
	}
}

func (t *step) verified(ev Verified) {
	before := t.drift
	t.drift, t.lookAt = nil, t.now.Mono+t.look
	if ev.Drifted {
		text := ev.What
		if ev.Err != nil {
			text += "; it cannot be put right: " + ev.Err.Message
		}
		what, doc := wire.New(wire.CodeDrift, "", text), t.inPlace().Ref()
		switch {
		case ev.Repaired:
			t.do(Emit{Type: EventDriftRepaired, Doc: doc, Err: what})
		case before != nil && (ev.Err != nil || *before == *what): // why it cannot be put right may differ each time
			t.drift = before
		default:
			t.drift = what
			t.do(Emit{Type: EventDrift, Doc: doc, Err: what})
		}
	}
	if t.drift != before {
		t.report()
	}
	if ev.Err != nil {
		t.tries++
		t.unsure = true
		if t.Flight.Phase != Waiting {
			t.retryAt = t.now.Mono + backoff(t.tries, t.chance)
		}
	} else {
		t.tries = 0
	}
	t.next()
	t.tick()
}

// drifted is a report of a node on which something else is in the place of the document: on trial its attempt
// has an error, and otherwise the node does not say that it runs the document.
func (s State) drifted(running *wire.DocRef, last *wire.Attempt) (*wire.DocRef, *wire.Attempt) {
	if last != nil && last.Stamp() == s.inPlace().Stamp {
		a := *last
		a.Error, last = s.drift, &a
	}
	if s.Flight.Phase != Trying {
		running = nil
	}
	return running, last
}
