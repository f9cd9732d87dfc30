package attack

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

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
	// The last ones: after them the node has a floor.
	{"an agent below the floor that its publisher has signed", aThief, func(a *try) string {
		a.floor()
		return triesAgent(func(program []byte) string { return owner.SignAs(program, "tandem-node 2.0.0") })(a)
	}, outside("refused: below-floor")},
	{"a policy that wants an agent below that floor", aThief, offersOldAgent, outside("failed: below-floor")},
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
		slots := a.slots("2.0.0")
		err := slots.StageSigned(a.t.Context(), file, sign(program))
		var env []string
		if err == nil {
			_, env, err = slots.Start()
		}
		if err != nil {
			a.t.Fatal(err)
		}
		defer a.strict(env)()
		out := a.ordersTry()
		if path, _, err := slots.Start(); err != nil || path != "" { // by a launcher that knows nothing of publishers
			return fmt.Sprintf("%s STARTS: %v", path, err)
		}
		return out
	}
}

// slots are those of the node "strict", for programs that say that they are of a version.
func (a *try) slots(version string) slottest.Slots {
	return slottest.Open(filepath.Join(a.Dir, "strict"), nil, nil,
		func(context.Context, string) (string, error) { return version, nil })
}

// strict starts the agent of the node "strict" as the launcher does.
func (a *try) strict(env []string) (stop func()) {
	stop = a.AgentIn("strict", env, func(c *node.Config) {
		c.PublisherKeys = []string{owner.Public()}
		if a.kind == nats {
			c.SubscribeQoS = 0
		}
	})
	a.Online("strict", true)
	return stop
}

// floor is what happened there before: a newer version was tried, whose publisher wants nothing below 2.5.0 after it.
func (a *try) floor() {
	file := filepath.Join(a.t.TempDir(), "tandem-node")
	if err := os.WriteFile(file, []byte(published), 0o700); err != nil {
		a.t.Fatal(err)
	}
	if err := a.slots("3.0.0").TryOnce(a.t.Context(), file,
		owner.SignAs([]byte(published), "tandem-node 3.0.0 floor:2.5.0"), owner.Keys(a.t)); err != nil {
		a.t.Fatal(err)
	}
}

// offersOldAgent gives the node "strict" a policy that wants an old version, which the publisher has signed. The
// outcome is the node's report of it.
func offersOldAgent(a *try) string {
	a.floor()
	program := []byte("#!/bin/sh\necho tandem-node 2.0.0\n")
	var asked atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Store(true)
		_, _ = w.Write(program) // an agent that has gone is no concern
	}))
	defer server.Close()
	_, env, err := a.slots("2.0.0").Start()
	if err != nil {
		a.t.Fatal(err)
	}
	defer a.strict(env)()
	body := wire.Encode(&wire.Policies{FormatVersion: wire.PoliciesFormat,
		Policies: []wire.NodePolicy{{Name: "old", Rev: 1, Agent: &wire.AgentUpgrade{Version: "2.0.0", Start: a.Now(),
			Downgrade: true}}},
		Agents: []wire.AgentRelease{{Version: "2.0.0", Hash: wire.Hash(program), Size: int64(len(program)),
			URLs: []string{server.URL}, Minisign: owner.SignAs(program, "tandem-node 2.0.0")}}})
	out := ""
	if err := a.insists("strict", wire.KindPolicies, body, func(rev uint64, all []rawmqtt.Message) bool {
		for _, m := range all {
			message, _ := wire.SplitProof([]byte(m.Payload))
			if m.Topic != of("strict").Reported(wire.KindPolicies) || len(message) == 0 {
				continue
			}
			r, err := wire.Decode[wire.Reported](message)
			if err != nil || r.Running == nil || r.Running.Rev != rev || len(r.Detail) == 0 {
				continue
			}
			report, err := wire.Decode[wire.PoliciesReport](r.Detail)
			if err != nil || len(report.Policies) != 1 {
				out = fmt.Sprintf("%v in %s", err, r.Detail)
				return true
			}
			if p := report.Policies[0]; p.State == wire.PolicyFailed {
				out = fmt.Sprintf("failed: %s", p.Error.Code)
			} else if p.State != wire.PolicyWaiting {
				out = string(p.State)
			}
		}
		return strings.HasPrefix(out, "failed")
	}); err != nil {
		return out + " " + why(err)
	}
	if asked.Load() {
		return "FETCHED, " + out
	}
	return out
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
