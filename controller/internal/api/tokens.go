package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// errNoStore is what a program hears that serves this API without tokens.
var errNoStore = wire.New(wire.CodeNotSupported, "", "this controller keeps no tokens")

func (a *API) listTokens(w http.ResponseWriter, r *http.Request) error {
	if err := newQuery(r).done(); err != nil {
		return err
	}
	if a.cfg.Tokens == nil {
		return errNoStore
	}
	out := op.Tokens{Tokens: []view.Token{}}
	for _, t := range a.cfg.Tokens.List() {
		out.Tokens = append(out.Tokens, a.shown(t))
	}
	a.write(w, http.StatusOK, out)
	return nil
}

// shown is a token without its hash.
func (a *API) shown(t tokens.Token) view.Token {
	return view.Token{Name: t.Name, Role: string(t.Role), Created: t.Created, By: t.By, Expires: t.Expires, Expired: t.Expired(a.cfg.Tokens.Now())}
}

// createToken makes a token. The journal hears of it before it counts: a token that nobody knows of
// would be worse than an entry about one that was not made.
func (a *API) createToken(w http.ResponseWriter, r *http.Request) error {
	in, err := required[op.NewToken](a, w, r)
	if err != nil {
		return err
	}
	if a.cfg.Tokens == nil {
		return errNoStore
	}
	life := time.Duration(0)
	if in.TTL != "" {
		if life, err = unitconfig.ParseDuration(in.TTL); err != nil || life <= 0 {
			return wire.New(wire.CodeInvalidArgument, "/ttl", "an ISO 8601 duration above zero is expected, like P90D")
		}
	}
	who, _ := whoAndVia(r)
	t, secret, err := a.cfg.Tokens.Create(r.Context(), in.Name, tokens.Role(in.Role), life, who, func(t tokens.Token) error {
		text := fmt.Sprintf("token %s was made, with the role %s", t.Name, t.Role)
		if !t.Expires.IsZero() {
			text += " until " + t.Expires.Format(time.RFC3339)
		}
		return a.unit.Remark(r.Context(), view.Remark{Text: text, Token: t.Name, Role: string(t.Role)}, who)
	})
	if err != nil {
		return err
	}
	a.write(w, http.StatusOK, view.Grant{Token: a.shown(t), Secret: secret.Text(), URL: a.cfg.URL, CA: a.cfg.CA})
	return nil
}

// revokeToken ends a token. That is not put off until the journal has it: a full disk must not keep
// anybody in. Nor does it end with the request, which may have come with the very token.
func (a *API) revokeToken(w http.ResponseWriter, r *http.Request) error {
	if err := newQuery(r).done(); err != nil {
		return err
	}
	if err := a.noBody(w, r); err != nil {
		return err
	}
	if a.cfg.Tokens == nil {
		return errNoStore
	}
	name := r.PathValue("token")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), a.cfg.WriteTimeout)
	defer cancel()
	t, err := a.cfg.Tokens.Revoke(ctx, name)
	if err != nil && t.Name == "" {
		return err
	}
	who, _ := whoAndVia(r)
	noted := a.unit.Remark(ctx, view.Remark{Text: "token " + t.Name + " was revoked", Token: t.Name, Role: string(t.Role)}, who)
	if err != nil {
		return err
	}
	if noted != nil {
		e, _ := asWire(noted)
		return wire.New(e.Code, "", "the token was revoked, but the journal did not take that: "+e.Message)
	}
	a.write(w, http.StatusOK, a.shown(t))
	return nil
}
