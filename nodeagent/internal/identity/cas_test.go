package identity

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/shared/durable"
	"tandem.internal/shared/jointoken"
)

// caList answers a node that asks for the CAs.
func (c *controller) caList(w http.ResponseWriter, r *http.Request) {
	c.asked = append(c.asked, c.now())
	if len(r.TLS.PeerCertificates) == 0 || c.cas == nil {
		w.WriteHeader(http.StatusNotFound) // as one from before there were rotations
		return
	}
	b, err := jointoken.Encode(c.cas)
	if err != nil {
		c.t.Error(err)
	}
	_, _ = w.Write(b)
}

func told(rev uint64, signs *authority, all ...*authority) savedCAs {
	s := savedCAs{Rev: rev, Signs: jointoken.FingerprintOf(signs.cert.Raw).String()}
	for _, a := range all {
		s.CAs = append(s.CAs, a.cert.Raw)
	}
	return s
}

func idOf(a *authority) string { return jointoken.FingerprintOf(a.cert.Raw).ID() }

// joined is a node that has joined, and what it was certified by.
func joined(t *testing.T) (*controller, JoinConfig, *Renewer) {
	t.Helper()
	c, cfg := start(t)
	if _, err := Join(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return c, cfg, renewerAt(t, cfg, nil)
}

func renewerAt(t *testing.T, cfg JoinConfig, steps durable.Steps) *Renewer {
	t.Helper()
	k, err := NewRenewer(RenewerConfig{Dir: cfg.Dir, Now: atDay, Dial: cfg.Dial, Steps: steps})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Lists of CAs: which ones count, after a restart as well. One never goes back.
func TestListsOfCAs(t *testing.T) {
	c, cfg, k := joined(t)
	one, two, three := c.ca, newAuthority(t, atDay()), newAuthority(t, atDay())
	join := k.Current().join
	believes := func(when string, signs *authority, want ...*authority) {
		t.Helper()
		for _, k := range []*Renewer{k, renewerAt(t, cfg, nil)} {
			var ids []string
			for _, a := range want {
				ids = append(ids, idOf(a))
			}
			if got := k.CAs(); !slices.Equal(got, ids) || k.believes.signs.ID() != idOf(signs) {
				t.Errorf("%s: %v are believed, and %s signs; want %v", when, got, k.believes.signs, ids)
			}
		}
	}
	take := func(s savedCAs, wantChanged bool, wantErr string) {
		t.Helper()
		if s.Join == "" {
			s.Join = join
		}
		changed, err := k.takeCAs(s)
		if changed != wantChanged || (err == nil) != (wantErr == "") ||
			err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Errorf("%d: changed %v, %v, want %v, %q", s.Rev, changed, err, wantChanged, wantErr)
		}
	}
	believes("at first", one, one)
	take(told(0, one, one), false, "")
	if _, err := os.Stat(filepath.Join(cfg.Dir, casFile)); err == nil {
		t.Error("a file for nothing")
	}
	take(told(5, one, one, two), true, "")
	believes("announced", one, one, two)
	take(told(5, two, two), false, "")
	take(told(4, three, three), false, "")
	believes("after an older list", one, one, two)
	bad := told(9, two, one, two)
	bad.CAs[1] = append([]byte{}, bad.CAs[1][:40]...)
	take(bad, false, "not one of a CA")
	take(told(9, two, two, two), false, "there twice")
	take(told(9, three, one, two), false, "no CA of the list signs")
	leaf := told(9, two, two)
	leaf.CAs = append(leaf.CAs, k.Current().cert.Leaf.Raw)
	take(leaf, false, "not one of a CA")
	believes("after bad ones", one, one, two)
	take(told(6, two, one, two), true, "")
	if _, follow := k.toFollow(k.Current()); !follow {
		t.Error("it does not follow")
	}
	take(told(7, two, two), true, "")
	believes("retired", two, two)
	broker := told(6, one, one)
	broker.Refused = []string{strings.Repeat("ab", 16)}
	take(broker, true, "")
	believes("an older list with other brokers", two, two)
	if !renewerAt(t, cfg, nil).believes.refused[broker.Refused[0]] {
		t.Error("the broker was forgotten")
	}
	// Of another join nothing counts, and what cannot be read counts for nothing.
	path := filepath.Join(cfg.Dir, casFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for what, bad := range map[string]string{"another join": strings.Replace(string(text), join, "sha256:other", 1),
		"cut": string(text[:40]), "nothing": ""} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := renewerAt(t, cfg, nil).CAs(); !slices.Equal(got, []string{idOf(one)}) {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// A crash, or a disk that fails, at any step leaves the CAs of before or the new ones, and the controller tells them
// again.
func TestCrashWhileTakingCAs(t *testing.T) {
	c, cfg, k := joined(t)
	two := newAuthority(t, atDay())
	list := told(5, two, c.ca, two)
	list.Join = k.Current().join
	for n := 1; ; n++ {
		if err := os.RemoveAll(filepath.Join(cfg.Dir, casFile)); err != nil {
			t.Fatal(err)
		}
		steps, count := crashing(n)
		k := renewerAt(t, cfg, steps)
		crashed := survive(t, func() {
			if _, err := k.takeCAs(list); err != nil {
				t.Error(err)
			}
		})
		again := renewerAt(t, cfg, nil)
		if got := again.CAs(); len(got) != 1 && len(got) != 2 || got[0] != idOf(c.ca) {
			t.Fatalf("crash at step %d: %v", n, got)
		}
		if _, err := again.takeCAs(list); err != nil || len(again.CAs()) != 2 {
			t.Fatalf("crash at step %d, and then: %v, %v", n, again.CAs(), err)
		}
		if left, err := filepath.Glob(filepath.Join(cfg.Dir, ".*")); err != nil || len(left) > 0 {
			t.Fatalf("crash at step %d left %v", n, left)
		}
		if !crashed {
			if *count < 4 {
				t.Fatalf("only %d steps", *count)
			}
			break
		}
	}
	if err := os.RemoveAll(filepath.Join(cfg.Dir, casFile)); err != nil {
		t.Fatal(err)
	}
	full := errors.New("disk full")
	k = renewerAt(t, cfg, func(durable.Step) error { return full })
	if _, err := k.takeCAs(list); !errors.Is(err, full) || len(k.CAs()) != 1 {
		t.Errorf("a list that is not on the disk counts: %v, %v", k.CAs(), err)
	}
}

// An agent on trial keeps to the CA of its certificate: the one that may come back knows no other.
func TestStayWithTheCA(t *testing.T) {
	c, cfg, k := joined(t)
	two := newAuthority(t, atDay())
	list := told(5, two, c.ca, two)
	list.Join = k.Current().join
	for _, stay := range []bool{false, true} {
		k.cfg.Stay = stay
		if _, err := k.takeCAs(list); err != nil {
			t.Fatal(err)
		}
		list.Rev++
		want := two
		if stay {
			want = c.ca
		}
		if name := k.serverName(jointoken.ServerName); name != jointoken.BelievedName(
			jointoken.FingerprintOf(want.cert.Raw)) {
			t.Errorf("stay %v: it asks for %s", stay, name)
		}
		if _, ok := k.toFollow(k.Current()); ok == stay {
			t.Errorf("stay %v: it follows: %v", stay, ok)
		}
		if name := k.serverName("broker.local"); name != "broker.local" {
			t.Errorf("of a broker it asks for %s", name)
		}
	}
	_ = cfg
}

// Nobody has to tell a node that there is something new: it asks by itself, within ten minutes and then in each hour; a
// door of an older controller is asked ever more rarely.
func TestCAsAreAskedForByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := keep(t)
		defer b.stop()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); b.k.RunCAs(ctx) }()
		defer func() { cancel(); <-ended }()
		asked := func() (n int) { b.set(func() { n = len(b.asked); b.asked = nil }); return n }
		pass(lookSoon + time.Minute)
		if n := asked(); n < 1 {
			t.Error("it does not ask")
		}
		pass(24 * time.Hour)
		if n := asked(); n < 20 || n > 60 {
			t.Errorf("an older controller is asked %d times in a day", n)
		}
		l := told(3, b.ca, b.ca)
		b.set(func() {
			b.cas = &jointoken.CAList{Unit: "u1", CAs: l.CAs, Rev: 3, Signs: l.Signs,
				Refused: []string{strings.Repeat("ab", 16)}}
		})
		pass(2 * lookCAs)
		if b.k.savedCAs.Rev != 3 || !b.k.believes.refused[strings.Repeat("ab", 16)] {
			t.Errorf("%+v", b.k.savedCAs)
		}
		asked()
		pass(24 * time.Hour)
		if n := asked(); n < 24 || n > 48 {
			t.Errorf("it asks %d times in a day", n)
		}
		b.set(func() { b.cas.Unit = "u2" })
		b.k.AskCAs()
		pass(time.Minute)
		if n := asked(); n < 1 || b.k.savedCAs.Rev != 3 {
			t.Errorf("it was asked for, and asked %d times", n)
		}
	})
}
