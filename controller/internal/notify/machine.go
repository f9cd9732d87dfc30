package notify

import (
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/controller/internal/words"
)

// How much is in memory, and how often something is done. A receiver's file is written at most once in saveEvery.
const (
	MaxQueue = 32 // entries that are read ahead of a receiver

	readEvery = 200 * time.Millisecond // least time between two looks at the journal
	readAgain = 5 * time.Second        // after a look that failed
	saveEvery = time.Second            // after something was delivered
	saveIdle  = 10 * time.Minute       // when only what nobody wants was passed
	saveAgain = 10 * time.Second       // after a write that failed
	firstTry  = time.Second            // pause after the first failure; it doubles
	lastTry   = 15 * time.Minute       // the longest
	longest   = time.Hour              // that a receiver may ask for
)

// Progress is how far a receiver has come, as its file has it.
type Progress struct {
	Seq    uint64 `json:"seq"`              // every record up to this one is done with
	Hash   string `json:"hash,omitempty"`   // beginning of that record's chain hash; "": it is gone, or there is none
	GoneTo uint64 `json:"goneTo,omitempty"` // it was told which records up to this one are gone
	Quiet  Quiet  `json:"quiet,omitzero"`   // the announced maintenance that Seq is in
}

// Quiet is an announced maintenance: entries that are no errors are left out of what a receiver is told, and counted.
type Quiet struct {
	By       uint64    `json:"by"` // number of the record that began it; 0: there is none
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until"` // unless a record ends it before
	Left     int       `json:"left,omitempty"`
	Warnings int       `json:"warnings,omitempty"` // of them
	First    uint64    `json:"first,omitempty"`    // of them
	Last     uint64    `json:"last,omitempty"`
}

// IsZero reports whether there is none.
func (q Quiet) IsZero() bool { return q.By == 0 }

// Entry is an entry of the journal with the beginning of its chain hash.
type Entry struct {
	view.Entry
	Hash     string
	Selected bool // the receiver's Where selects its node, as it was when the entry was read
}

// Mark is a place in the journal.
type Mark struct {
	Seq  uint64
	Hash string // the beginning of the chain hash there; "": the record is gone, or there is none
}

// Gone are records that the journal has no more.
type Gone struct{ First, Last, Count uint64 }

// Machine is the state of one receiver. One goroutine owns it.
type Machine struct {
	to   Receiver
	unit string

	done, read, saved Progress
	queue             []Message
	grown             bool // the journal may have more
	readAt            time.Time
	savedAt           time.Time
	saveAt            time.Time // not before, after a failure
	dirty             bool      // something was delivered since it was saved

	tries     int
	tryAt     time.Time
	err       failure // of the newest try
	readErr   failure
	saveErr   failure
	delivered uint64
	last      time.Time
	lastID    string
}

// New begins with what the receiver's file has. head is the newest record; same says whether the journal is the one
// that the file is of: it has the record there, or has removed it.
func New(to Receiver, unit string, saved Progress, head Mark, same bool) *Machine {
	m := &Machine{to: to, unit: unit, done: saved, read: saved, saved: saved, grown: true}
	if !same {
		m.read = Progress{Seq: head.Seq, Hash: head.Hash}
		m.queue = []Message{m.restored(saved, m.read)}
	}
	return m
}

// Event is what happened to a Machine: one of the types below.
type Event interface{ event() }

type (
	// Grown says that the journal may have more.
	Grown struct{}
	// Read is what was read for a Fetch: entries in order, and that between After and UpTo there is no other that is
	// wanted.
	Read struct {
		Entries []Entry
		UpTo    Mark
		Gone    Gone // records after GoneTo and up to UpTo that are gone
		More    bool // there are records after UpTo
		Err     string
	}
	// Answered is what became of the message that was sent.
	Answered struct {
		OK     bool
		Err    string        // why not
		After  time.Duration // the receiver asks for no try before; 0: it does not
		Chance float64       // from 0 up to 1, by which the pause is drawn
	}
	// Saved says what the receiver's file has, or why it could not be written.
	Saved struct {
		Progress
		Err string
	}
	// Retry says that somebody has found the receiver well: what waits is tried now.
	Retry struct{}
)

