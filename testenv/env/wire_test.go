package env_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/cloud"
	"tandem.internal/testenv/env"
)

// What a broker that confuses old with new, or two controllers with one key, would send.
func TestForkedAndStaleDocuments(t *testing.T) {
	env.Run(t, env.Setup{External: true}, func(e *env.Env) {
		e.Apply(env.Doc("1.0.0"))
		e.Reached("1.0.0")
		desired := topic.ForNode(env.Unit, "n1").Desired(wire.KindConfig)
		old, _ := e.Broker.Retained(desired)
		e.Apply(env.Doc("2.0.0"))
		e.Reached("2.0.0")
		now, _ := e.Broker.Retained(desired)

		e.Broker.Publish(desired, old, true)
		e.Until(time.Minute, "the stale document is in the journal",
			func() bool { return events(e, "n1", "stale") == 1 })
		if !e.Runs("n1", "2.0.0") {
			t.Errorf("n1 runs %s", e.Node("n1").File())
		}

		d, err := wire.Decode[wire.Desired](now)
		if err != nil {
			t.Fatal(err)
		}
		d.Body = []byte(strings.Replace(string(d.Body), `"all"`, `"other"`, 1))
		d.Hash = wire.Hash(d.Body)
		d.Sig = e.Controller.Signer().Sign(seal.DesiredPreimage(d))
		e.Broker.Publish(desired, d.Append(nil), true)
		e.Until(time.Minute, "the fork is in the journal", func() bool { return events(e, "n1", "fork") == 1 })
		if file := string(e.Node("n1").File()); strings.Contains(file, `"other"`) {
			t.Errorf("n1 runs %s", file)
		}

		e.Broker.Wipe() // and the truth comes back
		e.Apply(env.Doc("3.0.0"))
		e.Reached("3.0.0")
		e.Calm()
	})
}

// events counts a node's events of a type in the journal.
func events(e *env.Env, node, kind string) int {
	n := 0
	for _, r := range e.Entries(kind) {
		if r.Node == node {
			n++
		}
	}
	return n
}

// withInbox starts the controller with --inbox, for what this cloud side signs.
func withInbox(s *cloud.Side) func(*controller.Config, *controller.Deps) {
	return func(c *controller.Config, _ *controller.Deps) { c.Inbox, c.Submitters = true, s.File }
}

// The cloud side submits over MQTT and hears the answer and the unit's status there.
func TestInboxAndOutbox(t *testing.T) {
	side := cloud.New(t)
	env.Run(t, env.Setup{External: true, Controller: withInbox(side),
		Nodes: []env.NodeSpec{{Name: "n1", MaxPriority: 5}, {Name: "n2"}}}, func(e *env.Env) {
		cloud := e.Client("cloud/c1", topic.ForOutbox(env.Unit, "config"), topic.ForOutbox(env.Unit, "status"))
		cloud.Heard()
		submit := func(id string, doc []byte, more ...func(*wire.Submission)) wire.Answer {
			t.Helper()
			s := wire.Submission{V: wire.Version, ID: id, From: "cloud", Document: doc}
			for _, f := range more {
				f(&s)
			}
			if err := cloud.Publish(topic.ForInbox(env.Unit, "config"), side.Sign(env.Unit, "config", &s, time.Now()),
				false); err != nil {
				t.Fatal(err)
			}
			var answers []wire.Answer
			e.Until(time.Minute, id+" is answered", func() bool {
				for _, m := range cloud.Heard() {
					if m.Topic == topic.ForOutbox(env.Unit, "config") {
						a, err := wire.Decode[wire.Answer](m.Payload)
						if err != nil {
							t.Fatal(err)
						}
						answers = append(answers, *a)
					}
				}
				return len(answers) > 0
			})
			if a := answers[0]; len(answers) != 1 || a.ID != id {
				t.Errorf("%s is answered with %+v", id, answers)
			}
			return answers[0]
		}
		if a := submit("s1", env.Doc("1.0.0")); a.State != "accepted" || a.Version != "1.0.0" || a.Error != nil {
			t.Errorf("answered %+v", a)
		}
		e.Reached("1.0.0")
		accepted := len(e.Entries("accepted"))
		if a := submit("s1", env.Doc("1.0.0")); a.State != "accepted" {
			t.Errorf("delivered twice: %+v", a)
		}
		if n := len(e.Entries("accepted", "refused")); n != accepted {
			t.Errorf("a submission that was delivered twice was judged %d times", n-accepted+1)
		}
		if a := submit("s2", env.Doc("1.0.0")); a.State != "refused" || a.Error.Code != wire.CodeAlreadyExists {
			t.Errorf("the same version: %+v", a)
		}
		if a := submit("s3", env.Doc("2.0.0", env.Entry{Priority: 6})); a.State != "refused" ||
			a.Error.Code != wire.CodeNotAllowed || a.Error.Node != "n1" {
			t.Errorf("against a node's rules: %+v", a)
		}
		if a := submit("s4", []byte(`{"formatVersion":"8"}`)); a.State != "refused" ||
			a.Error.Code != wire.CodeWrongVersion {
			t.Errorf("another format: %+v", a)
		}
		try := func(s *wire.Submission) { s.Mode, s.ConfirmWithin = wire.ModeTry, "PT1M" }
		if a := submit("s5", env.Doc("2.0.0"), try); a.State != "accepted" {
			t.Errorf("a trial: %+v", a)
		}
		e.Pass(5 * time.Minute)
		e.Reached("1.0.0")

		late := e.Client("cloud/c2", topic.ForOutbox(env.Unit, "status"))
		e.Until(time.Minute, "the status is retained", func() bool {
			return slices.ContainsFunc(late.Heard(), func(m msg) bool {
				var s struct {
					State, Version string
				}
				return json.Unmarshal(m.Payload, &s, json.MatchCaseInsensitiveNames(true)) == nil &&
					s.State == "installed" && s.Version == "1.0.0"
			})
		})
		e.Calm()
	})
}
