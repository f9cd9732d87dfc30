package app

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"tandem.internal/shared/race"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTrustOnFirstUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.listen()
		r.start()
		r.desire(doc(1, 1)) // before any beacon: held
		r.desire(doc(1, 2))
		r.want("-", "")
		r.beacon(1, r.signer)
		r.want("2/2 installed", "2.0.0")
		other := seal.NewSigner(key(2))
		r.beacon(5, other)
		d := doc(5, 3)
		d.Sig = other.Sign(seal.DesiredPreimage(d))
		r.publish(r.topics.Desired(d.Kind), d.Append(nil), true)
		r.restart() // still pinned
		r.want("2/2 installed", "2.0.0")
		if got := r.eventTypes(); got != "key-pinned key-refused refused-message key-refused refused-message" {
			t.Errorf("events %q", got)
		}
		r.beacon(1, r.signer, other) // announced by the pinned key
		r.desire(doc(1, 4))
		r.publish(r.topics.Desired(d.Kind), d.Append(nil), true)
		r.want("3/3 installed", "3.0.0")
	})
}

func TestProvisionedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.listen()
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, []byte(b64(r.signer.Key().Ed25519)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.cfg.UnitKey = file
		r.beacon(1, seal.NewSigner(key(2))) // comes first, and is refused
		r.start()
		r.desire(doc(1, 1)) // needs no beacon
		r.want("1/1 installed", "1.0.0")
		r.stop()
		r.cfg.UnitKey = b64(seal.NewSigner(key(3)).Key().Ed25519) // another key replaces what was pinned
		r.start()
		r.desire(doc(1, 2))
		r.want("1/1 installed", "1.0.0")
		r.stop()
		r.cfg.UnitKey = "nonsense"
		var usage *UsageError
		if err := r.tryStart(); !errors.As(err, &usage) {
			t.Errorf("a key that is none: %v", err)
		}
	})
}

func TestRequests(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		check := func(kind wire.Kind, body string) (*wire.CheckResult, *wire.Error) {
			p := wire.CheckParams{Kind: kind, Version: "1.0.0", Body: []byte(body)}
			reply := r.request(wire.MethodCheck, wire.Encode(&p))
			if reply.Error != nil {
				return nil, reply.Error
			}
			return decode[wire.CheckResult](r, reply.Result), nil
		}
		if res, err := check("config", string(body("1.0.0"))); err != nil || !res.OK || len(res.Errors) > 0 {
			t.Errorf("a good document: %+v %v", res, err)
		}
		if res, err := check("config", `{"formatVersion":"7","version":"1.0.0","priority":-1}`); err != nil || res.OK ||
			res.Errors[0].Path != "/priority" {
			t.Errorf("a bad document: %+v %v", res, err)
		}
		if _, err := check("gadgets", `{}`); err == nil || err.Code != wire.CodeNotSupported {
			t.Errorf("an unknown kind: %v", err)
		}
		r.want("-", "") // checking does nothing
		if e := r.request("dance", nil).Error; e == nil || e.Code != wire.CodeNotSupported {
			t.Errorf("an unknown method: %v", e)
		}
		if e := r.request(wire.MethodCheck, []byte(`{"x":1}`)).Error; e == nil || e.Path != "/params/x" {
			t.Errorf("bad params: %v", e)
		}
		late := &wire.Request{V: 1, Unit: "u1", Node: "n1", ID: "late", Method: wire.MethodReport,
			NotAfter: time.Now().Add(-time.Second)}
		if e := r.ask(late).Error; e == nil || e.Code != wire.CodeExpired {
			t.Errorf("a late request: %v", e)
		}
		r.mu.Lock()
		lives, reports := len(r.lives), len(r.reports["config"])
		r.mu.Unlock()
		again := &wire.Request{V: 1, Unit: "u1", Node: "n1", ID: "again", Method: wire.MethodReport,
			NotAfter: time.Now().Add(time.Minute)}
		for range 3 { // a repeated request has one effect, and the same answer
			if e := r.ask(again).Error; e != nil {
				t.Error(e)
			}
		}
		if l, p := len(r.lives)-lives, len(r.reports["config"])-reports; l != 1 || p != 1 {
			t.Errorf("report: %d lives, %d reports", l, p)
		}
		foreign := &wire.Request{V: 1, Unit: "u1", Node: "n1", ID: "foreign", Method: wire.MethodReport,
			NotAfter: time.Now().Add(time.Minute)}
		foreign.Sig = seal.NewSigner(key(2)).Sign(seal.RequestPreimage(foreign))
		before := len(r.replies)
		r.publish(r.topics.Request(), wire.Encode(foreign), false)
		if len(r.replies) != before {
			t.Error("a request with a foreign signature was answered")
		}
	})
}

