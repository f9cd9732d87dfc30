package distribute

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"tandem.internal/controller/internal/ca"
	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// Authority is who certifies the members of the unit, and where.
type Authority struct {
	CA   *ca.CA
	Life time.Duration // of certificates
	URL  string        // of the join door, https://HOST:PORT; "": there is none
}

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

// takeOverWait bounds how long who shows a certificate waits for the journal.
const takeOverWait = 10 * time.Second

// Admit is Certified, in a unit that was restored from a backup also for a node's certificate that was issued between
// that and the restore, which the journal cannot know: the node joined or renewed then. from is the caller's address.
func (c *Core) Admit(ctx context.Context, p ca.Peer, from string) error {
	err := c.Certified(p.Subject, p.Serial)
	o := c.cfg.Origin
	if err == nil || o == nil || !strings.HasPrefix(p.Subject, "node/") ||
		p.From.Add(ca.Skew).Before(o.At.Truncate(time.Second)) || p.From.After(o.Restored) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, takeOverWait)
	defer cancel()
	return c.Enrolment(ctx, enrol.TakeOver{Subject: p.Subject, Serial: p.Serial, Key: p.Key, NotBefore: p.From,
		Expires: p.Expires, CA: p.CA.String(), From: from, Restored: o.Seq})
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
func (c *Core) Enrolment(ctx context.Context, ev enrol.Event) error {
	who := caller.From(ctx).Who()
	_, err := c.order(ctx, func(t uint64) fleet.Event { return fleet.Enrolment{Ticket: t, Event: ev, Who: who} })
	return err
}

// Enroll makes a token with which a node may join.
func (c *Core) Enroll(ctx context.Context, in op.EnrollIn) (view.Enrolment, error) {
	if c.JoinURL() == "" {
		return view.Enrolment{}, errNoDoor
	}
	t, err := jointoken.New(in.Node, c.authority.CA.Fingerprint(), rand.Reader)
	if err != nil {
		return view.Enrolment{}, wire.New(wire.CodeInvalidArgument, "", err.Error())
	}
	life := cmp.Or(in.Life(), enrol.TokenLife)
	err = c.Enrolment(ctx, enrol.Enrol{Subject: "node/" + in.Node, Hash: t.Secret.Hash(), Life: life,
		Type: in.Type})
	if err != nil {
		return view.Enrolment{}, err
	}
	return view.Enrolment{
		Node: in.Node, Token: t.Text(), Expires: c.cfg.Now().Add(life).UTC().Truncate(time.Second),
		Controller: c.authority.URL, CA: t.CA.String(),
	}, nil
}

// Revoke ends everything that a node has: its session, its certificates, its open tokens.
func (c *Core) Revoke(ctx context.Context, in op.RevokeIn) (view.Node, error) {
	if !wire.ValidName(in.Node) {
		return view.Node{}, wire.New(wire.CodeInvalidArgument, "", fmt.Sprintf("%.80q is not a node ID", in.Node))
	}
	if err := c.Enrolment(ctx, enrol.Revoke{Subject: "node/" + in.Node, Reason: in.Reason}); err != nil {
		return view.Node{}, err
	}
	return c.Node(ctx, in.NodeIn)
}

// Forget takes nodes out of the unit.
func (c *Core) Forget(ctx context.Context, in op.Forget) (op.Forgotten, error) {
	who := caller.From(ctx).Who()
	_, err := c.order(ctx, func(t uint64) fleet.Event {
		return fleet.Forget{Ticket: t, Nodes: in.Nodes, Force: in.Force, Reason: in.Reason, Who: who}
	})
	return op.Forgotten{Nodes: in.Nodes}, err
}

// JoinURL is where nodes join, "" if they cannot.
func (c *Core) JoinURL() string {
	if c.authority == nil {
		return ""
	}
	return c.authority.URL
}

// Certify certifies the key of a request for somebody who is not a node: the cloud side, an operator,
// or a broker of the site, under its hosts. What it had before does not count any more.
func (c *Core) Certify(ctx context.Context, in op.CertifyIn) (view.Certificate, error) {
	role, _, _ := strings.Cut(in.Identity, "/")
	switch {
	case c.authority == nil:
		return view.Certificate{},
			wire.New(wire.CodeNotSupported, "",
				"this controller has no CA; start it with --listen-tls or --join-listen")
	case !jointoken.ValidSubject(in.Identity) || role != "cloud" && role != "operator" && role != jointoken.BrokerRole:
		return view.Certificate{},
			wire.New(wire.CodeInvalidArgument, "/identity",
				"cloud/NAME, operator/NAME or broker/NAME is expected; nodes join with a token")
	case slices.Contains(in.Hosts, jointoken.ServerName):
		return view.Certificate{}, wire.New(wire.CodeInvalidArgument, "/hosts", "this name is the controller's own")
	case (role == jointoken.BrokerRole) != (len(in.Hosts) > 0):
		return view.Certificate{},
			wire.New(wire.CodeInvalidArgument, "/hosts",
				"a broker has the hosts that nodes reach it under, and nobody else has")
	}
	block, rest := pem.Decode([]byte(in.CSR))
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(bytes.TrimSpace(rest)) > 0 {
		return view.Certificate{},
			wire.New(wire.CodeMalformed, "/csr", "one PKCS #10 certificate request in PEM is expected")
	}
	req, err := ca.ParseRequest(block.Bytes)
	if err != nil {
		return view.Certificate{}, err
	}
	g := ca.Grant{Subject: in.Identity, Hosts: in.Hosts}
	if g.Serial, err = ca.NewSerial(); err != nil {
		return view.Certificate{}, err
	}
	a := c.authority
	g.From, g.Until = a.CA.Validity(a.Life)
	err = c.Enrolment(ctx, enrol.Certify{
		Subject: g.Subject, Key: req.Hash, Serial: g.Serial, Expires: g.Until, CA: a.CA.Fingerprint().String(),
	})
	if err != nil {
		return view.Certificate{}, err
	}
	der, err := a.CA.Issue(req.Key, g)
	if err != nil {
		return view.Certificate{}, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return view.Certificate{
		Identity: in.Identity, Certificate: string(text), CA: string(a.CA.PEM()), Expires: g.Until,
	}, nil
}

// Disown ends everything that somebody has who is not a node.
func (c *Core) Disown(ctx context.Context, in op.Disown) (op.Disown, error) {
	if strings.HasPrefix(in.Identity, "node/") {
		return in, wire.New(wire.CodeInvalidArgument, "/identity", "a node is revoked with: tandem node revoke NODE")
	}
	return in, c.Enrolment(ctx, enrol.Revoke{Subject: in.Identity, Reason: in.Reason})
}
