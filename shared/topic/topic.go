// Package topic builds and parses MQTT topics (shared/docs/wire.md, Topics). Each topic has exactly one writer. The
// package is pure.
//
//tandem:pure
package topic

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"tandem.internal/shared/wire"
)

// Root is the beginning of every topic: the product and its wire version.
const Root = "tandem/1/"

// MaxName is the most bytes of the name of a unit or node.
const MaxName = 63

// ValidName reports whether s can be the name of a unit or a node ID: [A-Za-z0-9][A-Za-z0-9._-]{0,62}.
func ValidName(s string) bool { return wire.ValidName(s) }

// Shard returns the shard of a node: the first two hexadecimal digits of the SHA-256 of its ID, "00" to "ff".
func Shard(node string) string {
	h := sha256.Sum256([]byte(node))
	return hex.EncodeToString(h[:1])
}

// ofShard reports whether shard is Shard(node). It does not allocate, because it runs for each message of a node.
func ofShard(shard, node string) bool {
	var buf [MaxName]byte // node is a ValidName
	h := sha256.Sum256(append(buf[:0], node...))
	const digits = "0123456789abcdef"
	return len(shard) == 2 && shard[0] == digits[h[0]>>4] && shard[1] == digits[h[0]&15]
}

// Shards returns all 256 shards, sorted.
func Shards() []string {
	s := make([]string, 256)
	for i := range s {
		s[i] = fmt.Sprintf("%02x", i)
	}
	return s
}

// Leaf is what the messages of a topic are.
type Leaf string

// The leaves of the topic tree. Those below a node: Desired, Request, Reply, Reported, Live and Event.
const (
	Beacon   Leaf = "controller"
	Desired  Leaf = "desired"
	Request  Leaf = "request"
	Reply    Leaf = "reply"
	Reported Leaf = "reported"
	Live     Leaf = "live"
	Event    Leaf = "event"
	Inbox    Leaf = "inbox"
	Outbox   Leaf = "outbox"
)

// Topic is a parsed topic.
type Topic struct {
	Unit string
	Node string // of leaves below a node
	Leaf Leaf
	Kind wire.Kind // of Desired and Reported
	What string    // the source, of Inbox and Outbox
}

// ForController returns the topic of the beacon.
func ForController(unit string) string { return Root + unit + "/controller" }

// ForInbox returns the topic of submissions to a source.
func ForInbox(unit, what string) string { return Root + unit + "/inbox/" + what }

// ForOutbox returns the topic of answers to submissions.
func ForOutbox(unit, what string) string { return Root + unit + "/outbox/" + what }

// Node builds the topics of one node. It keeps their common prefix, which has the node's shard.
type Node struct{ prefix string }

// ForNode returns the Node of a unit's node.
func ForNode(unit, node string) Node {
	return Node{Root + unit + "/node/" + Shard(node) + "/" + node + "/"}
}

// Desired returns the topic of documents of a kind.
func (n Node) Desired(k wire.Kind) string { return n.prefix + "desired/" + string(k) }

// DesiredFilter returns the filter that matches documents of every kind.
func (n Node) DesiredFilter() string { return n.prefix + "desired/+" }

// Request returns the topic of requests.
func (n Node) Request() string { return n.prefix + "request" }

// Reply returns the topic of replies.
func (n Node) Reply() string { return n.prefix + "reply" }

// Reported returns the topic of reports of a kind.
func (n Node) Reported(k wire.Kind) string { return n.prefix + "reported/" + string(k) }

// Live returns the topic of live messages.
func (n Node) Live() string { return n.prefix + "live" }

// Event returns the topic of events.
func (n Node) Event() string { return n.prefix + "event" }

// ShardFilters returns the filters that match all messages of the nodes of one shard.
func ShardFilters(unit, shard string) []string {
	p := Root + unit + "/node/" + shard + "/+/"
	return []string{p + "live", p + "reported/+", p + "reply", p + "event"}
}

// ShardDesired returns the filter that matches every desired document of one shard.
func ShardDesired(unit, shard string) string {
	return Root + unit + "/node/" + shard + "/+/desired/+"
}

// Parse parses a topic. It accepts exactly those that the functions above return: a wrong shard, an invalid name or an
// unknown leaf is an error.
func Parse(s string) (Topic, error) {
	bad := func(why string) (Topic, error) {
		return Topic{}, fmt.Errorf("topic %.200q: %s", s, why)
	}
	rest, ok := strings.CutPrefix(s, Root)
	if !ok {
		return bad("does not begin with " + Root)
	}
	unit, rest, ok := strings.Cut(rest, "/")
	if !ok || !ValidName(unit) {
		return bad("bad unit name")
	}
	head, rest, more := strings.Cut(rest, "/")
	switch Leaf(head) {
	case Beacon:
		if more {
			return bad("the beacon has no topics below it")
		}
		return Topic{Unit: unit, Leaf: Beacon}, nil
	case Inbox, Outbox:
		if !ValidName(rest) {
			return bad("bad name after " + head)
		}
		return Topic{Unit: unit, Leaf: Leaf(head), What: rest}, nil
	case "node":
	default:
		return bad("unknown branch")
	}
	shard, rest, _ := strings.Cut(rest, "/")
	node, rest, _ := strings.Cut(rest, "/")
	if !ValidName(node) {
		return bad("bad node name")
	}
	if !ofShard(shard, node) {
		return bad("the shard is not the node's")
	}
	t := Topic{Unit: unit, Node: node}
	leaf, kind, more := strings.Cut(rest, "/")
	t.Leaf = Leaf(leaf)
	switch t.Leaf {
	case Desired, Reported:
		if !ValidName(kind) {
			return bad("bad document kind")
		}
		t.Kind = wire.Kind(kind)
	case Request, Reply, Live, Event:
		if more {
			return bad(leaf + " has no topics below it")
		}
	default:
		return bad("unknown leaf")
	}
	return t, nil
}
