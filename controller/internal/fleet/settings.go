package fleet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Settings are what operators want of the nodes' health (seed 002). Of what is set for a node, for its
// type and for all, the first counts, and it counts whole. The zero Settings is a unit whose nodes
// were never told anything.
type Settings struct {
	Rev   uint64              `json:"rev,omitzero"` // record of the newest change
	All   *Setting            `json:"all,omitempty"`
	Types map[string]*Setting `json:"types,omitempty"`
	Nodes map[string]*Setting `json:"nodes,omitempty"`
}

// Setting is one of them. It is never changed, only replaced.
type Setting struct {
	Health wire.HealthSettings `json:"health"`
	Rev    uint64              `json:"rev"` // record that set it
	At     time.Time           `json:"at"`
	Who    string              `json:"who,omitempty"`

	body []byte // as nodes get it
	hash string
}

// seal makes the body that nodes get.
func (t *Setting) seal() *Setting {
	t.body = wire.Encode(&t.Health)
	t.hash = wire.Hash(t.body)
	return t
}

// nothing is what a node gets when all that was set for it is unset: its own settings count again.
var nothing = (&Setting{Health: wire.HealthSettings{FormatVersion: wire.HealthFormat}}).seal()

// of returns what is set for a node, and by which rule; nil and "": nothing is.
func (t *Settings) of(node, nodeType string) (*Setting, view.Rule) {
	if e := t.Nodes[node]; e != nil {
		return e, view.ByNode
	}
	if e := t.Types[nodeType]; e != nil {
		return e, view.ByType
	}
	if t.All != nil {
		return t.All, view.ByDefault
	}
	return nil, ""
}

func (t *Settings) each(fn func(*Setting)) {
	if t.All != nil {
		fn(t.All)
	}
	for _, e := range t.Types {
		fn(e)
	}
	for _, e := range t.Nodes {
		fn(e)
	}
}

// SetHealth sets, or with nil Settings unsets, what is wanted of the health of some nodes; answered
// under Ticket with the rev and the number of documents issued.
type SetHealth struct {
	Ticket   uint64
	Scope    view.Scope
	Settings *wire.HealthSettings
	Who      string
}

func (SetHealth) event() {}

// maxSettings bounds what the state holds of them.
const maxSettings = 20_000

// setHealth makes a change a record and gives new documents to those whose settings differ then.
func (s *step) setHealth(ev SetHealth) {
	if err := s.judgeSettings(&ev); err != nil {
		s.effect(Answer{Ticket: ev.Ticket, Err: err})
		return
	}
	s.emit(record.Record{Type: record.Settings, Who: ev.Who, Kind: string(wire.KindHealth)}, record.SettingsData{Scope: ev.Scope, Settings: ev.Settings})
	issued := 0
	if o, ok := s.offered(wire.KindHealth); ok {
		var nodes []*Node
		for _, n := range s.sorted() {
			if s.due(n, wire.KindHealth, o) != "" {
				nodes = append(nodes, n)
			}
		}
		if len(nodes) > 0 {
			issued = s.issue(wire.KindHealth, nodes, false, "settings changed")
		}
	}
	s.effect(Answer{Ticket: ev.Ticket, Result: view.Result{State: "accepted", Rev: s.settings.Rev, Epoch: s.opt.Epoch, Issued: issued}})
}

func (s *step) judgeSettings(ev *SetHealth) *wire.Error {
	if err := checkScope(&ev.Scope); err != nil {
		return err
	}
	if ev.Settings != nil {
		if len(s.settings.Nodes)+len(s.settings.Types)+len(ev.Scope.Nodes)+len(ev.Scope.Types) > maxSettings {
			return wire.New(wire.CodeTooLarge, "", fmt.Sprintf("more than %d nodes and types with settings of their own; set them for types, or for all", maxSettings))
		}
		return ev.Settings.Check()
	}
	there := ev.Scope.All && s.settings.All != nil ||
		slices.ContainsFunc(ev.Scope.Types, func(t string) bool { return s.settings.Types[t] != nil }) ||
		slices.ContainsFunc(ev.Scope.Nodes, func(n string) bool { return s.settings.Nodes[n] != nil })
	if !there {
		return wire.New(wire.CodeNotFound, "", "nothing is set there; see: tandem health settings")
	}
	return nil
}

