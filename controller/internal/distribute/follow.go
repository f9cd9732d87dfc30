package distribute

import (
	"context"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/follow"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/kinds/wanted"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/steer"
	"tandem.internal/controller/internal/unitstatus"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/cloud"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// follower has the unit follow the desired status of the cloud side. What is wanted is in the journal; it decides what
// that comes to, compares it with what is installed, and submits what differs: so a restart in any stage goes on where
// it was. Its goroutine is run.
type follower struct {
	c     *Core
	seed  maphash.Seed
	found atomic.Pointer[found] // written by the goroutine

	// The goroutine's own.
	machine  follow.Machine
	batch    unitstatus.Batch
	seen     sight // of which the decision was made
	decision *steer.Decision
	current  items.Current         // of the unit then
	infos    map[string]hashedInfo // of nodes that take part, when it looked last
}

// found is what was found about the desired status of a record.
type found struct {
	rev      uint64
	failures []unitstatus.Failure      // what cannot be decided
	unknown  int                       // nodes to which a state is set, and that there are not
	refused  map[wire.Kind]*wire.Error // why a document that follows is not installed
	all      []unitstatus.Failure      // these, and what that document would bring
}

// sight is all that a decision depends on, as far as it tells whether it is still the same.
type sight struct {
	wanted, items, config, components, workloads kind.Content
	nodes                                        uint64
}

func newFollower(c *Core) *follower {
	return &follower{c: c, seed: maphash.MakeSeed(), batch: unitstatus.Batch{Wait: c.cfg.StatusWait}}
}

// run follows until ctx ends.
func (f *follower) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	changed := f.c.Changed()
	var wake time.Time // when something is due again; zero: when something changes
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			changed = f.c.Changed()
			f.batch.Changed(f.c.cfg.Now())
		case <-timer.C:
			f.batch.Take()
			wake = f.work(ctx)
		}
		next, due := f.batch.Due()
		if !wake.IsZero() && (!due || wake.Before(next)) {
			next, due = wake, true
		}
		if due {
			timer.Reset(max(0, next.Sub(f.c.cfg.Now())))
		} else {
			timer.Stop()
		}
	}
}

// work does what is due, one document after the other, and returns when something is due again; zero: when something
// changes.
func (f *follower) work(ctx context.Context) (wake time.Time) {
	for ctx.Err() == nil {
		status, parts, documents, err := f.look(ctx)
		now := f.c.cfg.Now()
		if err != nil {
			f.c.cfg.Log.Warn("the desired status of the cloud side is not followed now", zap.Error(err))
			return now.Add(follow.First)
		}
		act, part, wake := f.machine.Next(now, parts)
		if act == follow.Wait {
			return wake
		}
		if act == follow.Retry {
			err = f.retry(ctx, status, part)
		} else {
			err = f.submit(ctx, status, part, documents[part.Source])
		}
		f.machine.Tried(f.c.cfg.Now(), part)
		if ctx.Err() == nil {
			f.note(status, part.Source, err)
		}
	}
	return time.Time{}
}

