package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/nodeagent/internal/quiet"
	"tandem.internal/nodeagent/internal/store"
	"tandem.internal/shared/clock"
	"tandem.internal/shared/link"
	"tandem.internal/shared/pulse"
)

// Run runs the agent until ctx ends and everything that it started has stopped. The error is nil
// then, or says why the agent cannot go on.
func (a *Agent) Run(ctx context.Context) error {
	a.began, a.quiet = time.Now(), quiet.New(0)
	linked := &linkRun{ended: make(chan struct{})}
	s := stops{watch: a.node.watch.Loop}
	s.start("watchdog", stopTime, a.node.watch.Run)
	s.add("store", stopTimeDisk, a.store.Close)
	s.add("link", stopTime, linked.stop)
	s.start("sender", stopTime, func(ctx context.Context) { a.sender.Run(ctx, &a.prover, a.node.watch.Loop) })
	a.startBackground(&s)
	if a.torrents != nil {
		s.add("torrents", stopTime, func() error { a.torrents.Close(); return nil })
	}
	s.start("kinds", stopTimeDisk, a.runners()...)
	s.start("monitor", stopTime, a.runMonitor)
	if a.renewer != nil {
		s.start("identity", stopTime, a.renewer.Run, a.renewer.RunKeys,
			func(ctx context.Context) { a.renewer.RunReportKey(ctx, !a.onTrial()) }, a.renewer.RunCAs)
	}
	s.add("owner", stopTimeDisk, func() error {
		a.stopping()
		close(a.closed)
		return nil
	})
	a.node.beat = a.node.watch.Register("owner", pulse.Every)
	a.begin()
	linked.start(a.link)

	left := a.loop(ctx, linked.ended)
	a.node.beat.End()
	err := s.end()
	if left && linked.err == nil && ctx.Err() == nil {
		linked.err = errors.New("it ended by itself")
	}
	if linked.err != nil {
		linked.err = fmt.Errorf("link: %w", linked.err)
	}
	return errors.Join(a.fatal, linked.err, err)
}

// linkRun is the one run of the link. It begins after the other parts, and ends after those that publish.
type linkRun struct {
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // when it has ended
}

func (r *linkRun) start(l link.Link) {
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(r.ended)
		r.err = l.Run(ctx)
	}()
}

func (r *linkRun) stop() error {
	r.cancel()
	<-r.ended
	return nil
}

// runners are what runs for the kinds.
func (a *Agent) runners() (all []func(context.Context)) {
	for _, d := range a.documents {
		if d.kind.Run != nil {
			all = append(all, d.kind.Run)
		}
	}
	return all
}

// runMonitor measures until ctx ends.
func (a *Agent) runMonitor(ctx context.Context) {
	if err := a.node.monitor.Run(ctx); err != nil {
		a.log.Warn("the monitor has stopped", zap.Error(err))
	}
}

// begin takes up what the last run left.
func (a *Agent) begin() {
	a.log.Info("node agent started", zap.String("type", a.cfg.Type), zap.String("boot", a.boot),
		zap.String("broker", a.cfg.Broker))
	if link.Exposed(a.cfg.Broker) {
		a.log.Warn("INSECURE: the broker is reached over a network WITHOUT TLS; whoever is on it can read everything "+
			"and pose as this node. Join the unit: tandem-node join", zap.String("broker", a.cfg.Broker))
	}
	if a.unsaved {
		_ = a.commit(store.Batch{Trust: &a.trust}) // logged there, and tried again at saveAt
	}
	a.reportLoss()
	a.markKeysTaken()
	for _, d := range a.documents {
		d.inbox.Handle(inbox.Started{})
	}
	a.startHealth()
}

// loop is the life of the goroutine that owns the state. left says that the link has ended.
func (a *Agent) loop(ctx context.Context, linkEnded <-chan struct{}) (left bool) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for a.fatal == nil && !a.node.leaving {
		timer.Reset(a.untilDeadline())
		select {
		case <-ctx.Done():
			return false
		case <-linkEnded:
			return true
		case m := <-a.in:
			a.hear(m)
		case <-a.posted.news:
			if f := a.posted.take(); f != nil {
				f()
			}
		case s := <-a.node.monitor.Samples():
			a.takeSample(s)
		case r := <-a.node.watch.Reports():
			a.takeVerdict(r)
		case <-a.sender.Drained():
			a.sendEvents()
		case <-timer.C:
			a.tick()
		}
	}
	return false
}

// stopping saves what a coarser save may have left out.
func (a *Agent) stopping() {
	for _, d := range a.documents {
		d.inbox.Handle(inbox.Stopping{})
	}
	if a.fatal == nil && !a.trust.Newest.Equal(a.savedTime) {
		_ = a.commit(store.Batch{Trust: &a.trust}) // logged there; what is lost is at most what a crash would lose
	}
	a.stopNode()
	a.log.Info("node agent stopping")
}

// now is the present on both clocks.
func (a *Agent) now() clock.Now {
	return clock.Now{Mono: time.Since(a.began), Wall: a.deps.Now()}
}

// far is a deadline that never comes.
const far = 24 * 365 * time.Hour

func (a *Agent) untilDeadline() time.Duration {
	now := time.Since(a.began)
	at := now + far
	if a.session != 0 {
		at = min(at, a.beatAt)
		if t, ok := a.view.Due(); ok {
			at = min(at, t)
		}
		if a.againAt != 0 {
			at = min(at, a.againAt)
		}
	}
	if a.dirty() {
		at = min(at, a.saveAt)
	}
	for _, d := range a.documents {
		if t, ok := d.inbox.Due(); ok {
			at = min(at, t)
		}
	}
	return max(0, min(at, a.nextNodeDeadline())-now)
}

func (a *Agent) tick() {
	now := time.Since(a.began)
	for _, d := range a.documents {
		d.inbox.Elapse(now)
	}
	a.tickNode(now)
	if a.dirty() && now >= a.saveAt {
		a.saveAgain()
	}
	if a.session == 0 {
		return
	}
	a.lookAtView()
	if a.againAt != 0 && now >= a.againAt {
		a.againAt = 0
		a.reportEverything()
	} else if now >= a.beatAt {
		a.publishLive()
	}
}
