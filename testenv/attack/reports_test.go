package attack

import (
	"strings"
	"time"

	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// inventions are what a broker says in a node's name. The nodes prove what they say.
var inventions = []attempt{
	{"a report that no node has made", theBroker, func(a *try) string {
		message, _ := wire.SplitProof([]byte(a.last(of("n1").Reported(wire.KindInfo))))
		return a.invents("n1", of("n1").Reported(wire.KindInfo), number(string(message)))
	}, outside("journaled: unsigned")},
	{"a report that is changed on its way", theBroker, func(a *try) string {
		return a.invents("n2", of("n2").Reported(wire.KindInfo), number(a.last(of("n2").Reported(wire.KindInfo))))
	}, outside("journaled: bad-signature")},
	{"another node's proof", theBroker, func(a *try) string {
		own, other := a.last(of("n3").Reported(wire.KindInfo)), a.last(of("n2").Reported(wire.KindInfo))
		message, _ := wire.SplitProof([]byte(own))
		return a.invents("n3", of("n3").Reported(wire.KindInfo),
			strings.TrimSuffix(string(message), "}")+other[strings.LastIndex(other, `,"heard"`):])
	}, outside("journaled: bad-signature")},
}

// number gives a report a number that is higher than any before.
func number(report string) string { return strings.Replace(report, `"seq":`, `"seq":777`, 1) }

// invents says something in a node's name. The outcome is the record of it in the journal, with its code; what the
// controller knows of the node has to be what it knew.
func (a *try) invents(node, name, text string) string {
	if t, err := topic.Parse(name); err != nil || t.Node != node {
		a.t.Fatalf("%s: %v", name, err)
	}
	had, said := len(a.Entries("trouble")), time.Time{}
	out := "nothing is in the journal"
	eventually(func() bool {
		if time.Since(said) > time.Second { // of a sender's bad messages one in ten seconds is journaled
			said = time.Now()
			if err := a.hand.Publish(name, text, true); err != nil {
				out = why(err)
			}
		}
		for _, e := range a.Entries("trouble")[had:] {
			if e.Node != node {
				continue
			}
			for _, code := range []wire.Code{wire.CodeUnsigned, wire.CodeBadSignature} {
				if strings.Contains(string(e.Data), `"`+string(code)+`"`) {
					out = "journaled: " + string(code)
				}
			}
		}
		return out != "nothing is in the journal"
	})
	for _, e := range a.Entries("report") {
		if e.Node == node && strings.Contains(string(e.Data), `"seq":777`) {
			return "BELIEVED " + string(e.Data)
		}
	}
	return out
}
