package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// SubmitWorkloads submits a set; ID, Version, Lenient, DryRun and Offline of s count.
func (c *Client) SubmitWorkloads(ctx context.Context, s view.Submission) (view.Result, error) {
	q := url.Values{}
	for name, value := range map[string]string{"id": s.ID, "version": s.Version} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for name, flag := range map[string]bool{"lenient": s.Lenient, "dryRun": s.DryRun, "offline": s.Offline} {
		if flag {
			q.Set(name, "1")
		}
	}
	return c.verdict(ctx, "/v1/workloads", q, s.Document)
}

// Workloads returns the set of a version, or the newest; filled: what it comes to.
func (c *Client) Workloads(ctx context.Context, version string, filled bool) ([]byte, error) {
	q := url.Values{}
	if version != "" {
		q.Set("version", version)
	}
	if filled {
		q.Set("filled", "1")
	}
	return c.bytes(ctx, http.MethodGet, "/v1/workloads", q, nil)
}

// WorkloadHistory returns what became of every set, oldest first.
func (c *Client) WorkloadHistory(ctx context.Context) (op.History, error) {
	return call[op.History](ctx, c, http.MethodGet, "/v1/workloads/history", nil, nil)
}

// WorkloadStatus returns how far nodes and slots have come.
func (c *Client) WorkloadStatus(ctx context.Context) (view.WorkloadStatus, error) {
	return call[view.WorkloadStatus](ctx, c, http.MethodGet, "/v1/workloads/status", nil, nil)
}

// WatchWorkloads calls each with it, now and whenever it changes.
func (c *Client) WatchWorkloads(ctx context.Context, each func(view.WorkloadStatus) error) error {
	return follow(ctx, c, "/v1/workloads/status", url.Values{"watch": {"1"}}, each)
}

// Slots lists the slots of the unit, or of one node.
func (c *Client) Slots(ctx context.Context, node string) (op.Slots, error) {
	q := url.Values{}
	if node != "" {
		q.Set("node", node)
	}
	return call[op.Slots](ctx, c, http.MethodGet, "/v1/workloads/slots", q, nil)
}

func slotPath(node, service, what string) string {
	return "/v1/nodes/" + url.PathEscape(node) + "/slots/" + url.PathEscape(service) + "/" + what
}

// RestartSlot has a node start a slot's process anew.
func (c *Client) RestartSlot(ctx context.Context, node, service string) (view.Ordered, error) {
	return call[view.Ordered](ctx, c, http.MethodPost, slotPath(node, service, "restart"), nil, nil)
}

// SlotLogs returns a piece of what a slot's processes have written.
func (c *Client) SlotLogs(ctx context.Context, node string, p wire.LogsParams) (view.Logs, error) {
	q := url.Values{}
	if p.Cursor != "" {
		q.Set("cursor", p.Cursor)
	}
	if p.Tail > 0 {
		q.Set("tail", strconv.Itoa(p.Tail))
	}
	return call[view.Logs](ctx, c, http.MethodGet, slotPath(node, p.Service, "logs"), q, nil)
}
