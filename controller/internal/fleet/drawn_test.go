package fleet

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/controller/internal/artefact"
	"tandem.internal/controller/internal/kinds/health"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

// A generator of what may reach a Fleet: sensible most of the time, late, repeated, reordered or
// nonsense otherwise.
type drawn struct {
	*rapid.T
	w       *world
	now     time.Time
	version int
	checks  []string
	orders  []string // requests of operators, whole IDs
	queries []string // questions for logs, likewise
	plans   []*plan.Plan
}

func (d *drawn) node() string {
	return rapid.SampledFrom([]string{"n1", "n2", "n3", "n4"}).Draw(d.T, "node")
}

func (d *drawn) small(what string) uint64 { return rapid.Uint64Range(1, 6).Draw(d.T, what) }

// document names one of a kind that was issued to the node, or one that nobody issued.
func (d *drawn) document(node string, kind wire.Kind) *wire.DocRef {
	if n := d.w.live.Lookup(node); n != nil && rapid.IntRange(0, 9).Draw(d.T, "issued") > 0 {
		k := n.Kinds[kind]
		switch {
		case k == nil:
		case k.Desired != nil && rapid.Bool().Draw(d.T, "desired"):
			ref := k.Desired.DocRef
			return &ref
		case k.Running != nil:
			return k.Running
		}
	}
	e := d.w.opt.Epoch + rapid.Uint64Range(0, 3).Draw(d.T, "epoch") - 2
	return &wire.DocRef{Epoch: e, Rev: rapid.Uint64Range(1, 60).Draw(d.T, "rev"), Version: "0.0.1",
		Hash: wire.Hash([]byte("x"))}
}

func (d *drawn) event() Event {
	switch rapid.IntRange(0, 30).Draw(d.T, "event") {
	case 29, 30:
		return d.ofItems()
	case 25, 26, 27, 28:
		return d.ofRollouts()
	case 0:
		return Opened{Version: "1.0.0"}
	case 24:
		return d.ofArtefacts()
	case 1, 2, 3:
		node := d.node()
		l := &wire.Live{V: wire.Version, Node: node, Boot: d.boot(), Session: d.small("session"),
			Up:     rapid.IntRange(0, 3).Draw(d.T, "up") > 0,
			Events: rapid.Uint64Range(0, 9).Draw(d.T, "events")}
		if rapid.Bool().Draw(d.T, "seqs") {
			l.Seqs = map[wire.Kind]uint64{wire.KindConfig: d.small("seq"), wire.KindInfo: d.small("seq")}
		}
		return d.w.heard(node, l)
	case 4, 5:
		return d.w.info(d.node(), d.boot(), d.small("seq"),
			rapid.SampledFrom([]string{"mainType", "sideType", "odd"}).Draw(d.T, "type"))
	case 6, 7, 8:
		node := d.node()
		r := &wire.Reported{V: wire.Version, Node: node,
			Kind: rapid.SampledFrom([]wire.Kind{wire.KindConfig, wire.KindHealth, wire.KindWorkloads}).Draw(d.T,
				"kind"), Boot: d.boot(), Seq: d.small("seq")}
		if r.Kind == wire.KindHealth && rapid.Bool().Draw(d.T, "detail") {
			h := told(d.w, nil, nil)
			if rapid.Bool().Draw(d.T, "on trial") {
				h = told(d.w, nil, map[string]string{"trial": "1.5.0"})
			}
			r.Detail = wire.Encode(d.quiet(node, h))
		}
		if r.Kind == wire.KindWorkloads && rapid.IntRange(0, 5).Draw(d.T, "detail") > 0 {
			r.Detail = d.work(node)
		}
		if rapid.Bool().Draw(d.T, "running") {
			r.Running = d.document(node, r.Kind)
		}
		if rapid.Bool().Draw(d.T, "last") {
			ref := d.document(node, r.Kind)
			state := rapid.SampledFrom([]wire.State{wire.StateReceived, wire.StateRejected, wire.StateApplying,
				wire.StateTrying, wire.StateInstalled,
				wire.StateFailed, wire.StateRolledBack, wire.StateSuperseded}).Draw(d.T, "state")
			r.Last = &wire.Attempt{Epoch: ref.Epoch, Rev: ref.Rev, Version: ref.Version, Hash: ref.Hash, State: state,
				Attempt: 1, At: d.now}
			if state == wire.StateFailed || state == wire.StateRejected {
				r.Last.Error = wire.New(wire.CodeApplyFailed, "", "no")
			}
		}
		return d.w.heard(node, r)
	case 9:
		node := d.node()
		return d.w.heard(node, &wire.Event{V: wire.Version, Node: node, Boot: d.boot(),
			Seq: rapid.Uint64Range(1, 12).Draw(d.T, "seq"), At: d.now,
			Type: "stale", Lost: rapid.Uint64Range(0, 2).Draw(d.T, "lost")})
	case 10, 11:
		if len(d.checks) == 0 {
			return Tick{}
		}
		node, id := d.node(), rapid.SampledFrom(d.checks).Draw(d.T, "check")
		result := wire.CheckResult{OK: rapid.IntRange(0, 4).Draw(d.T, "ok") > 0}
		return d.w.heard(node, &wire.Reply{V: wire.Version, Node: node, ID: id + node, Result: wire.Encode(&result)})
	case 12:
		d.version++
		version := fmt.Sprintf("%d.0.0", d.version-rapid.IntRange(0, 1).Draw(d.T, "again"))
		s := d.w.submit(fmt.Sprint("s", d.version), version, fmt.Sprint("x", d.small("label")))
		s.Sub.DryRun = rapid.IntRange(0, 9).Draw(d.T, "dry") == 0
		s.Sub.Offline = rapid.Bool().Draw(d.T, "offline")
		if rapid.IntRange(0, 2).Draw(d.T, "try") == 0 {
			s.Sub.Mode, s.Sub.ConfirmWithin = wire.ModeTry, time.Duration(d.small("within"))*time.Minute
		}
		s.Plan = d.plan()
		return s
	case 13:
		if rapid.Bool().Draw(d.T, "confirm") {
			return Confirm{Ticket: 1, Source: wire.KindConfig, Who: "ann"}
		}
		return Restore{Ticket: 1, Who: "ann"}
	case 14:
		switch rapid.IntRange(0, 4).Draw(d.T, "copy") {
		case 0:
			return Copy{Missing: true}
		case 1:
			return Copy{Hash: "sha256:altered"}
		case 2:
			return Copy{Hash: "sha256:bad", Error: wire.New(wire.CodeMalformed, "", "no JSON")}
		case 3:
			return Copy{Hash: "sha256:older", Known: true}
		}
		return Copy{Hash: d.w.live.State(wire.KindConfig).Hash, Known: true}
	case 16, 17, 18:
		return d.ofHealth()
	case 21, 22:
		return d.ofMembers()
	case 19, 20:
		return d.ofWorkloads()
	}
	return Tick{}
}

