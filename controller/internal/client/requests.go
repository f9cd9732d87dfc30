package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// verdict is a call whose answer is a Result even when that says no.
func (c *Client) verdict(ctx context.Context, path string, query url.Values, body []byte) (view.Result, error) {
	answer, err := c.bytes(ctx, http.MethodPost, path, query, body, http.StatusConflict, http.StatusBadRequest)
	if err != nil {
		return view.Result{}, err
	}
	var res view.Result
	if err := json.Unmarshal(answer, &res); err != nil || res.State == "" && res.Error == nil {
		return res, &Unreachable{c.Where(), "its answer cannot be understood; is it another version of Tandem?", err}
	}
	if res.State == "" { // an error about the request, not a verdict
		return view.Result{}, res.Error
	}
	return res, nil
}

// Submit submits a document; ID, Mode, ConfirmWithin, DryRun and Offline of s count.
func (c *Client) Submit(ctx context.Context, s view.Submission) (view.Result, error) {
	q := url.Values{}
	if s.ID != "" {
		q.Set("id", s.ID)
	}
	if s.Mode == wire.ModeTry {
		q.Set("mode", string(s.Mode))
		q.Set("confirmWithin", unitconfig.FormatDuration(s.ConfirmWithin))
	}
	if s.DryRun {
		q.Set("dryRun", "1")
	}
	if s.Offline {
		q.Set("offline", "1")
	}
	return c.verdict(ctx, "/v1/config", q, s.Document)
}

// Confirm keeps the unit configuration on trial.
func (c *Client) Confirm(ctx context.Context) (view.Result, error) {
	return c.verdict(ctx, "/v1/config/confirm", nil, nil)
}

// Rollback submits the content of version again, under the version as.
func (c *Client) Rollback(ctx context.Context, version, as string) (view.Result, error) {
	body, err := json.Marshal(op.Rollback{Version: version, As: as})
	if err != nil {
		return view.Result{}, fmt.Errorf("writing the request: %w", err)
	}
	return c.verdict(ctx, "/v1/config/rollback", nil, body)
}

// Restore ends the failed state.
func (c *Client) Restore(ctx context.Context) (view.ConfigStatus, error) {
	return call[view.ConfigStatus](ctx, c, http.MethodPost, "/v1/config/restore", nil, nil)
}

// ConfigStatus returns the unit configuration's state.
func (c *Client) ConfigStatus(ctx context.Context) (view.ConfigStatus, error) {
	return call[view.ConfigStatus](ctx, c, http.MethodGet, "/v1/config/status", nil, nil)
}

// Config returns the document of a version, or of the installed one.
func (c *Client) Config(ctx context.Context, version string) ([]byte, error) {
	q := url.Values{}
	if version != "" {
		q.Set("version", version)
	}
	return c.bytes(ctx, http.MethodGet, "/v1/config", q, nil)
}

// History returns what became of every submission, oldest first.
func (c *Client) History(ctx context.Context) (op.History, error) {
	return call[op.History](ctx, c, http.MethodGet, "/v1/config/history", nil, nil)
}

// Resolved returns what a node gets.
func (c *Client) Resolved(ctx context.Context, node, nodeType string) (view.Resolved, error) {
	q := url.Values{"node": {node}}
	if nodeType != "" {
		q.Set("type", nodeType)
	}
	return call[view.Resolved](ctx, c, http.MethodGet, "/v1/config/resolved", q, nil)
}

// Explain says where a value comes from.
func (c *Client) Explain(ctx context.Context, node, pointer string) (view.Explanation, error) {
	return call[view.Explanation](ctx, c, http.MethodGet, "/v1/config/explain", url.Values{"node": {node}, "pointer": {pointer}}, nil)
}

// Nodes returns every node, sorted by name.
func (c *Client) Nodes(ctx context.Context) (op.Nodes, error) {
	return call[op.Nodes](ctx, c, http.MethodGet, "/v1/nodes", nil, nil)
}

// Node returns one node.
func (c *Client) Node(ctx context.Context, node string) (view.Node, error) {
	return call[view.Node](ctx, c, http.MethodGet, "/v1/nodes/"+url.PathEscape(node), nil, nil)
}

