// Package caller says, in a context, who asks for something and through which door.
package caller

import "context"

// Caller is who asks.
type Caller interface {
	Who() string // for the journal: "uid:1000(alice)", "token/press for bob"
	Via() string // the door: "http", "cli" (on the unix socket, with a user's name), "inbox" or "file"
}

// Viewer is a Caller who may perhaps only view the unit.
type Viewer interface{ OnlyViews() bool }

// OnlyViews reports whether who asks may only view the unit: what is secret is hidden from them.
func OnlyViews(ctx context.Context) bool {
	v, ok := From(ctx).(Viewer)
	return ok && v.OnlyViews()
}

// Owner is a Caller who may own the unit's files.
type Owner interface{ OwnsFiles() bool }

// OwnsFiles reports whether who asks can read the unit's files anyway: by the unix socket, as root or the controller's
// own user.
func OwnsFiles(ctx context.Context) bool {
	o, ok := From(ctx).(Owner)
	return ok && o.OwnsFiles()
}

// Limited is a Caller with a role, which may not be enough.
type Limited interface{ May(role string) error }

// May returns why who asks may not do what needs a role; nil: they may. Routes ask before an operation is begun; this
// is for what depends on what is ordered.
func May(ctx context.Context, role string) error {
	if l, ok := From(ctx).(Limited); ok {
		return l.May(role)
	}
	return nil
}

type key struct{}

// With returns a context in which c asks.
func With(ctx context.Context, c Caller) context.Context { return context.WithValue(ctx, key{}, c) }

// Named returns a context in which somebody asks whose name is known.
func Named(ctx context.Context, who, via string) context.Context { return With(ctx, named{who, via}) }

// From returns who asks; the Caller's names are empty if nobody was put into ctx.
func From(ctx context.Context) Caller {
	if c, ok := ctx.Value(key{}).(Caller); ok {
		return c
	}
	return named{}
}

// named is a Caller by its name.
type named struct{ who, via string }

func (n named) Who() string { return n.who }
func (n named) Via() string { return n.via }
