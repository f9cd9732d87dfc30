package brokersacl

import (
	"crypto/tls"
	"testing"
	"time"

	"tandem.internal/broker/acl"
	"tandem.internal/shared/topic"
)

// TestImpostors: who has no certificate of this unit's CA, or one of somebody whom the file does
// not name, writes and reads nothing.
func TestImpostors(t *testing.T) {
	sites(t, func(t *testing.T, s *unitAt) {
		stop := bystanders(t, s)
		witness := s.observe(t, 0)
		must(t, witness.Publish(of(mallory).Desired("config"), "kept secret", true))
		none, foreign, expired := s.ca.config(t, "x"), s.ca.config(t, "x"), s.ca.config(t, "x")
		none.Certificates = nil
		foreign.Certificates = []tls.Certificate{newAuthority(t).issue(t, mallory.String(), time.Hour)}
		expired.Certificates = []tls.Certificate{s.ca.issue(t, mallory.String(), -time.Minute)}
		old := s.ca.config(t, mallory.String())
		old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
		for _, a := range []struct {
			name string
			tls  *tls.Config
			as   string
			out  bool // no session at all may begin
		}{
			{"no certificate", none, mallory.String(), true},
			{"a certificate of another CA", foreign, mallory.String(), true},
			{"an expired certificate", expired, mallory.String(), true},
			{"TLS 1.2", old, mallory.String(), true},
			{"a node whom the file does not name", s.ca.config(t, "node/stranger"), "node/stranger", false},
			{"a name without a role", s.ca.config(t, "n1"), mallory.String(), false},
			{"an empty name", s.ca.config(t, ""), mallory.String(), false},
			{"a wildcard as a name", s.ca.config(t, "node/+"), "node/+", false},
			{"an observer's name in another case", s.ca.config(t, "Controller"), "controller", false},
		} {
			c, err := dial(s.address, a.tls, a.as, a.as, nil)
			if err != nil {
				continue
			}
			if a.out {
				t.Errorf("%s: a session began", a.name)
			}
			if _, err = c.Subscribe(0, "#"); err == nil {
				_, err = c.Subscribe(0, of(mallory).DesiredFilter())
			}
			if err == nil {
				err = c.Publish(of(mallory).Live(), poison, true)
			}
			if err == nil {
				err = c.Publish(topic.ForController(unit), poison, true)
			}
			t.Logf("%s: let in without rights (%v)", a.name, err)
			must(t, witness.Publish(of(mallory).Desired("config"), "secret", false))
			must(t, witness.Hears(of(mallory).Desired("config"), "secret"))
			for _, m := range c.Heard() {
				t.Errorf("%s hears %s", a.name, m.Topic)
			}
			c.Leave()
		}
		stop()
		for _, m := range append(witness.Heard(), s.observe(t, 1).Heard()...) {
			if m.Payload == poison {
				t.Errorf("%s was written", m.Topic)
			}
		}
	})
}

// TestBorrowedNames: a node with a certificate of its own that gives another name in CONNECT stays
// who it is.
func TestBorrowedNames(t *testing.T) {
	sites(t, func(t *testing.T, s *unitAt) {
		witness := s.observe(t, 0)
		boss := s.dial(t, controller, nil)
		mustSubscribe(t, boss, of(mallory).Event())
		own := of(mallory)
		for _, as := range []acl.Identity{controller, victim, operator, cloud} {
			for _, clientID := range []string{as.String(), mallory.String()} {
				c, err := dial(s.address, s.ca.config(t, mallory.String()), clientID, as.String(), nil)
				if err != nil {
					continue
				}
				for _, name := range []string{topic.ForController(unit), own.Desired("config"), of(victim).Live(),
					topic.ForInbox(unit, "config")} {
					must(t, c.Publish(name, poison, true))
				}
				if _, err := c.Subscribe(0, of(victim).DesiredFilter()); err != nil {
					t.Error(err)
				}
				must(t, witness.Publish(of(victim).Desired("config"), "secret of "+as.String()+" "+clientID, false))
				must(t, c.Publish(own.Event(), "as "+as.String()+" "+clientID, false)) // it still is itself
				must(t, witness.Hears(own.Event(), "as "+as.String()+" "+clientID))
				for _, m := range c.Heard() {
					t.Errorf("as %s it hears %s", as, m.Topic)
				}
				c.Leave()
			}
		}
		for _, m := range append(witness.Heard(), s.observe(t, 1).Heard()...) {
			if m.Payload == poison {
				t.Errorf("%s was written", m.Topic)
			}
		}
		// Whoever takes the controller's client ID must not get rid of the controller.
		err := boss.Hears(own.Event(), "as "+controller.String()+" "+controller.String())
		if s.anyClientID {
			t.Logf("NATS lets any user take any client ID; the controller's session: %v", err)
		} else if err != nil {
			t.Errorf("the controller's session was ended: %v", err)
		}
	})
}