// shown is an answer to the question for a signature, of an agent that knows it or not.
func (d *drawn) shown(ask Ask) Event {
	node := ask.Nodes[0]
	r := &wire.Reply{V: wire.Version, Node: node, ID: ask.ID + node}
	p, err := wire.Decode[wire.ShowParams](ask.Params(node))
	if err != nil || rapid.IntRange(0, 3).Draw(d.T, "old agent") == 0 {
		r.Error = wire.New(wire.CodeNotSupported, "", "no such method")
		return d.w.heard(node, r)
	}
	ref := d.document(node, p.Kind)
	shown := &wire.Shown{Epoch: ref.Epoch, Rev: ref.Rev, Version: ref.Version, Hash: ref.Hash, Mode: wire.ModeApply}
	signer := testSigner(rapid.SampledFrom([]byte{1, 1, 2}).Draw(d.T, "signer"))
	shown.Sig = signer.Sign(seal.DesiredPreimage(shown.Of(d.w.opt.Unit, node, p.Kind)))
	r.Result = wire.Encode(shown)
	return d.w.heard(node, r)
}

// ofWorkloads is a set of workloads, or an order or a question about a slot.
func (d *drawn) ofWorkloads() Event {
	switch rapid.IntRange(0, 5).Draw(d.T, "workloads") {
	case 0:
		return Order{Ticket: 1, Node: d.node(), Method: wire.MethodRestart, Params: []byte(`{"service":"a"}`),
			Who: "ann"}
	case 1:
		return Query{Ticket: 1, Node: d.node(), Method: wire.MethodLogs, Params: []byte(`{"service":"a"}`), Who: "ann",
			What: "read"}
	case 2:
		if len(d.queries) == 0 {
			return Tick{}
		}
		node := d.node()
		return d.w.heard(node,
			&wire.Reply{V: wire.Version, Node: node, ID: rapid.SampledFrom(d.queries).Draw(d.T, "query"),
				Result: []byte(`{"cursor":"1"}`)})
	}
	var entries []string
	for _, node := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"n1", "n2", "n3", "n9"}), 0, 4,
		rapid.ID).Draw(d.T, "named") {
		for _, service := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b"}), 1, 2, rapid.ID).Draw(d.T,
			"services") {
			entries = append(entries, fmt.Sprintf("%s@%s:c%d", service, node, d.small("configuration")))
		}
	}
	s := d.w.set("w", entries...)
	s.Sub.DryRun = rapid.IntRange(0, 9).Draw(d.T, "dry") == 0
	s.Sub.Offline = rapid.Bool().Draw(d.T, "offline")
	if rapid.Bool().Draw(d.T, "named version") {
		s.Version = fmt.Sprintf("%d.0.0", d.small("version"))
		s.Sub.Version = s.Version
	}
	s.Plan = d.plan()
	return s
}

