package attack

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"

	node "tandem.internal/nodeagent/app"
	"tandem.internal/shared/publisher/publishertest"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
	"tandem.internal/testenv/rawmqtt"
)

// published is what the publisher has signed some day, and owner the publisher, whose key the node "strict" was given.
const published = "#!/bin/sh\nexit 0\n"

var owner = publishertest.New(1)

// unpublished are made by somebody who has the whole controller: all that the unit signs can be signed. They bring a
// program that no publisher has signed to a node that demands it.
var unpublished = []attempt{
	{"a program that nobody has signed", aThief, runsProgram(func([]byte) string { return "" }),
		outside("rejected: unsigned")},
	{"a program that the thief has signed", aThief, runsProgram(publishertest.New(2).Sign),
		outside("rejected: unknown-key")},
	{"a program that the thief has signed in the publisher's name", aThief,
		runsProgram(publishertest.New(2).As(owner).Sign), outside("rejected: bad-signature")},
	{"a program with the signature of another one", aThief,
		runsProgram(func([]byte) string { return owner.Sign([]byte(published)) }),
		outside("not started: bad-signature")},
	{"a program of before, whose signature has expired", aThief, runsProgram(func(program []byte) string {
		return owner.SignAs(program, "web expires:2001-01-01T00:00:00Z")
	}), outside("not started: expired")},
}

// runsProgram issues a set to the node "strict" whose program is signed as sign does. The outcome is the node's report
// of it.
func runsProgram(sign func([]byte) string) func(*try) string {
	return func(a *try) string {
		mark := filepath.Join(a.t.TempDir(), "mark")
		program := []byte("#!/bin/sh\ntouch " + mark + "\nexec sleep 1000\n")
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(program) // an agent that has gone is no concern
		}))
		defer server.Close()
		stop := a.Agent("strict", func(c *node.Config) {
			c.PublisherKeys = []string{owner.Public()}
			if a.kind == nats {
				c.SubscribeQoS = 0
			}
		})
		defer stop()
		sum := sha256.Sum256(program)
		slot := workload.Slot{Service: fmt.Sprintf("web-%d", a.number), Node: "strict"} // another one than before
		body, werr := workload.EncodeDocument([]workload.Config{{Class: workload.Instance,
			Slot: slot, Resources: map[string]workload.Artifact{
				workload.HookStart: {Class: workload.Resource, URLs: []string{server.URL}, Size: int64(len(program)),
					Verification: workload.Verification{Checksum: "SHA256:" + hex.EncodeToString(sum[:]),
						Minisign: sign(program)}}}}})
		if werr != nil {
			a.t.Fatal(werr)
		}
		out := ""
		if err := a.insists("strict", wire.KindWorkloads, body, func(rev uint64, all []rawmqtt.Message) bool {
			out = outcome(all, of("strict"), rev, slot)
			return out != ""
		}); err != nil {
			return why(err)
		}
		if _, err := os.Lstat(mark); err == nil {
			return "IT RUNS"
		}
		return out
	}
}

// issues signs a document as the unit does, and brings it to a node under the rev that it returns.
func (a *try) issues(node string, kind wire.Kind, body []byte) (rev uint64, err error) {
	var last wire.Desired // the controller's own
	a.decode(a.retained("n1"), &last)
	d := wire.Desired{V: wire.Version, Unit: unitName, Node: node, Kind: kind, Epoch: last.Epoch,
		Rev: 1<<40 + uint64(a.number), Version: fmt.Sprintf("1.%d.0", a.number), Hash: wire.Hash(body),
		Issued: a.Now(), Mode: wire.ModeApply, Body: body}
	d.Sig = a.signer().Sign(seal.DesiredPreimage(&d))
	return d.Rev, a.hand.Publish(of(node).Desired(kind), string(d.Append(nil)), true)
}

// insists issues a document each second until it is reported as ok says: nats-server may lose what is published for
// somebody who is just subscribing.
func (a *try) insists(node string, kind wire.Kind, body []byte, ok func(rev uint64, all []rawmqtt.Message) bool) error {
	rev := uint64(0)
	return a.hand.Insists("a report of the document", func() (err error) {
		if _, err = a.hand.Subscribe(0, of(node).Reported(kind)); err == nil {
			rev, err = a.issues(node, kind, body)
		}
		return err
	}, func(all []rawmqtt.Message) bool { return ok(rev, all) })
}

// outcome is what a node has reported of a set of workloads, and of a slot in it; "": not yet.
func outcome(all []rawmqtt.Message, of topic.Node, rev uint64, slot workload.Slot) (out string) {
	for _, m := range all {
		message, _ := wire.SplitProof([]byte(m.Payload))
		if m.Topic != of.Reported(wire.KindWorkloads) || len(message) == 0 {
			continue
		}
		r, err := wire.Decode[wire.Reported](message)
		if err != nil {
			return fmt.Sprintf("%v in %s", err, m.Payload)
		}
		if r.Last == nil || r.Last.Rev != rev {
			continue
		}
		if r.Last.State == wire.StateRejected {
			return fmt.Sprintf("rejected: %s", r.Last.Error.Code)
		}
		var detail wire.Workloads
		if len(r.Detail) == 0 {
			continue // it has only taken the set yet
		}
		if err := json.Unmarshal(r.Detail, &detail); err != nil {
			return fmt.Sprintf("%v in %s", err, r.Detail)
		}
		for _, s := range detail.Slots {
			if s.Slot == slot.String() && len(s.Resources) > 0 && s.Resources[0].State == "failed" {
				out = fmt.Sprintf("not started: %s", s.Resources[0].Error.Code)
			}
		}
	}
	return out
}
