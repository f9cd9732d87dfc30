package env

import (
	"context"
	"errors"
	"slices"
	"time"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/wire"
)

// ErrDown is what an operator hears when no controller answers.
var ErrDown = errors.New("env: the controller is down")

// patience is how long an operator waits for an answer.
const patience = 2 * time.Minute

// Submit hands a submission in and returns the verdict. What is acknowledged is remembered.
func (e *Env) Submit(s controller.Submission) (controller.Result, error) {
	if s.Who == "" {
		s.Who = "ann"
	}
	return ask(e, func(ctx context.Context, u controller.Unit) (controller.Result, error) {
		r, err := u.Submit(ctx, s)
		if err == nil && r.State == "accepted" {
			e.acknowledge(r.Version)
		}
		return r, err
	})
}

func (e *Env) acknowledge(version string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Controller.acknowledged = append(e.Controller.acknowledged, version)
}

// Acknowledged lists the versions that were accepted.
func (e *Env) Acknowledged() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.Controller.acknowledged)
}

// Apply submits a unit configuration that must be accepted.
func (e *Env) Apply(doc []byte) controller.Result {
	e.Helper()
	return e.must(e.Submit(controller.Submission{Kind: "config", Document: doc}))
}

// Try submits one for a trial, which must be accepted.
func (e *Env) Try(doc []byte, within time.Duration) controller.Result {
	e.Helper()
	sub := controller.Submission{Kind: "config", Document: doc, Mode: wire.ModeTry, ConfirmWithin: within}
	return e.must(e.Submit(sub))
}

// Confirm keeps the configuration on trial.
func (e *Env) Confirm() controller.Result {
	e.Helper()
	return e.must(e.TryConfirm())
}

// Retry sends the configuration again to those who do not have it.
func (e *Env) Retry() controller.Result {
	e.Helper()
	return e.must(ask(e, func(ctx context.Context, u controller.Unit) (controller.Result, error) {
		return u.Retry(controller.As(ctx, "ann"), wire.KindConfig)
	}))
}

// TryConfirm is Confirm for a trial that may be over.
func (e *Env) TryConfirm() (controller.Result, error) {
	return ask(e, func(ctx context.Context, u controller.Unit) (controller.Result, error) {
		return u.Confirm(controller.As(ctx, "ann"), wire.KindConfig)
	})
}

// TryRollback reissues an old version under a new number.
func (e *Env) TryRollback(version, as string) error {
	_, err := ask(e, func(ctx context.Context, u controller.Unit) (controller.Result, error) {
		r, err := u.Rollback(controller.As(ctx, "ann"), wire.KindConfig, controller.Rollback{Version: version, As: as})
		if err == nil && r.State == "accepted" {
			e.acknowledge(r.Version)
		} else if err == nil {
			err = r.Error
		}
		return r, err
	})
	return err
}

func (e *Env) must(r controller.Result, err error) controller.Result {
	e.Helper()
	if err != nil {
		e.Fatalf("%s%v", e.setup.Label, err)
	}
	if r.State != "accepted" {
		e.Fatalf("%s%s is %s: %v", e.setup.Label, r.Version, r.State, r.Error)
	}
	return r
}

// Refused submits a unit configuration that must be refused with a code.
func (e *Env) Refused(doc []byte, code wire.Code) controller.Result {
	e.Helper()
	r, err := e.Submit(controller.Submission{Kind: "config", Document: doc})
	if err != nil {
		e.Fatalf("%s%v", e.setup.Label, err)
	}
	if r.State != "refused" || r.Error == nil || r.Error.Code != code {
		e.Fatalf("%s%s is %s: %v; want refused: %s; checks %+v", e.setup.Label, r.Version, r.State, r.Error, code,
			r.Checks)
	}
	return r
}

// ask asks the controller something, with an operator's patience.
func ask[T any](e *Env, f func(context.Context, controller.Unit) (T, error)) (T, error) {
	u := e.Controller.Unit()
	if u == nil {
		var none T
		return none, ErrDown
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return f(ctx, u)
}

// Status is the unit configuration's state.
func (e *Env) Status() controller.SourceStatus {
	e.Helper()
	s, ok := e.TryStatus()
	if !ok {
		e.Fatalf("%sthe controller does not tell its status", e.setup.Label)
	}
	return s
}

// TryStatus is Status for a controller that may not answer, or may not take orders.
func (e *Env) TryStatus() (controller.SourceStatus, bool) {
	s, err := ask(e, func(ctx context.Context, u controller.Unit) (controller.SourceStatus, error) {
		if err := u.Refusing(); err != nil {
			return controller.SourceStatus{}, err
		}
		return u.SourceStatus(ctx, wire.KindConfig)
	})
	return s, err == nil
}

// Restore ends the failed state.
func (e *Env) Restore() error {
	_, err := ask(e, func(ctx context.Context, u controller.Unit) (controller.SourceStatus, error) {
		return u.Restore(controller.As(ctx, "ann"), wire.KindConfig)
	})
	return err
}

// View is a node as the controller sees it.
func (e *Env) View(name string) (controller.Node, bool) {
	n, err := ask(e, func(ctx context.Context, u controller.Unit) (controller.Node, error) {
		return u.Node(ctx, controller.NodeIn{Node: name})
	})
	return n, err == nil
}

// Entries returns the journal's entries of these types, oldest first.
func (e *Env) Entries(types ...string) []controller.Entry {
	e.Helper()
	all, err := ask(e, func(ctx context.Context, u controller.Unit) ([]controller.Entry, error) {
		return u.Entries(ctx, controller.EntryFilter{Types: types, Limit: 1 << 20})
	})
	if err != nil {
		e.Fatalf("%sentries: %v", e.setup.Label, err)
	}
	return all
}

// Runs reports whether a node runs a version, by its own word, its file and the controller's view.
func (e *Env) Runs(name, version string) bool {
	n := e.Node(name)
	v, ok := e.View(name)
	d := v.Documents[wire.KindConfig]
	return ok && v.InSync && d.Running != nil && d.Running.Version == version && d.Running.Hash == wire.Hash(n.File())
}

// Reached waits until every one of the nodes, or all if none is named, runs a version.
func (e *Env) Reached(version string, names ...string) {
	e.Helper()
	if len(names) == 0 {
		for _, n := range e.nodes {
			names = append(names, n.Name)
		}
	}
	for _, name := range names {
		e.Until(30*time.Minute, name+" runs "+version, func() bool { return e.Runs(name, version) })
	}
}

// Later hands a submission in and does not wait for the verdict; then, if not nil, is told it on
// another goroutine. The returned function waits for it.
func (e *Env) Later(s controller.Submission, then func(controller.Result, error)) (wait func()) {
	s.Who = "bob"
	u, done := e.Controller.Unit(), make(chan struct{})
	go func() {
		defer close(done)
		r, err := controller.Result{}, ErrDown
		if u != nil {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if r, err = u.Submit(ctx, s); err == nil && r.State == "accepted" {
				e.acknowledge(r.Version)
			}
		}
		e.Note("bob: %s %s is %s %v %v", s.Mode, r.Version, r.State, r.Error, err)
		if then != nil {
			then(r, err)
		}
	}()
	return func() { <-done }
}