// look finds what is wanted, decides about it if anything has changed since, and compares.
func (f *follower) look(ctx context.Context) (s *wanted.Status, parts []follow.Part, docs map[wire.Kind][]byte,
	err error) {
	var newest kind.Content
	if err = f.c.see(ctx, func(fl *fleet.Fleet) { newest = fl.Content(record.KindWanted) }); err != nil {
		return nil, nil, nil, err
	}
	s, doc := wanted.Of(newest) // beside the loop: it may be long
	if doc == nil {
		return s, nil, nil, nil
	}
	var u *steer.Unit
	var seen sight
	states, progress := map[wire.Kind]kind.State{}, map[wire.Kind]view.Progress{}
	var items uint64
	if err = f.c.see(ctx, func(fl *fleet.Fleet) {
		if seen = f.sight(fl, newest); seen != f.seen {
			u = steer.Look(fl, f.c.cfg.Now())
		}
		items = fl.State(record.KindItems).Rev
		for _, k := range followed {
			states[k], progress[k] = fl.State(k), fl.Progress(k)
		}
	}); err != nil {
		return s, nil, nil, err
	}
	if u != nil {
		if err := f.decide(ctx, s, doc, u); err != nil {
			return s, nil, nil, err
		}
		f.seen = seen
	}
	docs = map[wire.Kind][]byte{wire.KindConfig: doc.UnitConfig, wire.KindComponents: f.decision.Components,
		wire.KindWorkloads: f.decision.Workloads}
	for _, k := range followed {
		p := follow.Part{Source: k, Of: s.Rev, Items: items, Want: wire.Hash(docs[k]), Have: states[k].Hash,
			Failed: progress[k].Failed > 0, Busy: progress[k].OnlineMissing > 0}
		switch {
		case k == wire.KindConfig:
			p.Want, p.Have = versionOf(doc.UnitConfig), states[k].Version
		case p.Have == "" && !f.has(k):
			p.Want = "" // nothing is to be taken back
		}
		if p.Want == "" || p.Want == p.Have {
			f.note(s, k, nil) // whatever was in the way is over
		}
		parts = append(parts, p)
	}
	return s, parts, docs, nil
}

// followed are the sources of what follows from a desired status, in the order in which it is submitted.
var followed = []wire.Kind{wire.KindConfig, wire.KindComponents, wire.KindWorkloads}

// typeOf is the type of the items that a source brings.
func typeOf(k wire.Kind) items.Type {
	if k == wire.KindComponents {
		return items.Component
	}
	return items.Service
}

// has reports whether the plan has something for a source.
func (f *follower) has(k wire.Kind) bool {
	t := typeOf(k)
	for i := range f.decision.Nodes {
		for j := range f.decision.Nodes[i].Instances {
			if f.decision.Nodes[i].Instances[j].Type == t {
				return true
			}
		}
	}
	return false
}

// sight is what a decision would be made of now, for what is wanted.
func (f *follower) sight(fl *fleet.Fleet, newest kind.Content) sight {
	s := sight{wanted: newest, items: fl.Content(record.KindItems), config: fl.Content(wire.KindConfig),
		components: fl.Content(wire.KindComponents), workloads: fl.Content(wire.KindWorkloads)}
	infos := make(map[string]hashedInfo, len(f.infos))
	fl.Each(wire.KindWorkloads, func(n kind.Node) {
		if n.Revoked { // it takes no part
			return
		}
		t := f.infos[n.Name]
		if t.info != n.Info {
			t = hashedInfo{n.Info, maphash.Bytes(f.seed, wire.Encode(n.Info))}
		}
		infos[n.Name] = t
		s.nodes += maphash.Comparable(f.seed, seenNode{n.Name, t.hash, n.Up})
	})
	f.infos = infos
	return s
}

// hashedInfo is what a node tells of itself.
type hashedInfo struct {
	info *wire.NodeInfo // never changed, only replaced
	hash uint64         // of it
}

// seenNode is a node, as far as a decision depends on it.
type seenNode struct {
	name string
	info uint64 // hash of what it tells of itself; 0: nothing
	up   bool
}

// decide decides, and tells the cloud side what cannot be there.
func (f *follower) decide(ctx context.Context, s *wanted.Status, doc *cloud.DesiredStatus, u *steer.Unit) (err error) {
	var failures []unitstatus.Failure
	var d *steer.Decision
	if terr := inTurnOf(ctx, f.c.readersTurn, func() { // however many wait for it
		failures = follow.Input(u, doc)
		d, err = u.Decide()
	}); terr != nil {
		return terr
	}
	if err != nil {
		return err
	}
	f.decision, f.current = d, u.Current
	next := &found{rev: s.Rev, failures: append(failures, follow.Failures(f.decision.Plan, failures)...)}
	for name := range follow.States(doc) {
		if _, known := f.infos[name]; !known {
			next.unknown++
		}
	}
	if old := f.found.Load(); old != nil && old.rev == s.Rev {
		next.refused = old.refused
	}
	f.tell(next)
	return nil
}

