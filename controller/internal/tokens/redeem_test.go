package tokens

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// A link's token is exchanged once, for one of the same name, role and end; with an error nothing has changed.
func TestRedeem(t *testing.T) {
	at, full := now, false
	cfg := Config{Path: filepath.Join(t.TempDir(), FileName), Now: func() time.Time { return at },
		Steps: func(durable.Step) error {
			if full {
				return syscall.ENOSPC
			}
			return nil
		}}
	s := open(t, cfg)
	made, secret, err := s.Create(t.Context(), "wall", View, time.Hour, &Link{}, "uid:0(root)", noted)
	if err != nil {
		t.Fatal(err)
	}
	link := secret.Text()
	s = open(t, cfg) // a restart
	first, err := s.Who(link)
	if err != nil || !first.Once {
		t.Fatalf("%+v %v", first, err)
	}
	second, err := s.Who(link)
	if err != nil {
		t.Fatal(err)
	}
	ctx, release := first.Context(t.Context())
	defer release()

	silent := errors.New("the journal is broken")
	if _, _, err := s.Redeem(t.Context(), first, func(Token) error { return silent }); !errors.Is(err, silent) {
		t.Error(err)
	}
	full = true
	if _, _, err := s.Redeem(t.Context(), first, noted); code(err) != wire.CodeStorage {
		t.Error(err)
	}
	full = false
	if b, err := s.Who(link); err != nil || !b.Once || ctx.Err() != nil {
		t.Errorf("after errors: %+v %v %v", b, err, ctx.Err())
	}

	got, secret, err := s.Redeem(t.Context(), first, noted)
	if err != nil || got.Name != "wall" || got.Role != View || !got.Expires.Equal(made.Expires) || got.Once {
		t.Fatalf("%+v %v", got, err)
	}
	<-ctx.Done()
	if err := context.Cause(ctx); err != ErrRevoked {
		t.Error(err)
	}
	if _, _, err := s.Redeem(t.Context(), second, noted); err != ErrUnknown {
		t.Errorf("who came at the same time: %v", err)
	}
	for range 2 { // the second time after a restart
		if b, err := s.Who(link); err != ErrUnknown {
			t.Errorf("the link counts still: %+v %v", b, err)
		}
		b, err := s.Who(secret.Text())
		if err != nil || b.Once || b.Name != "wall" {
			t.Fatalf("%+v %v", b, err)
		}
		if _, _, err := s.Redeem(t.Context(), b, noted); code(err) != wire.CodeWrongState {
			t.Errorf("no link is redeemed: %v", err)
		}
		s = open(t, cfg)
	}

	_, secret, err = s.Create(t.Context(), "late", View, time.Minute, &Link{}, "", noted)
	if err != nil {
		t.Fatal(err)
	}
	late, err := s.Who(secret.Text())
	if err != nil {
		t.Fatal(err)
	}
	at = at.Add(time.Minute)
	if _, _, err := s.Redeem(t.Context(), late, noted); err != ErrExpired {
		t.Errorf("after its end: %v", err)
	}
}

// TestLinkInTime: a link that has to be used soon counts until then, also after a restart; what became of it counts as
// long as it should, and goes from the list after its end.
func TestLinkInTime(t *testing.T) {
	at := now
	cfg := Config{Path: filepath.Join(t.TempDir(), FileName), Now: func() time.Time { return at }}
	s := open(t, cfg)
	link := func(name string) string {
		_, secret, err := s.Create(t.Context(), name, View, time.Hour, &Link{Within: 30 * time.Second}, "", noted)
		if err != nil {
			t.Fatal(err)
		}
		return secret.Text()
	}
	used, late := link("used"), link("late")
	s = open(t, cfg)
	at = now.Add(29 * time.Second)
	b, err := s.Who(used)
	if err != nil || !b.Once {
		t.Fatalf("%+v %v", b, err)
	}
	slow, err := s.Who(late) // it is presented in time, and redeemed too late
	if err != nil {
		t.Fatal(err)
	}
	_, session, err := s.Redeem(t.Context(), b, noted)
	if err != nil {
		t.Fatal(err)
	}
	at = now.Add(30 * time.Second)
	if b, err := s.Who(late); err != ErrExpired {
		t.Errorf("the link counts after its time: %+v %v", b, err)
	}
	if _, _, err := s.Redeem(t.Context(), slow, noted); err != ErrExpired {
		t.Errorf("the link is redeemed after its time: %v", err)
	}
	at = now.Add(59 * time.Minute)
	s = open(t, cfg)
	if b, err := s.Who(session.Text()); err != nil || b.Once {
		t.Errorf("the session: %+v %v", b, err)
	}
	plain := create(t, s, "plain", View, time.Hour)
	if names := listed(s); names != "plain used" { // late was never used
		t.Errorf("listed: %s", names)
	}
	at = now.Add(3 * time.Hour)
	create(t, s, "next", View, 0)
	if names := listed(s); names != "next plain" { // an ordinary one stays, expired, until somebody takes it away
		t.Errorf("listed: %s", names)
	}
	if _, err := s.Who(plain); err != ErrExpired {
		t.Error(err)
	}
}

func listed(s *Store) string {
	var names []string
	for _, t := range s.List() {
		names = append(names, t.Name)
	}
	return strings.Join(names, " ")
}
