package distribute

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// policy is a signed submission of a policy.
func (c *cloudSide) policy(id, name, document string, allNodes bool) *wire.Submission {
	time.Sleep(time.Second)
	return c.sign("policies", &wire.Submission{V: wire.Version, ID: id, From: "somebody", Time: time.Now().UTC(),
		Name: name, AllNodes: allNodes, Document: jsontext.Value(document)})
}

// answer sends a submission and returns what the answer says, in words.
func (c *cloudSide) answer(m *wire.Submission) string {
	c.t.Helper()
	a := c.sendTo("policies", m)
	switch {
	case a == nil:
		return "nothing"
	case a.Error != nil:
		return a.State + " " + string(a.Error.Code) + " " + a.Error.Path + " " + a.Error.Message
	}
	return a.State + " " + a.Version
}

func (c *cloudSide) wants(m *wire.Submission, want string) {
	c.t.Helper()
	if got := c.answer(m); !strings.HasPrefix(got, want) {
		c.t.Errorf("%s: %s, want %s", m.ID, got, want)
	}
}

// history is that of a policy, in words.
func (c *cloudSide) history(name string) string {
	c.t.Helper()
	h, err := c.r.core.PolicyHistory(c.t.Context(), op.PolicyIn{Policy: name})
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, v := range h.Versions {
		all = append(all, fmt.Sprintln(v.State, "by", v.Who, "via", v.Via, "enabled", v.Enabled, "all", v.AllNodes))
	}
	return strings.Join(all, "")
}

// A policy is submitted over MQTT as any document: signed, judged by the same rules as at every other door, journaled,
// answered once, also after a restart. One that would hit every node is refused unless that is confirmed in what was
// signed.
func TestInboxPolicies(t *testing.T) {
	withCloud(t, func(c *cloudSide) {
		const some = `{"enabled":true,"constraints":["line == 4"],"agentUpgradePolicy":{}}`
		first := c.policy("a", "line-4", some, false)
		bare := *first
		bare.Sig, bare.Time = nil, time.Time{}
		c.wants(&bare, "refused unsigned")
		other := *first
		other.Name = "line-5"
		c.wants(&other, "refused bad-signature")
		c.wants(first, "accepted ")
		all := c.policy("b", "all", `{"enabled":true}`, false)
		c.wants(all, "refused not-allowed /allNodes policy all would hit every node")
		lied := *all
		lied.AllNodes = true
		c.wants(&lied, "refused bad-signature")
		c.wants(c.policy("b", "all", `{"enabled":true}`, true), "accepted ")
		c.wants(c.policy("c", "line-4", `{"enabeld":true}`, false), "refused unknown-field /enabeld")
		c.wants(c.policy("d", "line-4", `{"owner":"eve"}`, false), "refused not-allowed /owner")
		c.wants(c.policy("e", "", `{}`, false), "refused missing /name")
		c.wants(c.policy("f", "a/b", `{}`, false), "refused bad-value /name")
		tried := c.policy("g", "line-4", `{}`, false)
		tried.Mode, tried.ConfirmWithin = wire.ModeTry, "PT2M"
		c.wants(c.sign("policies", tried), "refused not-supported /mode")
		bound := c.policy("i", "line-4", `{}`, false)
		bound.ConfirmWithin = "PT2M"
		c.wants(c.sign("policies", bound), "refused bad-value /confirmWithin")
		forced := c.policy("h", "line-4", `{}`, false)
		forced.Force = true
		c.wants(c.sign("policies", forced), "refused not-supported /force")

		const want = "applied by submitter/fleet via inbox enabled true all false\n"
		if got := c.history("line-4"); got != want {
			c.t.Errorf("%s", got)
		}
		if got := c.history("all"); got != "applied by submitter/fleet via inbox enabled true all true\n" {
			c.t.Errorf("%s", got)
		}
		if n := len(c.r.records(record.Refused)); n != 3 {
			c.t.Errorf("%d refusals in the journal", n)
		}
		c.r.whole()
		before := len(c.r.records())
		if err := c.r.stop(); err != nil {
			c.t.Fatal(err)
		}
		c.r.start()
		// what was judged is answered as it was, and not judged again: signed anew, as the time of the other has passed
		again := c.policy("a", "line-4", some, false)
		c.wants(again, "accepted ")
		c.wants(c.policy("b", "all", `{"enabled":true}`, false), "refused not-allowed")
		c.wants(c.policy("b", "all", `{"enabled":true}`, true), "accepted ")
		if now := c.r.records()[before:]; len(now) > 2 || c.history("line-4") != want {
			c.t.Errorf("%+v", now)
		}
		// and what was recorded before the restart is not played again
		old := *all
		old.ID = "z"
		c.wants(&old, "refused bad-signature")
		c.wants(first, "accepted ")
	})
}

