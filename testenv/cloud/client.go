package cloud

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	wish "tandem.internal/shared/cloud"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/rawmqtt"
)

// Client is a cloud side at a unit's broker, as one may be written from wire.md and items.md: it sends what it desires,
// believes only what the controller has signed, follows what the unit says of itself, and asks for all of that when it
// has missed something. It belongs to one goroutine.
type Client struct {
	Unit  string
	Side  *Side
	Trust seal.Trust // the controller's keys
	wish.Reader
	Wholes, Deltas, Gaps int // that were read

	mqtt *rawmqtt.Client
	read int // messages of the session that were looked at
	sent int // submissions
}

// Begin begins a session: what the unit says from now on is heard.
func (c *Client) Begin(session *rawmqtt.Client) error {
	c.mqtt, c.read = session, 0
	code, err := session.Subscribe(1, topic.ForOutbox(c.Unit, "+"))
	if err == nil && code == rawmqtt.Failure {
		err = errors.New("the broker refuses the subscription to outbox/+")
	}
	if err != nil {
		return err
	}
	return c.Ask()
}

// Ask asks for the whole status.
func (c *Client) Ask() error {
	_, err := c.submit("status", &wire.Submission{Document: jsontext.Value("{}")})
	return err
}

// Desire sends a desired status, and returns the answer to that.
func (c *Client) Desire(document []byte) (answer *wire.Answer, err error) {
	of, err := c.submit("desired", &wire.Submission{Document: document})
	if err != nil {
		return nil, err
	}
	name := topic.ForOutbox(c.Unit, "desired")
	err = c.mqtt.Until("an answer on "+name, func(all []rawmqtt.Message) bool {
		for _, m := range all {
			a, err := wire.Decode[wire.Answer]([]byte(m.Payload))
			if m.Topic == name && err == nil && a.Of == of &&
				c.Trust.Verify(seal.AnswerPreimage(c.Unit, "desired", a), a.Sig) == nil {
				answer = a
			}
		}
		return answer != nil
	})
	return answer, err
}

// submit publishes a submission, and returns the hash of its payload.
func (c *Client) submit(what string, m *wire.Submission) (of string, err error) {
	c.sent++
	m.V, m.ID, m.From = wire.Version, fmt.Sprintf("%s-%d", what, c.sent), "cloud"
	payload := c.Side.Sign(c.Unit, what, m, time.Now())
	return wire.Hash(payload), c.mqtt.Publish(topic.ForInbox(c.Unit, what), string(payload), false)
}

// Follow reads what the unit says until its status is as wanted.
func (c *Client) Follow(what string, ok func(*wish.UnitStatus) bool) error {
	for {
		var fault error
		gap := false
		err := c.mqtt.Until(what, func(all []rawmqtt.Message) bool {
			for ; c.read < len(all) && !gap && fault == nil; c.read++ {
				gap, fault = c.take(&all[c.read])
			}
			return gap || fault != nil || c.Status != nil && ok(c.Status)
		})
		switch {
		case err != nil && c.Status != nil:
			return fmt.Errorf("%w; the status is %s", err, c.Status.Encode())
		case err != nil || fault != nil:
			return errors.Join(err, fault)
		case !gap:
			return nil
		}
		c.Gaps++
		if err := c.Ask(); err != nil {
			return err
		}
	}
}

// take reads a message; what is no part of the status is passed over.
func (c *Client) take(m *rawmqtt.Message) (gap bool, err error) {
	if m.Topic != topic.ForOutbox(c.Unit, "status") {
		return false, nil
	}
	s, err := wire.Decode[wire.UnitStatus]([]byte(m.Payload))
	if err != nil || s.Part == nil {
		return false, err
	}
	if err := c.Trust.Verify(seal.StatusPreimage(c.Unit, s), s.Sig); err != nil {
		return false, err
	}
	news, err := c.Take(s)
	if errors.Is(err, wish.ErrGap) {
		return true, nil
	}
	if news && s.Part.Prev == 0 {
		c.Wholes++
	} else if news {
		c.Deltas++
	}
	return false, err
}