// A clock that is ahead by a day is corrected by a live beacon.
func TestClockCorrected(t *testing.T) {
	bubble(t, func(r *rig) {
		r.deps.Now = func() time.Time { return time.Now().Add(24 * time.Hour) }
		r.start()
		if e := r.request(wire.MethodReport, nil).Error; e == nil || e.Code != wire.CodeExpired {
			t.Errorf("before a live beacon: %v", e)
		}
		r.pass(time.Second)
		r.beacon(1, r.signer)
		if e := r.request(wire.MethodReport, nil).Error; e != nil {
			t.Errorf("after a live beacon: %v", e)
		}
		if got := r.eventTypes(); got != "key-pinned clock-skew" {
			t.Errorf("events %q", got)
		}
	})
}

func TestSession(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		r.desire(doc(1, 1))
		r.hub.Cut("node/n1")
		synctest.Wait()
		r.pass(150 * time.Second)
		r.beacon(2, r.signer) // a new epoch: everything again, within the jitter of 10 s
		r.mu.Lock()
		lives, seqs := len(r.lives), []uint64{}
		for _, p := range r.reports["config"] {
			seqs = append(seqs, p.Seq)
		}
		r.mu.Unlock()
		r.pass(10 * time.Second)
		r.mu.Lock()
		if len(r.lives) == lives || len(r.reports["config"]) == len(seqs) {
			t.Error("nothing was said again for a new epoch")
		}
		r.mu.Unlock()
		// 4 again for the session and for the retained document; a report that a newer one overtook before it was sent
		// is not sent.
		if len(seqs) == 0 || seqs[0] != 1 || seqs[len(seqs)-1] != 4 || !slices.IsSorted(seqs) {
			t.Errorf("sequence numbers %d", seqs)
		}
		boot := r.lives[0].Boot
		r.restart()
		r.stop()
		got := ""
		for _, l := range r.lives {
			got += fmt.Sprintf("%d%v%v ", l.Session, map[bool]string{true: "+", false: "-"}[l.Up],
				map[bool]string{true: "", false: "'"}[l.Boot == boot])
		}
		// first session, its will, second one with beats, the new epoch, goodbye; another boot
		if !strings.HasPrefix(got, "1+ 1- 2+ 2+ 2+ ") || !strings.HasSuffix(got, "2+ 2- 1+' 1-' ") {
			t.Errorf("lives %s", got)
		}
		// two starts, the key, and the contact of the document, which was lost and came back
		if l := r.lives[len(r.lives)-2]; l.Seqs["config"] != 1 || l.Seqs["info"] != 1 || l.Events != 5 {
			t.Errorf("%+v", l)
		}
		info := r.reports["info"][0]
		if want := `{"type":"mainType","os":"linux"`; !strings.HasPrefix(string(info.Detail), want) ||
			info.Last != nil {
			t.Errorf("info %+v", info)
		}
	})
}

