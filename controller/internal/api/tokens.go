package api

import (
	"context"
	"fmt"
	"time"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// errNoStore is what a program hears that serves this API without tokens.
var errNoStore = wire.New(wire.CodeNotSupported, "", "this controller keeps no tokens")

func (a *API) listTokens(context.Context) (op.Tokens, error) {
	out := op.Tokens{Tokens: []view.Token{}}
	if a.cfg.Tokens == nil {
		return out, errNoStore
	}
	for _, t := range a.cfg.Tokens.List() {
		out.Tokens = append(out.Tokens, a.shown(t))
	}
	return out, nil
}

// shown is a token without its hash.
func (a *API) shown(t tokens.Token) view.Token {
	return view.Token{
		Name: t.Name, Role: string(t.Role), Created: t.Created, By: t.By,
		Expires: t.Expires, Expired: t.Expired(a.cfg.Tokens.Now()),
	}
}

// createToken makes a token. The journal hears of it before it counts: a token that nobody knows of
// would be worse than an entry about one that was not made.
func (a *API) createToken(ctx context.Context, in op.NewToken) (view.Grant, error) {
	if a.cfg.Tokens == nil {
		return view.Grant{}, errNoStore
	}
	who := caller.From(ctx).Who()
	note := func(t tokens.Token) error {
		text := fmt.Sprintf("token %s was made, with the role %s", t.Name, t.Role)
		if t.Once {
			text += ", for a link that logs in once"
		}
		if !t.Within.IsZero() {
			text += " before " + t.Within.Format(time.RFC3339)
		}
		if !t.Expires.IsZero() {
			text += " until " + t.Expires.Format(time.RFC3339)
		}
		return a.core.Remark(ctx, view.Remark{Text: text, Token: t.Name, Role: string(t.Role)})
	}
	var link *tokens.Link
	if in.Once {
		link = &tokens.Link{Within: in.Soon()}
	}
	t, secret, err := a.cfg.Tokens.Create(ctx, in.Name, op.Role(in.Role), in.Life(), link, who, note)
	if err != nil {
		return view.Grant{}, err
	}
	return view.Grant{Token: a.shown(t), Secret: secret.Text(), URL: a.cfg.URL, CA: a.pins()}, nil
}

// self says who the caller is to the controller.
func (a *API) self(ctx context.Context, _ op.None) (view.Self, error) {
	who, _ := caller.From(ctx).(requester)
	v := view.Self{Who: who.Who(), Role: string(op.Admin)}
	if b := who.bearer; b != nil {
		v.Name, v.Role = b.Name, string(b.Role)
	}
	return v, nil
}

// redeemToken gives the caller, who came with a link, a token of its own, and ends the link.
func (a *API) redeemToken(ctx context.Context, _ op.None) (view.Grant, error) {
	who, _ := caller.From(ctx).(requester)
	if who.bearer == nil {
		return view.Grant{}, wire.New(wire.CodeNotSupported, "", "who comes by the unix socket has no link to redeem")
	}
	// The request ends with the very secret that it came with; its answer does not.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.WriteTimeout)
	defer cancel()
	note := func(t tokens.Token) error {
		text := "the link of token " + t.Name + " was used; it does not count any more"
		return a.core.Remark(ctx, view.Remark{Text: text, Token: t.Name, Role: string(t.Role)})
	}
	t, secret, err := a.cfg.Tokens.Redeem(ctx, who.bearer, note)
	if err != nil {
		return view.Grant{}, err
	}
	return view.Grant{Token: a.shown(t), Secret: secret.Text(), URL: a.cfg.URL, CA: a.pins()}, nil
}

// revokeToken ends a token. That is not put off until the journal has it: a full disk must not keep
// anybody in. Nor does it end with the request, which may have come with the very token.
func (a *API) revokeToken(ctx context.Context, in op.TokenIn) (view.Token, error) {
	if a.cfg.Tokens == nil {
		return view.Token{}, errNoStore
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.WriteTimeout)
	defer cancel()
	t, err := a.cfg.Tokens.Revoke(ctx, in.Token)
	if err != nil && t.Name == "" {
		return view.Token{}, err
	}
	remark := view.Remark{Text: "token " + t.Name + " was revoked", Token: t.Name, Role: string(t.Role)}
	noted := a.core.Remark(ctx, remark)
	if err != nil {
		return view.Token{}, err
	}
	if noted != nil {
		e, _ := asWire(noted)
		return view.Token{},
			wire.New(e.Code, "", "the token was revoked, but the journal did not take that: "+e.Message)
	}
	return a.shown(t), nil
}

// pins are the fingerprints of the CAs that may vouch for the API, "" if the system's authorities do.
func (a *API) pins() string {
	if a.cfg.CA == nil {
		return ""
	}
	return a.cfg.CA()
}
