package fleet

import (
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/shared/wire"
)

// source is how the unit stands with one source. The contents are no part of the state: the shell has the
// documents; of a collection the records have it.
type source struct {
	*kind.Source
	kind.State
	installed kind.Content // nil when there is none
	trying    kind.Content // of the document on trial

	// What rollouts have left, or are about to bring.
	split    bool           // nodes have different documents: the one that each should have is its own
	versions []kind.Version // beside the installed document: those that nodes have, and the one that is rolled out
	contents map[string]kind.Content
	next     kind.Content // of a collection: what a rollout brings that begins with the next record
}

// output is one kind of documents, and what it is made from.
type output struct {
	*kind.Kind
	from     []*source
	main     *source          // of these, the one that can be rolled out; nil: none
	built    [2]built         // installed, and on trial
	variants map[string]built // of other documents of main, by their hash
}

// built is the content that Build made of several.
type built struct {
	from    []kind.Content
	content kind.Content
}

func newSources(set kind.Set) (sources []*source, outputs []*output) {
	for _, src := range set.Sources {
		sources = append(sources, &source{Source: src, State: kind.State{State: kind.Absent}})
	}
	for _, k := range set.Kinds {
		o := &output{Kind: k}
		for _, src := range sources {
			if slices.Contains(k.From, src.Name) || k.From == nil && src.Name == k.Name {
				o.from = append(o.from, src)
				if src.rolls() && o.main == nil {
					o.main = src
				}
			}
		}
		outputs = append(outputs, o)
	}
	return sources, outputs
}

// source returns a source by its name, nil if there is none.
func (f *Fleet) source(name wire.Kind) *source {
	for _, src := range f.sources {
		if src.Name == name {
			return src
		}
	}
	return nil
}

// output returns a kind by its name, nil if there is none.
func (f *Fleet) output(name wire.Kind) *output {
	for _, o := range f.outputs {
		if o.Name == name {
			return o
		}
	}
	return nil
}

// copied returns the source with a readable copy, nil if none has one.
func (f *Fleet) copied() *source {
	for _, src := range f.sources {
		if src.Copied {
			return src
		}
	}
	return nil
}

// madeFrom returns the kinds that are made from a source.
func (f *Fleet) madeFrom(src *source) (all []*output) {
	for _, o := range f.outputs {
		if slices.Contains(o.from, src) {
			all = append(all, o)
		}
	}
	return all
}

// State returns how the unit stands with a source; the zero State if there is no such source.
func (f *Fleet) State(name wire.Kind) kind.State {
	if src := f.source(name); src != nil {
		return src.State
	}
	return kind.State{}
}

// rolls reports whether what is submitted of a source may be rolled out.
func (src *source) rolls() bool {
	return src.Parse != nil || src.Fold != nil && src.Fold.Waves != nil
}

// Rolled implements kind.Unit.
func (f *Fleet) Rolled(name wire.Kind) *kind.Rolled {
	src := f.source(name)
	if src == nil || src.State.Rollout == nil {
		return nil
	}
	r, o := *src.State.Rollout, f.madeFrom(src)[0]
	return &kind.Rolled{Rollout: r, Content: src.contents[r.Hash], Back: f.rollouts.Reverting(r.ID),
		Has: func(node string) bool {
			n := f.nodes[node]
			return n != nil && o.side(n) == r.Hash
		}}
}

// Content returns what is installed of a source, nil if nothing is.
func (f *Fleet) Content(name wire.Kind) kind.Content {
	if src := f.source(name); src != nil {
		return src.installed
	}
	return nil
}

// SetContent gives a replayed Fleet the documents that its records name; nil where State names none.
func (f *Fleet) SetContent(name wire.Kind, installed, trial kind.Content) {
	src := f.source(name)
	src.installed, src.trying = installed, trial
}

// onTrial reports whether one of the sources of a kind is on trial.
func (o *output) onTrial() bool {
	for _, src := range o.from {
		if src.Trial != nil {
			return true
		}
	}
	return false
}

// content returns what nodes get a part of: installed, or, where a source is on trial, tried. nil: nothing.
func (o *output) content(trial bool) kind.Content {
	b := &o.built[0]
	if trial {
		b = &o.built[1]
	}
	return o.combined(b, func(src *source) kind.Content {
		if trial && src.Trial != nil {
			return src.trying
		}
		return src.installed
	})
}