func TestEventsAreKept(t *testing.T) {
	bubble(t, func(r *rig) {
		r.cfg.EventLimit = 3
		r.start()
		r.hub.Partition("node/n1")
		r.hub.Heal("node/n1")
		synctest.Wait()
		r.desire(doc(1, 5))
		r.hub.SetHook(nil)
		for i := range 4 {
			r.desire(doc(1, uint64(i+1))) // stale
		}
		if got := r.eventTypes(); got != "key-pinned stale stale stale stale" {
			t.Errorf("events %q", got)
		}
		r.restart()
		r.mu.Lock()
		r.events = nil
		r.mu.Unlock()
		p := wire.EventsParams{After: 1}
		if e := r.request(wire.MethodEvents, wire.Encode(&p)).Error; e != nil {
			t.Error(e)
		}
		got := ""
		for _, e := range r.events {
			got += fmt.Sprintf("%d-%d-%s ", e.Seq, e.Lost, e.Type)
		}
		if !strings.HasPrefix(got, "6-4-stale 7-0-boot 8-0-stale ") { // stale again at the restart
			t.Errorf("asked for what came after 1: %s", got)
		}
	})
}

// A flood of bad messages changes nothing, and is told in a few events.
func TestBadMessages(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		r.desire(doc(1, 1))
		desired := r.topics.Desired("config")
		begun := time.Now()
		for _, bad := range [][]byte{[]byte("garbage"), bytes.Repeat([]byte("x"), 10<<20),
			[]byte(strings.Repeat("[", 100_000)), []byte(`{"v":1}`), {0xff, 0}} {
			for range 20 {
				r.publish(desired, bad, false)
				r.publish(r.topics.Request(), bad, false)
				r.publish(topic.ForController("u1"), bad, false)
			}
		}
		foreign := doc(1, 9)
		foreign.Node = "n2"
		foreign.Sig = r.signer.Sign(seal.DesiredPreimage(foreign))
		r.publish(desired, foreign.Append(nil), false)
		deep := with(doc(1, 9), strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000))
		r.desire(deep)
		r.want("1/1 installed", "1.0.0")
		if n := strings.Count(r.eventTypes(), "refused-message"); n == 0 || n > 20 {
			t.Errorf("%d events", n)
		}
		if !time.Now().Equal(begun) {
			t.Error("virtual time passed")
		}
		r.pass(time.Hour)
		r.publish(desired, []byte("garbage"), false)
		if e := r.events[len(r.events)-1]; !strings.Contains(string(e.Detail), `"suppressed":`) {
			t.Errorf("what was swallowed is not told: %s", e.Detail)
		}
		r.desire(doc(1, 2))
		r.want("2/2 installed", "2.0.0")
	})
}

// A year without a broker changes nothing.
// Under the race detector it is a tenth of a year: each second takes as long as three without it.
func TestOfflineForAYear(t *testing.T) {
	part := time.Duration(1)
	if race.Enabled {
		part = 10
	}
	bubble(t, func(r *rig) {
		r.start()
		r.desire(doc(1, 1))
		r.hub.Partition("node/n1")
		r.pass(200 * 24 * time.Hour / part)
		r.restart()
		r.pass(165 * 24 * time.Hour / part)
		r.wantFile("1.0.0")
		r.hub.Heal("node/n1")
		synctest.Wait()
		r.want("1/1 installed", "1.0.0")
		r.desire(doc(1, 2))
		r.want("2/2 installed", "2.0.0")
	})
}

