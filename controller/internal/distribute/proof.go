package distribute

import (
	"sync"

	"tandem.internal/controller/internal/ca"
	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// proved returns a node's message, published on the topic called name, without its proof, and the newest beacon that
// the node had heard when it made it: none if the message has no proof. The error says why the message does not count.
// What a node says without a proof counts only until it has proved something, and its going away always does: a broker
// can end a session anyhow.
func (c *Core) proved(t *topic.Topic, name string, payload []byte) ([]byte, wire.Heard, *wire.Error) {
	message, proof := wire.SplitProof(payload)
	subject := "node/" + t.Node
	c.admitted.mu.RLock()
	one := c.admitted.by[subject]
	c.admitted.mu.RUnlock()
	switch {
	case proof == nil && (!one.Proves || t.Leaf == topic.Live && goesAway(payload)):
		return payload, wire.Heard{}, nil
	case proof == nil:
		return nil, wire.Heard{}, wire.New(wire.CodeUnsigned, "/proof", "this node proves what it says, and this has "+
			"no proof: the broker, or somebody with its rights, may have made it")
	case c.authority == nil || len(one.Serials) == 0:
		return nil, wire.Heard{}, wire.New(wire.CodeUnknownKey, "/proof", "a proof by a node that has not joined")
	}
	for i := len(one.Serials) - 1; i >= 0; i-- { // the newest is the likeliest
		key, err := c.reportKeys.of(c.authority.CA, t.Node, one.Serials[i], one.Issuers[i])
		if err != nil || !proof.Verify(key, name, message) {
			continue
		}
		if !one.Proves {
			c.queue.put(item{event: fleet.Enrolment{Event: enrol.Prove{Subject: subject, Serial: one.Serials[i]}}}, nil)
		}
		return message, proof.Heard, nil
	}
	return nil, wire.Heard{}, wire.New(wire.CodeBadSignature, "/proof", "the proof is not by this node's report key, "+
		"or not of this message")
}

// reportKeys remembers the report keys of late, so that not every message derives one.
type reportKeys struct {
	mu  sync.Mutex
	all map[reportKey][]byte
}

// reportKey names a report key.
type reportKey struct{ node, serial string }

// maxReportKeys bounds the keys that are remembered, some 16 MiB; then it begins anew.
const maxReportKeys = 1 << 17

// forget has the keys derived anew: other CAs count.
func (r *reportKeys) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = nil
}

func (r *reportKeys) of(authority *ca.CA, node, serial, issuer string) ([]byte, error) {
	name := reportKey{node, serial}
	r.mu.Lock()
	key, ok := r.all[name]
	r.mu.Unlock()
	if ok {
		return key, nil
	}
	by, err := ca.ParseFingerprint(issuer)
	if err != nil {
		return nil, err
	}
	if key, err = authority.ReportKey(by, node, serial); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil || len(r.all) >= maxReportKeys {
		r.all = map[reportKey][]byte{}
	}
	r.all[name] = key
	return key, nil
}

// goesAway reports whether a live message says that its node is gone.
func goesAway(payload []byte) bool {
	l, err := wire.Decode[wire.Live](payload)
	return err == nil && !l.Up
}
