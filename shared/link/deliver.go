package link

import mqtt "github.com/eclipse/paho.mqtt.golang"

// deliver passes a message to the Handler and acknowledges it after that. paho calls it in a goroutine for each
// message. If the session ends before the Handler returns, no acknowledgement reaches the broker.
func (s *session) deliver(_ mqtt.Client, m mqtt.Message) {
	if s.beginMessage() {
		s.message(Message{Topic: m.Topic(), Payload: m.Payload(), Retained: m.Retained()}, m.Ack)
	}
}

// skipped is deliver for a message that conn has read past.
func (s *session) skipped(m Message, ack func()) {
	if s.beginMessage() {
		go s.message(m, ack)
	}
}

// beginMessage reports whether the session is open, and then counts a Message call, which message ends.
func (s *session) beginMessage() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.d.calls.Add(1)
	}
	return !s.closed
}

// message calls the Handler, and then ack.
func (s *session) message(m Message, ack func()) {
	defer s.d.calls.Done()
	s.d.handler.Message(m)
	ack()
}
