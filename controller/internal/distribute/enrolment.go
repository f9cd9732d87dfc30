package distribute

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// Door is where nodes join: what a token has to say.
type Door struct {
	URL string                // https://HOST:PORT
	CA  jointoken.Fingerprint // who vouches for it
}

// SetDoor names the join door. It is called before Run, if there is a door.
func (c *Core) SetDoor(d Door) { c.door = &d }

// admissions are the certificates that count, for those who ask while a client waits. It is what
// the Fleet says, as of the newest durable record.
type admissions struct {
	mu sync.RWMutex
	by map[string]fleet.Admission
}

func (a *admissions) reset(all []fleet.Admission) {
	by := make(map[string]fleet.Admission, len(all))
	for _, one := range all {
		by[one.Subject] = one
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.by = by
}

func (a *admissions) set(one fleet.Admission) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.by[one.Subject] = one
}

// Certified reports whether a certificate that TLS has verified still counts; nil: it does. subject
// is "node/n1", serial hexadecimal.
func (c *Core) Certified(subject, serial string) error {
	c.admitted.mu.RLock()
	one, ok := c.admitted.by[subject]
	c.admitted.mu.RUnlock()
	if err := enrol.Counts(ok, one.Revoked, one.Serials, serial); err != nil {
		return err
	}
	return nil
}

// Claimable reports whether a client may be believed to be a subject without proof, where that is
// allowed at all; nil: it may. Who was revoked may not, and who has a certificate has to show it.
func (c *Core) Claimable(subject string) error {
	c.admitted.mu.RLock()
	one, ok := c.admitted.by[subject]
	c.admitted.mu.RUnlock()
	switch {
	case ok && one.Revoked:
		return wire.New(wire.CodeNotAllowed, "", "it was revoked")
	case ok && len(one.Serials) > 0:
		return wire.New(wire.CodeNotAllowed, "", "it has a certificate and has to show it")
	}
	return nil
}

// Keys are the keys that sign what the controller says.
func (c *Core) Keys() []wire.Key { return []wire.Key{c.cfg.Signer.Key()} }

// KnownCA is the fingerprint of the CA that the unit's nodes trust; "" while none has joined.
// It is for the time before Run.
func (c *Core) KnownCA() string { return c.fleet.CA() }

// Newest is the time of the newest record, zero without one. It is for the time before Run.
func (c *Core) Newest() (at time.Time, err error) {
	err = c.journal.Load().Scan(journal.Filter{Reverse: true, Limit: 1}, func(r record.Record) error {
		at = r.At
		return nil
	})
	return at, err
}

// Enrolment has an event of package enrol decided, and returns when that is durable.
func (c *Core) Enrolment(ctx context.Context, ev enrol.Event) error { return c.enrolment(ctx, ev, "") }

func (c *Core) enrolment(ctx context.Context, ev enrol.Event, who string) error {
	_, err := c.order(ctx, func(t uint64) fleet.Event { return fleet.Enrolment{Ticket: t, Event: ev, Who: who} })
	return err
}

// Enroll makes a token with which a node may join. life 0 means a day.
func (c *Core) Enroll(ctx context.Context, node string, life time.Duration, who string) (view.Enrolment, error) {
	if c.door == nil {
		return view.Enrolment{}, wire.New(wire.CodeNotSupported, "", "this controller has no door to join by; start it with --listen-tls (or with --join-listen, if it uses another broker)")
	}
	t, err := jointoken.New(node, c.door.CA, rand.Reader)
	if err != nil {
		return view.Enrolment{}, wire.New(wire.CodeInvalidArgument, "", err.Error())
	}
	if life == 0 {
		life = enrol.TokenLife
	}
	if err := c.enrolment(ctx, enrol.Enrol{Subject: "node/" + node, Hash: t.Secret.Hash(), Life: life}, who); err != nil {
		return view.Enrolment{}, err
	}
	return view.Enrolment{Node: node, Token: t.Text(), Expires: c.cfg.Now().Add(life).UTC().Truncate(time.Second), Controller: c.door.URL, CA: c.door.CA.String()}, nil
}

// Revoke ends everything that a node has: its session, its certificates, its open tokens.
func (c *Core) Revoke(ctx context.Context, node, reason, who string) (view.Node, error) {
	if !wire.ValidName(node) {
		return view.Node{}, wire.New(wire.CodeInvalidArgument, "", fmt.Sprintf("%.80q is not a node ID", node))
	}
	if err := c.enrolment(ctx, enrol.Revoke{Subject: "node/" + node, Reason: reason}, who); err != nil {
		return view.Node{}, err
	}
	return c.Node(ctx, node)
}

// JoinURL is where nodes join, "" if they cannot.
func (c *Core) JoinURL() string {
	if c.door == nil {
		return ""
	}
	return c.door.URL
}