// checkScope says what is wrong with a scope.
func checkScope(s *view.Scope) *wire.Error {
	given := 0
	for _, there := range []bool{s.All, len(s.Types) > 0, len(s.Nodes) > 0} {
		if there {
			given++
		}
	}
	switch {
	case given == 0:
		return wire.New(wire.CodeMissing, "", "say for whom: nodes, types, or all")
	case given > 1:
		return wire.New(wire.CodeInvalidArgument, "", "nodes, types, or all: one of them")
	case len(s.Types)+len(s.Nodes) > view.MaxScope:
		return wire.New(wire.CodeTooLarge, "", fmt.Sprintf("more than %d names", view.MaxScope))
	}
	for i, t := range s.Types {
		if t == "" || len(t) > 256 || strings.ContainsFunc(t, unicode.IsControl) {
			return wire.New(wire.CodeInvalidArgument, fmt.Sprintf("/types/%d", i), fmt.Sprintf("%.80q is no node type", t))
		}
	}
	for i, n := range s.Nodes {
		if !wire.ValidName(n) {
			return wire.New(wire.CodeInvalidArgument, fmt.Sprintf("/nodes/%d", i), fmt.Sprintf("%.80q is no name of a node", n))
		}
	}
	return nil
}

func (f *Fleet) applySettings(r *record.Record, d *record.SettingsData) {
	t := &f.settings
	t.Rev = r.Seq
	var e *Setting
	if d.Settings != nil {
		e = (&Setting{Health: *d.Settings, Rev: r.Seq, At: r.At, Who: r.Who}).seal()
	}
	put := func(m map[string]*Setting, names []string) map[string]*Setting {
		for _, name := range names {
			switch {
			case e == nil:
				delete(m, name)
			case m == nil:
				m = map[string]*Setting{name: e}
			default:
				m[name] = e
			}
		}
		return m
	}
	if d.All {
		t.All = e
	}
	t.Types, t.Nodes = put(t.Types, d.Types), put(t.Nodes, d.Nodes)
}

// healthSettings offers each node what is set for it. A node for which nothing is set gets nothing,
// unless something was before.
func (s *step) healthSettings() (offer, bool) {
	o := offer{version: strconv.FormatUint(s.settings.Rev, 10), mode: wire.ModeApply}
	o.body = func(n *Node) ([]byte, string) {
		e, _ := s.settings.of(n.Name, n.Type())
		if e == nil && n.kind(wire.KindHealth).Desired != nil {
			e = nothing
		}
		if e == nil {
			return nil, ""
		}
		return e.body, e.hash
	}
	return o, s.settings.Rev > 0
}

// HealthSettings lists what is set.
func (f *Fleet) HealthSettings() view.HealthSettings {
	v := view.HealthSettings{Rev: f.settings.Rev, Types: map[string]view.HealthSetting{}, Nodes: map[string]view.HealthSetting{}}
	if e := f.settings.All; e != nil {
		v.All = e.view()
	}
	for name, e := range f.settings.Types {
		v.Types[name] = *e.view()
	}
	for name, e := range f.settings.Nodes {
		v.Nodes[name] = *e.view()
	}
	return v
}

func (t *Setting) view() *view.HealthSetting {
	return &view.HealthSetting{Settings: t.Health, Rev: t.Rev, At: t.At, Who: t.Who}
}

// NodeSettings returns what is set for one node, and what is in effect there as far as it has told.
func (f *Fleet) NodeSettings(node string) view.NodeSettings {
	v := view.NodeSettings{Node: node}
	n := f.nodes[node]
	if n != nil {
		v.Type = n.Type()
		if n.Health != nil {
			inEffect := n.Health.Settings
			v.InEffect = &inEffect
		}
		if k := n.Kinds[wire.KindHealth]; k != nil && k.Desired != nil {
			d := k.view()
			v.Document = &d
		}
	}
	if e, rule := f.settings.of(node, v.Type); e != nil {
		v.Rule, v.Set = rule, e.view()
	}
	return v
}
