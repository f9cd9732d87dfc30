// Package components says which versions the components of nodes should have (seed 001), beside the agents themselves.
// What is submitted names the components of all nodes; a node gets its own.
//
//tandem:pure
package components

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/accept"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// Set returns the source and the kind.
func Set() kind.Set {
	return kind.Set{
		Sources: []*kind.Source{{
			Name: wire.KindComponents, Title: "list of components", Noun: "list of components",
			Parse: parse, NoTrial: errNoTrial, Next: accept.Next, Diff: diff, Show: show,
			Bodies: bodies,
			None:   "no components were ever applied", Nothing: `{"formatVersion":"1"} wants nothing of any`,
		}},
		Kinds: []*kind.Kind{{
			Name: wire.KindComponents, Empty: none, TooOld: "takes no versions of components; update it first",
			Artefacts: artefacts, Alike: true, Detail: kind.Detail[wire.ComponentsReport],
			Blank: func() any { return &wire.ComponentsReport{} },
			Same:  same, Troubles: troubles, Words: words, Trouble: trouble,
		}},
	}
}

// Document is what is submitted.
type Document struct {
	FormatVersion string  `json:"formatVersion"`        // wire.ComponentsFormat
	Components    []Entry `json:"components,omitempty"` // each component of a node once
}

// Entry is a component of a node, with the version that it should have.
type Entry struct {
	Node               string `json:"node"` // that has it
	wire.NodeComponent        // as the node gets it
	Subject            string `json:"subject,omitempty"` // for which it is desired
}

// MaxDocument bounds a document, in bytes.
const MaxDocument = 4 << 20

var errNoTrial = wire.New(wire.CodeNotSupported, "/mode",
	"components are not tried unit-wide: each node tries what it gets, and goes back if it does not get well")

// Placement is a document by nodes. It is the content of an accepted one, and never changed.
type Placement struct {
	nodes map[string]*kind.Body
	all   []Entry
}

// For returns what a node gets.
func (p *Placement) For(f kind.Facts) *kind.Body { return p.nodes[f.Node] }

// Current are the components that have a version by a document, for package desired.
func (p *Placement) Current() (all []items.Instance) {
	if p == nil {
		return nil
	}
	for i := range p.all {
		e := &p.all[i]
		all = append(all, items.Instance{Type: items.Component, Codename: e.Item, Version: e.Version,
			Subject: e.Subject, Node: e.Node, Runtime: e.Name})
	}
	return all
}

// Uses implements kind.ItemUser.
func (p *Placement) Uses(ref items.Ref, version string) string {
	for i := range p.all {
		if e := &p.all[i]; ref.Type == items.Component && e.Item == ref.Codename && e.Version == version {
			return e.Node
		}
	}
	return ""
}

// none is what a node gets that has none any more.
var none = kind.NewBody(wire.Encode(&wire.Components{FormatVersion: wire.ComponentsFormat}))

// parse reads a document.
func parse(r kind.Reading) kind.Parsed {
	p := kind.Parsed{Version: r.Version}
	fail := func(err *wire.Error) kind.Parsed {
		p.Problems = append(p.Problems, err)
		return p
	}
	if len(r.Document) > MaxDocument {
		return fail(wire.New(wire.CodeTooLarge, "", fmt.Sprintf("longer than %d bytes", MaxDocument)))
	}
	var d Document
	if err := wire.Unmarshal(r.Document, &d, json.RejectUnknownMembers(true)); err != nil {
		return fail(wire.AsError(err))
	}
	if d.FormatVersion != wire.ComponentsFormat {
		return fail(wire.New(wire.CodeWrongVersion, "/formatVersion", "the format is "+wire.ComponentsFormat))
	}
	byNode, places := map[string]*wire.Components{}, map[string][]int{}
	for i := range d.Components {
		e := &d.Components[i]
		if !wire.ValidName(e.Node) {
			return fail(wire.New(wire.CodeBadValue, fmt.Sprintf("/components/%d/node", i), "no ID of a node"))
		}
		c := byNode[e.Node]
		if c == nil {
			c = &wire.Components{FormatVersion: wire.ComponentsFormat}
			byNode[e.Node] = c
		}
		c.Components = append(c.Components, e.NodeComponent)
		places[e.Node] = append(places[e.Node], i)
	}
	content := &Placement{nodes: make(map[string]*kind.Body, len(byNode)), all: d.Components}
	for node, c := range byNode {
		body := wire.Encode(c)
		_, err := wire.Decode[wire.Components](body)
		if err == nil && len(body) > wire.MaxBody {
			err = wire.New(wire.CodeTooLarge, "", fmt.Sprintf("what the node gets takes %d bytes; a document has at "+
				"most %d", len(body), wire.MaxBody))
		}
		if err == nil && !r.Stored {
			if at, circle := circle(c); at >= 0 {
				err = wire.New(wire.CodeBadValue, fmt.Sprintf("/components/%d/after", at),
					"components come after each other, and none would ever be installed: "+circle)
			}
		}
		if err != nil {
			p.Problems = append(p.Problems, moved(wire.AsError(err), node, places[node]))
			continue
		}
		content.nodes[node] = kind.NewBody(body)
	}
	if len(p.Problems) > 0 {
		slices.SortFunc(p.Problems, func(a, b *wire.Error) int { return strings.Compare(a.Node, b.Node) })
		return p
	}
	p.Content = content
	return p
}

