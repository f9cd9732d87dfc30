package cloud_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/shared/cloud"
	"tandem.internal/shared/wire"
)

// drawn draws a whole status; names come from a few, so that two have many in common.
func drawn(t *rapid.T) *cloud.UnitStatus {
	names := func(label string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 0, 4, rapid.ID).Draw(t, label)
	}
	s := &cloud.UnitStatus{MessageType: cloud.TypeUnitStatus, CorrelationID: rapid.SampledFrom([]string{"", "1", "2"}).
		Draw(t, "correlation"), Nodes: []cloud.Node{}, Items: []cloud.Item{}, Instances: []cloud.Instances{},
		Subjects: []cloud.Identity{}, UnitConfig: []cloud.ConfigState{{Version: "1.0.0", State: "installed"}}}
	for _, n := range names("nodes") {
		s.Nodes = append(s.Nodes, cloud.Node{Identity: cloud.Identity{Codename: n}, State: cloud.NodeProvisioned,
			IsConnected: rapid.Bool().Draw(t, "connected")})
	}
	for _, n := range names("items") {
		s.Items = append(s.Items, cloud.Item{Item: cloud.Identity{Type: "service", Codename: n}, Version: "1.0.0",
			State: rapid.SampledFrom([]cloud.ItemState{cloud.ItemPending, cloud.ItemInstalled}).Draw(t, "state")})
	}
	for _, n := range names("instances") {
		g := cloud.Instances{Item: cloud.Identity{Type: "service", Codename: "a"}, Version: "1.0.0",
			Subject: cloud.Identity{Codename: n}}
		for i := range rapid.IntRange(1, 2).Draw(t, "index") {
			g.Instances = append(g.Instances, cloud.Instance{Instance: i, State: cloud.InstanceActive})
		}
		s.Instances = append(s.Instances, g)
	}
	for _, n := range names("subjects") {
		s.Subjects = append(s.Subjects, cloud.Identity{Codename: n})
	}
	if rapid.Bool().Draw(t, "attempted") {
		s.UnitConfig = append(s.UnitConfig, cloud.ConfigState{Version: "2.0.0", State: "failed",
			ErrorInfo: &cloud.ErrorInfo{AosCode: 6, Message: "no"}})
	}
	return s
}

// text is a status with its lists in one order.
func text(s *cloud.UnitStatus) string {
	c := *s
	c.Nodes, c.Items, c.Instances = slices.Clone(s.Nodes), slices.Clone(s.Items), slices.Clone(s.Instances)
	slices.SortFunc(c.Nodes, func(a, b cloud.Node) int {
		return strings.Compare(a.Identity.Codename, b.Identity.Codename)
	})
	slices.SortFunc(c.Items, func(a, b cloud.Item) int { return strings.Compare(a.Item.Codename, b.Item.Codename) })
	slices.SortFunc(c.Instances, func(a, b cloud.Instances) int {
		return strings.Compare(a.Subject.Codename, b.Subject.Codename)
	})
	return string(c.Encode())
}

// A delta, sent and applied to the status before, gives the status after it; where nothing has changed there is none.
func TestDeltaLeadsToTheNext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, to := drawn(t), drawn(t)
		d := cloud.Delta(from, to)
		if (d == nil) != (text(from) == text(to)) {
			t.Fatalf("%s\n%s\ngave %+v", text(from), text(to), d)
		}
		if d == nil {
			return
		}
		sent, err := cloud.ParseStatus(d.Encode())
		if err != nil || !sent.IsDeltaInfo {
			t.Fatalf("%+v %v", sent, err)
		}
		if from.Apply(sent); text(from) != text(to) {
			t.Fatalf("by %s\n%s\nwant\n%s", d.Encode(), text(from), text(to))
		}
	})
}

// Items and groups whose names differ only in where a space is are not taken for each other: what is the same has no
// delta.
func TestDeltaTellsNamesApart(t *testing.T) {
	name := func(id, codename string) cloud.Identity {
		return cloud.Identity{Type: "service", ID: id, Codename: codename}
	}
	one, other := name("a", "b c"), name("a b", "c")
	s := &cloud.UnitStatus{
		Items: []cloud.Item{{Item: one, Version: "1", State: cloud.ItemFailed},
			{Item: other, Version: "1", State: cloud.ItemPending}},
		Instances: []cloud.Instances{{Item: one, Version: "1", Subject: other},
			{Item: other, Version: "1", Subject: other, Instances: []cloud.Instance{{Instance: 1}}},
			{Item: other, Version: "1", Subject: one}},
	}
	if d := cloud.Delta(s, s); d != nil {
		t.Errorf("%s", d.Encode())
	}
}