func (Grown) event()    {}
func (Read) event()     {}
func (Answered) event() {}
func (Saved) event()    {}
func (Retry) event()    {}

// Act is what is to be done next: a Fetch, a Send, a Save or a Wait.
type Act interface{ act() }

type (
	// Fetch reads at most Limit entries after a record.
	Fetch struct {
		After, GoneTo uint64
		Limit         int
	}
	// Send sends a message, once.
	Send struct{ Message }
	// Save writes the receiver's file.
	Save struct{ Progress }
	// Wait waits for an event, or until NextDeadline.
	Wait struct{}
)

func (Fetch) act() {}
func (Send) act()  {}
func (Save) act()  {}
func (Wait) act()  {}

// Next says what is to be done at a time. Nothing but its result's event, and time, changes that.
func (m *Machine) Next(now time.Time) Act {
	if at, due := m.saves(); due && come(at, now, saveIdle) {
		return Save{m.done}
	}
	if len(m.queue) > 0 && come(m.tryAt, now, longest) {
		return Send{m.queue[0]}
	}
	if m.reads() && come(m.readAt, now, readAgain) {
		return Fetch{After: m.read.Seq, GoneTo: m.read.GoneTo, Limit: MaxQueue - len(m.queue)}
	}
	return Wait{}
}

// come reports whether a time has come that was at most so far ahead. If it is farther, the clock was set back.
func come(at, now time.Time, most time.Duration) bool { return !now.Before(at) || at.Sub(now) > most }

// NextDeadline is when there is something to do without an event; false: never.
func (m *Machine) NextDeadline() (next time.Time, ok bool) {
	first := func(at time.Time, due bool) {
		if due && (!ok || at.Before(next)) {
			next, ok = at, true
		}
	}
	first(m.saves())
	first(m.tryAt, len(m.queue) > 0)
	first(m.readAt, m.reads())
	return next, ok
}

// Unsaved is what the file should have when everything stops; false: it has that.
func (m *Machine) Unsaved() (Progress, bool) { return m.done, m.done != m.saved }

// reads reports whether more is to be read: not while half of what was read waits.
func (m *Machine) reads() bool { return m.grown && len(m.queue) < MaxQueue/2 }

// saves says when the file is to be written; false: it need not.
func (m *Machine) saves() (at time.Time, due bool) {
	if m.done == m.saved {
		return at, false
	}
	at = m.savedAt.Add(saveIdle)
	if m.dirty {
		at = m.savedAt.Add(saveEvery)
	}
	if at.Before(m.saveAt) {
		at = m.saveAt
	}
	return at, true
}

// Step takes an event in.
func (m *Machine) Step(now time.Time, ev Event) {
	switch ev := ev.(type) {
	case Grown:
		m.grown = true
	case Retry:
		m.tryAt = now
	case Read:
		if m.readAt = now; !ev.More {
			m.readAt = now.Add(readEvery)
		}
		if m.readErr = (failure{}); ev.Err != "" {
			m.readAt, m.readErr = now.Add(readAgain), failure{now, ev.Err}
			return
		}
		m.grown = ev.More
		m.take(&ev)
	case Answered:
		m.answered(now, &ev)
	case Saved:
		m.savedAt = now
		if m.saveErr = (failure{}); ev.Err != "" {
			m.saveAt, m.saveErr = now.Add(saveAgain), failure{now, ev.Err}
			return
		}
		m.saved, m.dirty = ev.Progress, false
	}
}

// failure is why something failed, and when.
type failure struct {
	at   time.Time
	text string
}

func (m *Machine) answered(now time.Time, ev *Answered) {
	if !ev.OK {
		m.err = failure{now, ev.Err}
		m.tryAt = now.Add(pause(m.tries, ev.Chance, ev.After))
		m.tries++
		return
	}
	m.delivered, m.last, m.lastID = m.delivered+1, now, m.queue[0].ID
	m.tries, m.tryAt, m.err = 0, time.Time{}, failure{}
	m.done, m.dirty = m.queue[0].done, true
	if m.queue = m.queue[1:]; len(m.queue) == 0 {
		m.queue, m.done = nil, m.read
	}
}

