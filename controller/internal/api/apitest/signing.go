package apitest

import (
	"context"
	"time"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Signing is what a unit's keys look like halfway through a rotation.
func Signing(now time.Time) view.Keys {
	return view.Keys{Rev: 1795168800, Keys: []view.SigningKey{
		{ID: "34750f98bd59fcfc", Ed25519: make([]byte, 32), State: "signing", Since: now.Add(-300 * 24 * time.Hour),
			Nodes: 3},
		{ID: "9f2c5a7d11e04b36", Ed25519: make([]byte, 32), State: "announced", Since: now.Add(-time.Minute),
			Who: "ann", Nodes: 2, Missing: []string{"node-3"}},
	}}
}

// SigningKeys shows one key that signs and one that is announced.
func (u *Unit) SigningKeys(ctx context.Context) (view.Keys, error) {
	s, leave, err := u.enter(ctx, "SigningKeys")
	if err != nil {
		return view.Keys{}, err
	}
	defer leave()
	return Signing(s.Now), nil
}

// RotateKey has the announced key sign, if it is forced to.
func (u *Unit) RotateKey(ctx context.Context, in op.RotateKey) (view.Keys, error) {
	s, leave, err := u.enter(ctx, "RotateKey")
	if err != nil {
		return view.Keys{}, err
	}
	defer leave()
	s.Who = caller.From(ctx).Who()
	k := Signing(s.Now)
	if !in.Force {
		return view.Keys{}, wire.New(wire.CodeWrongState,
			"", "key "+k.Keys[1].ID+" cannot sign yet: node-3 is not known to believe it")
	}
	k.Rev++
	k.Keys[0].State, k.Keys[1].State = "leaving", "signing"
	return k, nil
}

// RetireKey takes the announced key back.
func (u *Unit) RetireKey(ctx context.Context, in op.RetireKey) (view.Keys, error) {
	s, leave, err := u.enter(ctx, "RetireKey")
	if err != nil {
		return view.Keys{}, err
	}
	defer leave()
	s.Who = caller.From(ctx).Who()
	k := Signing(s.Now)
	switch in.ID {
	case k.Keys[0].ID:
		return view.Keys{}, wire.New(wire.CodeWrongState, "", "key "+in.ID+" signs")
	case k.Keys[1].ID:
		k.Rev++
		k.Keys = k.Keys[:1]
		return k, nil
	}
	return view.Keys{}, wire.New(wire.CodeNotFound, "", "there is no key "+in.ID)
}
