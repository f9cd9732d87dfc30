// Package info is a node's description of itself: it is only ever reported. The engine reads a node's type
// from it, without which a node gets no documents.
//
//tandem:pure
package info

import (
	"cmp"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/shared/wire"
)

// Set returns the kind.
func Set() kind.Set {
	return kind.Set{Kinds: []*kind.Kind{{
		Name:   wire.KindInfo,
		Detail: detail,
		Blank:  func() any { return &wire.NodeInfo{} },
		Words:  words,
	}}}
}

// words says what a node is.
func words(raw jsontext.Value) (string, *wire.Error) {
	var i wire.NodeInfo
	if json.Unmarshal(raw, &i) != nil {
		return "", nil
	}
	return fmt.Sprintf("type %s, agent %s, %s on %s",
		cmp.Or(i.Type, "-"), cmp.Or(i.AgentVersion, "-"), i.OS, i.Arch), i.Error
}

func detail(_ string, raw jsontext.Value) (any, *wire.Error) {
	info, err := wire.Decode[wire.NodeInfo](raw)
	if err != nil {
		return nil, wire.AsError(err)
	}
	return info, nil
}
