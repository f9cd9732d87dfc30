package fleet

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
	"go.uber.org/goleak"

	"tandem.internal/broker/server"
	"tandem.internal/controller/app"
	"tandem.internal/shared/link"
	"tandem.internal/shared/link/linktest"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func patience(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// unit runs a controller with its broker behind a pipe.
func unit(t *testing.T) (*app.App, *linktest.Pipe) {
	t.Helper()
	pipe := linktest.NewPipe()
	l, err := pipe.Listen()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "state")
	a, err := app.New(app.Config{Unit: "u1", StateDir: dir, Listen: "127.0.0.1:0", CheckTimeout: 10 * time.Second},
		app.Deps{NoAPI: true, Listeners: []net.Listener{l}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return a, pipe
}

func start(t *testing.T, cfg Config) *Fleet {
	t.Helper()
	cfg.Unit, cfg.Backoff = "u1", link.Backoff{Min: time.Millisecond, Max: 10 * time.Millisecond}
	f := New(cfg)
	t.Cleanup(f.Close)
	f.Start()
	if err := f.AwaitOnline(patience(t), cfg.Nodes); err != nil {
		t.Fatal(err)
	}
	return f
}

func document(version string) []byte {
	return []byte(`{"formatVersion":"7","version":"` + version +
		`","nodes":[{"nodeGroupSubject":{"codename":"a"},"labels":["x"]},{"nodeGroupSubject":{"codename":"b"}}]}`)
}

func await(t *testing.T, c <-chan struct{}, f *Fleet) {
	t.Helper()
	select {
	case <-c:
	case <-patience(t).Done():
		t.Fatalf("%+v", f.Stats())
	}
}

const nodes = 40

func TestTheWholeRoad(t *testing.T) {
	a, pipe := unit(t)
	f := start(t, Config{Nodes: nodes, Types: []string{"a", "b"}, Dial: pipe.Dial})
	ctx := patience(t)
	installed := func(version string) {
		t.Helper()
		s, err := a.Unit().SourceStatus(ctx, wire.KindConfig)
		if err != nil || s.Version != version || s.Progress.Installed != nodes || s.Progress.Online != nodes {
			t.Fatalf("%+v %v; %+v", s, err, f.Stats())
		}
	}
	done := f.Expect(nodes)
	r, err := a.Unit().Submit(ctx, app.Submission{Kind: "config", Document: document("1.0.0"), Who: "test", Via: "cli"})
	if err != nil || r.State != "accepted" || r.Checks.Agreed != nodes || r.Issued != nodes {
		t.Fatalf("%+v %v; %+v", r, err, f.Stats())
	}
	await(t, done, f)
	installed("1.0.0")
	if s := f.Stats(); s.Checks != nodes || s.Installed != nodes || s.Refused != 0 || s.Online != nodes ||
		s.Statuses != nodes {
		t.Fatalf("%+v", s)
	}

	// Documents that wait while everybody is away.
	f.Drop()
	if err := f.AwaitOnline(ctx, 0); err != nil {
		t.Fatal(err)
	}
	done = f.Expect(nodes)
	if r, err := a.Unit().Submit(ctx,
		app.Submission{Kind: "config", Document: document("2.0.0"), Who: "test", Via: "cli",
			Offline: true}); err != nil || r.State != "accepted" {
		t.Fatalf("%+v %v", r, err)
	}
	f.Start()
	await(t, done, f)
	if err := f.AwaitOnline(ctx, nodes); err != nil {
		t.Fatal(err)
	}
	installed("2.0.0")
	for i := range nodes {
		if f.AckedAt(i).IsZero() {
			t.Errorf("node %d never heard an acknowledgement", i)
		}
	}

	// A trial is confirmed.
	r, err = a.Unit().Submit(ctx, app.Submission{Kind: "config", Document: document("3.0.0"), Who: "test", Via: "cli",
		Mode: wire.ModeTry, ConfirmWithin: time.Minute})
	if err != nil || r.State != "accepted" {
		t.Fatalf("%+v %v", r, err)
	}
	for ctx.Err() == nil {
		changed := a.Unit().Changed()
		if s, err := a.Unit().SourceStatus(ctx, wire.KindConfig); err != nil {
			t.Fatal(err)
		} else if s.Progress.Installed == nodes {
			break
		}
		await(t, changed, f)
	}
	if _, err := a.Unit().Confirm(app.As(ctx, "test"), wire.KindConfig); err != nil {
		t.Fatal(err)
	}
	for ctx.Err() == nil {
		changed := a.Unit().Changed()
		all, err := a.Unit().Nodes(ctx)
		if err != nil {
			t.Fatal(err)
		}
		settled := 0
		for _, n := range all.Nodes {
			if l := n.Documents[wire.KindConfig].Last; l != nil && l.State == wire.StateInstalled &&
				l.Version == "3.0.0" {
				settled++
			}
		}
		if settled == nodes {
			return
		}
		await(t, changed, f)
	}
	t.Fatalf("%+v", f.Stats())
}

// bare runs a broker whose intake does nothing.
func bare(t *testing.T) (*server.Server, *linktest.Pipe) {
	t.Helper()
	pipe := linktest.NewPipe()
	l, err := pipe.Listen()
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Config{Unit: "u1", Listeners: []net.Listener{l}})
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, pipe
}

func TestBareClients(t *testing.T) {
	s, pipe := bare(t)
	f := start(t, Config{Nodes: nodes, Dial: pipe.Dial, Echo: 200})
	for _, retained := range []bool{true, false} {
		done := f.Expect(nodes)
		for i := range nodes {
			n := topic.ForNode("u1", Name(i))
			to := n.Desired(wire.KindConfig)
			if !retained {
				to = n.Request()
			}
			if err := s.Publish(to, make([]byte, 1024), retained); err != nil {
				t.Fatal(err)
			}
		}
		await(t, done, f)
		status, ok := s.Retained(topic.ForNode("u1", Name(3)).Reported(wire.KindConfig))
		if len(status) != 200 || !ok {
			t.Fatalf("%d bytes, %v", len(status), ok)
		}
		if _, ok := s.Retained(topic.ForNode("u1", Name(3)).Reply()); ok {
			t.Fatal("a reply is retained")
		}
	}
}

func TestNodesComeBackByThemselves(t *testing.T) {
	s, pipe := bare(t)
	f := start(t, Config{Nodes: nodes, Dial: pipe.Dial})
	for i := range nodes {
		s.Disconnect("node/"+Name(i), "test")
	}
	for deadline := patience(t); f.Stats().Connects < 2*nodes; {
		if err := f.AwaitOnline(deadline, nodes); err != nil {
			t.Fatal(err)
		}
	}
	if st := f.Stats(); st.Disconnects != nodes || len(st.Errors) == 0 {
		t.Fatalf("%+v", st)
	}
}

func TestNodesSayLiveAgain(t *testing.T) {
	s, pipe := bare(t)
	taken := s.Stats().Taken
	f := start(t, Config{Nodes: 3, Dial: pipe.Dial, Beat: 3 * time.Millisecond})
	for deadline := patience(t); f.Stats().Pubacks < 3*3+6; {
		if deadline.Err() != nil {
			t.Fatalf("%+v; the broker took %d", f.Stats(), s.Stats().Taken-taken)
		}
		if err := f.AwaitOnline(deadline, 3); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStalledNodeDoesNotRead(t *testing.T) {
	s, pipe := bare(t)
	f := start(t, Config{Nodes: 2, Dial: pipe.Dial, Echo: 10})
	resume := f.Stall(1)
	send := func(i int) {
		t.Helper()
		if err := s.Publish(topic.ForNode("u1", Name(i)).Desired(wire.KindConfig), []byte("x"), true); err != nil {
			t.Fatal(err)
		}
	}
	send(1)
	done := f.Expect(1)
	send(0)
	await(t, done, f)
	if n := f.Stats().Documents; n != 1 || !f.AckedAt(1).IsZero() {
		t.Fatalf("%d documents read", n)
	}
	done = f.Expect(1)
	resume()
	await(t, done, f)
}

// A light node refuses what an agent must refuse.
func TestAcceptance(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer := seal.NewSigner(key)
	_, other, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	good := wire.Desired{V: 1, Unit: "u1", Node: Name(0), Kind: wire.KindConfig, Epoch: 2, Rev: 5, Version: "1.0.0",
		Issued: time.Unix(1, 0), Mode: wire.ModeApply, Body: []byte(`{"a":1}`)}
	good.Hash = wire.Hash(good.Body)
	sealed := func(s *seal.Signer, change func(*wire.Desired)) []byte {
		d := good
		change(&d)
		d.Sig = s.SignAll([][]byte{seal.DesiredPreimage(&d), []byte("another")})[0]
		return wire.Encode(&d)
	}
	f := New(Config{Unit: "u1", Nodes: 2})
	n := f.nodes[0]
	beacon := wire.Beacon{V: 1, Unit: "u1", Epoch: 2, Up: true, Time: time.Unix(1, 0), Keys: []wire.Key{signer.Key()},
		Jitter: "PT0S"}
	beacon.Sig = signer.Sign(seal.BeaconPreimage(&beacon))
	if out := n.hear(wire.Encode(&beacon)); out != nil || !f.trust.pinned() {
		t.Fatalf("%v %+v", out, f.Stats())
	}
	forged := beacon
	forged.Keys = []wire.Key{seal.NewSigner(other).Key()}
	forged.Sig = seal.NewSigner(other).Sign(seal.BeaconPreimage(&forged))
	if err := f.trust.pin(&forged); !errors.Is(err, &wire.Error{Code: wire.CodeUnknownKey}) {
		t.Fatalf("a changed key: %v", err)
	}
	same := func(*wire.Desired) {}
	for _, c := range []struct {
		name    string
		payload []byte
		code    wire.Code
		state   wire.State // reported; "" for no report at all
		running uint64
	}{
		{"good", sealed(signer, same), "", wire.StateInstalled, 5},
		{"again", sealed(signer, same), "", wire.StateInstalled, 5},
		{"not JSON", []byte("x"), wire.CodeMalformed, "", 5},
		{"unsigned", wire.Encode(&good), wire.CodeUnsigned, "", 5},
		{"another's key", sealed(seal.NewSigner(other), same), wire.CodeUnknownKey, "", 5},
		{"tampered", bytes.Replace(sealed(signer, func(d *wire.Desired) { d.Rev = 6 }), []byte(`"rev":6`),
			[]byte(`"rev":7`), 1), wire.CodeBadSignature, "", 5},
		{"another node", sealed(signer, func(d *wire.Desired) { d.Node = Name(1) }), wire.CodeWrongTarget, "", 5},
		{"older", sealed(signer, func(d *wire.Desired) { d.Rev = 4 }), wire.CodeStale, wire.StateInstalled, 5},
		{"fork", sealed(signer, func(d *wire.Desired) { d.Body = []byte(`{"a":2}`); d.Hash = wire.Hash(d.Body) }),
			wire.CodeFork, wire.StateInstalled, 5},
		{"wrong body", sealed(signer, func(d *wire.Desired) { d.Rev, d.Body = 6, []byte(`{"a":2}`) }),
			wire.CodeHashMismatch, wire.StateRejected, 5},
		{"newer", sealed(signer, func(d *wire.Desired) { d.Rev = 8 }), "", wire.StateInstalled, 8},
		{"newer epoch", sealed(signer, func(d *wire.Desired) { d.Epoch, d.Rev = 3, 1 }), "", wire.StateInstalled, 1},
	} {
		f.errs = nil
		m, news, ok := n.document(c.payload)
		if (len(f.errs) == 0) != (c.code == "") || c.code != "" && !errors.Is(f.errs[0], &wire.Error{Code: c.code}) {
			t.Errorf("%s: %v, want %q", c.name, f.errs, c.code)
		}
		if ok != (c.state != "") {
			t.Errorf("%s: reported %v", c.name, ok)
		}
		if ok {
			r, err := wire.Decode[wire.Reported](m.payload)
			if err != nil || r.Last.State != c.state || !m.retain {
				t.Errorf("%s: %+v %v", c.name, r, err)
			}
		}
		if want := ok && (c.code == "" && c.name != "again" || c.state == wire.StateRejected); news != want {
			t.Errorf("%s: news %v", c.name, news)
		}
		if n.running.Rev != c.running {
			t.Errorf("%s: runs %+v", c.name, n.running)
		}
	}
}

// TestProofs: a node with a key proves everything that it says, with the newest beacon; one without says it as it is.
func TestProofs(t *testing.T) {
	key := bytes.Repeat([]byte{7}, wire.ReportKeySize)
	f := New(Config{Unit: "u1", Nodes: 2, Key: func(name string) []byte {
		return map[string][]byte{Name(0): key}[name]
	}})
	defer f.Close()
	heard := wire.Heard{Epoch: 5, Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	for i, n := range f.nodes {
		n.heard = heard
		mine, its := net.Pipe()
		sent := make(chan error, 1)
		go func() {
			_, err := n.send(newConn(mine), 0, n.greeting()...)
			sent <- errors.Join(err, mine.Close())
		}()
		c, count := newConn(its), 0
		var pk packets.Packet
		buf := make([]byte, 0, 2048)
		for ; c.read(&pk, &buf) == nil; count++ {
			message, proof := wire.SplitProof(pk.Payload)
			if (proof != nil) != (i == 0) || proof != nil && (!proof.Verify(key, pk.TopicName, message) ||
				proof.Since() != heard) {
				t.Errorf("node %d: %s has the proof %+v", i, pk.TopicName, proof)
			}
		}
		if err := errors.Join(<-sent, its.Close()); err != nil || count != 3 {
			t.Errorf("node %d: %d messages, %v", i, count, err)
		}
	}
}
