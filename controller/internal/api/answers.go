package api

import (
	"context"
	_ "embed" // openapi.json
	"net/http"
	"time"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// verdict answers with a Result: 200, or 400 when the document itself is wrong, or 409 when a rule
// or a node said no.
func (a *API) verdict(w http.ResponseWriter, res view.Result) {
	status := http.StatusOK
	if res.State == "refused" {
		status = http.StatusConflict
		if len(res.Problems) > 0 {
			status = http.StatusBadRequest
		}
		if res.Error == nil {
			res.Error = refusal(res)
		}
	}
	a.write(w, status, res)
}

// refusal finds the reason of a refusal that does not name one.
func refusal(res view.Result) *wire.Error {
	if len(res.Problems) > 0 {
		return res.Problems[0]
	}
	for _, n := range res.Checks.Refused {
		if len(n.Errors) > 0 {
			e := *n.Errors[0]
			e.Node = n.Node
			return &e
		}
	}
	return wire.New(wire.CodeNotAllowed, "", "the submission was refused")
}

// document is made by the test of package apidoc.
//
//go:embed openapi.json
var document []byte

func openapi(context.Context) ([]byte, error) { return document, nil }

// health answers whenever the process can answer.
func (a *API) health(context.Context) (op.Alive, error) {
	return op.Alive{Status: "ok", At: time.Now().UTC()}, nil
}

// ready answers when submissions are taken and nodes can be reached.
func (a *API) ready(ctx context.Context) (op.Alive, error) {
	if err := a.core.Refusing(); err != nil {
		return op.Alive{}, err
	}
	st, err := a.core.Status(ctx)
	if err != nil {
		return op.Alive{}, err
	}
	if !st.Broker.Up {
		return op.Alive{}, wire.New(wire.CodeUnavailable, "", "the broker cannot be reached")
	}
	if st.Clock != nil {
		return op.Alive{}, wire.New(wire.CodeUnavailable, "",
			"the clock has jumped: nothing is said to the nodes until it is right again or somebody confirms it")
	}
	return a.health(ctx)
}
