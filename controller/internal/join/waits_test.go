package join

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"tandem.internal/controller/internal/enrol"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// Any number of nodes waits for approval behind one address, and asks as often as it likes: only what fails counts.
func TestWaitingIsNoFailure(t *testing.T) {
	r := newRig(t, nil)
	tok, err := jointoken.NewBatch("line4", r.ca.Fingerprint(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.core.Enrolment(t.Context(), enrol.NewBatch{Name: "line4", Hash: tok.Secret.Hash(), Count: 5,
		From: []string{"127.0.0.0/8"}}); err != nil {
		t.Fatal(err)
	}
	c := r.client()
	ask := func(node string, key []byte) jointoken.Token {
		tok.Node = node
		r.refused(node, c, jointoken.JoinPath, joinBody(t, tok, key), 503, wire.CodeUnavailable)
		return tok
	}
	for i := range 20 {
		node := fmt.Sprintf("n%d", i)
		request := csr(t, newKey(t), node)
		ask(node, request)
		ask(node, request)
	}
	key := newKey(t)
	request := csr(t, key, "m")
	one := ask("m", request)
	if err := r.core.Enrolment(t.Context(), enrol.Approve{Nodes: []enrol.Named{{Node: "m"}}}); err != nil {
		t.Fatal(err)
	}
	r.admitted(c, jointoken.JoinPath, key, joinBody(t, one, request))

	// Who asks under a name that another waits with has failed, and is slowed down as for a guess.
	tok.Node = "n1"
	for range 10 {
		r.refused("a rival", c, jointoken.JoinPath, joinBody(t, tok, csr(t, newKey(t), "n1")), 409, wire.CodeWrongState)
	}
	r.refused("a rival", c, jointoken.JoinPath, joinBody(t, tok, csr(t, newKey(t), "n1")), 429, wire.CodeUnavailable)
	r.core.pass(time.Minute)
	tok.Node = "n20"
	ask("n20", csr(t, newKey(t), "n20"))
}
