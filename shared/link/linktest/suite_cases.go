package linktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"

	"tandem.internal/shared/link"
)

func publishAndReceive(b *bench) {
	x := b.start(Options{ID: "x", Filters: []string{"t/1"}}, nil)
	y := b.start(Options{ID: "y"}, nil)
	if !slices.Equal(x.Ups(), []uint64{1}) {
		b.Errorf("Up calls: %v, want [1]", x.Ups())
	}
	b.publish(y, "t/1", "a", false)
	b.publish(y, "t/2", "b", false)
	b.publish(x, "t/1", "c", true)
	b.publish(x, "t/1", "", false)
	b.expect(x, "t/1=a", "t/1=c", "t/1=")
	b.expect(y)
}

func retained(b *bench) {
	x := b.start(Options{ID: "x"}, nil)
	for i := range 300 {
		b.publish(x, fmt.Sprintf("r/%d", i), "v", true)
	}
	b.publish(x, "r/7", "w", true)
	for i := range 300 {
		if i != 7 && i != 9 {
			b.publish(x, fmt.Sprintf("r/%d", i), "", true)
		}
	}
	b.expectRetained("r/8", "")
	b.expectRetained("r/7", "w")
	y := b.start(Options{ID: "y", Filters: []string{"r/+"}}, nil)
	b.expect(y, "r/7=w (retained)", "r/9=v (retained)")
}

func filters(b *bench) {
	x := b.start(Options{ID: "x", Filters: []string{"a/+/c", "b/#", "+"}}, nil)
	var many []string
	for i := range 600 {
		many = append(many, fmt.Sprintf("m/%d", i))
	}
	y := b.start(Options{ID: "y", Filters: many}, nil)
	for _, topic := range []string{"a/b/c", "a/b/d", "a/c", "b", "b/1/2", "z", "m/0", "m/255", "m/256", "m/599",
		"m/600"} {
		if err := b.Publish(topic, []byte("1"), false); err != nil {
			b.Error(err)
		}
	}
	b.expect(x, "a/b/c=1", "b=1", "b/1/2=1", "z=1")
	b.expect(y, "m/0=1", "m/255=1", "m/256=1", "m/599=1")
}

func noSession(b *bench) {
	l := b.Link(Options{ID: "x"}, &Recorder{})
	if err := l.Publish(b.ctx, "t", nil, false); !errors.Is(err, link.ErrDown) {
		b.Errorf("Publish before Run: %v", err)
	}
	x := b.start(Options{ID: "x"}, nil)
	ended, cancel := context.WithCancel(b.ctx)
	cancel()
	if err := x.Publish(ended, "t", nil, false); !errors.Is(err, context.Canceled) {
		b.Errorf("Publish with an ended context: %v", err)
	}
	x.stop()
	if err := x.Publish(b.ctx, "t", nil, false); !errors.Is(err, link.ErrDown) {
		b.Errorf("Publish after Run: %v", err)
	}
}

func will(topic string) func(uint64) *link.Publication {
	return func(session uint64) *link.Publication {
		return &link.Publication{Topic: topic, Payload: fmt.Appendf(nil, "lost %d", session), Retain: true}
	}
}

func cut(b *bench) {
	x := b.start(Options{ID: "x", Filters: []string{"t"}, Will: will("w")}, nil)
	b.expectRetained("w", "")
	b.Cut("x")
	synctest.Wait()
	b.expectRetained("w", "lost 1")
	if d := x.Downs(); len(d) != 1 || d[0].Session != 1 {
		b.Fatalf("Down calls: %v", d)
	}
	b.later()
	if len(x.Ups()) != 2 || x.Ups()[1] <= 1 {
		b.Fatalf("Up calls: %v, want a second one", x.Ups())
	}
	second := x.Ups()[1]
	if err := b.Publish("t", []byte("a"), false); err != nil {
		b.Error(err)
	}
	b.expect(x, "t=a")
	b.publish(x, "t", "b", false)
	b.expect(x, "t=a", "t=b")
	b.Cut("x")
	synctest.Wait()
	b.expectRetained("w", fmt.Sprintf("lost %d", second))
	b.later()
}

func wipe(b *bench) {
	x := b.start(Options{ID: "x", Filters: []string{"t"}, Will: will("w")}, nil)
	b.publish(x, "t", "a", true)
	b.Wipe()
	synctest.Wait()
	b.expectRetained("t", "")
	b.expectRetained("w", "")
	b.later()
	if len(x.Ups()) != 2 {
		b.Fatalf("Up calls: %v", x.Ups())
	}
	b.expect(x, "t=a")
}

