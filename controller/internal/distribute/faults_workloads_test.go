package distribute

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/kinds/workloads"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// runs is the configurations in a document of workloads.
func runs(body []byte) string {
	configs, errs := workload.ParseDocument(body, "n")
	if errs != nil {
		return errs[0].Error()
	}
	var all []string
	for _, c := range configs {
		all = append(all, c.ConfigurationID)
	}
	return "[" + strings.Join(all, " ") + "]"
}

// workInside tells the state of workloads in one line, workOutside what the world sees of it.
func (r *faulty) workInside() (s string) {
	r.Helper()
	synctest.Wait()
	r.look(func(f *fleet.Fleet) {
		doc := "-"
		if k := f.Lookup("n").Kinds[wire.KindWorkloads]; k != nil && k.Desired != nil {
			body, err := r.core.body(k.Desired.Hash)
			if err != nil {
				r.Error(err)
			}
			doc = runs(body)
		}
		version, slots := f.State(wire.KindWorkloads).Version, workloads.Slots(f, "n")
		s = fmt.Sprintf("version=%s slots=%d node=%s", version, len(slots), doc)
	})
	return s
}

func (r *faulty) workOutside() string {
	r.Helper()
	synctest.Wait()
	payload, ok := r.broker.Retained(topic.ForNode(faultyUnit, "n").Desired(wire.KindWorkloads))
	if !ok {
		return "broker=-"
	}
	d, err := wire.Decode[wire.Desired](payload)
	if err != nil {
		r.Fatalf("%v in %s", err, payload)
	}
	return "broker=" + runs(d.Body)
}

func (r *faulty) apply(entries string) error {
	_, err := r.core.Submit(r.Context(),
		view.Submission{Kind: wire.KindWorkloads, Document: []byte(entries), Who: "ann", Offline: true})
	return err
}

// Fault table of a set of workloads, as for the unit configuration: a commit that failed and is not on the
// disk × one that failed and is × the journal opened again by the running controller, by another one.
// Nothing is told outside before it is durable.
func TestWorkloadsWhoseCommitFails(t *testing.T) {
	const (
		one = `[{"@class":"Instance","configurationId":"a","slot":"web@n","resources":{"iss_hook_start":` +
			`{"@class":"Resource","uuid":"u","urls":["http://127.0.0.1/x"],"size":0,` +
			`"verification":{"checksum":"EMPTY:","checkPeriod":"0d0h0m"}}}}]`
		bare = "version= slots=0 node=- broker=-"
		a    = "version=1.0.0 slots=1 node=[a] broker=[a]"
		b    = "version=1.0.1 slots=1 node=[b] broker=[b]"
		none = "version=1.0.1 slots=0 node=[] broker=[]"
	)
	two := strings.Replace(one, `"a"`, `"b"`, 1)
	for _, c := range []struct{ name, before, set, old, new string }{
		{"first", "", one, bare, a}, {"another", one, two, a, b}, {"nothing", one, "[]", a, none},
	} {
		for _, persisted := range []bool{false, true} {
			for _, restart := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/persisted=%v/restart=%v", c.name, persisted, restart), func(t *testing.T) {
					withFaults(t, nil, func(t *testing.T, r *faulty) {
						r.join("n")
						if c.before != "" {
							if err := r.apply(c.before); err != nil {
								t.Fatal(err)
							}
						}
						if got := r.workInside() + " " + r.workOutside(); got != c.old {
							t.Fatalf("before\n got %s\nwant %s", got, c.old)
						}
						if persisted {
							r.disk.fail(0, 1)
						} else {
							r.disk.fail(1, 0)
						}
						r.mustBe("the caller", r.apply(c.set), wire.CodeStorage)
						if got := r.workOutside(); !strings.HasSuffix(c.old, got) {
							t.Errorf("told outside before it was durable: %s", got)
						}
						if restart {
							r.mustBe("stopping", r.stop(), wire.CodeStorage)
							r.disk.fail(0, 0)
							r.start()
						} else {
							r.recover()
						}
						want := c.old
						if persisted {
							want = c.new
						}
						if got := r.workInside() + " " + r.workOutside(); got != want {
							t.Errorf("afterwards\n got %s\nwant %s", got, want)
						}
						r.whole()
					})
				})
			}
		}
	}
}

// Two sets of workloads are not worked out at once, however many come together: each may take a lot of memory. A
// configuration does not wait for them.
func TestWorkloadsInTurn(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		set := []byte(`[]`)
		r.core.heavyParse <- struct{}{} // somebody is at it
		answers := make(chan error, 2)
		go func() {
			_, err := r.core.Submit(t.Context(),
				view.Submission{Kind: wire.KindWorkloads, Document: set, Who: "a", Via: "http", Offline: true})
			answers <- err
		}()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := r.core.Submit(ctx,
				view.Submission{Kind: wire.KindWorkloads, Document: set, Who: "b", Via: "http", Offline: true})
			answers <- err
		}()
		synctest.Wait()
		if len(answers) != 0 {
			t.Fatalf("a set is worked out beside another one: %v", <-answers)
		}
		if _, err := r.submit("1.0.0"); err != nil {
			t.Errorf("a configuration: %v", err)
		}
		cancel()
		if err := <-answers; !errors.Is(err, context.Canceled) {
			t.Errorf("who does not wait any more: %v", err)
		}
		<-r.core.heavyParse
		r.mustBe("its turn", <-answers, "")
		if doc, err := r.core.Filled(t.Context(), op.FilledIn{}); err != nil || string(doc) != "[]" {
			t.Errorf("%s %v", doc, err)
		}
	})
}

