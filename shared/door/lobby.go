package door

import (
	"container/list"
	"net/netip"
	"time"
)

// Lobby is where connections are until it is known who they are. Some are served, the others wait for a place, in the
// order in which they came to their Network, and the networks take turns: whoever opens many delays those of its own
// network. When there is no place for a newcomer, one that has had its own for longer than Patience gives way. It
// belongs to a lock; the times that it is given come from one clock.
type Lobby[T comparable] struct {
	Each     int           // served at once, of one network
	Max      int           // served at once, of all
	Waiting  int           // waiting at once, of all; beyond that a newcomer takes the place of any of them
	Patience time.Duration // that nobody is made to leave within
	Longest  time.Duration // that one waits; whoever waits longer is turned away, since it has given up itself

	guests   map[T]*guest[T]
	networks map[netip.Prefix]*network
	served   list.List // of *guest[T], the one that has been served for the longest first
	turns    list.List // of *network: those with somebody who waits, and with a place, in turn
	waiting  int
}

type guest[T comparable] struct {
	who  T
	of   *network
	at   time.Time     // since when it waits, or is served
	in   *list.Element // of served; nil: it waits
	wait *list.Element // of the network's queue
}

type network struct {
	prefix netip.Prefix
	served int
	queue  list.List
	turn   *list.Element // nil: it is not in turns
}

// Enter adds a connection. start are those to be served now, which may be among them; drop those to be closed, which
// have left already.
func (l *Lobby[T]) Enter(now time.Time, who T, from netip.Addr) (start, drop []T) {
	if l.guests == nil {
		l.guests, l.networks = map[T]*guest[T]{}, map[netip.Prefix]*network{}
	}
	if l.waiting >= l.Waiting {
		if one, ok := l.Any(); ok {
			l.Drop(one)
			drop = append(drop, one)
		}
	}
	p := Network(from)
	n := l.networks[p]
	if n == nil {
		n = &network{prefix: p}
		l.networks[p] = n
	}
	g := &guest[T]{who: who, of: n, at: now}
	g.wait = n.queue.PushBack(g)
	l.guests[who] = g
	l.waiting++
	l.offer(n) // before that of the one that gives way
	if old := l.stale(now, n); old != nil {
		drop = append(drop, old.who)
		l.remove(old)
	}
	l.offer(n)
	start, late := l.next(now)
	return start, append(drop, late...)
}

// Leave removes a connection that is known now, or has ended. It does nothing for one that has left. start and drop are
// as of Enter.
func (l *Lobby[T]) Leave(now time.Time, who T) (start, drop []T) {
	l.Drop(who)
	return l.next(now)
}

// Any returns a connection that can be closed to make room: one that waits, if there is any; else one that is served.
func (l *Lobby[T]) Any() (who T, ok bool) {
	for _, g := range l.guests { // in an order that nobody can foresee
		if who, ok = g.who, true; g.in == nil || l.waiting == 0 {
			return who, true
		}
	}
	return who, ok
}

// Drop removes a connection that is to be closed. Its place is given away at the next Enter or Leave.
func (l *Lobby[T]) Drop(who T) {
	if g := l.guests[who]; g != nil {
		l.remove(g)
	}
}

// stale returns the one that gives way to a newcomer of n; nil: there is a place, or nobody has to.
func (l *Lobby[T]) stale(now time.Time, n *network) *guest[T] {
	if l.served.Len() < l.Max && n.served < l.Each {
		return nil
	}
	for e := l.served.Front(); e != nil; e = e.Next() {
		g := e.Value.(*guest[T])
		if now.Sub(g.at) <= l.Patience {
			return nil
		}
		if n.served < l.Each || g.of == n {
			return g
		}
	}
	return nil
}

// offer puts n into the turns if it has somebody who waits and a place.
func (l *Lobby[T]) offer(n *network) {
	if n.turn == nil && n.queue.Len() > 0 && n.served < l.Each {
		n.turn = l.turns.PushBack(n)
	}
}

// next gives free places to those that wait.
func (l *Lobby[T]) next(now time.Time) (start, drop []T) {
	for l.served.Len() < l.Max && l.turns.Len() > 0 {
		n := l.turns.Remove(l.turns.Front()).(*network)
		n.turn = nil
		g := n.queue.Front().Value.(*guest[T])
		if now.Sub(g.at) > l.Longest {
			drop = append(drop, g.who)
			l.remove(g)
		} else {
			n.queue.Remove(g.wait)
			l.waiting--
			n.served++
			g.at, g.wait, g.in = now, nil, l.served.PushBack(g)
			start = append(start, g.who)
		}
		l.offer(n)
	}
	return start, drop
}

func (l *Lobby[T]) remove(g *guest[T]) {
	n := g.of
	delete(l.guests, g.who)
	if g.in != nil {
		l.served.Remove(g.in)
		n.served--
	} else {
		n.queue.Remove(g.wait)
		l.waiting--
	}
	if n.turn != nil && n.queue.Len() == 0 {
		l.turns.Remove(n.turn)
		n.turn = nil
	}
	if n.served == 0 && n.queue.Len() == 0 {
		delete(l.networks, n.prefix)
		return
	}
	l.offer(n)
}
