package apitest

import (
	"context"
	"slices"
	"time"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// Enroll makes a token whose secret is all zeros.
func (u *Unit) Enroll(ctx context.Context, node string, life time.Duration, who string) (view.Enrolment, error) {
	s, leave, err := u.enter(ctx, "Enroll")
	if err != nil {
		return view.Enrolment{}, err
	}
	defer leave()
	s.Who = who
	if life == 0 {
		life = 24 * time.Hour
	}
	t := jointoken.Token{Node: node}
	return view.Enrolment{Node: node, Token: t.Text(), Expires: s.Now.Add(life), Controller: "https://gateway:8884", CA: t.CA.String()}, nil
}

// Revoke gives a node that is known the identity of one that was revoked.
func (u *Unit) Revoke(ctx context.Context, node, _, who string) (view.Node, error) {
	s, leave, err := u.enter(ctx, "Revoke")
	if err != nil {
		return view.Node{}, err
	}
	defer leave()
	s.Who = who
	i := slices.IndexFunc(s.Nodes, func(n view.Node) bool { return n.Node == node })
	if i < 0 {
		return view.Node{}, wire.New(wire.CodeNotFound, "", "node "+node+" is not known")
	}
	s.Nodes[i].Online = false
	s.Nodes[i].Identity = &view.Identity{State: "revoked", Revoked: s.Now, RevokedBy: who}
	return s.Nodes[i], nil
}

// Certify answers with a certificate that is none.
func (u *Unit) Certify(ctx context.Context, q view.Certification, who string) (view.Certificate, error) {
	s, leave, err := u.enter(ctx, "Certify")
	if err != nil {
		return view.Certificate{}, err
	}
	defer leave()
	s.Who = who
	const text = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	return view.Certificate{Identity: q.Identity, Certificate: text, CA: text, Expires: s.Now.AddDate(0, 3, 0)}, nil
}

// Disown agrees.
func (u *Unit) Disown(ctx context.Context, _, _, who string) error {
	s, leave, err := u.enter(ctx, "Disown")
	if err != nil {
		return err
	}
	defer leave()
	s.Who = who
	return nil
}