// pause is how long it takes until a message is tried again that has failed so often before: from half of what doubles
// with each failure up to all of it, so that receivers of many units do not hear of all at once.
func pause(tries int, chance float64, asked time.Duration) time.Duration {
	d := lastTry
	if tries < 10 {
		d = firstTry << tries // the next would be longer than lastTry
	}
	d = d/2 + time.Duration(chance*float64(d/2))
	return max(d, min(asked, longest))
}

// take takes in what was read.
func (m *Machine) take(ev *Read) {
	p := m.read
	if ev.Gone.Count > 0 {
		p.GoneTo = ev.Gone.Last
		m.queue = append(m.queue, m.gone(ev.Gone, p))
	}
	for i := range ev.Entries {
		e := &ev.Entries[i]
		maintenance := e.Type == record.Maintenance.String()
		if q := p.Quiet; !q.IsZero() && (!e.At.Before(q.Until) || maintenance && until(e).IsZero()) {
			m.endQuiet(&p)
		}
		if at := until(e); maintenance && !at.IsZero() {
			p.Quiet.Until = at
			if p.Quiet.IsZero() {
				p.Quiet.By, p.Quiet.Since = e.Seq, e.At
			}
		}
		p.Seq, p.Hash = e.Seq, e.Hash
		level := words.Level(&e.Entry)
		if !m.to.Filter.Match(e, level) {
			continue
		}
		if !p.Quiet.IsZero() && !m.to.Always && !maintenance && level != Error {
			p.Quiet.leave(e.Seq, level)
			continue
		}
		m.queue = append(m.queue, m.entry(e, level, p))
	}
	p.Seq, p.Hash = ev.UpTo.Seq, ev.UpTo.Hash
	m.read = p
	if len(m.queue) == 0 {
		m.done = p
	}
}

func (q *Quiet) leave(seq uint64, level Level) {
	q.Left, q.Last = q.Left+1, seq
	if q.First == 0 {
		q.First = seq
	}
	if level == Warning {
		q.Warnings++
	}
}

func (m *Machine) endQuiet(p *Progress) {
	q := p.Quiet
	p.Quiet = Quiet{}
	if q.Left > 0 {
		m.queue = append(m.queue, m.quietOver(q, *p))
	}
}

// until is when a maintenance ends that an entry announces; zero: it ends one.
func until(e *Entry) time.Time {
	var d record.MaintenanceData
	if e.Type != record.Maintenance.String() || len(e.Data) == 0 || json.Unmarshal(e.Data, &d) != nil {
		return time.Time{}
	}
	return d.Until
}

// Shown is the state as people see it, but for Lag.
func (m *Machine) Shown() view.NoticeReceiver {
	v := m.to.Shown()
	v.State = "ok"
	v.Cursor, v.Waiting, v.Delivered, v.Last, v.LastID = m.done.Seq, len(m.queue), m.delivered, m.last, m.lastID
	v.Tries = m.tries
	for _, f := range []failure{m.saveErr, m.readErr, m.err} {
		if f.text != "" {
			v.Error, v.ErrorAt = f.text, f.at
		}
	}
	v.Quiet, v.LeftOut = m.read.Quiet.Until, m.read.Quiet.Left
	switch {
	case m.tries > 0:
		v.State, v.NextTry = "failing", m.tryAt
	case m.readErr.text != "":
		v.State, v.NextTry = "failing", m.readAt
	case len(m.queue) > 0:
		v.State = "behind"
	}
	return v
}

// Shown is what may be shown of a receiver.
func (r *Receiver) Shown() view.NoticeReceiver {
	return view.NoticeReceiver{Name: r.Name, URL: r.Origin(), Filter: view.NoticeFilter(r.Filter), CA: r.CA != "",
		Insecure: r.Insecure, Always: r.Always, Created: r.Created, By: r.By, State: "stopped"}
}

// Grew reports whether it is known that the journal may have more.
func (m *Machine) Grew() bool { return m.grown }
