package linktest

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/shared/link"
)

// Rig is a broker that a test controls, and its links. *Hub is one. The methods have the meanings that they have there,
// but a link may take up to half a minute until it has a session again.
type Rig interface {
	Link(Options, link.Handler) link.Link
	Publish(topic string, payload []byte, retain bool) error
	Retained(topic string) ([]byte, bool)
	Cut(id string)
	Partition(id string)
	Heal(id string)
	Refuse(filter string)
	Freeze(id string)
	Thaw(id string)
	Wipe()
	Close()
}

// RunSuite tests that the links of a rig fulfil the contract of package link. Each case runs in a testing/synctest
// bubble with its own rig, which make creates in the bubble.
func RunSuite(t *testing.T, make func(t *testing.T) Rig) {
	for _, c := range []struct {
		name string
		run  func(*bench)
	}{
		{"publish and receive", publishAndReceive},
		{"retained", retained},
		{"filters", filters},
		{"no session", noSession},
		{"cut", cut},
		{"wipe", wipe},
		{"partition", partition},
		{"refused filter", refusedFilter},
		{"orderly stop", orderlyStop},
		{"frozen stop", frozenStop},
		{"window", window},
		{"publish inside a call", publishInside},
		{"run waits for calls", runWaits},
		{"subscribe in a session", subscribeLater},
		{"bad topics", badTopics},
		{"same ID", sameID},
		{"run twice", runTwice},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &bench{T: t, Rig: make(t), ctx: context.Background()}
				defer b.Close()
				defer func() {
					for _, stop := range slices.Backward(b.stops) {
						stop()
					}
				}()
				c.run(b)
			})
		})
	}
}

// bench is the state of one case.
type bench struct {
	*testing.T
	Rig
	ctx   context.Context
	stops []func()
}

// running is a link that runs.
type running struct {
	link.Link
	*Recorder
	stop func() // ends Run and waits for it
}

// start runs a link until the end of the case, and waits until it has a session or was refused.
func (b *bench) start(o Options, r *Recorder) *running {
	b.Helper()
	if r == nil {
		r = &Recorder{}
	}
	l := b.Link(o, r)
	ctx, cancel := context.WithCancel(b.ctx)
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		begin := time.Now()
		if err := <-done; err != nil {
			b.Errorf("Run: %v", err)
		}
		if d := time.Since(begin); d > 2*time.Second {
			b.Errorf("Run took %v to end", d)
		}
		b.inTurn(r)
	}
	b.stops = append(b.stops, stop)
	synctest.Wait()
	return &running{l, r, stop}
}

// later lets a minute of virtual time pass, in which a link gets a session again.
func (b *bench) later() {
	time.Sleep(time.Minute)
	synctest.Wait()
}

// inTurn checks that each Up is followed by its Down.
func (b *bench) inTurn(r *Recorder) {
	b.Helper()
	var ended []uint64
	for _, d := range r.Downs() {
		if d.Err == nil {
			b.Errorf("Down(%d) without a reason", d.Session)
		}
		if d.Session != 0 {
			ended = append(ended, d.Session)
		}
	}
	if !slices.Equal(ended, r.Ups()) || !slices.IsSorted(ended) {
		b.Errorf("sessions began %v and ended %v", r.Ups(), ended)
	}
}

// publish publishes a message and waits until it was delivered.
func (b *bench) publish(l link.Link, topic, payload string, retain bool) {
	b.Helper()
	if err := l.Publish(b.ctx, topic, []byte(payload), retain); err != nil {
		b.Errorf("Publish: %v", err)
	}
	synctest.Wait()
}

// expect compares all messages received so far with want, in any order.
func (b *bench) expect(r *running, want ...string) {
	b.Helper()
	synctest.Wait()
	var got []string
	for _, m := range r.Messages() {
		s := m.Topic + "=" + string(m.Payload)
		if m.Retained {
			s += " (retained)"
		}
		got = append(got, s)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.Errorf("received %q, want %q", got, want)
	}
}

// expectRetained compares the retained message of a topic with want; "": none.
func (b *bench) expectRetained(topic, want string) {
	b.Helper()
	got, ok := b.Retained(topic)
	if ok != (want != "") || string(got) != want {
		b.Errorf("retained %q: %q (%v), want %q", topic, got, ok, want)
	}
}
