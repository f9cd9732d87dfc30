package tokens

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"tandem.internal/controller/internal/apitoken"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func noted(Token) error { return nil }

func open(t *testing.T, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func create(t *testing.T, s *Store, name string, role Role, life time.Duration) string {
	t.Helper()
	_, secret, err := s.Create(t.Context(), name, role, life, nil, "uid:0(root)", noted)
	if err != nil {
		t.Fatal(err)
	}
	return secret.Text()
}

func TestLifeOfAToken(t *testing.T) {
	at := now
	cfg := Config{Path: filepath.Join(t.TempDir(), FileName), Now: func() time.Time { return at }}
	s := open(t, cfg)
	ann, bob := create(t, s, "ann", Operate, 0), create(t, s, "bob", View, time.Hour)
	for range 2 { // the second time after a restart
		if b, err := s.Who(ann); err != nil || b.Name != "ann" || b.Role != Operate {
			t.Errorf("%+v %v", b, err)
		}
		if b, err := s.Who(bob); err != nil || b.Name != "bob" || b.Role != View {
			t.Errorf("%+v %v", b, err)
		}
		for _, text := range []string{"", "x", ann[:20], apitoken.New().Text(), bob + " " + ann} {
			if b, err := s.Who(text); err != ErrUnknown {
				t.Errorf("%q is %+v (%v)", text, b, err)
			}
		}
		s = open(t, cfg)
	}
	info, err := os.Stat(cfg.Path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	data, err := os.ReadFile(cfg.Path)
	if err != nil || strings.Contains(string(data), ann[5:30]) || !strings.Contains(string(data), `"sha256:`) {
		t.Errorf("%s %v", data, err)
	}

	at = at.Add(time.Hour - time.Second)
	if _, err := s.Who(bob); err != nil {
		t.Error(err)
	}
	at = at.Add(time.Second)
	if _, err := s.Who(bob); err != ErrExpired {
		t.Errorf("an hour later: %v", err)
	}
	if _, err := s.Who(ann); err != nil {
		t.Errorf("a token without an end has one: %v", err)
	}

	if _, err := s.Revoke(t.Context(), "eve"); code(err) != wire.CodeNotFound {
		t.Error(err)
	}
	if k, err := s.Revoke(t.Context(), "ann"); err != nil || k.Name != "ann" {
		t.Error(k, err)
	}
	for range 2 {
		if _, err := s.Who(ann); err != ErrUnknown {
			t.Errorf("revoked: %v", err)
		}
		if l := s.List(); len(l) != 1 || l[0].Name != "bob" {
			t.Errorf("%v", l)
		}
		s = open(t, cfg)
	}
	if again := create(t, s, "ann", View, 0); again == ann {
		t.Error("the same token again")
	}
}

func code(err error) wire.Code {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e.Code
	}
	return ""
}

func TestCreateRefuses(t *testing.T) {
	s := open(t, Config{Path: filepath.Join(t.TempDir(), FileName)})
	create(t, s, "ann", View, 0)
	silent := errors.New("the journal is broken")
	for name, c := range map[string]struct {
		name string
		role Role
		life time.Duration
		note error
		want wire.Code
	}{
		"a name twice":  {"ann", View, 0, nil, wire.CodeAlreadyExists},
		"no role":       {"bob", "", 0, nil, wire.CodeBadValue},
		"too short":     {"bob", View, time.Second, nil, wire.CodeBadValue},
		"too long":      {"bob", View, 11 * 366 * 24 * time.Hour, nil, wire.CodeBadValue},
		"negative":      {"bob", View, -time.Hour, nil, wire.CodeBadValue},
		"not journaled": {"bob", View, 0, silent, ""},
	} {
		calls := 0
		note := func(Token) error { calls++; return c.note }
		_, _, err := s.Create(t.Context(), c.name, c.role, c.life, nil, "", note)
		if err == nil || code(err) != c.want || c.want == "" && !errors.Is(err, silent) {
			t.Errorf("%s: %v", name, err)
		}
		if (calls == 1) != (c.note != nil) {
			t.Errorf("%s: the journal heard of it %d times", name, calls)
		}
	}
	if l := s.List(); len(l) != 1 {
		t.Errorf("%v", l)
	}
}

// TestFaults: each step of writing the file × {fails, is the last before a crash}. A token counts
// after Create has said so, and only then; it does not count after Revoke, whatever Revoke said,
// until a restart when that said that the disk did not take it.
func TestFaults(t *testing.T) {
	for _, step := range []durable.Step{durable.Create, durable.Write, durable.Sync, durable.Rename, durable.SyncDir} {
		t.Run(string(step), func(t *testing.T) {
			var broken bool
			cfg := Config{Path: filepath.Join(t.TempDir(), FileName), Steps: func(s durable.Step) error {
				if broken && s == step {
					return errors.New("no space left on device")
				}
				return nil
			}}
			s := open(t, cfg)
			ann := create(t, s, "ann", Admin, 0)
			broken = true
			_, secret, err := s.Create(t.Context(), "bob", Admin, 0, nil, "", noted)
			if code(err) != wire.CodeStorage ||
				secret != (apitoken.Secret{}) {
				t.Errorf("made on a broken disk: %v", err)
			}
			b, err := s.Who(ann)
			if err != nil {
				t.Fatal(err)
			}
			ctx, release := b.Context(t.Context())
			defer release()
			if _, err := s.Revoke(t.Context(), "ann"); code(err) != wire.CodeStorage ||
				!strings.Contains(err.Error(), "revoke it again") {
				t.Errorf("revoked on a broken disk: %v", err)
			}
			if _, err := s.Who(ann); err != ErrUnknown {
				t.Errorf("it counts: %v", err)
			}
			<-ctx.Done()
			if _, err := s.Revoke(t.Context(), "ann"); code(err) != wire.CodeStorage {
				t.Errorf("revoked again on a broken disk: %v", err)
			}
			broken = false
			if k, err := s.Revoke(t.Context(), "ann"); err != nil || k.Name != "ann" {
				t.Errorf("revoked again: %v %v", k, err)
			}
			if _, err := s.Revoke(t.Context(), "ann"); code(err) != wire.CodeNotFound {
				t.Errorf("and again: %v", err)
			}
			back := open(t, cfg)
			if _, err := back.Who(ann); err != ErrUnknown {
				t.Errorf("it counts after a restart: %v", err)
			}
			if left, err := filepath.Glob(filepath.Join(filepath.Dir(cfg.Path), ".*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v %v", left, err)
			}
		})
	}
}

// TestOlderFile: what was revoked or redeemed since a copy of the file was made does not count when that is put back.
func TestOlderFile(t *testing.T) {
	cfg := Config{Path: filepath.Join(t.TempDir(), FileName)}
	s := open(t, cfg)
	ann, bob := create(t, s, "ann", Admin, 0), create(t, s, "bob", View, 0)
	_, link, err := s.Create(t.Context(), "wall", View, 0, &Link{}, "", noted)
	if err != nil {
		t.Fatal(err)
	}
	older, err := os.ReadFile(cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Revoke(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	wall, err := s.Who(link.Text())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Redeem(t.Context(), wall, noted); err != nil {
		t.Fatal(err)
	}
	again := create(t, s, "ann", View, 0)
	if back := open(t, cfg); len(back.List()) != 3 {
		t.Errorf("with the newest file: %v", back.List())
	} else if _, err := back.Who(again); err != nil {
		t.Errorf("a new token of a name that was revoked: %v", err)
	}
	if err := os.WriteFile(cfg.Path, older, 0o600); err != nil {
		t.Fatal(err)
	}
	back := open(t, cfg)
	for what, text := range map[string]string{"revoked": ann, "redeemed": link.Text()} {
		if _, err := back.Who(text); err != ErrUnknown {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := back.Who(bob); err != nil || len(back.List()) != 1 {
		t.Errorf("%v %v", err, back.List())
	}
}

func TestOpenRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	set, _ := sample("ann")
	for _, c := range []struct {
		data []byte
		mode os.FileMode
		want string
	}{
		{set.Encode(), 0o600, ""},
		{set.Encode(), 0o400, ""},
		{set.Encode(), 0o640, "chmod 600"},
		{set.Encode(), 0o604, "chmod 600"},
		{[]byte("planted-secret"), 0o600, "restore it"},
		{nil, 0o600, "restore it"},
	} {
		if err := errors.Join(os.WriteFile(path, c.data, 0o600), os.Chmod(path, c.mode)); err != nil {
			t.Fatal(err)
		}
		_, err := Open(Config{Path: path})
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), path)) {
			t.Errorf("%.20q, %v: %v", c.data, c.mode, err)
		}
		if err != nil && strings.Contains(err.Error(), "planted") {
			t.Errorf("the error shows the file: %v", err)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestContextEnds: with the token, and with nothing else.
func TestContextEnds(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Config{Path: filepath.Join(dir, FileName)})
		texts := map[string]string{"revoked": create(t, s, "revoked", View, 0), "expires": create(t, s, "expires", View,
			time.Hour), "stays": create(t, s, "stays", View, 0)}
		ctxs := map[string]context.Context{}
		for name, text := range texts {
			b, err := s.Who(text)
			if err != nil {
				t.Fatal(err)
			}
			ctx, release := b.Context(context.Background())
			defer release()
			ctxs[name] = ctx
		}
		time.Sleep(59 * time.Minute) // virtual
		for name, ctx := range ctxs {
			if ctx.Err() != nil {
				t.Errorf("%s ended: %v", name, context.Cause(ctx))
			}
		}
		if _, err := s.Revoke(context.Background(), "revoked"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if context.Cause(ctxs["revoked"]) != ErrRevoked || ctxs["expires"].Err() != nil {
			t.Errorf("%v %v", context.Cause(ctxs["revoked"]), ctxs["expires"].Err())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if context.Cause(ctxs["expires"]) != ErrExpired || ctxs["stays"].Err() != nil {
			t.Errorf("%v %v", context.Cause(ctxs["expires"]), ctxs["stays"].Err())
		}
		// Who was looked up before the revocation and begins only after it has ended, too.
		b, err := s.Who(texts["stays"])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Revoke(context.Background(), "stays"); err != nil {
			t.Fatal(err)
		}
		late, release := b.Context(context.Background())
		defer release()
		synctest.Wait()
		if context.Cause(late) != ErrRevoked {
			t.Errorf("%v", context.Cause(late))
		}
	})
}

// TestManyAtOnce: changes take turns, and nobody who asks waits for them.
func TestManyAtOnce(t *testing.T) {
	cfg := Config{Path: filepath.Join(t.TempDir(), FileName)}
	s := open(t, cfg)
	keep := create(t, s, "keep", View, 0)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			name := fmt.Sprint("t", i)
			for range 5 {
				_, secret, err := s.Create(t.Context(), name, View, 0, nil, "", noted)
				if err != nil {
					t.Error(err)
					return
				}
				if b, err := s.Who(secret.Text()); err != nil || b.Name != name {
					t.Errorf("%s: %v %v", name, b, err)
				}
				if _, err := s.Revoke(t.Context(), name); err != nil {
					t.Error(err)
				}
				if _, err := s.Who(secret.Text()); err != ErrUnknown {
					t.Errorf("%s: %v", name, err)
				}
				if _, err := s.Who(keep); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if l := open(t, cfg).List(); len(l) != 1 || l[0].Name != "keep" {
		t.Errorf("%v", l)
	}
	// Whoever waits for a turn may leave.
	if err := s.lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Revoke(ctx, "keep"); code(err) != wire.CodeTimeout {
		t.Error(err)
	}
	s.unlock()
}
