package distribute

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/kinds/health"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// resets is what settings with this reset time are to a node.
func resets(d time.Duration) *wire.HealthSettings {
	return &wire.HealthSettings{FormatVersion: wire.HealthFormat, Reset: wire.SpanOf(d)}
}

func (r *faulty) set(d time.Duration) error {
	_, err := r.core.SetHealth(as(r.Context(), "ann"), op.SetHealth{Scope: view.Scope{All: true}, Settings: resets(d)})
	return err
}

func (r *faulty) maintain(d time.Duration) error {
	_, err := r.core.Maintain(as(r.Context(), "ann"), op.Maintain{For: duration.Format(d), Reason: "a switch"})
	return err
}

// beacon is what the broker keeps of the controller.
func (r *faulty) beacon() *wire.Beacon {
	r.Helper()
	payload, _ := r.broker.Retained(topic.ForController(faultyUnit))
	b, err := wire.Decode[wire.Beacon](payload)
	if err != nil {
		r.Fatalf("%v in %s", err, payload)
	}
	key := r.core.signer().Key()
	if err := (seal.Trust{key.ID: key.Ed25519}).Verify(seal.BeaconPreimage(b), b.Sig); err != nil {
		r.Errorf("the beacon: %v", err)
	}
	return b
}

// healthInside tells the state of what is ordered about health in one line, healthOutside what the world
// sees of it.
func (r *faulty) healthInside() (s string) {
	r.Helper()
	synctest.Wait()
	r.look(func(f *fleet.Fleet) {
		set := "-"
		if a := health.List(f).All; a != nil {
			set = a.Settings.Reset.String()
		}
		doc := "-"
		if k := f.Lookup("n").Kinds[wire.KindHealth]; k != nil && k.Desired != nil {
			body, err := r.core.body(k.Desired.Hash)
			if err != nil {
				r.Error(err)
			}
			doc = resetOf(body)
		}
		away := "-"
		if m := f.Maintenance(); !m.Until.IsZero() {
			away = m.Until.Sub(m.Since).String()
		}
		s = fmt.Sprintf("set=%s node=%s away=%s", set, doc, away)
	})
	return s
}

func resetOf(body []byte) string {
	h, err := wire.Decode[wire.HealthSettings](body)
	if err != nil {
		return err.Error()
	}
	if h.Reset == 0 {
		return "own"
	}
	return h.Reset.String()
}

func (r *faulty) healthOutside() string {
	r.Helper()
	synctest.Wait()
	doc := "-"
	if payload, ok := r.broker.Retained(topic.ForNode(faultyUnit, "n").Desired(wire.KindHealth)); ok {
		d, err := wire.Decode[wire.Desired](payload)
		if err != nil {
			r.Fatalf("%v in %s", err, payload)
		}
		doc = resetOf(d.Body)
	}
	away := "no"
	if b := r.beacon(); !b.Maintenance.IsZero() {
		away = "yes"
	}
	return fmt.Sprintf("broker=%s beacon=%s", doc, away)
}