// messages are those of a status.
func messages(t *testing.T, s *cloud.UnitStatus, rev, prev uint64) (all []*wire.UnitStatus) {
	t.Helper()
	parts, err := cloud.Split(s.Encode())
	if err != nil {
		t.Fatal(err)
	}
	of := func(rev uint64) time.Time { return time.Date(2026, 11, 26, 9, 0, int(rev), 0, time.UTC) }
	var before time.Time
	if prev != 0 {
		before = of(prev)
	}
	for i, data := range parts {
		all = append(all, &wire.UnitStatus{V: wire.Version, State: "absent", Epoch: 3, Rev: rev, Time: of(rev),
			Part: &wire.StatusPart{Prev: prev, PrevTime: before, Part: i + 1, Of: len(parts), Data: data}})
	}
	return all
}

// large is a status that takes several messages.
func large(n int) *cloud.UnitStatus {
	s, draw := &cloud.UnitStatus{MessageType: cloud.TypeUnitStatus}, rand.New(rand.NewPCG(1, 2))
	for i := range n {
		noise := make([]byte, 1024) // that cannot be packed
		for j := range noise {
			noise[j] = byte(draw.Uint32())
		}
		attrs := map[string]string{"noise": base64.StdEncoding.EncodeToString(noise)}
		s.Nodes = append(s.Nodes, cloud.Node{Identity: cloud.Identity{Codename: fmt.Sprintf("node-%05d", i)},
			State: cloud.NodeProvisioned, Attrs: attrs})
	}
	return s
}

// Parts make a status in whatever order and how often they come; one that is missing makes none, and neither do parts
// of different statuses together. Each fits into a message.
func TestPartsAreReadTogether(t *testing.T) {
	one, other := large(300), large(299)
	first, second := messages(t, one, 5, 0), messages(t, other, 6, 0)
	if len(first) < 3 {
		t.Fatalf("%d parts", len(first))
	}
	var r cloud.Reader
	take := func(m *wire.UnitStatus, want bool) {
		t.Helper()
		sent := wire.Encode(m)
		back, err := wire.Decode[wire.UnitStatus](sent)
		if err != nil || len(sent) > wire.MaxPayload {
			t.Fatalf("%d bytes: %v", len(sent), err)
		}
		if news, err := r.Take(back); err != nil || news != want {
			t.Fatalf("part %d of rev %d: %v %v", m.Part.Part, m.Rev, news, err)
		}
	}
	for _, m := range first[1:] {
		take(m, false)
		take(m, false)
	}
	take(second[0], false) // the parts before are of another one, which is given up
	take(first[0], false)
	for _, m := range second[1:] {
		take(m, false)
	}
	take(second[0], true)
	if !bytes.Equal(r.Status.Encode(), other.Encode()) {
		t.Error("another status came out")
	}
	for _, m := range slices.Concat(first, second) {
		take(m, false) // played again
	}
	again, later := messages(t, one, 6, 0), messages(t, one, 6, 0) // of the same rev, made at two times
	for i := range again {
		again[i].Time, later[i].Time = again[i].Time.Add(time.Second), later[i].Time.Add(time.Minute)
	}
	take(again[0], false)
	for _, m := range later[1:] {
		take(m, false)
	}
	take(later[0], true)
}

// A delta counts only on what it was made from; else there is a gap, until a whole status comes. Older ones, and what
// the same rev says again, are passed over, unless it is whole and was made later.
func TestGapsAreNoticed(t *testing.T) {
	say := func(online bool) *cloud.UnitStatus {
		return &cloud.UnitStatus{MessageType: cloud.TypeUnitStatus, Nodes: []cloud.Node{
			{Identity: cloud.Identity{Codename: "a"}, State: cloud.NodeProvisioned, IsConnected: online}}}
	}
	delta := cloud.Delta(say(false), say(true))
	var r cloud.Reader
	for i, c := range []struct {
		s         *cloud.UnitStatus
		rev, prev uint64
		later     time.Duration
		news      bool
		err       error
		online    bool
	}{
		{delta, 4, 3, 0, false, cloud.ErrGap, false},
		{say(false), 5, 0, 0, true, nil, false},
		{delta, 7, 6, 0, false, cloud.ErrGap, false},
		{delta, 7, 5, 0, true, nil, true},
		{say(false), 6, 0, 0, false, nil, true},
		{say(false), 7, 0, 0, false, nil, true},
		{say(false), 7, 0, time.Second, true, nil, false},
		{delta, 7, 5, time.Minute, false, nil, false},
		{delta, 8, 7, 0, false, cloud.ErrGap, false}, // it goes on from the first of the two of rev 7
	} {
		m := messages(t, c.s, c.rev, c.prev)[0]
		m.Time = m.Time.Add(c.later)
		news, err := r.Take(m)
		if news != c.news || !errors.Is(err, c.err) || r.Status != nil && r.Status.Nodes[0].IsConnected != c.online {
			t.Errorf("%d: %v %v %+v", i, news, err, r.Status)
		}
	}
	m := messages(t, say(true), 9, 0)[0]
	m.Part.Data = []byte("no gzip")
	if news, err := r.Take(m); news || err == nil {
		t.Errorf("%v %v", news, err)
	}
}