// A desired status waits for its turn, too. One of which a short message would make more than the journal takes is
// refused alone, and the journal is as it was; one that cannot be read is told of.
func TestDesiredInTurn(t *testing.T) {
	withFaults(t, func(c *Config) { c.Cloud = true }, func(t *testing.T, r *faulty) {
		change := func(document string) error {
			_, err := r.core.order(t.Context(), func(t uint64) fleet.Event {
				return fleet.Change{Ticket: t, Source: record.KindWanted, Data: record.WantedData{
					Document: []byte(document)}}
			})
			return err
		}
		trouble := func() string {
			s, err := r.core.Status(t.Context())
			r.mustBe("the status", err, "")
			return strings.Join(s.Trouble, "\n")
		}
		r.mustBe("too large", change(`"`+strings.Repeat("x", journal.MaxData)+`"`), wire.CodeTooLarge)
		if r.core.Refusing() != nil || trouble() != "" {
			t.Errorf("%v %s", r.core.Refusing(), trouble())
		}
		r.mustBe("unreadable", change(`{"items":{}}`), "")
		if got := trouble(); !strings.Contains(got, "cannot be read and is not followed") {
			t.Error(got)
		}
		if _, err := r.core.PlanDesired(t.Context(), op.DecideIn{}); wire.AsError(err).Code != wire.CodeMalformed {
			t.Errorf("a plan of what cannot be read: %v", err)
		}
		r.core.heavyParse <- struct{}{} // somebody is at it
		m := wire.Submission{V: wire.Version, ID: "a", From: "c", Document: []byte(`{"messageType":"desiredStatus"}`)}
		r.deliver(topic.ForInbox(faultyUnit, "desired"), wire.Encode(&m))
		synctest.Wait()
		to := topic.ForOutbox(faultyUnit, "desired")
		if n := r.broker.published(to); n != 0 {
			t.Errorf("%d answers out of turn", n)
		}
		<-r.core.heavyParse
		synctest.Wait()
		if n := r.broker.published(to); n != 1 || trouble() != "" {
			t.Errorf("%d answers, %s", n, trouble())
		}
	})
}

// Those who read have a turn of their own: they wait for each other, a few at most, and hold up no submission.
func TestReadersInTurn(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		if _, err := r.submit("1.0.0"); err != nil {
			t.Fatal(err)
		}
		r.core.readersTurn <- struct{}{} // somebody is at it
		ctx, cancel := context.WithCancel(t.Context())
		answers := make(chan error, maxReaders)
		for range maxReaders {
			go func() {
				_, err := r.core.Diff(ctx, wire.KindConfig, op.DiffIn{From: "1.0.0", To: "1.0.0"})
				answers <- err
			}()
		}
		synctest.Wait()
		if len(answers) != 0 {
			t.Fatalf("two read at once: %v", <-answers)
		}
		if _, err := r.core.Filled(ctx, op.FilledIn{}); err == nil || wire.AsError(err).Code != wire.CodeUnavailable {
			t.Errorf("one too many: %v", err)
		}
		if _, err := r.core.Submit(ctx, view.Submission{
			Kind: wire.KindWorkloads, Document: []byte(`[]`), Who: "a", Via: "http", Offline: true,
		}); err != nil {
			t.Errorf("a submission: %v", err)
		}
		cancel()
		for range maxReaders {
			if err := <-answers; !errors.Is(err, context.Canceled) {
				t.Errorf("who does not wait any more: %v", err)
			}
		}
		<-r.core.readersTurn
		if doc, err := r.core.Filled(t.Context(), op.FilledIn{}); err != nil || string(doc) != "[]" {
			t.Errorf("%s %v", doc, err)
		}
	})
}

// ending is a context that ends after it was asked so often whether it has.
type ending struct {
	context.Context
	left atomic.Int64
}

func (e *ending) Err() error {
	if e.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// A set that is worked out does not hold up whoever has gone away, such as a controller that stops: it is left
// where it is, without a record, and the next has its turn.
func TestWorkloadsAreLeftWhenNobodyWaits(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		var all []string
		for _, node := range []string{"a", "b", "c", "d"} {
			all = append(all, `{"@class":"Instance","slot":"web@`+node+`","resources":{"iss_hook_start":`+
				`{"@class":"Resource","uuid":"u","urls":["http://127.0.0.1/x"],"size":0,`+
				`"verification":{"checksum":"EMPTY:","checkPeriod":"0d0h0m"}}}}`)
		}
		set := []byte("[" + strings.Join(all, ",") + "]")
		last := r.core.journal.Load().Last()
		for polls := range int64(4) {
			ctx := &ending{Context: t.Context()}
			ctx.left.Store(polls)
			s := view.Submission{Kind: wire.KindWorkloads, Document: set, Who: "ann", Via: "http", Offline: true}
			if _, err := r.core.Submit(ctx, s); !errors.Is(err, context.Canceled) || ctx.left.Load() > -2 {
				t.Errorf("%d: %v, asked on %d times", polls, err, -ctx.left.Load())
			}
		}
		if now := r.core.journal.Load().Last(); now != last {
			t.Errorf("%d records more", now-last)
		}
		r.mustBe("the next", r.apply(string(set)), "")
		ctx := &ending{Context: t.Context()}
		ctx.left.Store(1)
		if doc, err := r.core.Filled(ctx, op.FilledIn{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s %v", doc, err)
		}
	})
}