// Fault table of what operators set about health, as for the unit configuration: a commit that failed and is
// not on the disk × one that failed and is × the journal opened again by the running controller, by
// another one. Nothing is told outside before it is durable.
func TestHealthOrderWhoseCommitFails(t *testing.T) {
	const (
		bare    = "set=- node=- away=- broker=- beacon=no"
		hour    = "set=PT1H node=PT1H away=- broker=PT1H beacon=no"
		day     = "set=P1D node=P1D away=- broker=P1D beacon=no"
		unset   = "set=- node=own away=- broker=own beacon=no"
		resting = "set=- node=- away=2h0m0s broker=- beacon=yes"
	)
	for _, c := range []struct {
		name     string
		prepare  func(*faulty) error
		order    func(*faulty) error
		old, new string
	}{
		{"set", nil, func(r *faulty) error { return r.set(time.Hour) }, bare, hour},
		{"set again", func(r *faulty) error { return r.set(time.Hour) },
			func(r *faulty) error { return r.set(24 * time.Hour) }, hour, day},
		{"unset", func(r *faulty) error { return r.set(time.Hour) }, func(r *faulty) error {
			_, err := r.core.UnsetHealth(as(r.Context(), "ann"), view.Scope{All: true})
			return err
		}, hour, unset},
		{"maintain", nil, func(r *faulty) error { return r.maintain(2 * time.Hour) }, bare, resting},
		{"end", func(r *faulty) error { return r.maintain(2 * time.Hour) },
			func(r *faulty) error { return r.maintain(0) }, resting, bare},
	} {
		for _, persisted := range []bool{false, true} {
			for _, restart := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/persisted=%v/restart=%v", c.name, persisted, restart), func(t *testing.T) {
					withFaults(t, nil, func(t *testing.T, r *faulty) {
						r.join("n")
						if c.prepare != nil {
							if err := c.prepare(r); err != nil {
								t.Fatal(err)
							}
						}
						if got := r.healthInside() + " " + r.healthOutside(); got != c.old {
							t.Fatalf("before\n got %s\nwant %s", got, c.old)
						}
						if persisted {
							r.disk.fail(0, 1)
						} else {
							r.disk.fail(1, 0)
						}
						r.mustBe("the caller", c.order(r), wire.CodeStorage)
						if got := r.healthOutside(); !strings.HasSuffix(c.old, got) {
							t.Errorf("told outside before it was durable: %s", got)
						}
						if restart {
							r.mustBe("stopping", r.stop(), wire.CodeStorage)
							r.disk.fail(0, 0)
							r.start()
						} else {
							r.recover()
							time.Sleep(2 * time.Minute) // the next beacon
						}
						want := c.old
						if persisted {
							want = c.new
						}
						if got := r.healthInside() + " " + r.healthOutside(); got != want {
							t.Errorf("afterwards\n got %s\nwant %s", got, want)
						}
						r.whole()
					})
				})
			}
		}
	}
}

// requested counts the requests that were sent to the node n.
func (r *faulty) requested() int {
	return r.broker.published(topic.ForNode(faultyUnit, "n").Request())
}

// told is what the journal says became of orders: "reboot", "reboot: no-answer".
func (r *faulty) told() (all []string) {
	r.Helper()
	for _, rec := range r.records(record.Request, record.Reply) {
		var d struct {
			Method string      `json:"method"`
			Error  *wire.Error `json:"error"`
		}
		if err := json.Unmarshal(rec.Data, &d); err != nil {
			r.Fatal(err)
		}
		s := rec.Type.String() + " " + d.Method + " " + rec.Who
		if d.Error != nil {
			s += string(d.Error.Code)
		}
		all = append(all, strings.TrimSpace(s))
	}
	return all
}

// Fault table of an order to a node: if its record cannot be written it is not sent, and the journal never
// leaves open what became of one that it has.
func TestOrderToANodeWhoseCommitFails(t *testing.T) {
	for _, persisted := range []bool{false, true} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("persisted=%v/restart=%v", persisted, restart), func(t *testing.T) {
				withFaults(t, nil, func(t *testing.T, r *faulty) {
					r.join("n")
					synctest.Wait()
					before := r.requested()
					if persisted {
						r.disk.fail(0, 1)
					} else {
						r.disk.fail(1, 0)
					}
					_, err := r.core.Reboot(as(t.Context(), "ann"), op.RebootIn{
						NodeIn: op.NodeIn{Node: "n"}, Reboot: op.Reboot{Reason: "kernel"},
					})
					r.mustBe("the operator", err, wire.CodeStorage)
					if n := r.requested() - before; n != 0 {
						t.Errorf("%d requests were sent", n)
					}
					want := ""
					if persisted {
						want = "[request reboot ann reply reboot no-answer]"
					} else {
						want = "[]"
					}
					if restart {
						r.mustBe("stopping", r.stop(), wire.CodeStorage)
						r.disk.fail(0, 0)
						r.start()
					} else {
						r.recover()
					}
					time.Sleep(2 * time.Minute)
					synctest.Wait()
					if got := fmt.Sprint(r.told()); got != want {
						t.Errorf("the journal has %s, want %s", got, want)
					}
					r.whole()
				})
			})
		}
	}
}

