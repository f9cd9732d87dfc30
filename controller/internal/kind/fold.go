package kind

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/wire"
)

// JSON adds to a fold what it is when its changes, D, and its content, *C, are kept as JSON just as they are.
func JSON[D, C any, P interface {
	*C
	Content
}](f Fold) *Fold {
	f.Decode = func(raw jsontext.Value) (any, error) {
		var d D
		err := json.Unmarshal(raw, &d)
		return d, err
	}
	f.Save = func(c Content) any { return c }
	if f.Load == nil {
		f.Load = func(saved jsontext.Value) (Content, error) {
			c := P(new(C))
			return c, json.Unmarshal(saved, c)
		}
	}
	return &f
}

// Detail reads what a node tells of a kind as an M; nil: it tells nothing.
func Detail[M wire.Message](_ string, raw jsontext.Value) (any, *wire.Error) {
	if len(raw) == 0 {
		return nil, nil
	}
	m, err := wire.Decode[M](raw)
	if err != nil {
		return nil, wire.AsError(err)
	}
	return m, nil
}

// As is a content of type *C; an empty one while there is none.
func As[C any](c Content) *C {
	if own, ok := any(c).(*C); ok {
		return own
	}
	return new(C)
}
