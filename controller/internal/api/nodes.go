package api

import (
	"net/http"

	"tandem.internal/controller/internal/op"
)

func (a *API) nodes(w http.ResponseWriter, r *http.Request) error {
	q := newQuery(r, "watch")
	follow := q.flag("watch")
	if err := q.done(); err != nil {
		return err
	}
	if follow {
		return watch(a, w, r, a.nodeWatch())
	}
	nodes, err := a.unit.Nodes(r.Context())
	if err != nil {
		return err
	}
	a.write(w, http.StatusOK, op.Nodes{Nodes: nodes})
	return nil
}

func (a *API) node(w http.ResponseWriter, r *http.Request) error {
	if err := newQuery(r).done(); err != nil {
		return err
	}
	name := r.PathValue("node")
	if err := nodeName(name); err != nil {
		return err
	}
	n, err := a.unit.Node(r.Context(), name)
	if err != nil {
		return err
	}
	a.write(w, http.StatusOK, n)
	return nil
}