// An order waits for its answer, passes a refusal on, and is given up in the end.
func TestOrdersToANode(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		_, err := r.core.Reboot(as(t.Context(), "ann"), op.RebootIn{
			NodeIn: op.NodeIn{Node: "n"}, Reboot: op.Reboot{Reason: "kernel"},
		})
		r.mustBe("nobody knows it", err, wire.CodeNotFound)
		r.join("n")
		_, err = r.core.Reboot(as(t.Context(), "ann"), op.RebootIn{
			NodeIn: op.NodeIn{Node: "n"}, Reboot: op.Reboot{Reason: ""},
		})
		r.mustBe("no reason", err, wire.CodeMissing)
		_, err = r.core.Approve(as(t.Context(), "ann"), op.ApproveIn{
			NodeIn: op.NodeIn{Node: "n"}, Approve: op.Approve{Version: "a\nb"},
		})
		r.mustBe("a version that is none", err, wire.CodeBadValue)
		_, err = r.core.Try(as(t.Context(), "ann"), op.TryIn{
			NodeIn: op.NodeIn{Node: "n"}, Try: op.Try{Component: "an os", Version: "1"},
		})
		r.mustBe("a component that is none", err, wire.CodeBadValue)

		type outcome struct {
			view.Ordered
			err error
		}
		order := func(answer *wire.Error, given bool) outcome {
			t.Helper()
			done := make(chan outcome, 1)
			go func() {
				o, err := r.core.Try(as(t.Context(), "ann"), op.TryIn{
					NodeIn: op.NodeIn{Node: "n"}, Try: op.Try{Version: "1.5.0"},
				})
				done <- outcome{o, err}
			}()
			synctest.Wait()
			if given {
				rec := r.records(record.Request)
				var d struct {
					ID string `json:"id"`
				}
				if err := json.Unmarshal(rec[len(rec)-1].Data, &d); err != nil {
					t.Fatal(err)
				}
				r.deliver(topic.ForNode(faultyUnit, "n").Reply(),
					wire.Encode(&wire.Reply{V: wire.Version, Node: "n", ID: d.ID, Error: answer}))
			}
			return <-done
		}
		if o := order(nil, true); o.err != nil || o.Node != "n" || o.Method != wire.MethodTry || o.ID == "" ||
			o.Rev == 0 {
			t.Errorf("%+v", o)
		}
		o := order(wire.New(wire.CodeWrongState, "", "nothing is staged"), true)
		if e, ok := errors.AsType[*wire.Error](o.err); !ok || e.Code != wire.CodeWrongState || e.Node != "n" ||
			e.Message != "nothing is staged" {
			t.Errorf("%+v", o)
		}
		began := time.Now()
		if o := order(nil, false); wire.AsError(o.err).Code != wire.CodeNoAnswer || time.Since(began) > 30*time.Second {
			t.Errorf("%+v after %v", o, time.Since(began))
		}
		want := "[request try ann reply try " +
			"request try ann reply try wrong-state request try ann reply try no-answer]"
		if got := fmt.Sprint(r.told()); got != want {
			t.Errorf("the journal has %s, want %s", got, want)
		}

		// Whoever gives up waiting leaves nothing behind; the answer is journaled all the same.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.core.Try(as(ctx, "ann"), op.TryIn{
			NodeIn: op.NodeIn{Node: "n"},
		}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := r.told(); got[len(got)-1] != "reply try no-answer" {
			t.Errorf("the journal has %v", got)
		}
		r.whole()
	})
}