func TestConfig(t *testing.T) {
	good := NewConfig("u1", "n1", "t", t.TempDir())
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		setting string
		change  func(*Config)
	}{
		{"unit", func(c *Config) { c.Unit = "" }},
		{"unit", func(c *Config) { c.Unit = "a b" }},
		{"type", func(c *Config) { c.Type = "" }},
		{"node", func(c *Config) { c.Node = "a/b" }},
		{"state-dir", func(c *Config) { c.StateDir = "" }},
		{"max-priority", func(c *Config) { c.MaxPriority = -2 }},
		{"partition", func(c *Config) { c.Partitions = map[string]string{"a": "b"} }},
		{"subscribe-qos", func(c *Config) { c.SubscribeQoS = 2 }},
		{"beat", func(c *Config) { c.Beat = time.Millisecond }},
		{"event-limit", func(c *Config) { c.EventLimit = -1 }},
		{"on-apply-timeout", func(c *Config) { c.OnApplyTimeout = -1 }},
		{"workload-group", func(c *Config) { c.WorkloadGroup = "tandem.slice/tandem-workloads.service" }},
		{"workload-users", func(c *Config) { c.WorkloadUsers = "70000" }},
		{"workload-loopback", func(c *Config) { c.WorkloadLoopback = "53" }},
		{"workload-loopback", func(c *Config) { c.WorkloadUsers, c.WorkloadLoopback = "70000-70009", "x" }},
		{"confine", func(c *Config) { c.Confine = "landlock+user" }},
		{"confine", func(c *Config) { c.Confine = "landlock+more" }},
		{"broker", func(c *Config) { c.Broker = "http://x" }},
		{"broker", func(c *Config) { c.Broker = "tcp://x:0" }},
		{"broker", func(c *Config) { c.Broker = "tcp://u:hunter2@x" }},
		{"allowed-label", func(c *Config) { c.AllowedLabels = []string{""} }},
		{"sample-period", func(c *Config) { c.SamplePeriod = -1 }},
		{"unit-key", func(c *Config) { c.UnitKey = fifo }},
		{"decrypt-key", func(c *Config) { c.DecryptKey = "decrypt.key" }}, // without age
	} {
		cfg := good
		c.change(&cfg)
		_, err := New(cfg, Deps{})
		var usage *UsageError
		if !errors.As(err, &usage) || usage.Setting != c.setting || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", c.setting, err)
		}
		if cfg.Unit == "" && !strings.Contains(err.Error(), cfg.StateDir) { // it may be another one that has joined
			t.Errorf("where nobody has joined: %v", err)
		}
	}
	// A New that failed has let go of everything.
	good.Broker = "tcp://127.0.0.1:1"
	a, err := New(good, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.store.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestShow: a node shows what was signed of the newest document that it has accepted, also if it has refused it, after
// a restart, and after another key has sealed it.
func TestShow(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		show := func(kind wire.Kind) (*wire.Shown, *wire.Error) {
			reply := r.request(wire.MethodShow, wire.Encode(&wire.ShowParams{Kind: kind}))
			if reply.Error != nil {
				return nil, reply.Error
			}
			return decode[wire.Shown](r, reply.Result), nil
		}
		if _, err := show("config"); err == nil || err.Code != wire.CodeNotFound {
			t.Errorf("without a document: %v", err)
		}
		shows := func(what string, rev uint64, by *seal.Signer) {
			t.Helper()
			s, err := show("config")
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			k := by.Key()
			d := s.Of("u1", "n1", "config")
			if err := (seal.Trust{k.ID: k.Ed25519}).Verify(seal.DesiredPreimage(d), d.Sig); err != nil || s.Rev != rev {
				t.Errorf("%s: rev %d, %v", what, s.Rev, err)
			}
		}
		r.desire(doc(1, 1))
		shows("accepted", 1, r.signer)
		bad := doc(1, 2)
		bad.Body = []byte(`{"formatVersion":"7","version":"2.0.0","priority":-1}`)
		bad.Hash = wire.Hash(bad.Body)
		r.desire(bad)
		shows("refused", 2, r.signer)
		r.restart()
		shows("after a restart", 2, r.signer)
		other := seal.NewSigner(key(2))
		r.beacon(1, r.signer, other)
		again := *bad
		again.Sig = other.Sign(seal.DesiredPreimage(&again))
		r.publish(r.topics.Desired(again.Kind), again.Append(nil), true)
		shows("sealed anew", 2, other)
		if _, err := show("odd"); err == nil || err.Code != wire.CodeNotFound {
			t.Errorf("of a kind that is not known: %v", err)
		}
	})
}
