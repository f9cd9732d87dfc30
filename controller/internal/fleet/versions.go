package fleet

import (
	"slices"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/shared/wire"
)

// Where a rollout goes on, or was aborted, nodes should have documents of different versions: each that of which its
// newest one was made. What is issued to it for another reason is made of the same.

// variant is what a node's document is made of.
type variant struct {
	content kind.Content // nil: nothing, or it is damaged
	version string       // of the kind's document
	of      string       // hash of main's document
}

// variant returns what a node's document is made of, of an offer that is split.
func (o *offer) variant(n *Node) variant {
	of := o.of
	if of == "" {
		of = o.side(n)
	}
	return o.variantOf(of)
}

// variantOf returns what documents are made of which are made of the document of this hash.
func (o *output) variantOf(of string) variant {
	main := o.main
	if of == main.Hash {
		return variant{o.content(false), o.version(false), of}
	}
	content := main.contents[of]
	if content == nil {
		return variant{of: of}
	}
	b := o.variants[of]
	v := variant{of: of}
	v.content = o.combined(&b, func(src *source) kind.Content {
		if src == main {
			return content
		}
		return src.installed
	})
	if o.Build != nil {
		if o.variants == nil {
			o.variants = map[string]built{}
		}
		o.variants[of] = b
	}
	v.version = o.versionOf(func(src *source) string {
		if src == main {
			return main.find(of).Version
		}
		return src.Version
	})
	return v
}

// side returns the hash of the document of main that a node should have.
func (o *output) side(n *Node) string {
	main, k := o.main, n.Kinds[o.Name]
	if !main.split || k == nil || k.Desired == nil {
		return main.Hash
	}
	of := k.Desired.Of
	if k.Desired.Mode == wire.ModeTry { // the trial is over
		of = k.Before
	}
	return main.orInstalled(of)
}

// orInstalled returns the hash if nodes may have that document, and else that of the installed one.
func (src *source) orInstalled(hash string) string {
	if src.find(hash) == nil {
		return src.Hash
	}
	return hash
}

// find returns the document of this hash, if it is the installed one or nodes may have it; else nil.
func (src *source) find(hash string) *kind.Version {
	if hash == src.Hash && hash != "" {
		return &kind.Version{Hash: src.Hash, Version: src.Version, Lenient: src.Lenient}
	}
	if i := slices.IndexFunc(src.versions, func(v kind.Version) bool { return v.Hash == hash }); i >= 0 {
		return &src.versions[i]
	}
	return nil
}

// inForce is the hash of the document of which everybody's is made that is issued now, if the source is not split.
func (src *source) inForce(mode wire.Mode) string {
	if mode == wire.ModeTry && src.Trial != nil {
		return src.Trial.Hash
	}
	return src.Hash
}

// has is the hash of the document of main of which the one was made that runs on a node; "": none runs.
func (k *KindState) has() string {
	switch d := k.Desired; {
	case k.Running == nil || d == nil:
		return ""
	case k.Running.Stamp() == d.Stamp() || k.Before == "":
		return d.Of
	}
	return k.Before
}

// next takes over a document that is issued.
func (k *KindState) next(d *kind.Doc) {
	if k.Before = k.has(); k.Before == d.Of {
		k.Before = ""
	}
	k.Desired = d
}

// install makes a document of a source that is rolled out the installed one, in a record about it.
func (f *Fleet) install(src *source, next *kind.Rollout, st kind.State) {
	old := kind.Version{Hash: src.Hash, Version: src.Version, Lenient: src.Lenient}
	src.keep(old, src.installed)
	src.State, src.installed = st, src.contents[next.Hash]
	src.split = false
	f.prune(src)
}

// keep remembers a document that nodes may have.
func (src *source) keep(v kind.Version, c kind.Content) {
	if v.Hash == "" {
		return
	}
	if !slices.ContainsFunc(src.versions, func(o kind.Version) bool { return o.Hash == v.Hash }) {
		src.versions = append(src.versions, v)
	}
	if src.contents == nil {
		src.contents = map[string]kind.Content{}
	}
	if c != nil {
		src.contents[v.Hash] = c
	}
}

// prune drops the documents that no node has, and none is to get.
func (f *Fleet) prune(src *source) {
	if len(src.versions) == 0 {
		return
	}
	used := map[string]bool{}
	if src.State.Rollout != nil {
		used[src.State.Rollout.Hash] = true
	}
	for _, o := range f.madeFrom(src) {
		for _, n := range f.nodes {
			if k := n.Kinds[o.Name]; k != nil && k.Desired != nil {
				used[k.Desired.Of] = used[k.Desired.Of] || src.split
				used[k.has()] = true
			}
		}
	}
	src.versions = slices.DeleteFunc(src.versions, func(v kind.Version) bool {
		gone := !used[v.Hash] || v.Hash == src.Hash
		if gone {
			delete(src.contents, v.Hash)
		}
		return gone
	})
	if len(src.versions) == 0 {
		src.versions, src.contents = nil, nil
	}
	for _, o := range f.madeFrom(src) {
		for hash := range o.variants {
			if src.find(hash) == nil {
				delete(o.variants, hash)
			}
		}
	}
}

// Versions are the documents of a source that nodes have, or are to get in a rollout, beside the installed one.
func (f *Fleet) Versions(name wire.Kind) []kind.Version {
	if src := f.source(name); src != nil {
		return slices.Clone(src.versions)
	}
	return nil
}

// SetVersion gives a replayed Fleet one of these documents; nil: it is damaged.
func (f *Fleet) SetVersion(name wire.Kind, hash string, c kind.Content) {
	src := f.source(name)
	if src.contents == nil {
		src.contents = map[string]kind.Content{}
	}
	if c != nil {
		src.contents[hash] = c
	}
}

// VersionOf is the document of a kind's source that a node should have; false: there is none.
func (f *Fleet) VersionOf(name wire.Kind, node string) (kind.Version, bool) {
	o, n := f.output(name), f.nodes[node]
	if o == nil || o.main == nil || o.main.Hash == "" {
		return kind.Version{}, false
	}
	of := o.main.Hash
	if n != nil {
		of = o.side(n)
	}
	return *o.main.find(of), true
}
