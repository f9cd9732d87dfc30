package distribute

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/kinds/wanted"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/retain"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/cloud"
	"tandem.internal/shared/wire"
)

// compacts has the journal compacted, and looks at what is left.
func (r *faulty) compacts() {
	r.Helper()
	if err := r.core.compact(r.Context()); err != nil {
		r.Fatal(err)
	}
	if v, err := r.core.Verify(r.Context()); err != nil || !v.OK {
		r.Errorf("%+v %v", v, err)
	}
	r.bodies()
}

// crash starts anew from the records, without a checkpoint of the end.
func (r *faulty) crash() {
	r.Helper()
	r.disk.fail(1, 0)
	if err := r.stop(); err == nil {
		r.Fatal("there is a checkpoint")
	}
	r.start()
}

// What was decided and superseded goes, by number, with its documents: not what is in force, nor what an operator has
// submitted or had applied, though that is older; and not while the journal may have to be replayed from it.
func TestSupersededDocumentsGo(t *testing.T) {
	const maxSuperseded, more = 10, 5
	withFaults(t, func(c *Config) { c.KeepSuperseded = maxSuperseded }, func(t *testing.T, r *faulty) {
		r.install("0.9.0")
		got, err := r.core.Submit(t.Context(), view.Submission{Kind: "config", Via: viaDesired, Who: "somebody",
			Document: faultyDoc("0.9.1"), Offline: true})
		if err != nil || got.State != "accepted" {
			t.Fatalf("%+v %v", got, err)
		}
		for i := range maxSuperseded + more {
			got, err := r.core.Submit(t.Context(), view.Submission{Kind: "config", Via: viaDecided, Who: "cloud",
				Document: faultyDoc(fmt.Sprintf("1.0.%d", i)), Offline: true})
			if err != nil || got.State != "accepted" {
				t.Fatalf("%+v %v", got, err)
			}
		}
		plan, err := r.core.TrimPlan(t.Context())
		if err != nil || plan.Records != more || plan.Kinds[4].Why[string(retain.Source)] != more ||
			plan.Documents != more*int64(len(faultyDoc("1.0.0"))) {
			t.Errorf("%+v would go: %v", plan, err)
		}
		r.compacts()
		all := r.records(record.Accepted)
		if len(all) != maxSuperseded+2 {
			t.Errorf("%d are left", len(all))
		}
		for version, kept := range map[string]bool{"0.9.0": true, "0.9.1": true, "1.0.0": false,
			fmt.Sprintf("1.0.%d", more-1): false,
			fmt.Sprintf("1.0.%d", more):   true, fmt.Sprintf("1.0.%d", more+maxSuperseded-1): true} {
			_, err := r.core.Document(t.Context(), wire.KindConfig, version)
			if kept != (err == nil) || !kept && wire.CodeOf(wire.AsError(err)) != wire.CodeNotFound {
				t.Errorf("%s: %v", version, err)
			}
			h, err := parseHash(wire.Hash(faultyDoc(version)))
			if err != nil {
				t.Fatal(err)
			}
			if _, ok, err := r.core.journal.Load().Body(h); err != nil || ok != kept {
				t.Errorf("the document of %s: %t %v", version, ok, err)
			}
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		r.start()
		r.install("2.0.0")
	})
}

// The newest that a submitter has signed stays, though others have sent many since, and though it was signed after one
// that changed nothing.
func TestNewestOfEachSubmitterStays(t *testing.T) {
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	desired := func(seq uint64, who string) record.Record {
		at = at.Add(time.Second)
		return record.Record{Seq: seq, Type: record.Settings, Kind: string(record.KindWanted), Who: who,
			Data: record.Encode(map[string]any{"inbox": record.InboxData{ID: "x", Signed: at}})}
	}
	all := []record.Record{desired(1, "a"), {Seq: 2, Type: record.Accepted, Kind: string(record.KindWanted), Who: "a",
		Data: record.Encode(record.Verdict{ID: "x", Signed: at, Nothing: true})}, desired(3, "a"), desired(4, "b"),
		desired(5, "b")}
	b := bounded{c: &Core{cfg: Config{KeepSuperseded: 1, KeepDocuments: 1 << 20}}, kept: map[string]*retain.Amount{},
		plan: retain.NewPlan(nil, at), counted: map[string]bool{}, newest: map[line]bool{}}
	var left []uint64
	for i := len(all) - 1; i >= 0; i-- {
		why, _, err := b.goes(&all[i])
		if err != nil {
			t.Fatal(err)
		}
		if why == "" {
			left = append(left, all[i].Seq)
		}
	}
	if want := []uint64{5, 3, 2}; !slices.Equal(left, want) {
		t.Errorf("%v are left, want %v", left, want)
	}
}

// desired is a desired status that takes about that many bytes, signed now.
func (c *cloudSide) desired(id string, size int) *wire.Submission {
	time.Sleep(time.Second)
	text := fmt.Sprintf(`{"messageType":"desiredStatus","subjects":[{"identity":{"codename":"s-%s"},"type":"group"}],`+
		`"unitConfig":"%s"}`, id, strings.Repeat("x", size))
	return c.sign("desired", &wire.Submission{V: wire.Version, ID: id, From: "cloud", Time: time.Now().UTC(),
		Document: jsontext.Value(`{"packed":"` + base64.StdEncoding.EncodeToString(cloud.Pack([]byte(text))) + `"}`)})
}

// asked sends a desired status, and returns the state of the answer.
func (c *cloudSide) asked(m *wire.Submission) string {
	c.t.Helper()
	a := c.sendTo("desired", m)
	switch {
	case a == nil:
		return "nothing"
	case a.Error != nil:
		return string(a.Error.Code)
	}
	return a.State
}

// Desired statuses that were superseded go, by their bytes; the newest is there after a restart, and what was signed
// before is not taken then.
func TestSupersededDesiredStatusesGo(t *testing.T) {
	const size, maxSupersededBytes = 100_000, 600_000
	withCloudThat(t, func(c *Config) { c.Cloud, c.KeepDocuments = true, maxSupersededBytes }, func(c *cloudSide) {
		var all []*wire.Submission
		for i := range maxSupersededBytes/size + 3 {
			all = append(all, c.desired(fmt.Sprint(i), size))
			if got := c.asked(all[i]); got != "accepted" {
				c.t.Fatalf("%d: %s", i, got)
			}
		}
		c.r.compacts()
		left := c.r.records(record.Settings)
		if len(left) != maxSupersededBytes/size-1 { // there is more in a record than the document
			c.t.Errorf("%d of %d are left", len(left), len(all))
		}
		newest := left[len(left)-1].Seq
		if err := c.r.stop(); err != nil {
			c.t.Fatal(err)
		}
		c.r.start()
		c.r.look(func(f *fleet.Fleet) {
			if s, doc := wanted.Of(f.Content(record.KindWanted)); doc == nil || s.Rev != newest {
				c.t.Errorf("%d is wanted, not %d", s.Rev, newest)
			}
		})
		if got := c.asked(all[0]); got != string(wire.CodeExpired) {
			c.t.Errorf("the first, played again: %s", got)
		}
	})
}

// A submission that changed nothing, or was refused, is a small record, from which a start goes on: it is answered as
// before after that, however that comes, and what was signed before it is not judged. Of these records few are kept.
func TestWhatChangedNothingIsRemembered(t *testing.T) {
	const size, maxSuperseded = 10_000, 10
	withCloudThat(t, func(c *Config) { c.Cloud, c.KeepSuperseded = true, maxSuperseded }, func(c *cloudSide) {
		first, older := c.desired("a", size), c.desired("b", size)
		if got := c.asked(first); got != "accepted" {
			c.t.Fatalf("%s", got)
		}
		same := c.desired("a", size)
		same.ID = "again"
		c.sign("desired", same)
		for range 2 {
			if got := c.asked(same); got != "accepted" {
				c.t.Errorf("%s", got)
			}
			if all := c.r.records(record.Accepted); len(all) != 1 || len(all[0].Data) > 1000 {
				c.t.Errorf("%d records, %.1200s", len(all), all[0].Data)
			}
			c.r.whole()
			c.r.crash()
		}
		if got := c.asked(older); got != string(wire.CodeExpired) {
			c.t.Errorf("what was signed before: %s", got)
		}
		c.wants(c.policy("p", "p", `{"enabled":true}`, false), "refused not-allowed")
		c.r.whole()
		for i := range maxSuperseded + 10 {
			again := c.desired("a", size)
			again.ID = fmt.Sprint(i)
			c.sign("desired", again)
			c.asked(again)
		}
		c.r.compacts()
		if n := len(c.r.records(record.Accepted)); n != maxSuperseded {
			c.t.Errorf("%d are left", n)
		}
	})
}
