package api

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
)

// Nodes are what lists of nodes are read from.
type Nodes interface {
	// EachNode and EachPicked call the function for each node that is selected, in order, and return what comes after
	// these, as op.Nodes has it. They hold some of them at a time.
	EachNode(context.Context, op.NodesIn, func(*view.Node) error) (next string, err error)
	EachPicked(context.Context, op.PickIn, func(op.PickedNode) error) (next string, err error)
	// Mark names what the lists show now. While it is the same they differ in nothing that the journal has, and in
	// what it has not by a minute at most.
	Mark() string
}

// ListNodes answers with the nodes, each written when it is there.
func ListNodes(n Nodes) Operation {
	return serve(op.ListNodes, func(a *API, w http.ResponseWriter, r *http.Request, in op.NodesIn) error {
		return a.listing(w, r, n.Mark(), func(ctx context.Context, l *listing) (string, error) {
			return n.EachNode(ctx, in, func(v *view.Node) error { return l.add(v) })
		})
	})
}

// PickNodes is ListNodes with some fields of the nodes.
func PickNodes(n Nodes) Operation {
	return serve(op.PickNodes, func(a *API, w http.ResponseWriter, r *http.Request, in op.PickIn) error {
		return a.listing(w, r, n.Mark(), func(ctx context.Context, l *listing) (string, error) {
			return n.EachPicked(ctx, in, func(v op.PickedNode) error { return l.add(v) })
		})
	})
}

// listingPage is how many bytes of a list are held before they leave.
const listingPage = 32 << 10

// listing is {"nodes":[…],"next":"…"}, written while it is read. What is short is one body with its length.
type listing struct {
	a     *API
	w     http.ResponseWriter
	r     *http.Request
	page  bytes.Buffer
	any   bool    // a node was added
	out   *stream // nil: nothing has left
	gzip  *pieces // nil: it is not compressed
	plain json.Options
}

// listing answers with a list that each adds to, unless the caller has what mark names already.
func (a *API) listing(w http.ResponseWriter, r *http.Request, mark string,
	each func(context.Context, *listing) (next string, err error),
) error {
	tag := `W/"` + mark + `"`
	w.Header().Set("ETag", tag)
	if hasTag(r.Header, tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	l := &listing{a: a, w: w, r: r, plain: json.Deterministic(true)}
	l.page.WriteString(`{"nodes":[`)
	next, err := each(r.Context(), l)
	if err == nil {
		err = l.end(next)
	}
	switch {
	case err == nil:
		return nil
	case l.out == nil:
		w.Header().Del("ETag")
		return err
	}
	a.log.Debug("list cut off", append(about(r), zap.Error(err))...)
	panic(http.ErrAbortHandler) // a cut answer must not look whole
}

// hasTag reports whether a caller names a tag as one that it has (RFC 9110, section 13.1.2), weak or not.
func hasTag(h http.Header, tag string) bool {
	opaque := strings.TrimPrefix(tag, "W/")
	for one := range strings.SplitSeq(strings.Join(h.Values("If-None-Match"), ","), ",") {
		if strings.TrimPrefix(strings.TrimSpace(one), "W/") == opaque {
			return true
		}
	}
	return false
}

// add adds a node.
func (l *listing) add(v any) error {
	if l.any {
		l.page.WriteByte(',')
	}
	l.any = true
	if err := json.MarshalWrite(&l.page, v, l.plain); err != nil {
		return fmt.Errorf("a node cannot be written as JSON: %w", err)
	}
	if l.page.Len() < listingPage {
		return nil
	}
	return l.flush()
}

// end ends the list.
func (l *listing) end(next string) error {
	l.page.WriteByte(']')
	if next != "" {
		l.page.WriteString(`,"next":`)
		if err := json.MarshalWrite(&l.page, next); err != nil {
			return err
		}
	}
	l.page.WriteString("}\n")
	if l.out == nil {
		l.a.raw(l.w, http.StatusOK, "application/json", l.page.Bytes())
		return nil
	}
	if err := l.flush(); err != nil || l.gzip == nil {
		return err
	}
	_, err := l.out.Write(l.gzip.end())
	return err
}

// flush has what is held leave.
func (l *listing) flush() error {
	body := l.page.Bytes()
	if l.out == nil {
		l.w.Header().Set("Vary", "Accept-Encoding")
		if rec, ok := l.w.(*recorder); ok && rec.gzip {
			l.w.Header().Set("Content-Encoding", "gzip")
			l.gzip = &pieces{}
		}
		l.out = l.a.start(l.w, l.r, "application/json")
	}
	if l.gzip != nil {
		body = l.gzip.add(body)
	}
	l.page.Reset()
	_, err := l.out.Write(body)
	return err
}
