package attack

import (
	"slices"
	"strings"

	"tandem.internal/broker/acl"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

const root = "tandem/1/" + unitName + "/"

var (
	mallory   = acl.Identity{Role: acl.Node, Name: "mallory"}
	eu        = acl.Identity{Role: acl.Cloud, Name: "eu"}
	ownPrefix = strings.TrimSuffix(of("mallory").Live(), "live")
)

// publishes are messages on topics that are not the node's, or are none.
var publishes = []attempt{
	writes("a topic with +", ownPrefix+"+", everywhere(closed)),
	writes("a topic with # at its end", root+"#", everywhere(closed)),
	writes("a topic of a shared subscription", "$share/g/"+of("mallory").Live(), everywhere(discarded)),
	writes("a topic below $SYS", "$SYS/broker/version", everywhere(discarded)),
	writes("a topic of 65,535 bytes", ownPrefix+strings.Repeat("k", 65535-len(ownPrefix)), everywhere(discarded)),
	writes("a topic with NUL", ownPrefix+"live\x00", everywhere(closed)),
	writes("a topic that is not UTF-8", ownPrefix+"liv\xff", everywhere(closed)),
	writes("a topic with / in two bytes of overlong UTF-8", strings.Replace(of("n1").Live(), "/n1/",
		"/mallory\xc0\xaf..\xc0\xafn1/", 1), everywhere(closed)),
	writes("a topic with a surrogate", ownPrefix+"live\xed\xa0\x80", everywhere(closed)),
	writes("a topic with U+FFFE", ownPrefix+"live\ufffe", refusals{discarded, closed, discarded}),
	writes("a topic with a byte order mark in front", "\ufeff"+of("mallory").Live(), everywhere(discarded)),
	writes("a topic with a letter that looks like another", strings.Replace(of("n1").Live(), "live", "l\u0456ve", 1),
		everywhere(discarded)),
	writes("a topic with an accent on its last letter", of("n1").Live()+"\u0301", everywhere(discarded)),
	writes("a topic with a control character", ownPrefix+"live\x01", refusals{discarded, closed, discarded}),
	writes("a topic with empty levels", strings.Replace(of("n1").Live(), "/node/", "//node//", 1),
		everywhere(discarded)),
	writes("a topic with / in front", "/"+of("mallory").Live(), everywhere(discarded)),
	writes("a topic with / at its end", of("mallory").Live()+"/", everywhere(discarded)),
	writes("an empty topic", "", everywhere(closed)),
	writes("a topic with ..", ownPrefix+"../n1/live", everywhere(discarded)),
	writes("its own name in another's shard", root+"node/"+topic.Shard("n1")+"/mallory/live", everywhere(discarded)),
	writes("a report below a report", ownPrefix+"reported/config/x", everywhere(discarded)),
	writes("another unit", topic.ForNode("u2", "mallory").Live(), everywhere(discarded)),
	writes("another version of the wire", strings.Replace(of("mallory").Live(), "/1/", "/2/", 1),
		everywhere(discarded)),
	{"the stream in which NATS keeps messages", aNode,
		func(a *try) string { return a.says("node/mallory", "$JS/API/STREAM/PURGE/$MQTT_rmsgs") },
		everywhere(discarded)},
}

func writes(name, topicName string, want refusals) attempt {
	return attempt{"publishing on " + name, aNode, func(a *try) string { return a.says("node/mallory", topicName) },
		want}
}

func reads(name, filter string, want refusals) attempt {
	return attempt{"subscribing to " + name, aNode, func(a *try) string { return a.listens(mallory, filter) }, want}
}

// subscriptions are filters that reach beyond what a node, or a cloud side, may read.
var subscriptions = slices.Concat([]attempt{
	reads("#", "#", unheard),
	reads("the unit's #", root+"#", unheard),
	reads("+ for every level", "+/+/+/+/+/+/+/+", unheard),
	reads("every node's documents", root+"node/+/+/desired/+", unheard),
	reads("another's documents", of("n1").DesiredFilter(), unheard),
	reads("another's requests", of("n1").Request(), unheard),
	reads("its own branch with #", ownPrefix+"#", unheard),
	reads("a shared subscription to all", "$share/g/"+root+"#", unheard),
	reads("a shared subscription to another's documents", "$share/g/"+of("n1").DesiredFilter(), unheard),
	reads("$SYS", "$SYS/#", unheard),
	reads("the inbox", topic.ForInbox(unitName, "+"), unheard),
	reads("the outbox", topic.ForOutbox(unitName, "+"), unheard),
	reads("another unit", "tandem/1/+/controller", unheard),
	reads("# in the middle", root+"#/desired", refusals{denied, closed, denied}),
	reads("+ beside letters", root+"node/+x/n1/live", refusals{denied, closed, denied}),
	reads("a filter of 65,535 bytes", ownPrefix+strings.Repeat("k", 65535-len(ownPrefix)), unheard),
	reads("a filter of 30,000 levels", strings.Repeat("+/", 30000)+"#", refusals{denied, closed, denied}),
	reads("a filter with NUL", of("n1").Desired(wire.KindConfig)+"\x00", everywhere(closed)),
	reads("a filter that is not UTF-8", of("n1").Desired(wire.KindConfig)+"\xff", everywhere(closed)),
	reads("what NATS keeps", "$MQTT/rmsgs/#", unheard),
}, []attempt{
	{"subscribing to the unit's #, as the cloud", theCloud, func(a *try) string { return a.listens(eu, root+"#") },
		unheard},
	{"subscribing to the inbox, as the cloud", theCloud,
		func(a *try) string { return a.listens(eu, topic.ForInbox(unitName, "+")) }, unheard},
})

func plants(name string, topicName string, want refusals) attempt {
	return attempt{"planting in " + name, aNode, func(a *try) string { return a.says("node/mallory", topicName) }, want}
}

// plantings are messages that would be kept where others look.
var plantings = slices.Concat([]attempt{
	plants("another's report", of("n1").Reported(wire.KindConfig), everywhere(discarded)),
	plants("another's presence", of("n1").Live(), everywhere(discarded)),
	plants("another's events", of("n1").Event(), everywhere(discarded)),
	plants("another's document", of("n1").Desired(wire.KindConfig), everywhere(discarded)),
	plants("its own document", of("mallory").Desired(wire.KindConfig), everywhere(discarded)),
	plants("its own requests", of("mallory").Request(), everywhere(discarded)),
	plants("the beacon", topic.ForController(unitName), everywhere(discarded)),
	plants("the outbox", topic.ForOutbox(unitName, "config"), everywhere(discarded)),
	plants("the inbox", topic.ForInbox(unitName, "config"), everywhere(discarded)),
}, []attempt{
	{"planting in the outbox, as the cloud", theCloud,
		func(a *try) string { return a.says("cloud/eu", topic.ForOutbox(unitName, "config")) }, everywhere(discarded)},
	{"planting in a document, as the cloud", theCloud,
		func(a *try) string { return a.says("cloud/eu", of("n1").Desired(wire.KindConfig)) }, everywhere(discarded)},
	{"planting in the inbox, as an operator", anOperator,
		func(a *try) string { return a.overheard(topic.ForInbox(unitName, "config")) }, everywhere(discarded)},
	{"asking a node, as an operator", anOperator, func(a *try) string { return a.overheard(of("n1").Request()) },
		everywhere(discarded)},
	{"clearing what is kept for others", aNode, func(a *try) string {
		c := a.session("node/mallory")
		kept := []string{of("n1").Desired(wire.KindConfig), of("n1").Reported(wire.KindConfig), of("n1").Live(),
			topic.ForController(unitName)}
		if a.hand != nil {
			if err := a.hand.Publish(topic.ForOutbox(unitName, "kept"), "kept", true); err != nil {
				return why(err)
			}
			kept = append(kept, topic.ForOutbox(unitName, "kept"))
		}
		for _, name := range kept {
			if err := c.Publish(name, "", true); err != nil {
				return why(err)
			}
		}
		out := a.verdict(c, "node/mallory", kept[0])
		late := a.client(a.t, "operator/spy")
		for _, name := range kept {
			if err := late.Finds(root+"#", name, retained(name)); err != nil {
				return "CLEARED: " + name
			}
		}
		return out
	}, everywhere(discarded)},
})

// overheard is an operator that publishes; it reads the unit, so it would hear itself.
func (a *try) overheard(name string) string {
	out := a.says("operator/spy", name)
	if out != discarded {
		return out
	}
	if err := a.mark(a.session("node/mallory"), own("node/mallory")); err != nil {
		return why(err)
	}
	if bad := a.heard(); bad != "" {
		return bad
	}
	return out
}

func will(name, topicName string, want refusals) attempt {
	return attempt{"a last will in " + name, aNode, func(a *try) string { return a.wills("node/mallory", topicName) },
		want}
}

// wills are messages that the broker would say for the attacker.
var wills = []attempt{
	will("another's presence", of("n1").Live(), everywhere(unsaid)),
	will("the beacon", topic.ForController(unitName), everywhere(unsaid)),
	will("another's document", of("n1").Desired(wire.KindConfig), everywhere(unsaid)),
	will("the inbox", topic.ForInbox(unitName, "config"), everywhere(unsaid)),
	will("a topic with #", root+"#", refusals{unsaid, closed, closed}),
	will("a topic with +", root+"node/+/+/live", refusals{unsaid, closed, closed}),
	will("$SYS", "$SYS/broker/version", everywhere(unsaid)),
	will("a topic that is not UTF-8", of("n1").Live()+"\xff", everywhere(closed)),
}
