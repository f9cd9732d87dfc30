package apitest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// Enroll makes a token whose secret is all zeros.
func (u *Unit) Enroll(ctx context.Context, in op.EnrollIn) (view.Enrolment, error) {
	s, leave, err := u.enter(ctx, "Enroll")
	if err != nil {
		return view.Enrolment{}, err
	}
	defer leave()
	s.Who = caller.From(ctx).Who()
	life := cmp.Or(in.Life(), 24*time.Hour)
	t := jointoken.Token{Node: in.Node}
	return view.Enrolment{Node: in.Node, Token: t.Text(), Expires: s.Now.Add(life), Controller: "https://gateway:8884",
		CA: t.CA.String()}, nil
}

// Revoke gives a node that is known the identity of one that was revoked.
func (u *Unit) Revoke(ctx context.Context, in op.RevokeIn) (view.Node, error) {
	s, leave, err := u.enter(ctx, "Revoke")
	if err != nil {
		return view.Node{}, err
	}
	defer leave()
	s.Who = caller.From(ctx).Who()
	i := slices.IndexFunc(s.Nodes, func(n view.Node) bool { return n.Node == in.Node })
	if i < 0 {
		return view.Node{}, wire.New(wire.CodeNotFound, "", "node "+in.Node+" is not known")
	}
	s.Nodes[i].Online = false
	s.Nodes[i].Identity = &view.Identity{State: "revoked", Revoked: s.Now, RevokedBy: caller.From(ctx).Who()}
	return s.Nodes[i], nil
}

// Certify answers with a certificate that is none.
func (u *Unit) Certify(ctx context.Context, in op.CertifyIn) (view.Certificate, error) {
	s, leave, err := u.enter(ctx, "Certify")
	if err != nil {
		return view.Certificate{}, err
	}
	defer leave()
	s.Who = caller.From(ctx).Who()
	const text = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	return view.Certificate{Identity: in.Identity, Certificate: text, CA: text, Expires: s.Now.AddDate(0, 3, 0)}, nil
}

// Disown agrees.
func (u *Unit) Disown(ctx context.Context, in op.Disown) (op.Disown, error) {
	s, leave, err := u.enter(ctx, "Disown")
	if err != nil {
		return in, err
	}
	defer leave()
	s.Who = caller.From(ctx).Who()
	return in, nil
}
