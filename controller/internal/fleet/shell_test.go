package fleet

import (
	"testing"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/kinds"
	"tandem.internal/controller/internal/kinds/health"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// What the shell does for a Fleet.

// submitted is a document as the shell brings it, parsed.
func submitted(ticket uint64, sub view.Submission) Submit {
	s := Submit{Ticket: ticket, Sub: sub, Hash: wire.Hash(sub.Document)}
	s.Parsed = kinds.All().Source(sub.Kind).Parse(kind.Reading{Document: sub.Document, Version: sub.Version})
	return s
}

// setHealth is an order about the settings of health.
func setHealth(scope view.Scope, settings *wire.HealthSettings) Change {
	return Change{Ticket: 1, Source: wire.KindHealth, Data: health.Change{Scope: scope, Settings: settings}}
}

// content is what a document that a state names comes to, as the shell works it out again.
func (w *world) content(source wire.Kind, hash string, lenient bool) kind.Content {
	if hash == "" {
		return nil
	}
	r := kind.Reading{Document: w.bodies[hash], Lenient: lenient, Stored: true}
	p := kinds.All().Source(source).Parse(r)
	if p.Problems != nil {
		w.t.Fatal(p.Problems[0])
	}
	return p.Content
}

// load gives a replayed Fleet the documents that its records name.
func (w *world) load(f *Fleet) {
	for _, src := range f.sources {
		if src.Parse == nil {
			continue
		}
		var trial kind.Content
		if t := src.Trial; t != nil {
			trial = w.content(src.Name, t.Hash, t.Lenient)
		}
		f.SetContent(src.Name, w.content(src.Name, src.Hash, src.Lenient), trial)
		for _, v := range f.Versions(src.Name) {
			f.SetVersion(src.Name, v.Hash, w.content(src.Name, v.Hash, v.Lenient))
		}
	}
}

// detailOf reads the detail of a report as the shell does.
func detailOf(t testing.TB, r *wire.Reported) any {
	k := kinds.All().Kind(r.Kind)
	if k == nil || k.Detail == nil {
		return nil
	}
	detail, err := k.Detail(r.Node, r.Detail)
	if err != nil {
		t.Fatal(err)
	}
	return detail
}
