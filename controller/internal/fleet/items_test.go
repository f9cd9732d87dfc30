package fleet

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tandem.internal/controller/internal/artefact"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// ofItems is a change of an update item or of a subject.
func (d *drawn) ofItems() Event {
	name := rapid.SampledFrom([]string{"a", "b"}).Draw(d.T, "item")
	n := int(d.small("version"))
	data := record.ItemData{Type: items.Service, Codename: name, Version: fmt.Sprintf("%d.0.0", n%3)}
	state := rapid.SampledFrom([]items.State{items.Preparation, items.Ready, items.Deprecated}).Draw(d.T, "state")
	switch rapid.IntRange(0, 5).Draw(d.T, "of items") {
	case 0:
		data.ID, data.Version = fmt.Sprintf("00000000-0000-4000-8000-%012d", n), ""
	case 1, 2:
		data.State, data.Meta = state, &items.Meta{Type: items.Service, Codename: name, Version: data.Version}
		data.Content = &items.Content{Form: items.File, Builds: []items.Build{{Blobs: []items.Blob{
			{Digest: wire.Hash([]byte{byte(n)}), Size: int64(n) * 100}}}}} // see ofArtefacts
		data.Version = ""
	case 3:
		data.State = state
	case 4:
		data.Removed = true
		if rapid.Bool().Draw(d.T, "whole") {
			data.Version = ""
		}
	case 5:
		s := record.SubjectData{Codename: name, Removed: rapid.IntRange(0, 3).Draw(d.T, "gone") == 0,
			From: uint64(rapid.IntRange(0, 9).Draw(d.T, "from"))}
		if !s.Removed {
			s.Subject = &items.Subject{Codename: name, Type: items.Group, Priority: n}
		}
		return Change{Ticket: 1, Source: record.KindSubjects, Data: s, Who: "ann"}
	}
	return Change{Ticket: 1, Source: record.KindItems, Data: data, Who: "ann"}
}

// TestReleasedInTheMeantime: what was released after somebody has looked whether a file is in use keeps it, although
// who removes it knows of no use.
func TestReleasedInTheMeantime(t *testing.T) {
	w := newWorld(t)
	digest := wire.Hash([]byte("x"))
	do := func(ev Event) Answer {
		_, effects := w.step(origin, ev)
		return answerOrNone(effects)
	}
	item := record.ItemData{Type: items.Layer, Codename: "l"}
	created, released, removed := item, item, item
	created.ID = "00000000-0000-4000-8000-000000000001"
	released.Meta, released.State = &items.Meta{Type: items.Layer, Codename: "l", Version: "1.0.0"}, items.Ready
	released.Content = &items.Content{Form: items.File, Builds: []items.Build{{Blobs: []items.Blob{
		{Digest: digest, Size: 1}}}}}
	removed.Version, removed.Removed = "1.0.0", true
	deprecated := item
	deprecated.Version, deprecated.State = "1.0.0", items.Deprecated
	of := func(data record.ItemData) Event { return Change{Ticket: 1, Source: record.KindItems, Data: data} }
	remove := Artefact{Ticket: 1, Event: artefact.Remove{Digest: digest}}
	for _, ev := range []Event{
		Artefact{Ticket: 1, Event: artefact.Begin{Digest: digest, Size: 1, Quota: 9, Free: 9}},
		Artefact{Ticket: 1, Event: artefact.Complete{Digest: digest, Chunks: digest}}, of(created), of(released),
	} {
		wantCode(t, fmt.Sprintf("%T", ev), do(ev), "")
	}
	before := len(w.journal)
	if a := do(of(released)); a.Err != nil || a.Result.State != Unchanged || len(w.journal) != before {
		t.Errorf("the same release again: %+v, %d records", a, len(w.journal)-before)
	}
	if a := do(remove); a.Err == nil || !strings.Contains(a.Err.Error(), "in use: layer l 1.0.0") {
		t.Errorf("%+v", a)
	}
	for _, ev := range []Event{of(deprecated), of(removed), remove} {
		wantCode(t, fmt.Sprintf("%T", ev), do(ev), "")
	}
	w.check()
}
