package fault

import (
	"bufio"
	"container/heap"
	"net"
	"sync"
	"time"
)

// relay is one connection on a road: it reads packets on either side as fast as they come and
// hands each on when it is due. Like a network, and unlike a pipe, it does not make a writer wait
// for the reader.
type relay struct {
	road      *Road
	near, far net.Conn
	up, down  *lane
	ended     sync.WaitGroup // the four goroutines

	mu   sync.Mutex
	lost bool // something has vanished, so that the stream is torn
}

func newRelay(r *Road, near, far net.Conn) *relay {
	return &relay{road: r, near: near, far: far, up: newLane(), down: newLane()}
}

func (l *relay) start() {
	l.ended.Go(func() { l.read(l.near, l.up, false) })
	l.ended.Go(func() { l.write(l.far, l.up) })
	l.ended.Go(func() { l.read(l.far, l.down, true) })
	l.ended.Go(func() { l.write(l.near, l.down) })
	go func() {
		l.ended.Wait()
		l.road.forget(l)
	}()
}

// sever breaks the connection: what is on the way is gone.
func (l *relay) sever() {
	_ = l.near.Close() // a pipe's Close does not fail
	_ = l.far.Close()
	l.up.cut()
	l.down.cut()
}

func (l *relay) hasLost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

func (l *relay) read(from net.Conn, to *lane, fromBroker bool) {
	in := bufio.NewReader(from)
	for {
		p, err := readPacket(in)
		if err != nil {
			break
		}
		pauses, lost, err := l.road.fate(p, fromBroker)
		if err != nil {
			l.sever()
			break
		}
		if lost {
			l.mu.Lock()
			l.lost = true
			l.mu.Unlock()
		}
		for i, pause := range pauses {
			if i > 0 {
				p = p.again()
			}
			to.put(p, pause)
		}
	}
	to.end()
}

// write hands on what is due until the lane has ended and is empty, then closes its side.
func (l *relay) write(to net.Conn, from *lane) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		p, wait, over := from.next()
		switch {
		case p != nil:
			if _, err := to.Write(p); err != nil {
				l.sever() // the other side has hung up
			}
			continue
		case over:
			_ = to.Close()
			return
		case wait > 0:
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-from.wake:
			}
		default:
			<-from.wake
		}
	}
}

// lane is what is under way in one direction, soonest first.
type lane struct {
	wake chan struct{} // holds one token if there may be something new

	mu     sync.Mutex
	queue  queue
	count  int
	latest time.Time // when the newest packet that must keep its order is due
	over   bool
}

func newLane() *lane { return &lane{wake: make(chan struct{}, 1)} }

func (l *lane) put(p Packet, pause time.Duration) {
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return
	}
	due := time.Now().Add(pause)
	if p.kind() != typePublish {
		if due.Before(l.latest) {
			due = l.latest
		}
		l.latest = due
	}
	if p.kind() == typePublish && due.Before(l.latest) {
		due = l.latest // nothing overtakes a CONNACK or SUBACK
	}
	l.count++
	heap.Push(&l.queue, parcel{p, due, l.count})
	l.mu.Unlock()
	l.poke()
}

func (l *lane) end() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.poke()
}

// cut takes away what is under way, and whatever is still to come.
func (l *lane) cut() {
	l.mu.Lock()
	l.over, l.queue = true, nil
	l.mu.Unlock()
	l.poke()
}

func (l *lane) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// next returns what is due, or how long to wait for it (0: until woken), or that nothing comes.
func (l *lane) next() (p Packet, wait time.Duration, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return nil, 0, l.over
	}
	if wait := time.Until(l.queue[0].due); wait > 0 {
		return nil, wait, false
	}
	return heap.Pop(&l.queue).(parcel).packet, 0, false
}

type parcel struct {
	packet Packet
	due    time.Time
	number int // the order of equal times
}

type queue []parcel

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	if q[i].due.Equal(q[j].due) {
		return q[i].number < q[j].number
	}
	return q[i].due.Before(q[j].due)
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push and Pop are for package heap.
func (q *queue) Push(x any) { *q = append(*q, x.(parcel)) }
func (q *queue) Pop() any {
	old := *q
	p := old[len(old)-1]
	old[len(old)-1] = parcel{}
	*q = old[:len(old)-1]
	return p
}
