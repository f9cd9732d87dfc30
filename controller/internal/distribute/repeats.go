package distribute

import (
	"bytes"
	"hash/maphash"
	"sync"

	"tandem.internal/controller/internal/fleet"
)

// repeats remembers the newest report on each topic, decoded. A node says everything that it reports
// again whenever it connects, and a broker repeats what it retains whenever the controller does: most
// of what comes in such a storm is, byte for byte, what came before, and is not decoded twice. It
// saves work and decides nothing: what is found here goes the same way as what was decoded anew.
type repeats struct {
	seed   maphash.Seed
	shards [64]repeatShard
}

type repeatShard struct {
	mu  sync.Mutex
	all map[string]fleet.Heard
}

// Bounds of what is remembered: in all 64 MiB at most, of a usual report less than 1 KiB.
const (
	maxRepeat  = 1 << 10 // bytes of a report; a longer one is decoded each time
	maxRepeats = 1 << 10 // topics in each shard
)

func (r *repeats) init() {
	r.seed = maphash.MakeSeed()
	for i := range r.shards {
		r.shards[i].all = map[string]fleet.Heard{}
	}
}

func (r *repeats) of(topic string) *repeatShard {
	return &r.shards[maphash.String(r.seed, topic)%uint64(len(r.shards))]
}

// find returns what these bytes on this topic mean, if they are the newest that came there.
func (r *repeats) find(topic string, payload []byte) (fleet.Heard, bool) {
	s := r.of(topic)
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.all[topic]
	if !ok || !bytes.Equal(h.Raw, payload) {
		return fleet.Heard{}, false
	}
	return h, true
}

// keep remembers a report that was decoded and is its sender's own. Nothing of it may be changed
// any more.
func (r *repeats) keep(topic string, h fleet.Heard) {
	if len(h.Raw) > maxRepeat {
		return
	}
	s := r.of(topic)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.all[topic]; !known && len(s.all) >= maxRepeats {
		clear(s.all) // a storm of more topics than that: begin anew
	}
	s.all[topic] = h
}
