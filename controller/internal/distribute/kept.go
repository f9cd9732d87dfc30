package distribute

import (
	"maps"
	"slices"

	"tandem.internal/shared/link"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// kept is what an outbox topic is to retain: the unit's status, or the newest answer to a submission. A broker may have
// lost it.
type kept struct {
	link.Publication
	recalled bool // from the journal: the broker may retain a newer one, of a submission that was not journaled
}

// recall returns the newest answers that the journal has, if submissions are taken.
func (c *Core) recall() map[string]kept {
	all := map[string]kept{}
	if !c.cfg.Inbox {
		return all
	}
	for what, a := range c.inbox.newest() {
		p := c.answerOn(what, a.Answer)
		all[p.Topic] = kept{p, true}
	}
	return all
}

// keep takes over what an outbox topic is to retain. The caller holds o.mu.
func (o *outbox) keep(p link.Publication) {
	if t, err := topic.Parse(p.Topic); err == nil && t.Leaf == topic.Outbox && o.c.keeps(t.What) && len(p.Payload) > 0 {
		o.kept[p.Topic] = kept{Publication: p}
	}
}

// keeps reports whether an outbox topic is one of those that there are: a submission may name any.
func (c *Core) keeps(what string) bool {
	src := c.cfg.Kinds.Source(wire.Kind(what))
	return what == statusTopic || src != nil && takesFromInbox(src)
}

// opening returns what is published first in a session: what waits, and what outbox topics are to retain that does not
// wait. The caller holds o.mu.
func (o *outbox) opening(waiting []link.Publication) []link.Publication {
	all := slices.Clone(waiting)
	for _, name := range slices.Sorted(maps.Keys(o.kept)) {
		k := o.kept[name]
		waits := slices.ContainsFunc(waiting, func(p link.Publication) bool { return p.Topic == name })
		if !waits && !k.recalled {
			all = append(all, k.Publication)
		}
	}
	return all
}

// unfound returns what was recalled and not found at the broker. From now on it counts as published.
func (o *outbox) unfound() []link.Publication {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []link.Publication
	for _, name := range slices.Sorted(maps.Keys(o.kept)) {
		if k := o.kept[name]; k.recalled {
			all = append(all, k.Publication)
			o.kept[name] = kept{Publication: k.Publication}
		}
	}
	return all
}

// foundAnswer takes over the answer that the broker retains, unless a newer one is known. A nil payload stands for
// one that is too long: it is taken away, unless another is to take its place.
func (o *outbox) foundAnswer(what string, payload []byte) {
	name := topic.ForOutbox(o.c.cfg.Unit, what)
	p := link.Publication{Topic: name, Payload: payload, Retain: true}
	_, err := wire.Decode[wire.Answer](payload)
	o.mu.Lock()
	defer o.mu.Unlock()
	k, known := o.kept[name]
	switch {
	case err == nil && (known && k.recalled || !known && o.c.keeps(what)):
		o.kept[name] = kept{Publication: p}
	case payload == nil && !known:
		o.plain = append(o.plain, p)
		o.kick()
	}
}
