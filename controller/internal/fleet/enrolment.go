package fleet

import (
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/jointoken"
)

// Enrolment is somebody's wish to belong to the unit, or that somebody else does not any more;
// answered under Ticket.
type Enrolment struct {
	Ticket uint64
	Event  enrol.Event
	Who    string // the operator; "" when the node itself asks
}

func (Enrolment) event() {}

// Admission says which certificates of a subject count from now on.
type Admission struct {
	Subject string // "node/n1"
	Serials []string
	Issuers []string // fingerprints of the CAs that signed them
	Revoked bool
	Proves  bool   // what it says without proof does not count
	Cut     string // its session has to end, for this reason; "": it may stay
}

func (Admission) effect() {}

// nodePrefix begins the subjects that are nodes.
const nodePrefix = "node/"

// enrolment has package enrol decide, and makes the decision a record.
func (s *step) enrolment(ev Enrolment) {
	if r, ok := ev.Event.(enrol.Revoke); ok {
		name, isNode := strings.CutPrefix(r.Subject, nodePrefix)
		r.Known = r.Known || isNode && s.nodes[name] != nil
		ev.Event = r
	}
	if j, ok := ev.Event.(enrol.Join); ok {
		name, isNode := strings.CutPrefix(j.Subject, nodePrefix)
		j.Known = isNode && s.nodes[name] != nil
		ev.Event = j
	}
	d := s.enrolled.Decide(s.now, ev.Event)
	if d.Record != nil {
		typ := d.Record.Type()
		subject, cut := consequence(d.Record)
		node, _ := strings.CutPrefix(subject, nodePrefix)
		if node == subject {
			node = ""
		}
		s.emit(record.Record{Type: typ, Node: node, Who: ev.Who}, d.Record)
		if sub := s.enrolled.Lookup(subject); sub != nil && typ != record.Enrol && typ != record.JoinRefused &&
			typ != record.Batch {
			s.effect(admission(sub, cut))
		}
		_, taken := ev.Event.(enrol.TakeOver) // of another type perhaps
		s.standing(typ, node, taken || typ == record.Joined)
		if strings.HasPrefix(subject, jointoken.BrokerRole+"/") { // other brokers count from now on
			s.effect(CAsChanged{})
			s.promptAll()
		}
	}
	a := Answer{Ticket: ev.Ticket}
	if d.Err != nil {
		a.Err = d.Err
	}
	s.effect(a)
}

// standing has a node's documents follow from whether it belongs to the unit.
func (s *step) standing(typ record.Type, node string, joined bool) {
	n := s.nodes[node]
	switch {
	case n == nil:
		return
	case typ == record.Revoked, joined && n.Info != nil && !s.takesDocuments(n):
		s.takeDocuments(func(out *Node) bool { return out == n })
	case joined:
		s.distribute(n)
	}
	s.review(n, s.now)
}

// consequence says whom a record is about, and why that one's session has to end, if it has to.
func consequence(d record.Enrolment) (subject, cut string) {
	switch d := d.(type) {
	case record.EnrolData:
		return d.Subject, ""
	case record.JoinedData:
		return d.Subject, "it has joined anew" // whoever is there was somebody else, or has proved nothing
	case record.RenewedData:
		return d.Subject, ""
	case record.RevokedData:
		return d.Subject, "it was revoked"
	case record.JoinRefusedData:
		return d.Subject, ""
	case record.ProvesData:
		return d.Subject, ""
	case record.TokenWithdrawnData:
		return d.Subject, ""
	case record.BatchData: // that of one node is listed with what is of that node
		if all := slices.Concat(d.Approved, d.Refused); len(all) == 1 {
			return nodePrefix + all[0].Node, ""
		}
		return "", ""
	}
	panic("fleet: unknown enrolment record")
}

func admission(sub *enrol.Subject, cut string) Admission {
	return Admission{Subject: sub.Name, Serials: sub.Serials(), Issuers: sub.Issuers(),
		Revoked: !sub.Revoked.IsZero(), Proves: !sub.Proves.IsZero(), Cut: cut}
}

