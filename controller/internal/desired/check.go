package desired

import (
	"fmt"
	"reflect"

	"tandem.internal/shared/items"
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// List is a list of the input.
type List string

// The lists that Check looks at.
const (
	ListItems    List = "items"
	ListSubjects List = "subjects"
	ListNodes    List = "nodes"
)

// Clash is an element of the input that contradicts an earlier one.
type Clash struct {
	List  List
	Index int
	With  int // index of the earlier one
	Err   *wire.Error
}

// Check finds what contradicts each other: a version of an item with two contents, an item with two IDs, an ID of two
// items, a subject or node that is there twice. The same version twice is no contradiction.
func Check(in *Input) (all []Clash) {
	add := func(list List, i, with int, code wire.Code, path, format string, args ...any) {
		all = append(all, Clash{list, i, with, wire.New(code, path, fmt.Sprintf(format, args...))})
	}
	type key struct {
		ref     items.Ref
		version string
	}
	versions, refs, ids, urns := map[key]int{}, map[items.Ref]int{}, map[string]int{}, map[string]int{}
	for i := range in.Items {
		it := &in.Items[i]
		ref := it.Meta.Ref()
		if _, err := items.ParseVersion(it.Meta.Version); err != nil {
			add(ListItems, i, i, wire.CodeInvalidArgument, "/meta/version", "%s", err)
			continue
		}
		k := key{ref, it.Meta.Version}
		if j, there := versions[k]; there && !reflect.DeepEqual(*it, in.Items[j]) {
			add(ListItems, i, j, wire.CodeAlreadyExists, "", "%s %s is there already, with another content", ref,
				it.Meta.Version)
		} else if !there {
			versions[k] = i
		}
		if j, there := refs[ref]; !there {
			refs[ref] = i
		} else if first := &in.Items[j]; it.ID != first.ID || it.URN != first.URN {
			add(ListItems, i, j, wire.CodeAlreadyExists, "/id", "%s has another ID or URN in another version", ref)
		}
		for _, unique := range []struct {
			path, name, value string
			seen              map[string]int
		}{{"/id", "ID", it.ID, ids}, {"/urn", "URN", it.URN, urns}} {
			if unique.value == "" {
				continue
			}
			if j, there := unique.seen[unique.value]; !there {
				unique.seen[unique.value] = i
			} else if other := in.Items[j].Meta.Ref(); other != ref {
				add(ListItems, i, j, wire.CodeAlreadyExists, unique.path, "%s has the %s %s", other, unique.name,
					unique.value)
			}
		}
	}
	seen := map[string]int{}
	for i := range in.Subjects {
		name := in.Subjects[i].Codename
		if j, there := seen[name]; there {
			add(ListSubjects, i, j, wire.CodeDuplicate, "/codename", "the subject %s is there already",
				strictjson.Show(name))
			continue
		}
		seen[name] = i
	}
	clear(seen)
	for i := range in.Nodes {
		name := in.Nodes[i].Info.Node
		if j, there := seen[name]; there {
			add(ListNodes, i, j, wire.CodeDuplicate, "/node", "the node %s is there already", strictjson.Show(name))
			continue
		}
		seen[name] = i
	}
	return all
}
