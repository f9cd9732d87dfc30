package distribute

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/submitter"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// cloudSide signs what it submits, and verifies what is answered.
type cloudSide struct {
	t      *testing.T
	r      *faulty
	signer *seal.Signer
}

// withCloud is withFaults with a broker outside and a cloud side that may submit.
func withCloud(t *testing.T, f func(c *cloudSide)) { withCloudThat(t, func(*Config) {}, f) }

// withCloudThat is withCloud with a configuration of which some is another.
func withCloudThat(t *testing.T, tune func(*Config), f func(c *cloudSide)) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32))
	file := filepath.Join(t.TempDir(), "submitters")
	line := "fleet " + base64.StdEncoding.EncodeToString(key.Public().(ed25519.PublicKey)) +
		" config,policies,desired,status\n"
	if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	outside := func(c *Config) {
		c.Broker, c.Submitters = view.Broker{}, submitter.List{Path: file}
		tune(c)
	}
	withFaults(t, outside, func(t *testing.T, r *faulty) { f(&cloudSide{t, r, seal.NewSigner(key)}) })
}

// signed is a submission of a version, signed at the rig's time.
func (c *cloudSide) signed(id, version string) *wire.Submission {
	m := &wire.Submission{V: wire.Version, ID: id, From: "somebody", Time: time.Now().UTC(),
		Document: faultyDoc(version)}
	return c.sign("config", m)
}

func (c *cloudSide) sign(what string, m *wire.Submission) *wire.Submission {
	m.Sig = c.signer.Sign(seal.SubmissionPreimage(faultyUnit, what, m))
	return m
}

// send publishes a submission and returns the answer's state, or the code of its error; "" if there was none.
func (c *cloudSide) send(m *wire.Submission) string {
	c.t.Helper()
	a := c.sendTo("config", m)
	switch {
	case a == nil:
		return ""
	case a.Error != nil:
		return string(a.Error.Code)
	}
	return a.State
}

// sendTo publishes a submission on a topic and returns the answer, nil if there was none.
func (c *cloudSide) sendTo(what string, m *wire.Submission) *wire.Answer {
	c.t.Helper()
	to := topic.ForOutbox(faultyUnit, what)
	before := c.r.broker.published(to)
	c.r.deliver(topic.ForInbox(faultyUnit, what), wire.Encode(m))
	time.Sleep(10 * time.Second)
	synctest.Wait()
	if c.r.broker.published(to) == before {
		return nil
	}
	payload, _ := c.r.broker.Retained(to)
	a, err := wire.Decode[wire.Answer](payload)
	if err != nil {
		c.t.Fatal(err)
	}
	k := c.r.core.signer().Key()
	if err := (seal.Trust{k.ID: k.Ed25519}).Verify(seal.AnswerPreimage(faultyUnit, what, a), a.Sig); err != nil ||
		a.ID != m.ID || a.Of != wire.Hash(wire.Encode(m)) || time.Since(a.Time).Abs() > time.Minute {
		c.t.Errorf("the answer %s: %v", payload, err)
	}
	return a
}

// At a broker outside only what a submitter has signed counts; the journal has its name, not the one that is claimed.
func TestInboxWantsSignatures(t *testing.T) {
	withCloud(t, func(c *cloudSide) {
		bare := c.signed("a", "1.0.0")
		bare.Sig, bare.Time = nil, time.Time{}
		if got := c.send(bare); got != string(wire.CodeUnsigned) {
			c.t.Errorf("unsigned: %s", got)
		}
		altered := c.signed("a", "1.0.0")
		altered.Document = faultyDoc("1.0.1")
		if got := c.send(altered); got != string(wire.CodeBadSignature) {
			c.t.Errorf("altered: %s", got)
		}
		if all := c.r.records(record.Accepted, record.Refused); len(all) > 0 {
			c.t.Errorf("the journal has %+v", all)
		}
		if got := c.send(c.signed("a", "1.0.0")); got != "accepted" {
			c.t.Errorf("signed: %s", got)
		}
		all := c.r.records(record.Accepted)
		if len(all) != 1 || all[0].Who != "submitter/fleet" {
			c.t.Errorf("the journal has %+v", all)
		}
	})
}