func partition(b *bench) {
	b.Partition("x")
	x := b.start(Options{ID: "x", Filters: []string{"t"}}, nil)
	b.later()
	if len(x.Ups()) != 0 || len(x.Downs()) == 0 || x.Downs()[0].Session != 0 {
		b.Fatalf("Up %v, Down %v", x.Ups(), x.Downs())
	}
	if err := x.Publish(b.ctx, "t", nil, false); !errors.Is(err, link.ErrDown) {
		b.Errorf("Publish: %v", err)
	}
	b.Heal("x")
	b.later()
	if len(x.Ups()) != 1 {
		b.Fatalf("after healing: Up %v", x.Ups())
	}
	b.publish(x, "t", "a", false)
	b.expect(x, "t=a")
	b.Partition("x")
	b.later()
	x.stop() // while it waits to connect
}

func refusedFilter(b *bench) {
	b.Refuse("no/+")
	x := b.start(Options{ID: "x", Filters: []string{"yes", "no/+"}}, nil)
	d := x.Downs()
	if len(x.Ups()) != 0 || len(d) == 0 || d[0].Session != 0 || !strings.Contains(d[0].Err.Error(), `"no/+"`) {
		b.Fatalf("Up %v, Down %v; want a refusal that names the filter", x.Ups(), d)
	}
}

func orderlyStop(b *bench) {
	watch := b.start(Options{ID: "watch", Filters: []string{"w", "g/#"}}, nil)
	x := b.start(Options{ID: "x", Will: will("w"), Goodbye: func(session uint64) []link.Publication {
		return []link.Publication{
			{Topic: "g/1", Payload: fmt.Appendf(nil, "bye %d", session), Retain: true},
			{Topic: "g/2", Payload: []byte("bye")},
		}
	}}, nil)
	x.stop()
	b.expect(watch, "g/1=bye 1", "g/2=bye")
	b.expectRetained("g/1", "bye 1")
	b.expectRetained("w", "")
	if d := x.Downs(); len(d) != 1 || d[0].Session != 1 || !errors.Is(d[0].Err, context.Canceled) {
		b.Errorf("Down calls: %v", d)
	}
}

func frozenStop(b *bench) {
	x := b.start(Options{ID: "x", Will: will("w"), Goodbye: func(uint64) []link.Publication {
		return []link.Publication{{Topic: "g", Payload: []byte("bye"), Retain: true}}
	}}, nil)
	b.Freeze("x")
	x.stop()
	b.Thaw("x") // a frozen broker notices the end of the connection only now
	synctest.Wait()
	b.expectRetained("w", "lost 1")
}

func window(b *bench) {
	x := b.start(Options{ID: "x", Window: 4}, nil)
	watch := b.start(Options{ID: "watch", Filters: []string{"t"}}, nil)
	b.Freeze("x")
	for range 4 {
		b.publish(x, "t", "a", false)
	}
	blocked := func(ctx context.Context) <-chan error {
		c := make(chan error, 1)
		go func() { c <- x.Publish(ctx, "t", []byte("b"), false) }()
		synctest.Wait()
		select {
		case err := <-c:
			b.Fatalf("the fifth Publish did not wait: %v", err)
		default:
		}
		return c
	}
	ctx, cancel := context.WithCancel(b.ctx)
	c := blocked(ctx)
	cancel()
	if err := <-c; !errors.Is(err, context.Canceled) {
		b.Errorf("called off: %v", err)
	}
	c = blocked(b.ctx)
	b.Thaw("x")
	if err := <-c; err != nil {
		b.Errorf("after the thaw: %v", err)
	}
	b.expect(watch, "t=a", "t=a", "t=a", "t=a", "t=b")
	b.Freeze("x")
	for range 4 {
		b.publish(x, "t", "lost", false)
	}
	c = blocked(b.ctx)
	b.Cut("x")
	if err := <-c; !errors.Is(err, link.ErrDown) {
		b.Errorf("after the cut: %v", err)
	}
	b.Thaw("x")
	b.later()
	b.publish(x, "t", "c", false)
	b.expect(watch, "t=a", "t=a", "t=a", "t=a", "t=b", "t=c") // lost messages are not sent again
	b.Freeze("x")
	for range 4 {
		b.publish(x, "t", "d", false)
	}
	c = blocked(b.ctx)
	go x.stop()
	if err := <-c; !errors.Is(err, link.ErrDown) {
		b.Errorf("at the end of Run: %v", err)
	}
	b.later()
	b.Thaw("x")
}

