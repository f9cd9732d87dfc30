package attack

import (
	"fmt"
	"strings"
	"time"

	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/cloud"
	"tandem.internal/testenv/proc"
)

// forges has somebody who may publish on the inbox, as whoever is the broker may, submit a configuration that was never
// seen, by payload made of it; the outcome is the answer.
func forges(name, outcome string, payload func(a *try, m *wire.Submission) []byte) attempt {
	return attempt{"submitting what is " + name, theCloud, func(a *try) string {
		c := a.session("cloud/eu")
		subscribe(a.t, c, topic.ForOutbox(unitName, "+"))
		id := strings.ReplaceAll(name, " ", "-") + "-" + string(a.kind)
		m := &wire.Submission{V: wire.Version, ID: id, From: "cloud", Document: proc.Document("9.0.0", 1)}
		return a.answered(c, "config", id, payload(a, m))
	}, everywhere(outcome)}
}

// altered is signed, and then changed.
func altered(name string, change func(m *wire.Submission)) attempt {
	return forges("signed, with another "+name, "refused: bad-signature", func(a *try, m *wire.Submission) []byte {
		a.cloud.Sign(unitName, "config", m, time.Now())
		change(m)
		return wire.Encode(m)
	})
}

// submissions are made by whoever may publish on the inbox and has not the key of a submitter.
var submissions = []attempt{
	forges("unsigned", "refused: unsigned", func(_ *try, m *wire.Submission) []byte { return wire.Encode(m) }),
	forges("signed by a stranger", "refused: unknown-key", func(a *try, m *wire.Submission) []byte {
		return cloud.New(a.t).Sign(unitName, "config", m, time.Now())
	}),
	forges("signed by a stranger in a submitter's name", "refused: bad-signature",
		func(a *try, m *wire.Submission) []byte {
			a.cloud.Sign(unitName, "config", m, time.Now())
			kid := m.Sig.KeyID
			cloud.New(a.t).Sign(unitName, "config", m, time.Now())
			m.Sig.KeyID = kid
			return wire.Encode(m)
		}),
	forges("signed for another unit", "refused: bad-signature", func(a *try, m *wire.Submission) []byte {
		return a.cloud.Sign("u2", "config", m, time.Now())
	}),
	forges("signed for another kind", "refused: bad-signature", func(a *try, m *wire.Submission) []byte {
		return a.cloud.Sign(unitName, "workloads", m, time.Now())
	}),
	altered("document", func(m *wire.Submission) { m.Document = proc.Document("9.0.1", 1) }),
	altered("sender", func(m *wire.Submission) { m.From = "operator" }),
	altered("mode", func(m *wire.Submission) { m.Mode, m.ConfirmWithin = wire.ModeTry, "PT1H" }),
	altered("force", func(m *wire.Submission) { m.Force = true }),
	altered("time", func(m *wire.Submission) { m.Time = m.Time.Add(time.Second) }),
	forges("signed ten minutes ago", "refused: expired", func(a *try, m *wire.Submission) []byte {
		return cloud.Again(a.cloud).Sign(unitName, "config", m, time.Now().Add(-10*time.Minute))
	}),
	forges("signed for ten minutes from now", "refused: expired", func(a *try, m *wire.Submission) []byte {
		return cloud.Again(a.cloud).Sign(unitName, "config", m, time.Now().Add(10*time.Minute))
	}),
	forges("signed, with a field more", "refused: unknown-field", func(a *try, m *wire.Submission) []byte {
		payload := string(a.cloud.Sign(unitName, "config", m, time.Now()))
		return []byte(strings.Replace(payload, `{"v":1,`, `{"v":1,"skip":true,`, 1))
	}),
	{"playing a submission again", theCloud, func(a *try) string {
		c := a.session("cloud/eu")
		subscribe(a.t, c, topic.ForOutbox(unitName, "+"))
		side := cloud.Again(a.cloud) // its times are its own: other attempts submit meanwhile
		var first []byte
		for i := range 70 { // more than answers are remembered
			id := fmt.Sprintf("again-%d-%s", i, a.kind)
			m := &wire.Submission{V: wire.Version, ID: id, From: "cloud", Document: []byte(`{"formatVersion":"6"}`)}
			payload := side.Sign(unitName, "config", m, time.Now())
			if i == 0 {
				first = payload
			}
			if got := a.answered(c, "config", `"`+id+`"`, payload); !strings.HasPrefix(got, "refused: ") {
				return got
			}
		}
		later := a.session("cloud/eu") // and has heard no answer yet
		subscribe(a.t, later, topic.ForOutbox(unitName, "config"))
		return a.answered(later, "config", `"again-0-`+string(a.kind)+`"`, first)
	}, everywhere("refused: expired")},
}
