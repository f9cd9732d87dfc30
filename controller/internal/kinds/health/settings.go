package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/kind"
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

	body *kind.Body // as nodes get it
}

func (t *Setting) encode() *Setting {
	t.body = kind.NewBody(wire.Encode(&t.Health))
	return t
}

// unset is what a node gets when all that was set for it is unset: its own settings count again.
var unset = (&Setting{Health: wire.HealthSettings{FormatVersion: wire.HealthFormat}}).encode()

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

// Change sets, or with nil Settings unsets, what is wanted of the health of some nodes. It is the data of its
// records.
type Change = record.SettingsData

// maxSettings bounds what the state holds of them.
const maxSettings = 20_000

// judge says why a change is refused.
func judge(c kind.Content, data any) *wire.Error {
	t, ev := settingsOf(c), data.(Change)
	if err := checkScope(&ev.Scope); err != nil {
		return err
	}
	if ev.Settings != nil {
		if len(t.Nodes)+len(t.Types)+len(ev.Scope.Nodes)+len(ev.Scope.Types) > maxSettings {
			return wire.New(wire.CodeTooLarge, "", fmt.Sprintf(
				"more than %d nodes and types with settings of their own; set them for types, or for all", maxSettings))
		}
		return ev.Settings.Check()
	}
	there := ev.Scope.All && t.All != nil ||
		slices.ContainsFunc(ev.Scope.Types, func(name string) bool { return t.Types[name] != nil }) ||
		slices.ContainsFunc(ev.Scope.Nodes, func(name string) bool { return t.Nodes[name] != nil })
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
		if t == "" || len(t) > 256 || strings.ContainsFunc(t, wire.Misleads) {
			at := fmt.Sprintf("/types/%d", i)
			return wire.New(wire.CodeInvalidArgument, at, fmt.Sprintf("%.80q is no node type", t))
		}
	}
	for i, n := range s.Nodes {
		if !wire.ValidName(n) {
			at := fmt.Sprintf("/nodes/%d", i)
			return wire.New(wire.CodeInvalidArgument, at, fmt.Sprintf("%.80q is no name of a node", n))
		}
	}
	return nil
}

// apply changes the settings. The maps are those of the settings before, which are not used any more.
func apply(c kind.Content, at kind.Change, data any) kind.Content {
	t, d := *settingsOf(c), data.(Change)
	t.Rev = at.Seq
	var e *Setting
	if d.Settings != nil {
		e = (&Setting{Health: *d.Settings, Rev: at.Seq, At: at.At, Who: at.Who}).encode()
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
	return &t
}

// For returns what is set for a node, by the rule that counts.
func (t *Settings) For(f kind.Facts) *kind.Body {
	if e, _ := t.of(f.Node, f.Type); e != nil {
		return e.body
	}
	return nil
}

func settingsOf(c kind.Content) *Settings {
	if t, ok := c.(*Settings); ok {
		return t
	}
	return &Settings{}
}

func decode(raw jsontext.Value) (any, error) {
	var d Change
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, err
	}
	if err := checkScope(&d.Scope); err != nil {
		return nil, err
	}
	return d, nil
}

func load(saved jsontext.Value) (kind.Content, error) {
	t := &Settings{}
	if err := json.Unmarshal(saved, t); err != nil {
		return nil, err
	}
	t.each(func(e *Setting) { e.encode() })
	return t, nil
}
