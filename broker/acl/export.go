package acl

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// patterns are one identity's rules as other brokers have them: MQTT filters of the topics that it may write and read.
type patterns struct{ write, read []string }

// patternsOf returns the rules of id as lists. They differ from Grants where lists cannot express a rule: a node may
// report only the kinds of the contract; the controller's wildcards do not check that the shard is the node's; a "+"
// for a name also matches an invalid name; and who may clear a topic may write it.
func (r Rules) patternsOf(id Identity) patterns {
	root := topic.Root + r.Unit + "/"
	beacon, all := topic.ForController(r.Unit), root+"#"
	switch id.Role {
	case Node:
		n := topic.ForNode(r.Unit, id.Name)
		p := patterns{read: []string{beacon, n.DesiredFilter(), n.Request()},
			write: []string{n.Event(), n.Live(), n.Reply()}}
		for _, kind := range wire.Kinds() {
			p.write = append(p.write, n.Reported(kind))
		}
		return p
	case Controller:
		return patterns{read: []string{all}, write: []string{
			beacon, root + "node/+/+/" + string(topic.Desired) + "/+", root + "node/+/+/" + string(topic.Request),
			root + "node/+/+/" + string(topic.Reported) + "/+", root + "node/+/+/" + string(topic.Live),
			topic.ForOutbox(r.Unit, "+"),
		}}
	case Cloud:
		return patterns{read: []string{beacon, topic.ForOutbox(r.Unit, "+")},
			write: []string{topic.ForInbox(r.Unit, "+")}}
	case Operator:
		return patterns{read: []string{all}}
	}
	return patterns{}
}

// sortedIdentities returns the identities of an export, sorted by user name. An invalid or repeated one is an error: an
// export without it would look complete.
func (r Rules) sortedIdentities(who []Identity) ([]Identity, error) {
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

// comment appends text as comment lines.
func comment(b *strings.Builder, text string) {
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimRight("# "+line, " \n"))
		b.WriteByte('\n')
	}
}
