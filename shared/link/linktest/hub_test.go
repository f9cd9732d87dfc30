package linktest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"tandem.internal/shared/link"
	"tandem.internal/shared/link/linktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHubSuite(t *testing.T) {
	linktest.RunSuite(t, func(*testing.T) linktest.Rig { return linktest.New() })
}

// start runs a link inside a bubble; the returned function stops it.
func start(t *testing.T, l link.Link) func() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func payloads(r *linktest.Recorder) (got []string) {
	synctest.Wait()
	for _, m := range r.Messages() {
		got = append(got, string(m.Payload))
	}
	return got
}

func TestHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := linktest.New()
		a, b := &linktest.Recorder{}, &linktest.Recorder{}
		defer start(t, hub.Link(linktest.Options{ID: "a", Filters: []string{"#"}}, a))()
		lb := hub.Link(linktest.Options{ID: "b", Filters: []string{"#"}}, b)
		defer start(t, lb)()
		hub.SetHook(func(from, to string, m link.Message) linktest.Verdict {
			if to != "a" {
				return linktest.Deliver
			}
			if from != "b" {
				t.Errorf("from %q", from)
			}
			switch string(m.Payload) {
			case "drop":
				return linktest.Drop
			case "twice":
				return linktest.Twice
			case "plain":
				return linktest.Deliver
			}
			return linktest.Hold
		})
		sent := []string{"drop", "h1", "twice", "h2", "plain", "h3"}
		for _, p := range sent {
			if err := lb.Publish(context.Background(), "t", []byte(p), false); err != nil {
				t.Fatal(err)
			}
		}
		if got := payloads(b); !slices.Equal(got, sent) {
			t.Errorf("b received %q", got)
		}
		want := []string{"twice", "twice", "plain"}
		if got := payloads(a); !slices.Equal(got, want) || hub.Held() != 3 {
			t.Errorf("a received %q, %d held", got, hub.Held())
		}
		hub.Release(func(n int) int { return n - 1 })
		want = append(want, "h3", "h2", "h1")
		if got := payloads(a); !slices.Equal(got, want) || hub.Held() != 0 {
			t.Errorf("a received %q, %d held", got, hub.Held())
		}
		if err := lb.Publish(context.Background(), "t", []byte("h4"), false); err != nil {
			t.Fatal(err)
		}
		hub.Cut("a") // held messages end with the session
		hub.Release(nil)
		if got := payloads(a); !slices.Equal(got, want) {
			t.Errorf("a received %q after the cut", got)
		}
	})
}

func TestAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := linktest.New()
		hub.Refuse("f")
		r := &linktest.Recorder{}
		defer start(t, hub.Link(linktest.Options{ID: "a", Filters: []string{"f"}}, r))()
		if len(r.Ups()) != 0 || len(r.Downs()) != 1 {
			t.Fatalf("Up %v, Down %v", r.Ups(), r.Downs())
		}
		hub.Allow("f")
		synctest.Wait()
		if !slices.Equal(r.Ups(), []uint64{2}) {
			t.Fatalf("Up %v", r.Ups())
		}
	})
}

// TestLocal runs a local link on a Hub: the intake sees everything, and its caller waits for it.
func TestLocal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := linktest.New()
		leave := make(chan struct{})
		var local *link.Local
		in := &linktest.Recorder{}
		in.OnMessage = func(m link.Message) {
			<-leave
			if err := local.Publish(context.Background(), "reply", m.Payload, true); err != nil {
				t.Error(err)
			}
		}
		local = link.NewLocal(hub, in, link.LocalOptions{Goodbye: func(session uint64) []link.Publication {
			return []link.Publication{{Topic: "bye", Payload: fmt.Append(nil, session), Retain: true}}
		}})
		if err := local.Publish(context.Background(), "t", nil, false); err == nil {
			t.Error("Publish before Run was taken")
		}
		stop := start(t, local)
		if !slices.Equal(in.Ups(), []uint64{1}) {
			t.Fatalf("Up %v", in.Ups())
		}
		node := &linktest.Recorder{}
		ln := hub.Link(linktest.Options{ID: "n", Filters: []string{"reply", "bye"}, Window: 2}, node)
		stopNode := start(t, ln)
		for i := range 2 {
			if err := ln.Publish(context.Background(), "up", fmt.Append(nil, i), false); err != nil {
				t.Fatal(err)
			}
		}
		third := make(chan error, 1)
		go func() { third <- ln.Publish(context.Background(), "up", []byte("2"), false) }()
		synctest.Wait()
		select {
		case err := <-third:
			t.Fatalf("a publish was acknowledged before the intake returned (%v)", err)
		default:
		}
		close(leave)
		if err := <-third; err != nil {
			t.Error(err)
		}
		if got := payloads(in); !slices.Equal(got, []string{"0", "1", "2"}) {
			t.Errorf("intake %q", got)
		}
		if got := payloads(node); !slices.Equal(got, []string{"0", "1", "2"}) {
			t.Errorf("replies %q", got)
		}
		if p, ok := local.Retained("reply"); !ok || string(p) != "2" {
			t.Errorf("retained %q %v", p, ok)
		}
		if err := local.Publish(context.Background(), "a/+", nil, false); err == nil {
			t.Error("a bad topic was taken")
		}
		stop()
		if d := in.Downs(); len(d) != 1 || d[0].Session != 1 || d[0].Err == nil {
			t.Errorf("Down %v", d)
		}
		if got := payloads(node); !slices.Equal(got[3:], []string{"1"}) {
			t.Errorf("goodbye %q", got)
		}
		stopNode()
	})
}
