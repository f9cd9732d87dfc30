package api

import (
	"context"
	"io"
	"net/http"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
)

// Operation is an operation of package op and what does it.
type Operation struct {
	spec  op.Spec
	input op.Input
	do    func(a *API, w http.ResponseWriter, r *http.Request, in any) error
}

// Name is the operation's name.
func (o Operation) Name() string { return o.spec.Name }

// Bind has do answer an operation. The caller is in do's context (package caller).
func Bind[In, Out any](o op.Op[In, Out], do func(context.Context, In) (Out, error)) Operation {
	return answered(o.Spec(), func(ctx context.Context, in any) (any, error) { return do(ctx, *in.(*In)) })
}

// Ask is Bind for an operation that takes nothing.
func Ask[Out any](o op.Op[op.None, Out], do func(context.Context) (Out, error)) Operation {
	return answered(o.Spec(), func(ctx context.Context, _ any) (any, error) { return do(ctx) })
}

// serve has do write the answer to an operation by itself.
func serve[In, Out any](o op.Op[In, Out], do func(*API, http.ResponseWriter, *http.Request, In) error) Operation {
	spec := o.Spec()
	return Operation{spec, spec.Input(), func(a *API, w http.ResponseWriter, r *http.Request, in any) error {
		return do(a, w, r, *in.(*In))
	}}
}

func answered(s op.Spec, do func(context.Context, any) (any, error)) Operation {
	return Operation{s, s.Input(), func(a *API, w http.ResponseWriter, r *http.Request, in any) error {
		if s.Long {
			release, err := a.place(w, r)
			if err != nil {
				return err
			}
			defer release()
		}
		out, err := do(r.Context(), in)
		if err != nil {
			return err
		}
		setHeaders(w, out)
		switch s.Form {
		case op.Verdict:
			a.verdict(w, out.(view.Result))
		case op.Raw:
			a.raw(w, http.StatusOK, "application/json", out.([]byte))
		default:
			a.write(w, http.StatusOK, out)
		}
		return nil
	}}
}

// Watch answers with what see sees, now and whenever that changes.
func Watch[T any](o op.Op[op.Watched, T], see func(context.Context) (T, error)) Operation {
	return Follow(o, func(ctx context.Context, _ op.Watched) (T, error) { return see(ctx) })
}

// Follow is Watch for an operation that takes more.
func Follow[In, T any](o op.Op[In, T], see func(context.Context, In) (T, error)) Operation {
	return serve(o, func(a *API, w http.ResponseWriter, r *http.Request, in In) error {
		return watch(a, w, r, changes(func(ctx context.Context) (T, error) { return see(ctx, in) }))
	})
}

// WatchNodes answers with all nodes, and then with those that change.
func WatchNodes(see func(context.Context) (op.Nodes, error)) Operation {
	return serve(op.WatchNodes, func(a *API, w http.ResponseWriter, r *http.Request, _ op.Watched) error {
		return watch(a, w, r, nodeWatch(see))
	})
}

// File answers with what fill writes. Name is what a browser calls it; "": it shows it.
func File[Line any](o op.Op[op.None, Line], name string, fill func(context.Context, io.Writer) error) Operation {
	return FileOf(o, name, func(ctx context.Context, _ op.None, w io.Writer) error { return fill(ctx, w) })
}

// FileOf is File for an operation that takes something.
func FileOf[In, Line any](o op.Op[In, Line], name string, fill func(context.Context, In, io.Writer) error) Operation {
	return serve(o, func(a *API, w http.ResponseWriter, r *http.Request, in In) error {
		if name != "" {
			w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
		}
		return a.download(w, r, o.Type, func(ctx context.Context, w io.Writer) error { return fill(ctx, in, w) })
	})
}

// own are the operations that the API does by itself.
func (a *API) own() []Operation {
	return []Operation{
		Ask(op.Health, a.health),
		Ask(op.Ready, a.ready),
		Ask(op.ShowAPI, openapi),
		serve(op.Events, (*API).events),
		Ask(op.ListTokens, a.listTokens),
		Bind(op.CreateToken, a.createToken),
		Bind(op.RedeemToken, a.redeemToken),
		Bind(op.ShowSelf, a.self),
		Bind(op.RevokeToken, a.revokeToken),
	}
}