// combined returns what is made of the contents that pick chooses; b is what was made of them before.
func (o *output) combined(b *built, pick func(*source) kind.Content) kind.Content {
	if o.Build == nil {
		return pick(o.from[0])
	}
	from := make([]kind.Content, len(o.from))
	parts := map[wire.Kind]kind.Content{}
	for i, src := range o.from {
		if from[i] = pick(src); from[i] != nil {
			parts[src.Name] = from[i]
		}
	}
	if !slices.Equal(b.from, from) {
		*b = built{from: from}
		if len(parts) > 0 {
			b.content = o.Build(parts)
		}
	}
	return b.content
}

// version names what a kind is made from now: the version of its source, or of its sources in their order.
func (o *output) version(trial bool) string {
	return o.versionOf(func(src *source) string {
		if trial && src.Trial != nil {
			return src.Trial.Version
		}
		return src.Version
	})
}

func (o *output) versionOf(pick func(*source) string) string {
	var all []string
	for _, src := range o.from {
		if v := pick(src); v != "" {
			all = append(all, v)
		}
	}
	return strings.Join(all, "+")
}

// offer is what nodes get of one kind of documents now.
type offer struct {
	*output
	content kind.Content
	version string
	mode    wire.Mode
	within  time.Duration // of a trial, what is left of it
	who     string        // asked for it; "": it follows from something else
	split   bool          // each node gets what is made of its own document of main: see variant
	of      string        // with split: of the document of this hash, whatever the node has; "": its own
}

// offered returns what nodes get of a kind; false: nothing is distributed, because nothing was accepted or
// the readable copy was tampered with (seed 000, Startup).
func (s *step) offered(o *output) (offer, bool) {
	of := offer{output: o, mode: wire.ModeApply}
	for _, src := range o.from {
		if t := src.Trial; t != nil {
			left := max(time.Second, t.Deadline.Sub(s.now).Round(time.Second))
			if of.mode == wire.ModeApply || left < of.within {
				of.mode, of.within = wire.ModeTry, left
			}
		} else if src.State.State == kind.Failed {
			return offer{}, false
		}
	}
	if len(o.from) == 0 {
		return offer{}, false
	}
	trial := of.mode == wire.ModeTry
	of.content, of.version = o.content(trial), o.version(trial)
	of.split = !trial && o.main != nil && o.main.split
	return of, of.content != nil || of.split
}

// body is what a node gets of an offer; nil: nothing. It is kept until the content changes, or one of the
// facts that the kind looks at.
func (o *offer) body(n *Node) *kind.Body {
	k, content := n.kind(o.Name), o.content
	if o.split {
		if content = o.variant(n).content; content == nil {
			return nil // its document is damaged: it keeps what it has
		}
	}
	facts := cachedBody{content: content, info: n.Info, details: n.details(o.Looks)}
	if m := &k.cached; m.content != facts.content || !m.same(&facts, o.Looks) {
		facts.body = content.For(n.facts(o.Looks))
		*m = facts
	}
	if k.cached.body == nil && (k.Desired != nil || k.Running != nil) {
		return o.Empty
	}
	return k.cached.body
}

// cachedBody is what a node gets of a content, and what that depends on.
type cachedBody struct {
	content kind.Content
	body    *kind.Body
	info    *wire.NodeInfo
	details []any // in the order of Looks
}

func (m *cachedBody) same(o *cachedBody, looks kind.Looks) bool {
	if m.info != o.info {
		if looks.Info || looks.Type && (m.info == nil || o.info == nil || m.info.Type != o.info.Type) {
			return false
		}
	}
	return slices.Equal(m.details, o.details)
}

func (n *Node) details(looks kind.Looks) []any {
	if len(looks.Details) == 0 {
		return nil
	}
	all := make([]any, len(looks.Details))
	for i, name := range looks.Details {
		if k := n.Kinds[name]; k != nil {
			all[i] = k.Detail
		}
	}
	return all
}

// facts are what a kind may look at.
func (n *Node) facts(looks kind.Looks) kind.Facts {
	facts := kind.Facts{Node: n.Name, Type: n.Type(), Info: n.Info}
	for i, detail := range n.details(looks) {
		if facts.Details == nil {
			facts.Details = map[wire.Kind]any{}
		}
		facts.Details[looks.Details[i]] = detail
	}
	return facts
}
