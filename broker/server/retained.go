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

// retained is the store of retained messages: a tree of the levels of topics. A message takes its payload and about 140
// bytes; in mochi's store, which stays empty, it would take 1.5 KiB more.
//
// Server.subscribe holds mu from before mochi knows the subscription until no other packet can come before the retained
// messages. A newer message is retained before it is delivered, so the client gets it after the retained one. Nothing
// waits for a client, or calls back, while mu is held.
type retained struct {
	mu   sync.RWMutex
	root level
	n    int // number of messages
}

// level is one level of topics, with the retained message of the topic that ends here.
type level struct {
	name     string
	children []level // sorted by name
	payload  []byte  // empty: there is no retained message
	qos      byte
}

// set replaces the retained message of a topic, or removes it if payload is empty.
func (r *retained) set(name string, payload []byte, qos byte) {
	payload = bytes.Clone(payload) // otherwise the whole packet would stay in memory
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(payload) == 0 {
		if r.root.remove(name) {
			r.n--
		}
		return
	}
	at := r.root.insert(name)
	if len(at.payload) == 0 {
		r.n++
	}
	at.payload, at.qos = payload, qos
}

// get returns the retained payload of a topic.
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
		at = &at.children[i]
	}
	return at.payload, len(at.payload) > 0
}

func (r *retained) len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.n
}

// match calls fn for each retained message whose topic matches a valid filter (MQTT 3.1.1, section 4.7), in the order
// of topics. Its time is that of the matches, and of the levels that a "+" matches. mu must be held.
func (r *retained) match(filter string, fn func(name string, payload []byte, qos byte)) {
	r.root.match(filter, make([]byte, 0, 128), fn)
}

// match is retained.match for the levels below l, whose topic is path.
func (l *level) match(filter string, path []byte, fn func(string, []byte, byte)) {
	key, rest, more := strings.Cut(filter, "/")
	if key == "#" {
		l.all(path, fn)
		return
	}
	first, last := 0, len(l.children)
	if key != "+" {
		i, ok := l.find(key)
		if first, last = i, i; ok {
			last++
		}
	}
	for i := first; i < last; i++ {
		at := &l.children[i]
		if path := append(path, at.name...); more {
			at.match(rest, append(path, '/'), fn)
		} else {
			at.visit(path, fn)
		}
	}
}

// all calls fn for the messages of l and of all levels below it: "a/#" matches "a" too.
func (l *level) all(path []byte, fn func(string, []byte, byte)) {
	l.visit(bytes.TrimSuffix(path, []byte("/")), fn)
	for i := range l.children {
		at := &l.children[i]
		at.all(append(append(path, at.name...), '/'), fn)
	}
}

// visit calls fn for the message of l, if there is one.
func (l *level) visit(path []byte, fn func(string, []byte, byte)) {
	if len(l.payload) > 0 {
		fn(string(path), l.payload, l.qos)
	}
}

// find returns the index of the child of that name; if there is none, where it would be, and false.
func (l *level) find(name string) (int, bool) {
	return sort.Find(len(l.children), func(i int) int { return strings.Compare(name, l.children[i].name) })
}

// insert returns the level in which a topic ends, and creates it if necessary. The result is valid until the next
// change.
func (l *level) insert(rest string) *level {
	key, rest, more := strings.Cut(rest, "/")
	i, ok := l.find(key)
	if !ok {
		if n := len(l.children); n == cap(l.children) { // little spare room: most levels get no more
			l.children = append(make([]level, 0, n+1+n/4), l.children...)
		}
		l.children = slices.Insert(l.children, i, level{name: intern(key)})
	}
	if at := &l.children[i]; more {
		return at.insert(rest)
	} else {
		return at
	}
}

// remove removes the retained message of a topic, and levels that are empty after that. It reports whether there was a
// message.
func (l *level) remove(rest string) (found bool) {
	key, rest, more := strings.Cut(rest, "/")
	i, ok := l.find(key)
	if !ok {
		return false
	}
	at := &l.children[i]
	if more {
		found = at.remove(rest)
	} else {
		found, at.payload = len(at.payload) > 0, nil
	}
	if len(at.payload) == 0 && len(at.children) == 0 {
		l.children = slices.Delete(l.children, i, i+1)
	}
	return found
}

// intern returns a copy of a level's name; names of the contract share one copy.
func intern(name string) string {
	if w, ok := contractNames[name]; ok {
		return w
	}
	return strings.Clone(name)
}

// contractNames are names of levels that nearly every node has.
var contractNames = func() map[string]string {
	all := map[string]string{}
	for _, l := range []topic.Leaf{topic.Desired, topic.Reported, topic.Live} {
		all[string(l)] = string(l)
	}
	for _, k := range wire.Kinds() {
		all[string(k)] = string(k)
	}
	return all
}()
