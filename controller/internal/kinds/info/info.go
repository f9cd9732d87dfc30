// Package info is a node's description of itself: it is only ever reported. The engine reads a node's type
// from it, without which a node gets no documents.
//
//tandem:pure
package info

import (
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
	}}}
}

func detail(_ string, raw jsontext.Value) (any, *wire.Error) {
	info, err := wire.Decode[wire.NodeInfo](raw)
	if err != nil {
		return nil, wire.AsError(err)
	}
	return info, nil
}
