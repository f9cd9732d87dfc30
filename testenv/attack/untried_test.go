package attack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"

	node "tandem.internal/nodeagent/app"
	"tandem.internal/nodeagent/slottest"
	"tandem.internal/shared/event"
	"tandem.internal/shared/publisher/publishertest"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/rawmqtt"
)

// untried are made by somebody who has the whole controller, and has brought a file into a slot of the node "strict",
// by a workload there or by deceiving somebody. They order the node to try it as its agent.
var untried = []attempt{
	{"an agent that nobody has signed", aThief, triesAgent(func([]byte) string { return "" }),
		outside("refused: unsigned")},
	{"an agent that the thief has signed", aThief, triesAgent(func(program []byte) string {
		return publishertest.New(2).SignAs(program, "tandem-node 2.0.0")
	}), outside("refused: unknown-key")},
	{"an old agent that the publisher has signed, as a new version", aThief, triesAgent(func(program []byte) string {
		return owner.SignAs(program, "tandem-node 1.0.0")
	}), outside("refused: bad-signature")},
	{"a signed program of a workload, as the agent", aThief, triesAgent(owner.Sign), outside("refused: bad-signature")},
	{"an agent whose signature has expired", aThief, triesAgent(func(program []byte) string {
		return owner.SignAs(program, "tandem-node 2.0.0 expires:2001-01-01T00:00:00Z")
	}), outside("refused: expired")},
	{"an agent with the signature of another file", aThief, triesAgent(func([]byte) string {
		return owner.SignAs([]byte(published), "tandem-node 2.0.0")
	}), outside("given up: bad-signature")},
}

// triesAgent puts a program that says that it is version 2.0.0 into a slot, with the signature that sign makes, and
// orders to try it. The outcome is the node's answer or, where it obeys, the event that it has given it up.
func triesAgent(sign func(program []byte) string) func(*try) string {
	return func(a *try) string {
		program := []byte("#!/bin/sh\necho tandem-node 2.0.0\n")
		file := filepath.Join(a.t.TempDir(), "tandem-node")
		if err := os.WriteFile(file, program, 0o700); err != nil {
			a.t.Fatal(err)
		}
		slots := slottest.Open(filepath.Join(a.Dir, "strict"), nil, nil,
			func(context.Context, string) (string, error) { return "2.0.0", nil })
		err := slots.StageSigned(a.t.Context(), file, sign(program))
		var env []string
		if err == nil {
			_, env, err = slots.Start()
		}
		if err != nil {
			a.t.Fatal(err)
		}
		stop := a.AgentIn("strict", env, func(c *node.Config) {
			c.PublisherKeys = []string{owner.Public()}
			if a.kind == nats {
				c.SubscribeQoS = 0
			}
		})
		defer stop()
		a.Online("strict", true)
		out := a.ordersTry()
		if path, _, err := slots.Start(); err != nil || path != "" { // by a launcher that knows nothing of publishers
			return fmt.Sprintf("%s STARTS: %v", path, err)
		}
		return out
	}
}

// ordersTry signs as the unit does.
func (a *try) ordersTry() (out string) {
	before := len(a.Entries(event.ComponentEnded))
	id := fmt.Sprintf("try-%d", a.number)
	r := wire.Request{V: wire.Version, Unit: unitName, Node: "strict", ID: id, Method: wire.MethodTry,
		Params: wire.Encode(&wire.TryParams{Version: "2.0.0"}), NotAfter: a.Now().Add(1e9 * 30)}
	r.Sig = a.signer().Sign(seal.RequestPreimage(&r))
	if err := a.hand.Publish(of("strict").Request(), string(wire.Encode(&r)), false); err != nil {
		return why(err)
	}
	var reply wire.Reply
	if err := a.hand.Until("a reply", func(all []rawmqtt.Message) bool {
		for _, m := range all {
			if m.Topic == of("strict").Reply() && strings.Contains(m.Payload, id) {
				a.decode(m.Payload, &reply)
				return true
			}
		}
		return false
	}); err != nil {
		return why(err)
	}
	if reply.Error != nil {
		return "refused: " + string(reply.Error.Code)
	}
	out = "OBEYED"
	eventually(func() bool {
		all := a.Entries(event.ComponentEnded)
		if len(all) == before {
			return false
		}
		var e wire.Event
		if err := json.Unmarshal(all[len(all)-1].Data, &e); err != nil {
			out = err.Error()
		} else if strings.Contains(string(e.Detail), string(wire.CodeBadSignature)+": ") {
			out = "given up: bad-signature"
		}
		return true
	})
	return out
}