// Admissions returns what counts of everybody.
func (f *Fleet) Admissions() []Admission {
	var all []Admission
	f.enrolled.Each(func(sub *enrol.Subject) { all = append(all, admission(sub, "")) })
	return all
}

// Revocations returns when each subject was revoked that has not joined anew.
func (f *Fleet) Revocations() map[string]time.Time {
	all := map[string]time.Time{}
	f.enrolled.Each(func(sub *enrol.Subject) {
		if !sub.Revoked.IsZero() {
			all[sub.Name] = sub.Revoked
		}
	})
	return all
}

// WithUnusedToken returns, sorted, the subjects as which somebody can join, if the clock lets them.
func (f *Fleet) WithUnusedToken() []string { return f.enrolled.WithUnusedToken() }

// LetsIn reports whether a subject that was revoked at a time is let in all the same, and has not joined since.
func (f *Fleet) LetsIn(subject string, revoked time.Time) bool {
	sub := f.enrolled.Lookup(subject)
	return sub != nil && sub.Revoked.IsZero() && sub.Joined.Before(revoked)
}

// HasSubject reports whether a subject has ever been enrolled.
func (f *Fleet) HasSubject(subject string) bool { return f.enrolled.Lookup(subject) != nil }

// revoked returns the names of the nodes that were revoked, and have not joined anew: they are not waited for.
func (f *Fleet) revoked() map[string]bool {
	var all map[string]bool
	f.enrolled.Each(func(sub *enrol.Subject) {
		if name, isNode := strings.CutPrefix(sub.Name, nodePrefix); isNode && !sub.Revoked.IsZero() {
			if all == nil {
				all = map[string]bool{}
			}
			all[name] = true
		}
	})
	return all
}

// proving returns the names of the nodes that prove what they say, and were not revoked: nobody else can have made it
// up.
func (f *Fleet) proving() map[string]bool {
	all := map[string]bool{}
	f.enrolled.Each(func(sub *enrol.Subject) {
		if name, isNode := strings.CutPrefix(sub.Name, nodePrefix); isNode {
			all[name] = sub.Revoked.IsZero() && !sub.Proves.IsZero()
		}
	})
	return all
}

// witnesses says of a node whether its failures count against a document that is submitted again. Revoked nodes do not
// count, nor nodes that do not prove what they say where others do: whoever is the broker could make them up.
func (f *Fleet) witnesses() func(node string) bool {
	revoked, proving, some := f.revoked(), f.proving(), false
	for _, proves := range proving {
		some = some || proves
	}
	return func(node string) bool { return !revoked[node] && (proving[node] || !some) }
}

// CA is the fingerprint of the CA that the unit's nodes trust; "" while none has joined.
func (f *Fleet) CA() string { return f.enrolled.CA() }

// Awaited returns the nodes that may come in and have never been heard of, in the order of names. A
// broker of the site has to know them beforehand.
func (f *Fleet) Awaited(now time.Time) (all []view.Node) {
	f.enrolled.Each(func(sub *enrol.Subject) {
		name, isNode := strings.CutPrefix(sub.Name, nodePrefix)
		if isNode && f.awaited(name, sub, now) {
			all = append(all, view.Node{Node: name, Identity: f.Identity(name, now)})
		}
	})
	return all
}

// Identity returns how a node stands with the unit's CA, nil if it was never enrolled.
func (f *Fleet) Identity(node string, now time.Time) *view.Identity {
	sub := f.enrolled.Lookup(nodePrefix + node)
	state := sub.Standing(now)
	if state == "" {
		return nil
	}
	id := &view.Identity{State: state, Joined: sub.Joined, Revoked: sub.Revoked, RevokedBy: sub.RevokedBy,
		Proves: sub.Proves}
	if n := len(sub.Certificates); n > 0 {
		id.Expires = sub.Certificates[n-1].Expires
	}
	return id
}
