package acl

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// patterns are one identity's rules in a form that other brokers have: MQTT filters of what may be
// written and of what may be read.
type patterns struct{ write, read []string }

// exported are the rules of id as lists. They are those of Grants, with three differences that
// lists force: a node may report the kinds that the wire names and no others; the controller's
// wildcards do not see whether a shard is the node's; and where "+" stands for one name, it also
// matches what is no name.
func (r Rules) exported(id Identity) patterns {
	root := topic.Root + r.Unit + "/"
	beacon, all := topic.ForController(r.Unit), root+"#"
	switch id.Role {
	case Node:
		n := topic.ForNode(r.Unit, id.Name)
		p := patterns{read: []string{beacon, n.DesiredFilter(), n.Request()}, write: []string{n.Event(), n.Live(), n.Reply()}}
		for _, kind := range wire.Kinds() {
			p.write = append(p.write, n.Reported(kind))
		}
		return p
	case Controller:
		return patterns{read: []string{all}, write: []string{
			beacon, root + "node/+/+/" + string(topic.Desired) + "/+", root + "node/+/+/" + string(topic.Request), topic.ForOutbox(r.Unit, "+"),
		}}
	case Cloud:
		return patterns{read: []string{beacon, topic.ForOutbox(r.Unit, "+")}, write: []string{topic.ForInbox(r.Unit, "+")}}
	case Operator:
		return patterns{read: []string{all}}
	}
	return patterns{}
}

// everyone puts the identities of an export into the order of their user names. An invalid one, or
// one that is there twice, is an error: an export that leaves somebody out must not look whole.
func (r Rules) everyone(who []Identity) ([]Identity, error) {
	if !topic.ValidName(r.Unit) {
		return nil, fmt.Errorf("export: bad unit name %.80q", r.Unit)
	}
	if len(who) == 0 {
		return nil, errors.New("export: nobody is named")
	}
	who = slices.Clone(who)
	slices.SortFunc(who, func(a, b Identity) int { return strings.Compare(a.String(), b.String()) })
	for i, id := range who {
		name := id.String()
		if got, err := IdentityOf(name, name); err != nil || got != id {
			return nil, fmt.Errorf("export: %.80q is not an identity", name)
		}
		if i > 0 && who[i-1] == id {
			return nil, fmt.Errorf("export: %s is named twice", name)
		}
	}
	return who, nil
}

// comment writes text as comment lines.
func comment(b *strings.Builder, text string) {
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimRight("# "+line, " \n"))
		b.WriteByte('\n')
	}
}