// tell has what was found be told of.
func (f *follower) tell(next *found) {
	next.all = slices.Clone(next.failures)
	for _, k := range followed {
		if why := next.refused[k]; why != nil && k != wire.KindConfig {
			next.all = append(next.all, follow.Refused(f.decision.Plan, typeOf(k), &f.current, why)...)
		}
	}
	f.found.Store(next)
	f.c.report.changed()
}

// submit submits a document. That it was refused is an error, too.
func (f *follower) submit(ctx context.Context, s *wanted.Status, p follow.Part, document []byte) error {
	r, err := f.c.Submit(ctx, view.Submission{Kind: p.Source, Document: document, Mode: wire.ModeApply, Who: s.Who,
		Via: viaDecided})
	if err == nil && r.Error != nil {
		return r.Error
	}
	return err
}

// retry sends what is installed again to the nodes that have failed at it.
func (f *follower) retry(ctx context.Context, s *wanted.Status, p follow.Part) error {
	_, err := f.c.order(ctx, func(t uint64) fleet.Event {
		return fleet.Retry{Ticket: t, Source: p.Source, Who: s.Who}
	})
	return err
}

// note keeps why a document that follows is not installed; nil: it is, or there was nothing in the way.
func (f *follower) note(s *wanted.Status, k wire.Kind, why error) {
	old := f.found.Load()
	if why == nil && old.refused[k] == nil {
		return
	}
	next := &found{rev: s.Rev, failures: old.failures, unknown: old.unknown, refused: maps.Clone(old.refused)}
	if delete(next.refused, k); why != nil {
		if next.refused == nil {
			next.refused = map[wire.Kind]*wire.Error{}
		}
		next.refused[k] = wire.AsError(why)
		f.c.cfg.Log.Warn("what follows from the desired status was refused, and is tried again",
			zap.String("kind", string(k)), zap.Error(why))
	}
	f.tell(next)
}

// trouble is what an operator should look at.
func (f *follower) trouble() (all []string) {
	now := f.found.Load()
	if now == nil {
		return nil
	}
	for _, k := range followed {
		if why := now.refused[k]; why != nil {
			all = append(all, fmt.Sprintf("the %s that follow from the cloud side's desired status were refused, and "+
				"are tried again: %s", k, why))
		}
	}
	if n := len(now.failures) + now.unknown; n > 0 {
		all = append(all, kind.Many(n, "entry")+" of the cloud side's desired status cannot be met, see: tandem unit "+
			"status --json")
	}
	return all
}

// maxFailures bounds the failures that are shown at a glance.
const maxFailures = 20

// followed shows the desired status that the unit follows; nil: others steer.
func (c *Core) followed(newest kind.Content) *view.Followed {
	if !c.cfg.Cloud {
		return nil
	}
	s, _ := wanted.Of(newest)
	v := &view.Followed{Rev: s.Rev, CorrelationID: s.CorrelationID, Who: s.Who}
	if now := c.follow.found.Load(); now != nil && now.rev == s.Rev {
		for i := range now.all[:min(len(now.all), maxFailures)] {
			v.Failures = append(v.Failures, now.all[i].String())
		}
		v.Omitted = len(now.all) - len(v.Failures)
	}
	return v
}

// versionOf is the version of a unit configuration; "" if it cannot be read, which submitting it would say.
func versionOf(document []byte) string {
	var d struct {
		Version string `json:"version"`
	}
	if len(document) == 0 {
		return ""
	}
	if json.Unmarshal(document, &d) != nil || d.Version == "" {
		return "?"
	}
	return d.Version
}

// wanted is what is known of the desired status that the unit follows, of what there is of it.
func (c *Core) wanted(newest kind.Content) *unitstatus.Wanted {
	s, doc := wanted.Of(newest)
	if !c.cfg.Cloud || doc == nil {
		return &unitstatus.Wanted{}
	}
	w := &unitstatus.Wanted{CorrelationID: s.CorrelationID, Subjects: follow.Subjects(doc), States: follow.States(doc)}
	if now := c.follow.found.Load(); now != nil && now.rev == s.Rev {
		w.Failures = now.all
	}
	return w
}
