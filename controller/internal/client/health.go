package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/unitconfig"
)

// post makes a request with a body of JSON.
func post[T any](ctx context.Context, c *Client, path string, in any) (v T, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return v, fmt.Errorf("writing the request: %w", err)
	}
	return call[T](ctx, c, http.MethodPost, path, nil, body)
}

// NodeHealth returns what a node has told of its health.
func (c *Client) NodeHealth(ctx context.Context, node string) (view.NodeHealth, error) {
	return call[view.NodeHealth](ctx, c, http.MethodGet, "/v1/nodes/"+url.PathEscape(node)+"/health", nil, nil)
}

// HealthSettings returns what is set.
func (c *Client) HealthSettings(ctx context.Context) (view.HealthSettings, error) {
	return call[view.HealthSettings](ctx, c, http.MethodGet, "/v1/health/settings", nil, nil)
}

// NodeSettings returns what is set for one node.
func (c *Client) NodeSettings(ctx context.Context, node string) (view.NodeSettings, error) {
	return call[view.NodeSettings](ctx, c, http.MethodGet, "/v1/health/settings", url.Values{"node": {node}}, nil)
}

// SetHealth sets what is wanted of some nodes.
func (c *Client) SetHealth(ctx context.Context, in op.SetHealth) (view.SettingsChange, error) {
	return post[view.SettingsChange](ctx, c, "/v1/health/settings", in)
}

// UnsetHealth takes it back.
func (c *Client) UnsetHealth(ctx context.Context, scope view.Scope) (view.SettingsChange, error) {
	return post[view.SettingsChange](ctx, c, "/v1/health/settings/unset", scope)
}

// Order has a node do something: what is "reboot", "try" or "approve", in is its body.
func (c *Client) Order(ctx context.Context, node, what string, in any) (view.Ordered, error) {
	return post[view.Ordered](ctx, c, "/v1/nodes/"+url.PathEscape(node)+"/"+what, in)
}

// Maintain announces a maintenance for so long from now.
func (c *Client) Maintain(ctx context.Context, within time.Duration, reason string) (op.Maintenance, error) {
	return post[op.Maintenance](ctx, c, "/v1/unit/maintenance", op.Maintain{For: unitconfig.FormatDuration(within), Reason: reason})
}

// EndMaintenance ends it.
func (c *Client) EndMaintenance(ctx context.Context) (op.Maintenance, error) {
	return call[op.Maintenance](ctx, c, http.MethodPost, "/v1/unit/maintenance/end", nil, nil)
}
