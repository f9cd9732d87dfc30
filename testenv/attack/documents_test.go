package attack

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"

	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/rawmqtt"
)

// documents are what a broker may tell nodes. Each of them has a victim of its own where its events
// are counted, and after each the controller's word has to prevail.
var documents = []attempt{
	{"a document without a signature", theBroker,
		tells("n1", wire.KindConfig, func(a *try, d *wire.Desired) { d.Rev++; d.Sig = nil }, "refused-message"),
		outside("journaled as refused-message: unsigned")},
	{"a document that was altered", theBroker, tells("n1", wire.KindConfig, func(a *try, d *wire.Desired) {
		d.Rev++
		d.Body = []byte(strings.Replace(string(d.Body), "for ", "evil", 1))
		d.Hash = wire.Hash(d.Body)
	}, "refused-message"), outside("journaled as refused-message: bad-signature")},
	{"a document of a key that nobody announced", theBroker,
		tells("n2", wire.KindConfig, func(a *try, d *wire.Desired) {
			_, key, err := ed25519.GenerateKey(nil)
			if err != nil {
				a.t.Fatal(err)
			}
			d.Rev++
			d.Sig = seal.NewSigner(key).Sign(seal.DesiredPreimage(d))
		}, "refused-message"), outside("journaled as refused-message: unknown-key")},
	{"another node's document", theBroker, func(a *try) string {
		return a.brings("n3", a.retained("n2"), "refused-message")
	}, outside("journaled as refused-message: wrong-target")},
	{"another unit's document, sealed with this unit's key", theBroker,
		tells("n3", wire.KindConfig, func(a *try, d *wire.Desired) {
			d.Rev++
			d.Unit = "u2"
			d.Sig = a.signer().Sign(seal.DesiredPreimage(d))
		}, "refused-message"), outside("journaled as refused-message: wrong-target")},
	{"an older document", theBroker, func(a *try) string {
		old := a.retained("n1")
		a.installed(a.t, a.submit(a.t))
		return a.brings("n1", old, "stale")
	}, outside("journaled as stale: stale")},
	{"another document with the stamp of the newest, sealed with the unit's key", theBroker,
		tells("n1", wire.KindConfig, func(a *try, d *wire.Desired) {
			d.Body = []byte(strings.Replace(string(d.Body), "for ", "evil", 1))
			d.Hash = wire.Hash(d.Body)
			d.Sig = a.signer().Sign(seal.DesiredPreimage(d))
		}, "fork"), outside("journaled as fork: fork")},
	{"a beacon of another key", theBroker, func(a *try) string {
		_, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			a.t.Fatal(err)
		}
		b := wire.Beacon{}
		a.decode(a.last(topic.ForController(unitName)), &b)
		s := seal.NewSigner(key)
		b.Keys = []wire.Key{s.Key()}
		b.Sig = s.Sign(seal.BeaconPreimage(&b))
		return a.publishes("n2", topic.ForController(unitName), string(wire.Encode(&b)), "key-refused")
	}, outside("journaled as key-refused: unknown-key")},
	{"a request without a signature", theBroker, func(a *try) string {
		r := wire.Request{V: wire.Version, Unit: unitName, Node: "n2", ID: "evil", Method: wire.MethodReport,
			NotAfter: a.Now().Add(1e9 * 30)}
		return a.publishes("n2", of("n2").Request(), string(wire.Encode(&r)), "refused-message")
	}, outside("journaled as refused-message: unsigned")},
	{"workloads of its own, without a signature", theBroker, func(a *try) string {
		body := []byte(`{"formatVersion":"1","workloads":[]}`)
		d := wire.Desired{V: wire.Version, Unit: unitName, Node: "n2", Kind: wire.KindWorkloads, Epoch: 1 << 40,
			Rev: 1 << 40, Version: "1.0.0", Hash: wire.Hash(body), Issued: a.Now(), Mode: wire.ModeApply, Body: body}
		return a.publishes("n2", of("n2").Desired(wire.KindWorkloads), string(wire.Encode(&d)), "refused-message")
	}, outside("journaled as refused-message: unsigned")},
	{"an order to start a workload anew, of another key", theBroker, func(a *try) string {
		_, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			a.t.Fatal(err)
		}
		r := wire.Request{V: wire.Version, Unit: unitName, Node: "n3", ID: "evil", Method: wire.MethodRestart,
			Params: []byte(`{"service":"web"}`), NotAfter: a.Now().Add(1e9 * 30)}
		r.Sig = seal.NewSigner(key).Sign(seal.RequestPreimage(&r))
		return a.publishes("n3", of("n3").Request(), string(wire.Encode(&r)), "refused-message")
	}, outside("journaled as refused-message: unknown-key")},
	{"an old request, once more", theBroker, func(a *try) string {
		r := wire.Request{V: wire.Version, Unit: unitName, Node: "n3", ID: "old", Method: wire.MethodReport,
			NotAfter: a.Now().Add(-1e9 * 3600)}
		r.Sig = a.signer().Sign(seal.RequestPreimage(&r))
		if err := a.hand.Publish(of("n3").Request(), string(wire.Encode(&r)), false); err != nil {
			return why(err)
		}
		var reply wire.Reply
		if err := a.hand.Until("a reply", func(all []rawmqtt.Message) bool {
			for _, m := range all {
				if m.Topic == of("n3").Reply() && strings.Contains(m.Payload, `"old"`) {
					a.decode(m.Payload, &reply)
					return true
				}
			}
			return false
		}); err != nil {
			return why(err)
		}
		if reply.Error == nil {
			return "OBEYED"
		}
		return "answered: " + string(reply.Error.Code)
	}, outside("answered: expired")},
	{"garbage as a document", theBroker, func(a *try) string { return a.brings("n3", "\x00\xff{", "refused-message") },
		outside("journaled as refused-message: malformed")},
	{"forgetting everything that it keeps", theBroker, func(a *try) string {
		for _, name := range bystanders {
			for _, t := range []string{of(name).Desired(wire.KindConfig), of(name).Reported(wire.KindConfig),
				of(name).Live()} {
				if err := a.hand.Publish(t, "", true); err != nil {
					return why(err)
				}
			}
		}
		return "forgotten, until the next document" // what matters is that the unit is whole afterwards
	}, outside("forgotten, until the next document")},
	{"an older document to a node that was installed anew", theBroker, func(a *try) string {
		a.stop["n3"]()
		if err := os.RemoveAll(filepath.Join(a.Dir, "n3")); err != nil {
			a.t.Fatal(err)
		}
		var old wire.Desired
		a.decode(a.retained("n3"), &old)
		v := a.submit(a.t) // to those that are there
		if err := a.hand.Until("the newer one", func(all []rawmqtt.Message) bool {
			for _, m := range all {
				if m.Topic == of("n3").Desired(wire.KindConfig) && strings.Contains(m.Payload, `"version":"`+v+`"`) {
					return true
				}
			}
			return false
		}); err != nil {
			return why(err)
		}
		if err := a.hand.Publish(of("n3").Desired(wire.KindConfig), string(old.Append(nil)), true); err != nil {
			return why(err)
		}
		a.Joined("n3")
		had := len(a.Entries("stale"))
		a.startAgent("n3")
		out := "nothing is in the journal"
		eventually(func() bool {
			file, err := os.ReadFile(filepath.Join(a.Dir, "n3", "config.json"))
			if err == nil && wire.Hash(file) == old.Hash {
				out = "IT RUNS " + old.Version
				return true
			}
			for _, e := range a.Entries("stale")[had:] {
				if e.Node == "n3" {
					out = "journaled as stale"
				}
			}
			return out == "journaled as stale"
		})
		return out
	}, outside("journaled as stale")},
}