// Enroll makes a token for a node; ttl 0 leaves its life to the controller.
func (c *Client) Enroll(ctx context.Context, node string, ttl time.Duration) (view.Enrolment, error) {
	in := op.Enroll{}
	if ttl > 0 {
		in.TTL = unitconfig.FormatDuration(ttl)
	}
	body, err := json.Marshal(in)
	if err != nil {
		return view.Enrolment{}, fmt.Errorf("writing the request: %w", err)
	}
	return call[view.Enrolment](ctx, c, http.MethodPost, "/v1/nodes/"+url.PathEscape(node)+"/enroll", nil, body)
}

// Revoke ends all that a node has.
func (c *Client) Revoke(ctx context.Context, node, reason string) (view.Node, error) {
	body, err := json.Marshal(op.Revoke{Reason: reason})
	if err != nil {
		return view.Node{}, fmt.Errorf("writing the request: %w", err)
	}
	return call[view.Node](ctx, c, http.MethodPost, "/v1/nodes/"+url.PathEscape(node)+"/revoke", nil, body)
}

// Certify certifies the key of a request.
func (c *Client) Certify(ctx context.Context, q view.Certification) (view.Certificate, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return view.Certificate{}, fmt.Errorf("writing the request: %w", err)
	}
	return call[view.Certificate](ctx, c, http.MethodPost, "/v1/identities/certify", nil, body)
}

// Disown ends all that somebody has who is not a node.
func (c *Client) Disown(ctx context.Context, in op.Disown) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("writing the request: %w", err)
	}
	_, err = call[op.Disown](ctx, c, http.MethodPost, "/v1/identities/revoke", nil, body)
	return err
}

// Status returns the unit at a glance.
func (c *Client) Status(ctx context.Context) (view.UnitStatus, error) {
	return call[view.UnitStatus](ctx, c, http.MethodGet, "/v1/unit/status", nil, nil)
}

// Verify has the journal checked.
func (c *Client) Verify(ctx context.Context) (op.Verification, error) {
	return call[op.Verification](ctx, c, http.MethodGet, "/v1/journal/verify", nil, nil)
}

// Entries selects journal entries for Events.
type Entries struct {
	Node   string
	Types  []string
	After  uint64 // only newer ones
	Limit  int    // 0: the API's default, or none when following
	Newest bool   // newest first; not with Follow
	Follow bool   // go on with what comes
}

func (e Entries) query() url.Values {
	q := url.Values{}
	if e.Node != "" {
		q.Set("node", e.Node)
	}
	if len(e.Types) > 0 {
		q["type"] = e.Types
	}
	if e.After > 0 {
		q.Set("after", strconv.FormatUint(e.After, 10))
	}
	if e.Limit > 0 {
		q.Set("limit", strconv.Itoa(e.Limit))
	}
	if e.Newest {
		q.Set("newest", "1")
	}
	if e.Follow {
		q.Set("follow", "1")
	}
	return q
}

// CreateToken makes a token; ttl 0 means until it is revoked.
func (c *Client) CreateToken(ctx context.Context, name, role string, ttl time.Duration) (view.Grant, error) {
	in := op.NewToken{Name: name, Role: role}
	if ttl > 0 {
		in.TTL = unitconfig.FormatDuration(ttl)
	}
	body, err := json.Marshal(in)
	if err != nil {
		return view.Grant{}, fmt.Errorf("writing the request: %w", err)
	}
	return call[view.Grant](ctx, c, http.MethodPost, "/v1/tokens", nil, body)
}

// Tokens returns every token, sorted by name.
func (c *Client) Tokens(ctx context.Context) (op.Tokens, error) {
	return call[op.Tokens](ctx, c, http.MethodGet, "/v1/tokens", nil, nil)
}

// RevokeToken ends a token.
func (c *Client) RevokeToken(ctx context.Context, name string) (view.Token, error) {
	return call[view.Token](ctx, c, http.MethodPost, "/v1/tokens/"+url.PathEscape(name)+"/revoke", nil, nil)
}