func publishInside(b *bench) {
	var x *running
	r := &Recorder{}
	r.OnMessage = func(m link.Message) {
		if m.Topic == "ask" {
			if err := x.Publish(b.ctx, "answer", m.Payload, false); err != nil {
				b.Errorf("Publish inside Message: %v", err)
			}
		}
	}
	x = b.start(Options{ID: "x", Filters: []string{"ask", "answer"}, Window: 2}, r)
	var want []string
	for i := range 500 {
		if err := b.Publish("ask", fmt.Append(nil, i), false); err != nil {
			b.Error(err)
		}
		want = append(want, fmt.Sprintf("ask=%d", i), fmt.Sprintf("answer=%d", i))
	}
	b.expect(x, want...)

	var y link.Link
	up := &Recorder{OnUp: func(uint64) { b.publish2(y, 200) }}
	y = b.Link(Options{ID: "y", Window: 2}, up)
	ctx, cancel := context.WithCancel(b.ctx)
	done := make(chan error, 1)
	go func() { done <- y.Run(ctx) }()
	synctest.Wait()
	if len(up.Ups()) != 1 {
		b.Errorf("Up calls: %v", up.Ups())
	}
	cancel()
	if err := <-done; err != nil {
		b.Error(err)
	}
}

// publish2 publishes n messages without waiting in between, as a Handler does in Up.
func (b *bench) publish2(l link.Link, n int) {
	for range n {
		if err := l.Publish(b.ctx, "up", []byte("x"), false); err != nil {
			b.Errorf("Publish inside Up: %v", err)
		}
	}
}

func runWaits(b *bench) {
	entered, leave := make(chan struct{}), make(chan struct{})
	x := b.start(Options{ID: "x", Filters: []string{"t"}}, &Recorder{OnMessage: func(link.Message) {
		close(entered)
		<-leave
	}})
	if err := b.Publish("t", nil, false); err != nil {
		b.Error(err)
	}
	<-entered
	ended := make(chan struct{})
	go func() { x.stop(); close(ended) }()
	synctest.Wait()
	select {
	case <-ended:
		b.Error("Run returned while a Message call was running")
	default:
	}
	close(leave)
	<-ended
}

func subscribeLater(b *bench) {
	x := b.start(Options{ID: "x", Filters: []string{"t"}}, nil)
	sub := x.Link.(link.Subscriber)
	b.Refuse("no")
	if err := sub.Subscribe(b.ctx, "no"); err == nil || errors.Is(err, link.ErrDown) ||
		!strings.Contains(err.Error(), `"no"`) {
		b.Errorf("refused: %v", err)
	}
	if err := sub.Subscribe(b.ctx, "a/#/b"); err == nil {
		b.Error("a bad filter was taken")
	}
	if err := b.Publish("s/1", []byte("r"), true); err != nil {
		b.Error(err)
	}
	if err := sub.Subscribe(b.ctx, "s/+"); err != nil {
		b.Fatal(err)
	}
	b.expect(x, "s/1=r (retained)")
	b.publish(x, "s/2", "a", false)
	if err := sub.Unsubscribe(b.ctx, "s/+"); err != nil {
		b.Error(err)
	}
	b.publish(x, "s/2", "b", false)
	b.expect(x, "s/1=r (retained)", "s/2=a")
	if err := sub.Subscribe(b.ctx, "s/2"); err != nil {
		b.Error(err)
	}
	if len(x.Downs()) != 0 {
		b.Errorf("the session ended: %v", x.Downs())
	}
	b.Cut("x")
	b.later()
	b.publish(x, "s/2", "c", false) // only Options.Filters apply to every session
	b.expect(x, "s/1=r (retained)", "s/2=a")
	x.stop()
	if err := sub.Subscribe(b.ctx, "s/2"); !errors.Is(err, link.ErrDown) {
		b.Errorf("Subscribe after Run: %v", err)
	}
}

func badTopics(b *bench) {
	x := b.start(Options{ID: "x"}, nil)
	for _, topic := range []string{"", "a/+", "#", "a\x00b", "a\xff"} {
		if err := x.Publish(b.ctx, topic, nil, false); err == nil {
			b.Errorf("Publish to %q was taken", topic)
		}
	}
	synctest.Wait()
	if len(x.Downs()) != 0 {
		b.Errorf("the session ended: %v", x.Downs())
	}
}

func sameID(b *bench) {
	x := b.start(Options{ID: "same", Will: will("w")}, nil)
	b.Partition("other")
	ctx, cancel := context.WithCancel(b.ctx)
	r := &Recorder{OnUp: func(uint64) { b.Partition("same") }} // otherwise the two end each other for ever
	y := b.Link(Options{ID: "same"}, r)
	done := make(chan error, 1)
	go func() { done <- y.Run(ctx) }()
	synctest.Wait()
	if d := x.Downs(); len(d) == 0 || d[0].Session != 1 {
		b.Errorf("the first link: Down %v", d)
	}
	b.expectRetained("w", "lost 1")
	cancel()
	if err := <-done; err != nil {
		b.Error(err)
	}
}

func runTwice(b *bench) {
	x := b.start(Options{ID: "x"}, nil)
	if err := x.Run(b.ctx); err == nil {
		b.Error("a second Run returned no error")
	}
}
