package steer

import (
	"slices"
	"time"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/kinds/moves"
	"tandem.internal/controller/internal/rebalance"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/why"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// lookAtLoad reads what nodes tell of their load, and the moves that were decided.
func (u *Unit) lookAtLoad(unit kind.Unit, now time.Time) {
	u.decided = moves.Of(unit)
	if s := unit.State(wire.KindWorkloads); s.Rollout == nil { // while one goes on, nothing else is applied
		u.installed = s.Hash
	}
	for _, f := range u.decided.Moves {
		u.Moves = append(u.Moves, f.Move)
	}
	unit.Each(wire.KindHealth, func(n kind.Node) {
		h, _ := n.Detail.(*wire.Health)
		switch {
		case n.Revoked || u.byName[n.Name] == nil:
		case !n.Up:
			u.away = append(u.away, n.Name)
		case h != nil && h.Load != nil && now.Sub(n.At) <= rebalance.MaxGap:
			u.load.Nodes = append(u.load.Nodes, items.NodeLoad{Node: n.Name, CPU: &h.Load.CPU, RAM: &h.Load.RAM})
		}
	})
	slices.Sort(u.away)
}

// Mover has services leave nodes that are overloaded. It says what is to be done, one thing at a time; whoever does it
// lets it look at the unit again. All that it has to know after a restart is in the journal: a move that was decided,
// and is not in what was applied, is applied. What it knows of averages begins anew.
type Mover struct {
	On bool // else it only says who is overloaded

	state *rebalance.State
	todo  []record.MoveData // to be journaled, in this order
	later time.Time         // before which nothing is decided or applied: something was in the way
}

// Do is what is to be done. The zero Do is nothing.
type Do struct {
	Change *record.MoveData // of the moves, to be journaled
	Apply  []byte           // the set of workloads with what was decided
}

// retry is after how long something is tried again that was in the way.
const retry = time.Minute

// Failed says that what was to be done could not be. What was not journaled was not decided.
func (m *Mover) Failed(now time.Time) { *m = Mover{On: m.On, later: now.Add(retry)} }

// Next says what is to be done now.
func (m *Mover) Next(now time.Time, u *Unit) (Do, error) {
	if m.state == nil {
		m.state = rebalance.New(u.decided, rebalance.Limits{})
	}
	if len(m.todo) == 0 {
		if err := m.step(now, u); err != nil {
			return Do{}, err
		}
	}
	if len(m.todo) > 0 {
		next := m.todo[0]
		m.todo = m.todo[1:]
		return Do{Change: &next}, nil
	}
	return m.carryOut(now, u)
}

// step takes over what nodes tell, and decides where nothing is in the way of that.
func (m *Mover) step(now time.Time, u *Unit) error {
	in := u.Input
	in.Moves, in.Bar = nil, u.bar
	if len(u.away) > 0 { // at once: each event looks at all moves and instances
		if err := m.take(now, &in, rebalance.Away{Nodes: u.away}); err != nil {
			return err
		}
	}
	m.state.Hold = true
	if err := m.take(now, &in, rebalance.Measured(u.load)); err != nil {
		return err
	}
	if !m.On || len(m.todo) > 0 || !m.state.Due() || now.Before(m.later) {
		return nil
	}
	d, err := u.Decide()
	if err != nil {
		return err
	}
	if wire.Hash(d.Workloads) != u.installed { // somebody has changed something, and not applied it yet
		m.later = now.Add(retry)
		return nil
	}
	in.Misfits, m.state.Hold = u.Misfits, false
	return m.take(now, &in, rebalance.Measured(u.load))
}

// take takes one event, and notes what follows for the journal.
func (m *Mover) take(now time.Time, in *desired.Input, ev rebalance.Event) error {
	effects, err := m.state.Step(now, in, ev)
	for _, e := range effects {
		switch e := e.(type) {
		case rebalance.Decided:
			if e.Move != nil {
				m.todo = append(m.todo, moves.Decided(e.Move))
			}
		case rebalance.Ended:
			m.todo = append(m.todo, moves.Ended(&e))
		}
	}
	return err
}

// carryOut applies the moves that were decided and are not in what was applied: if that would apply nothing else.
func (m *Mover) carryOut(now time.Time, u *Unit) (do Do, err error) {
	all := u.Moves
	defer func() { u.Moves = all }()
	rest := slices.DeleteFunc(slices.Clone(all), func(v desired.ReliefMove) bool { return !u.runsAt(&v) })
	if !m.On || len(rest) == len(all) || now.Before(m.later) {
		return do, nil
	}
	m.later = now.Add(retry) // unless it can be applied
	u.Moves = rest
	before, err := u.Decide()
	if err != nil || wire.Hash(before.Workloads) != u.installed {
		return do, err
	}
	u.Moves = all
	after, err := u.Decide()
	if err != nil || wire.Hash(after.Workloads) == u.installed {
		return do, err
	}
	m.later = time.Time{}
	return Do{Apply: after.Workloads}, nil
}

// runsAt reports whether a service is where a move takes it, by what was applied.
func (u *Unit) runsAt(m *desired.ReliefMove) bool {
	return slices.ContainsFunc(u.Current.Instances, func(i items.Instance) bool {
		return i.Type == items.Service && i.Codename == m.Codename && i.Subject == m.Subject && i.Index == m.Index &&
			i.Node == m.To
	})
}

// Overloaded is which nodes are overloaded now, as Next has found.
type Overloaded struct {
	On    bool // services leave them
	Nodes []desired.Overload
	Load  *desired.Load
}

// Overloaded says which nodes are overloaded.
func (m *Mover) Overloaded() *Overloaded {
	if m.state == nil {
		return &Overloaded{On: m.On, Load: &desired.Load{}}
	}
	return &Overloaded{m.On, m.state.Overloads(), m.state.Load()}
}

// Reliefs are what could be done for the nodes that are overloaded, by a plan. It changes nothing.
func (o *Overloaded) Reliefs(p *desired.Plan) (all []desired.Relief) {
	if o == nil {
		return nil
	}
	for _, one := range o.Nodes {
		if o.Load.Settling[one.Node] {
			all = append(all, desired.Relief{Overload: one, Why: why.Overload(&one) + ": it has part in a move, or " +
				"was looked at a moment ago"})
			continue
		}
		r := p.Relieve(one, o.Load)
		r.Why = why.Relief(&r)
		if r.Move != nil && !o.On {
			r.Why += ", if the controller is started with --rebalance"
		}
		all = append(all, r)
	}
	return all
}