// An old submission that was recorded does not put an old policy in the place of a newer one.
func TestInboxPoliciesPlayedAgain(t *testing.T) {
	withCloud(t, func(c *cloudSide) {
		older := c.policy("a", "p", `{"label":"older"}`, false)
		newer := c.policy("b", "p", `{"label":"newer"}`, false)
		c.wants(newer, "accepted ")
		c.wants(older, "refused expired /time")
		if err := c.r.stop(); err != nil {
			c.t.Fatal(err)
		}
		c.r.start()
		c.wants(older, "refused expired /time")
		shown, err := c.r.core.Policy(c.t.Context(), op.PolicyVersionIn{PolicyIn: op.PolicyIn{Policy: "p"}})
		if err != nil || !strings.Contains(string(shown.Document), `"label":"newer"`) {
			c.t.Errorf("%s %v", shown.Document, err)
		}
	})
}

// A unit configuration has no name, and needs no word that it goes to all nodes; properties are not submitted so.
func TestInboxNamesAreOfPolicies(t *testing.T) {
	withCloud(t, func(c *cloudSide) {
		named := c.signed("a", "1.0.0")
		named.Name = "x"
		if got := c.send(c.sign("config", named)); got != string(wire.CodeNotSupported) {
			c.t.Errorf("%s", got)
		}
		c.r.deliver(topic.ForInbox(faultyUnit, "node-properties"), wire.Encode(c.policy("b", "p", `{}`, false)))
		synctest.Wait()
		payload, _ := c.r.broker.Retained(topic.ForOutbox(faultyUnit, "node-properties"))
		a, err := wire.Decode[wire.Answer](payload)
		if err != nil || a.Error == nil || a.Error.Code != wire.CodeNotSupported ||
			!strings.Contains(a.Error.Message, "inbox/policies") {
			c.t.Errorf("%s %v", payload, err)
		}
	})
}

// A policy that is submitted over MQTT goes in waves by its own field rollout, under the rules of every other door; the
// plan is nothing beside it. After a restart the submission is answered as before, and the rollout goes on.
func TestInboxPoliciesInWaves(t *testing.T) {
	withCloud(t, func(c *cloudSide) {
		const some = `{"enabled":true,"constraints":["line == 4"],"rollout":{"waves":[{"percent":100}]}}`
		beside := c.policy("a", "p", `{}`, false)
		beside.Rollout = jsontext.Value(`{"waves":[{"percent":100}]}`)
		c.wants(c.sign("policies", beside), "refused not-supported /rollout policies go in waves by what they say "+
			"themselves, in their field rollout")
		c.wants(c.policy("b", "p", strings.Replace(some, "100", "10", 1), false), "refused bad-value /rollout/waves/0")
		first := c.policy("c", "p", some, false)
		c.wants(first, "accepted ")
		// it hit nobody, and is over
		c.wants(c.policy("d", "p", strings.Replace(some, "4", "5", 1), false), "accepted ")
		if err := c.r.stop(); err != nil {
			c.t.Fatal(err)
		}
		c.r.start()
		c.wants(first, "accepted ")
		v, err := c.r.core.Rollouts(c.t.Context())
		if err != nil || len(v.Rollouts) != 2 || v.Rollouts[0].Phase != "done" ||
			!strings.HasPrefix(v.Rollouts[0].Version, "p version ") {
			c.t.Errorf("%+v, %v", v, err)
		}
	})
}
