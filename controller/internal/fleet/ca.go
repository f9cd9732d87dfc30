package fleet

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/signing"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// CAOrder changes the list of the unit's CAs; answered under Ticket.
type CAOrder struct {
	Ticket uint64
	signing.CAOrder
}

func (CAOrder) event() {}

// CAsChanged says that CAs is new: other ones count from now on.
type CAsChanged struct{}

func (CAsChanged) effect() {}

// CAs returns the unit's CAs; it must not be changed.
func (f *Fleet) CAs() record.Authorities { return f.cas }

// RefusedBrokers returns the keys of brokers that do not count any more, see enrol.State.RefusedBrokers.
func (f *Fleet) RefusedBrokers() []string { return f.enrolled.RefusedBrokers() }

// caOrder has package signing decide, and makes the new list a record.
func (s *step) caOrder(ev CAOrder) {
	data, err := signing.ChangeCA(s.now, s.cas, ev.CAOrder, s.caUse(s.now))
	if err != nil {
		s.effect(Answer{Ticket: ev.Ticket, Err: err})
		return
	}
	s.emit(record.Record{Type: record.CA, Who: ev.Who}, data)
	s.effect(CAsChanged{})
	s.promptAll()
	s.effect(Answer{Ticket: ev.Ticket})
}

// caUse says who depends on a CA.
func (f *Fleet) caUse(now time.Time) signing.CAUse {
	return signing.CAUse{
		Unaware: func(a record.Authority) []string { return f.unawareOfCA(now, a) },
		Needing: func(a record.Authority) []string {
			signs := f.cas.Signs()
			if signs == nil {
				return nil
			}
			names := slices.DeleteFunc(f.enrolled.NeedingCA(now, a.CA, signs.Since), func(name string) bool {
				return !f.forgotten[name].Time.IsZero()
			})
			names = append(names, f.unawareOfCA(now, *signs)...)
			slices.Sort(names)
			return slices.Compact(names)
		},
	}
}

// unawareOfCA names, in order, the nodes that have a valid certificate and are not known to believe a CA.
func (f *Fleet) unawareOfCA(now time.Time, a record.Authority) (names []string) {
	f.enrolled.Each(func(sub *enrol.Subject) {
		name, isNode := strings.CutPrefix(sub.Name, nodePrefix)
		by, belongs := sub.Belongs(now)
		if !isNode || !belongs || by == a.CA || !f.forgotten[name].Time.IsZero() || !f.countsCA(by) {
			return
		}
		if n := f.nodes[name]; n == nil || !slices.Contains(n.authorities(), a.ID()) {
			names = append(names, name)
		}
	})
	return names
}

// countsCA reports whether certificates by a CA count: nodes of another one have been left behind.
func (f *Fleet) countsCA(fingerprint string) bool {
	return len(f.cas.List) == 0 || f.cas.Find(record.CAID(fingerprint)) != nil
}

// authorities are the IDs of the CAs that a node says that it believes; none if it does not say, as older agents.
func (n *Node) authorities() []string {
	if n.Info == nil {
		return nil
	}
	return strings.Fields(n.Info.Attributes[wire.AttributeCA])
}

// CAView returns the CAs as operators see them; first is the fingerprint of the one that signs while there is no list.
func (f *Fleet) CAView(now time.Time, first string) view.CAs {
	v := signing.CAView(f.cas, first, f.caUse(now))
	for i := range v.CAs {
		for _, n := range f.nodes {
			if slices.Contains(n.authorities(), v.CAs[i].ID) {
				v.CAs[i].Nodes++
			}
		}
	}
	return v
}

// promptAll has the nodes that are online ask the join door which CAs and brokers count.
func (s *step) promptAll() {
	var names []string
	for _, n := range s.sorted() {
		if n.Up && len(n.authorities()) > 0 {
			names = append(names, n.Name)
		}
	}
	if len(names) > 0 {
		s.ask(wire.MethodCA, names, nil)
	}
}

// promptOne does so with a node that has just connected or described itself, if there may be something new for it.
func (s *step) promptOne(n *Node, connected bool) {
	believed := n.authorities()
	if len(believed) == 0 || !n.Up {
		return
	}
	news := connected && (len(s.RefusedBrokers()) > 0 || s.certifiedByAnother(n.Name)) ||
		s.root.Number > 0 && n.Info.Attributes[wire.AttributeRoot] != strconv.FormatUint(s.root.Number, 10)
	if len(s.cas.List) > 0 {
		news = news || len(believed) != len(s.cas.List) || slices.ContainsFunc(s.cas.List,
			func(a record.Authority) bool { return !slices.Contains(believed, a.ID()) })
	}
	if news {
		s.ask(wire.MethodCA, []string{n.Name}, nil)
	}
}

// certifiedByAnother reports whether a node has a certificate of another CA than the one that signs: it may have been
// away when that began to.
func (s *step) certifiedByAnother(node string) bool {
	sub, signs := s.enrolled.Lookup(nodePrefix+node), s.cas.Signs()
	if sub == nil || signs == nil {
		return false
	}
	by, ok := sub.Belongs(s.now)
	return ok && by != signs.CA
}
