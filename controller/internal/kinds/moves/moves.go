// Package moves is a collection that nodes get nothing of by themselves: the services that leave nodes which are
// overloaded, from the decision until they run elsewhere, and the nodes that have part in no move for a while
// (package rebalance). What should run where is decided with them.
//
//tandem:pure
package moves

import (
	"slices"
	"strings"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/rebalance"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

// Set returns the source.
func Set() kind.Set {
	return kind.Set{Sources: []*kind.Source{{Name: record.KindMoves, Title: "moves", Noun: "move",
		Fold: kind.JSON[record.MoveData, Moves](kind.Fold{Reason: "moves changed", Judge: judge, Apply: apply})}}}
}

// Moves are those that count, and the nodes that rest.
type Moves struct{ rebalance.Durable }

// For returns nothing: nodes get what is decided with all moves.
func (*Moves) For(kind.Facts) *kind.Body { return nil }

// Of is what a unit has of moves.
func Of(u kind.Unit) rebalance.Durable { return kind.As[Moves](u.Content(record.KindMoves)).Durable }

// Decided is the data of a record of a move that was decided.
func Decided(m *desired.ReliefMove) record.MoveData {
	d := ended(m, "")
	d.Parameter, d.Average, d.Max, d.For = string(m.Because.Parameter), m.Because.Average, m.Because.Max, m.Because.For
	return d
}

// Ended is that of a move that counts no more.
func Ended(e *rebalance.Ended) record.MoveData { return ended(&e.Move, string(e.As)) }

func ended(m *desired.ReliefMove, as string) record.MoveData {
	return record.MoveData{Codename: m.Codename, Subject: m.Subject, Index: m.Index, From: m.From, To: m.To, Ended: as}
}

// is reports whether a record is about a move.
func is(f rebalance.Flight, d record.MoveData) bool {
	m := &f.Move
	return m.Codename == d.Codename && m.Subject == d.Subject && m.Index == d.Index && m.From == d.From && m.To == d.To
}

func judge(c kind.Content, data any) *wire.Error {
	d, all := data.(record.MoveData), kind.As[Moves](c).Moves
	there := slices.ContainsFunc(all, func(f rebalance.Flight) bool { return is(f, d) })
	switch {
	case d.Ended != "" && !there:
		return wire.New(wire.CodeNotFound, "", "there is no such move")
	case d.Ended == "" && there:
		return wire.New(wire.CodeAlreadyExists, "", "the move was decided already")
	}
	return nil
}

// apply changes the moves. Data that was not judged is of a journal that was altered.
func apply(c kind.Content, at kind.Change, data any) kind.Content {
	d, old, next := data.(record.MoveData), kind.As[Moves](c), &Moves{}
	next.Moved = old.Moved
	for _, f := range old.Moves {
		if !is(f, d) {
			next.Moves = append(next.Moves, f)
		}
	}
	for _, r := range old.Rests {
		if at.At.Before(r.Until) && (d.Ended == "" || r.Node != d.From && r.Node != d.To) {
			next.Rests = append(next.Rests, r)
		}
	}
	if d.Ended != "" {
		if d.Ended != string(rebalance.Late) {
			of := desired.Service{Codename: d.Codename, Subject: d.Subject, Index: d.Index}
			next.Moved = rebalance.Move(old.Moved, of, at.At)
		}
		for _, node := range []string{d.From, d.To} {
			next.Rests = append(next.Rests, rebalance.Rest{Node: node, Until: at.At.Add(rebalance.CoolDown)})
		}
		slices.SortFunc(next.Rests, func(a, b rebalance.Rest) int { return strings.Compare(a.Node, b.Node) })
		return next
	}
	next.Moves = append(next.Moves, rebalance.Flight{Until: at.At.Add(rebalance.Patience),
		Move: desired.ReliefMove{Codename: d.Codename, Subject: d.Subject, Index: d.Index, From: d.From, To: d.To,
			Because: desired.Overload{Node: d.From, Parameter: desired.Parameter(d.Parameter), Average: d.Average,
				Max: d.Max, For: d.For}}})
	return next
}