// circle returns the first component of a node that comes after itself, by way of others, and these; -1: none does.
func circle(c *wire.Components) (at int, names string) {
	index := map[string]int{}
	for i := range c.Components {
		index[c.Components[i].Name] = i
	}
	for from := range c.Components {
		way := map[int]string{from: c.Components[from].Name} // to each that it comes after
		for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
			for _, name := range c.Components[queue[0]].After {
				next, there := index[name]
				if next == from && there && queue[0] != from { // of itself nobody waits
					return from, way[queue[0]] + " → " + name
				}
				if _, seen := way[next]; there && !seen {
					way[next] = way[queue[0]] + " → " + name
					queue = append(queue, next)
				}
			}
		}
	}
	return -1, ""
}

// moved places an error about a node's part in the whole document.
func moved(err *wire.Error, node string, places []int) *wire.Error {
	e := *err
	e.Node = node
	var i int
	rest := ""
	if n, _ := fmt.Sscanf(err.Path, "/components/%d", &i); n == 1 && i < len(places) {
		if at := strings.Index(err.Path[len("/components/"):], "/"); at >= 0 {
			rest = err.Path[len("/components/")+at:]
		}
		e.Path = fmt.Sprintf("/components/%d%s", places[i], rest)
	}
	return &e
}

// bodies calls each for every node that a document names.
func bodies(c kind.Content, each func(node string, b *kind.Body)) {
	if p, ok := c.(*Placement); ok {
		for node, b := range p.nodes {
			each(node, b)
		}
	}
}

// diff lists what changes in the components, by node and name.
func diff(from, to kind.Reading) (kind.Changed, error) {
	var sides [2]map[string]jsontext.Value
	for i, r := range []kind.Reading{from, to} {
		p := parse(r)
		if len(p.Problems) > 0 {
			return kind.Changed{}, p.Problems[0]
		}
		sides[i] = map[string]jsontext.Value{}
		for _, e := range p.Content.(*Placement).all {
			text, err := json.Marshal(&e.NodeComponent)
			if err != nil {
				return kind.Changed{}, fmt.Errorf("components: %w", err)
			}
			sides[i][e.Name+"@"+e.Node] = text
		}
	}
	return kind.Changes(sides[0], sides[1], from.Stop)
}

// artefacts lists the files that a node's document names.
func artefacts(_ string, body []byte) (digests []string) {
	c, err := wire.Decode[wire.Components](body)
	if err != nil {
		return nil
	}
	for i := range c.Components {
		if one := &c.Components[i]; one.Encrypted != nil {
			digests = append(digests, one.Encrypted.Digest)
		} else {
			digests = append(digests, one.Hash)
		}
	}
	return digests
}

// same reports whether two reports differ in the words of errors and in times at most.
func same(x, y any) bool {
	a, _ := x.(*wire.ComponentsReport)
	b, _ := y.(*wire.ComponentsReport)
	if a == nil || b == nil {
		return a == b
	}
	return slices.EqualFunc(a.Components, b.Components, func(x, y wire.ComponentStatus) bool {
		return x.Name == y.Name && x.Item == y.Item && x.Version == y.Version && x.State == y.State &&
			wire.CodeOf(x.Error) == wire.CodeOf(y.Error)
	})
}

// troubles are the components that have failed.
func troubles(detail any) (all []rollout.Trouble) {
	r, ok := detail.(*wire.ComponentsReport)
	if !ok {
		return nil
	}
	for i := range r.Components {
		if s := &r.Components[i]; s.State == wire.ComponentFailed {
			all = append(all, rollout.Trouble{Aspect: plan.Workloads, Name: "component:" + s.Name})
		}
	}
	return all
}

// words says how far the components of a node are.
func words(raw jsontext.Value) (string, *wire.Error) {
	var r wire.ComponentsReport
	if json.Unmarshal(raw, &r) != nil || len(r.Components) == 0 {
		return "", nil
	}
	var parts []string
	var err *wire.Error
	for i := range r.Components {
		s := &r.Components[i]
		parts = append(parts, s.Name+" "+s.Version+" "+string(s.State))
		if err == nil && s.State == wire.ComponentFailed {
			err = s.Error
		}
	}
	return strings.Join(parts, ", "), err
}

// trouble says what operators should look at.
func trouble(u kind.Unit) []string {
	failed := 0
	u.Each(wire.KindComponents, func(n kind.Node) {
		if !n.Revoked && len(troubles(n.Detail)) > 0 {
			failed++
		}
	})
	if failed == 0 {
		return nil
	}
	return []string{kind.Many(failed, "node") + " failed at a component, see: tandem desired show"}
}
