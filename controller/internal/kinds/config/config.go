// Package config is the unit configuration (seed 000): every node gets its part of it, by its name or by its
// type. It is the one document with a readable copy, and the one whose absence counts against a node.
//
//tandem:pure
package config

import (
	"fmt"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// Set returns the source and the kind.
func Set() kind.Set {
	return kind.Set{
		Sources: []*kind.Source{{
			Name: wire.KindConfig, Title: "unit configuration", Noun: "configuration",
			Parse: parse, Rename: rename, Diff: diff, Copied: true,
		}},
		Kinds: []*kind.Kind{{Name: wire.KindConfig, Everyone: true, Looks: kind.Looks{Type: true}}},
	}
}

// content is a unit configuration, resolved.
type content struct {
	resolver *unitconfig.Resolver
	bodies   map[int]*kind.Body // by entry
}

func (c *content) For(f kind.Facts) *kind.Body {
	if b := c.bodies[c.resolver.Source(f.Node, f.Type).Entry]; b != nil {
		return b
	}
	b, hash, _ := c.resolver.Body(f.Node, f.Type) // the default, which carries the node's name
	return &kind.Body{Bytes: b, Hash: hash}
}

// Labels implements kind.Labelled.
func (c *content) Labels(f kind.Facts) []string {
	nc, _ := c.resolver.Config(f.Node, f.Type)
	return nc.Labels
}

// Of returns a node's part of a unit configuration that is the content of the kind; nil: there is none.
func Of(c kind.Content, node, nodeType string) *unitconfig.NodeConfig {
	if c, ok := c.(*content); ok {
		nc, _ := c.resolver.Config(node, nodeType)
		return &nc
	}
	return nil
}

func parse(r kind.Reading) kind.Parsed {
	uc, problems := unitconfig.Parse(r.Document)
	if len(problems) > 0 {
		return kind.Parsed{Problems: problems}
	}
	c := &content{resolver: unitconfig.NewResolver(uc), bodies: make(map[int]*kind.Body, len(uc.Nodes))}
	p := kind.Parsed{Version: uc.Version, Content: c}
	for i, e := range uc.Nodes {
		node := ""
		if e.Node != nil {
			node = e.Node.Codename
		}
		body, hash, src := c.resolver.Body(node, e.NodeGroupSubject.Codename)
		if src.Entry != i {
			continue // an entry before it serves all that it names
		}
		c.bodies[i] = &kind.Body{Bytes: body, Hash: hash}
		if len(body) > wire.MaxBody && !r.Stored && p.Problems == nil {
			text := fmt.Sprintf("this entry resolves to %d bytes; a node's configuration has at most %d",
				len(body), wire.MaxBody)
			p.Problems = []*wire.Error{wire.New(wire.CodeTooLarge, src.Pointer(), text)}
		}
	}
	return p
}

// rename returns a unit configuration under another version.
func rename(document []byte, version string) ([]byte, error) {
	uc, problems := unitconfig.Parse(document)
	if len(problems) > 0 {
		return nil, problems[0]
	}
	again, err := unitconfig.WithVersion(uc, version)
	if err != nil {
		return nil, err
	}
	return unitconfig.Encode(again), nil
}

// diff lists what changes, entry by entry.
func diff(from, to kind.Reading) (all kind.Changed, err error) {
	a, problems := unitconfig.Parse(from.Document)
	if len(problems) > 0 {
		return all, problems[0]
	}
	b, problems := unitconfig.Parse(to.Document)
	if len(problems) > 0 {
		return all, problems[0]
	}
	entry := ""
	for change := range unitconfig.Diff(a, b) {
		if change.Entry != entry && from.Stop != nil {
			if err := from.Stop(); err != nil {
				return kind.Changed{}, err
			}
		}
		entry = change.Entry
		all.Add(change)
	}
	return all, nil
}
