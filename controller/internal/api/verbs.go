package api

import (
	"context"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Documents is what can be asked of every source of documents, by its name.
type Documents interface {
	Submit(ctx context.Context, s view.Submission) (view.Result, error)
	Document(ctx context.Context, source wire.Kind, version string) ([]byte, error)
	SourceStatus(ctx context.Context, source wire.Kind) (view.SourceStatus, error)
	History(ctx context.Context, source wire.Kind) (op.History, error)
	Diff(ctx context.Context, source wire.Kind, in op.DiffIn) (view.Diff, error)
	Rollback(ctx context.Context, source wire.Kind, in op.Rollback) (view.Result, error)
	Retry(ctx context.Context, source wire.Kind) (view.Result, error)
	Confirm(ctx context.Context, source wire.Kind) (view.Result, error)
	Restore(ctx context.Context, source wire.Kind) (view.SourceStatus, error)
}

// Verbs has the operations about sources of documents answered.
func Verbs(sources []*kind.Source, core Documents) (all []Operation) {
	for _, src := range sources {
		all = append(all, verbs(src, core)...)
	}
	return all
}

func verbs(src *kind.Source, core Documents) []Operation {
	subject, name := src.Subject(), src.Name
	v := op.VerbsOf(subject)
	status := func(ctx context.Context) (view.SourceStatus, error) { return core.SourceStatus(ctx, name) }
	all := []Operation{
		Bind(v.Apply, func(ctx context.Context, in op.Submit) (view.Result, error) {
			return submit(ctx, src, core, in)
		}),
		Bind(v.Show, func(ctx context.Context, in op.VersionIn) ([]byte, error) {
			return core.Document(ctx, name, in.Version)
		}),
		Ask(v.Status, status),
		Watch(v.Watch, status),
		Ask(v.History, func(ctx context.Context) (op.History, error) { return core.History(ctx, name) }),
		Bind(v.Diff, func(ctx context.Context, in op.DiffIn) (view.Diff, error) { return core.Diff(ctx, name, in) }),
		Bind(v.RollBack, func(ctx context.Context, in op.Rollback) (view.Result, error) {
			return core.Rollback(ctx, name, in)
		}),
		Ask(v.Retry, func(ctx context.Context) (view.Result, error) { return core.Retry(ctx, name) }),
	}
	if subject.Trial {
		all = append(all, Ask(v.Confirm, func(ctx context.Context) (view.Result, error) {
			return core.Confirm(ctx, name)
		}))
	}
	if subject.Copied {
		all = append(all, Ask(v.Restore, func(ctx context.Context) (view.SourceStatus, error) {
			return core.Restore(ctx, name)
		}))
	}
	return all
}

// submit has a document judged, from whoever asks.
func submit(ctx context.Context, src *kind.Source, core Documents, in op.Submit) (view.Result, error) {
	if len(in.Document) == 0 {
		why := "the request body is the " + src.Title + ", and it is empty"
		if src.Nothing != "" {
			why += "; " + src.Nothing
		}
		return view.Result{}, wire.New(wire.CodeMissing, "", why)
	}
	s, who := in.Submission(src.Name), caller.From(ctx)
	s.Who, s.Via = who.Who(), who.Via()
	return core.Submit(ctx, s)
}