// signer is the unit's key, which no broker has: with it an attempt is worse than it could be.
func (a *try) signer() *seal.Signer {
	a.t.Helper()
	data, err := os.ReadFile(filepath.Join(a.Dir, "controller", "unit-key.pem"))
	if err != nil {
		a.t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		a.t.Fatal("no PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		a.t.Fatal(err)
	}
	return seal.NewSigner(key.(ed25519.PrivateKey))
}

// last is the newest message that the broker has seen on a topic.
func (a *try) last(name string) (text string) {
	a.t.Helper()
	if err := a.hand.Until("something on "+name, func(all []rawmqtt.Message) bool {
		for _, m := range all {
			if m.Topic == name && m.Payload != "" {
				text = m.Payload
			}
		}
		return text != ""
	}); err != nil {
		a.t.Fatal(err)
	}
	return text
}

// retained is a node's document as the broker has it.
func (a *try) retained(node string) string { return a.last(of(node).Desired(wire.KindConfig)) }

func (a *try) decode(text string, into any) {
	a.t.Helper()
	var err error
	message, _ := wire.SplitProof([]byte(text))
	switch m := into.(type) {
	case *wire.Desired:
		var d *wire.Desired
		if d, err = wire.Decode[wire.Desired](message); err == nil {
			*m = *d
		}
	case *wire.Beacon:
		var d *wire.Beacon
		if d, err = wire.Decode[wire.Beacon](message); err == nil {
			*m = *d
		}
	case *wire.Reply:
		var d *wire.Reply
		if d, err = wire.Decode[wire.Reply](message); err == nil {
			*m = *d
		}
	}
	if err != nil {
		a.t.Fatalf("%v in %s", err, text)
	}
}

// tells changes a node's newest document and brings it; the node has to answer with an event.
func tells(node string, _ wire.Kind, change func(*try, *wire.Desired), event string) func(*try) string {
	return func(a *try) string {
		var d wire.Desired
		a.decode(a.retained(node), &d)
		change(a, &d)
		return a.brings(node, string(d.Append(nil)), event)
	}
}

// brings publishes a document of a node, to be kept.
func (a *try) brings(node, text, event string) string {
	return a.publishes(node, of(node).Desired(wire.KindConfig), text, event)
}

// publishes says something that a node has to refuse with an event of a type. The outcome is the
// record of it in the journal, with its code; what the node runs has to be what it ran.
func (a *try) publishes(node, name, text, event string) string {
	path := filepath.Join(a.Dir, node, "config.json")
	before, err := os.ReadFile(path)
	if err != nil {
		a.t.Fatal(err)
	}
	count := func() (n int, code string) {
		for _, e := range a.Entries(event) {
			if e.Node == node {
				n++
				var d wire.Event
				if err := json.Unmarshal(e.Data, &d); err != nil || d.Error == nil {
					code = string(e.Data)
				} else {
					code = string(d.Error.Code)
				}
			}
		}
		return n, code
	}
	had, _ := count()
	if err := a.hand.Publish(name, text, true); err != nil {
		return why(err)
	}
	out := "nothing is in the journal"
	eventually(func() bool {
		n, code := count()
		if n > had {
			out = "journaled as " + event + ": " + code
		}
		return n > had
	})
	after, err := os.ReadFile(path)
	if err != nil {
		a.t.Fatal(err)
	}
	if string(after) != string(before) {
		return "IT RUNS " + string(after)
	}
	return out
}
