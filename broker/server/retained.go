package server

import (
	"bytes"
	"slices"
	"sort"
	"strings"
	"sync"

	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// retained keeps the retained messages of all topics in a tree of their levels. A message takes
// its payload and about 140 bytes; in mochi's own store, which is left empty, it takes 1.5 KiB more.
//
// Who subscribes reads it under mu from before the subscription is known until what it found has
// its place in the client's stream (Server.subscribe), so that a newer message, which is kept
// before it is delivered, comes after. Nothing that waits for a client or calls back happens
// under mu.
type retained struct {
	mu   sync.RWMutex
	root level
	n    int
}

// level is one level of a topic, with the message that is retained on the topic which ends here.
type level struct {
	name    string
	below   []level // sorted by name
	payload []byte  // empty: nothing is retained here
	qos     byte
}

// set retains a message in the place of what was there, or takes that away if payload is empty.
func (r *retained) set(name string, payload []byte, qos byte) {
	payload = bytes.Clone(payload) // or the packet that it came in would be kept
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(payload) == 0 {
		if r.root.remove(name) {
			r.n--
		}
		return
	}
	at := r.root.make(name)
	if len(at.payload) == 0 {
		r.n++
	}
	at.payload, at.qos = payload, qos
}

// get returns the payload that is retained on a topic.
func (r *retained) get(name string) ([]byte, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	at := &r.root
	for rest, more := name, true; more; {
		var key string
		key, rest, more = strings.Cut(rest, "/")
		i, ok := at.find(key)
		if !ok {
			return nil, false
		}
		at = &at.below[i]
	}
	return at.payload, len(at.payload) > 0
}

func (r *retained) len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.n
}

// match calls fn for each retained message whose topic a valid filter matches (MQTT 3.1.1, 4.7),
// in order of topics. It costs what it finds, and what a "+" passes by. mu must be held.
func (r *retained) match(filter string, fn func(name string, payload []byte, qos byte)) {
	r.root.match(filter, make([]byte, 0, 128), fn)
}

func (l *level) match(filter string, path []byte, fn func(string, []byte, byte)) {
	key, rest, more := strings.Cut(filter, "/")
	if key == "#" {
		l.all(path, fn)
		return
	}
	first, last := 0, len(l.below)
	if key != "+" {
		i, ok := l.find(key)
		if first, last = i, i; ok {
			last++
		}
	}
	for i := first; i < last; i++ {
		at := &l.below[i]
		if path := append(path, at.name...); more {
			at.match(rest, append(path, '/'), fn)
		} else {
			at.tell(path, fn)
		}
	}
}

// all calls fn for everything from here on: "a/#" matches "a", too.
func (l *level) all(path []byte, fn func(string, []byte, byte)) {
	l.tell(bytes.TrimSuffix(path, []byte("/")), fn)
	for i := range l.below {
		at := &l.below[i]
		at.all(append(append(path, at.name...), '/'), fn)
	}
}

func (l *level) tell(path []byte, fn func(string, []byte, byte)) {
	if len(l.payload) > 0 {
		fn(string(path), l.payload, l.qos)
	}
}

// find returns where the level of a name is, or would be.
func (l *level) find(name string) (int, bool) {
	return sort.Find(len(l.below), func(i int) int { return strings.Compare(name, l.below[i].name) })
}

// make returns the level that a topic ends in. It is valid until the next change.
func (l *level) make(rest string) *level {
	key, rest, more := strings.Cut(rest, "/")
	i, ok := l.find(key)
	if !ok {
		if n := len(l.below); n == cap(l.below) { // most have few, for ever: room for exactly these
			l.below = append(make([]level, 0, n+1+n/4), l.below...)
		}
		l.below = slices.Insert(l.below, i, level{name: word(key)})
	}
	if at := &l.below[i]; more {
		return at.make(rest)
	} else {
		return at
	}
}

// remove takes away what is retained on a topic, and the levels that nothing needs any more. It
// reports whether there was something.
func (l *level) remove(rest string) (found bool) {
	key, rest, more := strings.Cut(rest, "/")
	i, ok := l.find(key)
	if !ok {
		return false
	}
	at := &l.below[i]
	if more {
		found = at.remove(rest)
	} else {
		found, at.payload = len(at.payload) > 0, nil
	}
	if len(at.payload) == 0 && len(at.below) == 0 {
		l.below = slices.Delete(l.below, i, i+1)
	}
	return found
}

// word returns a string of its own for a level's name: one for all where the wire names it.
func word(name string) string {
	if w, ok := words[name]; ok {
		return w
	}
	return strings.Clone(name)
}

var words = func() map[string]string {
	all := map[string]string{}
	for _, l := range []topic.Leaf{topic.Desired, topic.Reported, topic.Live} {
		all[string(l)] = string(l)
	}
	for _, k := range wire.Kinds() {
		all[string(k)] = string(k)
	}
	return all
}()
