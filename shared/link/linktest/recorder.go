package linktest

import (
	"slices"
	"sync"

	"tandem.internal/shared/link"
)

// Downed is one Down call.
type Downed struct {
	Session uint64
	Err     error
}

// Recorder is a Handler that records its calls. OnUp and OnMessage, if set before Run, are called in them. Safe for
// concurrent use.
type Recorder struct {
	OnUp      func(session uint64)
	OnMessage func(link.Message)

	mu       sync.Mutex
	ups      []uint64
	downs    []Downed
	messages []link.Message
}

var _ link.Handler = (*Recorder)(nil)

// Up implements link.Handler.
func (r *Recorder) Up(session uint64) {
	r.mu.Lock()
	r.ups = append(r.ups, session)
	r.mu.Unlock()
	if r.OnUp != nil {
		r.OnUp(session)
	}
}

// Down implements link.Handler.
func (r *Recorder) Down(session uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.downs = append(r.downs, Downed{session, err})
}

// Message implements link.Handler.
func (r *Recorder) Message(m link.Message) {
	r.mu.Lock()
	r.messages = append(r.messages, m)
	r.mu.Unlock()
	if r.OnMessage != nil {
		r.OnMessage(m)
	}
}

// Ups returns the sessions of the Up calls so far.
func (r *Recorder) Ups() []uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ups)
}

// Downs returns the Down calls so far.
func (r *Recorder) Downs() []Downed {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.downs)
}

// Messages returns the messages so far.
func (r *Recorder) Messages() []link.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.messages)
}
