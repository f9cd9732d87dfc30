package client

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
)

// SigningKeys returns the unit's signing keys.
func (c *Client) SigningKeys(ctx context.Context) (view.Keys, error) {
	return call[view.Keys](ctx, c, http.MethodGet, "/v1/keys", nil, nil)
}

// RotateKey does the next step of a rotation.
func (c *Client) RotateKey(ctx context.Context, in op.RotateKey) (view.Keys, error) {
	return changeKeys(ctx, c, "/v1/keys/rotate", in)
}

// RetireKey takes a key off the list.
func (c *Client) RetireKey(ctx context.Context, in op.RetireKey) (view.Keys, error) {
	return changeKeys(ctx, c, "/v1/keys/retire", in)
}

func changeKeys(ctx context.Context, c *Client, path string, in any) (view.Keys, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return view.Keys{}, fmt.Errorf("writing the request: %w", err)
	}
	return call[view.Keys](ctx, c, http.MethodPost, path, nil, body)
}