// Whoever can publish gets a signed refusal under the ID of what was accepted, but not of its payload.
func TestInboxRefusalIsOfOnePayload(t *testing.T) {
	withCloud(t, func(c *cloudSide) {
		good := c.signed("a", "1.0.0")
		if got := c.send(good); got != "accepted" {
			c.t.Errorf("signed: %s", got)
		}
		bare := *good
		bare.Sig, bare.Time = nil, time.Time{}
		if got := c.send(&bare); got != string(wire.CodeUnsigned) { // send looks at what the answer is of
			c.t.Errorf("unsigned: %s", got)
		}
		time.Sleep(time.Second)
		if got := c.send(c.signed("a", "1.0.0")); got != "accepted" {
			c.t.Errorf("signed anew: %s", got)
		}
	})
}

// What was judged is not judged again, whoever plays it again: soon, after others, after a restart, or much later.
func TestInboxIsPlayedAgain(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		withCloud(t, func(c *cloudSide) {
			again := func() {
				if restarts {
					if err := c.r.stop(); err != nil {
						c.t.Fatal(err)
					}
					c.r.start()
				}
			}
			first := c.signed("a", "1.0.0")
			if got := c.send(first); got != "accepted" {
				c.t.Fatalf("%s", got)
			}
			again()
			if got := c.send(first); got != "accepted" { // the same answer
				c.t.Errorf("at once: %s", got)
			}
			time.Sleep(time.Second)
			if got := c.send(c.signed("b", "2.0.0")); got != "accepted" {
				c.t.Errorf("%s", got)
			}
			for i := range maxAnswered + 1 { // and the first answer is forgotten; other documents have the version
				time.Sleep(time.Millisecond)
				m := c.signed(fmt.Sprint("c", i), "2.0.0")
				c.r.deliver(topic.ForInbox(faultyUnit, "config"), wire.Encode(m))
				synctest.Wait()
			}
			again()
			if got := c.send(first); got != string(wire.CodeExpired) {
				c.t.Errorf("after others: %s", got)
			}
			if n := len(c.r.records(record.Accepted)); n != 2 {
				c.t.Errorf("%d were accepted", n)
			}
			time.Sleep(submitter.Window)
			if got := c.send(first); got != string(wire.CodeExpired) {
				c.t.Errorf("later: %s", got)
			}
		})
	}
}

// A broker outside, and nobody named who may submit: nobody can.
func TestInboxOutsideWithoutSubmitters(t *testing.T) {
	withFaults(t, func(c *Config) { c.Broker = view.Broker{} }, func(t *testing.T, r *faulty) {
		c := &cloudSide{t, r, seal.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32)))}
		if got := c.send(c.signed("a", "1.0.0")); got != string(wire.CodeUnsigned) {
			t.Errorf("%s", got)
		}
	})
}

// A plan comes with the signature: the nodes get the document in waves by it, and nobody else can add one.
func TestInboxRollsOut(t *testing.T) {
	withCloud(t, func(c *cloudSide) {
		plan := []byte(`{"waves":[{"percent":100}]}`)
		added := c.signed("a", "1.0.0")
		added.Rollout = plan
		if got := c.send(added); got != string(wire.CodeBadSignature) {
			c.t.Errorf("added: %s", got)
		}
		sign := func(id string, plan []byte) *wire.Submission {
			m := c.signed(id, "1.0.0")
			m.Rollout = plan
			m.Sig = c.signer.Sign(seal.SubmissionPreimage(faultyUnit, "config", m))
			return m
		}
		if got := c.send(sign("a", []byte(`{"waves":[]}`))); got != string(wire.CodeBadValue) {
			c.t.Errorf("malformed: %s", got)
		}
		if got := c.send(sign("a", plan)); got != "accepted" {
			c.t.Errorf("signed: %s", got)
		}
		if got := c.send(sign("a", plan)); got != "accepted" {
			c.t.Errorf("the same, signed anew: %s", got)
		}
		if err := c.r.stop(); err != nil {
			c.t.Fatal(err)
		}
		c.r.start()
		if got := c.send(sign("a", plan)); got != "accepted" {
			c.t.Errorf("the same, after a restart: %s", got)
		}
		if got := c.send(sign("a", []byte(`{"waves":[{"count":1},{"percent":100}]}`))); got == "accepted" {
			c.t.Error("another plan gets the answer of before")
		}
		if all := c.r.records(record.Rollout); len(all) == 0 || all[0].Who != "submitter/fleet" {
			c.t.Errorf("the journal has %+v", all)
		}
	})
}