// work is what a node tells of its slots.
func (d *drawn) work(node string) []byte {
	var slots []string
	for _, service := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "old"}),
		0, 3, rapid.ID).Draw(d.T, "told") {
		slots = append(slots, fmt.Sprintf("%s@%s:c%d:%s:done~%d", service, node, d.small("told of"),
			rapid.SampledFrom([]string{"preparing", "running", "failed"}).Draw(d.T, "slot"), d.small("done")))
	}
	return wire.Encode(work(d.w, slots, false))
}

// ofHealth is an order of an operator about health, an answer to one, or an alert.
func (d *drawn) ofHealth() Event {
	switch rapid.IntRange(0, 6).Draw(d.T, "health") {
	case 0, 1:
		var ev health.Change
		switch rapid.IntRange(0, 3).Draw(d.T, "scope") {
		case 0:
			ev.Scope.All = true
		case 1:
			ev.Scope.Types = []string{rapid.SampledFrom([]string{"mainType", "sideType"}).Draw(d.T, "type")}
		case 2:
			ev.Scope.Nodes = []string{d.node(), "n9"}
		}
		if rapid.IntRange(0, 2).Draw(d.T, "set") > 0 {
			ev.Settings = &wire.HealthSettings{FormatVersion: "1",
				Reset: wire.SpanOf(time.Duration(d.small("reset")) * time.Minute)}
		}
		return Change{Ticket: 1, Source: wire.KindHealth, Data: ev, Who: "ann"}
	case 2:
		return Order{Ticket: 1, Node: d.node(), Method: wire.MethodReboot, Params: []byte(`{"reason":"x"}`), Who: "ann"}
	case 3:
		if len(d.orders) == 0 {
			return Tick{}
		}
		return d.w.heard("n1",
			&wire.Reply{V: wire.Version, Node: "n1", ID: rapid.SampledFrom(d.orders).Draw(d.T, "order")})
	case 4:
		return Maintain{Ticket: 1, For: time.Duration(d.small("for")-1) * time.Hour, Reason: "x", Who: "ann"}
	}
	node := d.node()
	detail := fmt.Sprintf(`{"tag":"t","parameter":"p%d","value":0.5,"state":%q,"since":"2026-01-01T00:00:00+01:00"}`,
		d.small("parameter"),
		rapid.SampledFrom([]string{"raise", "continue", "fall", "odd"}).Draw(d.T, "phase"))
	return d.w.heard(node, &wire.Event{V: wire.Version, Node: node, Boot: d.boot(),
		Seq: rapid.Uint64Range(1, 12).Draw(d.T, "seq"), At: d.now, Type: "alert", Detail: []byte(detail)})
}

func (d *drawn) boot() string { return rapid.SampledFrom([]string{"b1", "b1", "b2"}).Draw(d.T, "boot") }

// ofArtefacts is a wish about the store of artefacts.
func (d *drawn) ofArtefacts() Event {
	n := d.small("artefact")
	digest := wire.Hash([]byte{byte(n)})
	return Artefact{Ticket: 1, Who: "ann", Event: rapid.SampledFrom([]artefact.Event{
		artefact.Begin{Digest: digest, Size: int64(n) * 100, Who: "ann", Quota: 500, Free: 500, Damaged: n == 2},
		artefact.Touch{Digest: digest}, artefact.Complete{Digest: digest, Chunks: digest},
		artefact.Remove{Digest: digest}, artefact.Discard{Digest: digest}, artefact.Expire{Digest: digest},
	}).Draw(d.T, "wish")}
}
