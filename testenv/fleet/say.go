package fleet

import (
	"fmt"

	"tandem.internal/shared/wire"
)

// Say has node i report something that it does not know by itself, such as its health. It fills in whose report it is.
func (f *Fleet) Say(i int, r wire.Reported) error {
	n := f.nodes[i]
	r.V, r.Node, r.Boot, r.Seq = wire.Version, n.name, f.boot, n.reports.Add(1)
	return n.utter(message{n.topics.Reported(r.Kind), wire.Encode(&r), true})
}

// Tell has node i tell of an event. It fills in whose event it is.
func (f *Fleet) Tell(i int, e wire.Event) error {
	n := f.nodes[i]
	e.V, e.Node, e.Boot, e.Seq = wire.Version, n.name, f.boot, n.events.Add(1)
	return n.utter(message{n.topics.Event(), wire.Encode(&e), false})
}

// utter sends a message of a node's that is online.
func (n *node) utter(m message) error {
	n.mu.Lock()
	c := n.c
	n.mu.Unlock()
	if c == nil {
		return fmt.Errorf("%s is not connected", n.name)
	}
	if _, err := n.send(c, 0, m); err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	return nil
}
