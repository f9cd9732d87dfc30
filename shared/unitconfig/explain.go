package unitconfig

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/near"
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// Explanation is the origin of one value of a node's configuration.
type Explanation struct {
	Pointer string         `json:"pointer"` // into the node's configuration
	Value   jsontext.Value `json:"value"`   // compact JSON
	Source  Source         `json:"source"`  // the entry that the node's configuration comes from
	// JSON pointer into the unit configuration; "" if the value is a default
	From string `json:"from,omitzero"`
	Why  string `json:"why"` // one phrase for people
}

// Explain returns the origin of the value at pointer (RFC 6901) in the configuration of a node; pointer "" is all of
// it. Explanation.From points into the canonical form (Encode), where array indexes and names are those of uc. The
// error is a *wire.Error: invalid-argument if the pointer is malformed, not-found, with the nearest existing pointer,
// if there is no value.
func Explain(uc *UnitConfig, nodeID, nodeType, pointer string) (Explanation, error) {
	if !jsontext.Pointer(pointer).IsValid() {
		return Explanation{}, wire.New(wire.CodeInvalidArgument, pointer,
			"not a JSON pointer: want a path such as /alertRules/ram/maxThreshold")
	}
	config, src := Resolve(uc, nodeID, nodeType)
	doc := valuesOf(EncodeNode(config))
	value, ok := doc.at[pointer]
	if !ok {
		return Explanation{}, notFound(doc, pointer, nodeID, src)
	}
	x := Explanation{Pointer: pointer, Value: value, Source: src}
	x.From, x.Why = origin(uc, src, nodeID, nodeType, pointer, value)
	return x, nil
}

// origin returns the place that sets the value at an existing pointer, and an explanation of a few words.
func origin(uc *UnitConfig, src Source, nodeID, nodeType, pointer string, value jsontext.Value) (from, why string) {
	if pointer == "/version" || pointer == "/formatVersion" {
		return pointer, "the unit configuration's own " + pointer[1:]
	}
	if src.Rule == Default {
		return "", fmt.Sprintf("the default: no entry names node %s or node type %s", strictjson.Show(nodeID),
			strictjson.Show(nodeType))
	}
	entry := uc.Nodes[src.Entry]
	by := "the entry for node type " + strictjson.Show(entry.NodeGroupSubject.Codename)
	if src.Rule == ByNode {
		by = "the entry for node " + strictjson.Show(nodeID)
	}
	_, inEntry := valuesOf(encode(entry)).at[pointer]
	parent, last, _ := cutLast(pointer)
	switch {
	case last == "minTimeout" && string(value) == `"PT0S"`:
		return src.Pointer() + parent, by + ", whose rule has a minTimeout of zero or none"
	case inEntry || pointer == "":
		return src.Pointer() + pointer, by
	case parent == "/resourceRatios":
		return "", fmt.Sprintf("the default: %s has resourceRatios without %s, which is then %d", by, last,
			defaultRatio)
	default: // priority is the only other field that is always written
		return "", "the default: " + by + " has no " + last + " or 0"
	}
}

// notFound returns the error for a pointer to no value.
func notFound(doc values, pointer, nodeID string, src Source) *wire.Error {
	of := "no entry matches it, so it gets the default"
	if src.Entry >= 0 {
		of = "it comes from " + src.Pointer()
	}
	message := fmt.Sprintf("node %s has nothing there (%s)", strictjson.Show(nodeID), of)
	if best := near.Best(pointer, doc.order); best != "" {
		return wire.New(wire.CodeNotFound, pointer, message+near.Suggest([]string{best}, ""))
	}
	// No pointer is similar: list what the nearest existing parent has.
	for parent := pointer; parent != ""; {
		parent, _, _ = cutLast(parent)
		if have := doc.below(parent); have != nil {
			where := parent
			if where == "" {
				where = "the document"
			}
			return wire.New(wire.CodeNotFound, pointer, message+"; "+where+" has "+strictjson.Among(have))
		}
	}
	return wire.New(wire.CodeNotFound, pointer, message)
}

// values are all values of a document.
type values struct {
	at    map[string]jsontext.Value // by JSON pointer
	order []string                  // the pointers in document order
}

// valuesOf returns all values of a document.
func valuesOf(doc jsontext.Value) values {
	v := values{at: make(map[string]jsontext.Value)}
	walk("", doc, func(ptr string, value jsontext.Value) {
		v.at[ptr] = value
		v.order = append(v.order, ptr)
	})
	return v
}

// below returns the last tokens of the pointers directly below parent.
func (v values) below(parent string) (tokens []string) {
	for _, ptr := range v.order {
		if p, last, ok := cutLast(ptr); ok && p == parent {
			tokens = append(tokens, last)
		}
	}
	return tokens
}

// cutLast splits a pointer before its last token; ok is false for the root.
func cutLast(ptr string) (parent, last string, ok bool) {
	i := strings.LastIndexByte(ptr, '/')
	if i < 0 {
		return "", "", false
	}
	return ptr[:i], ptr[i+1:], true
}
