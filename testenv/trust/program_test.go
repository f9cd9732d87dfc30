package trust

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	node "tandem.internal/nodeagent/app"
	"tandem.internal/nodeagent/key"
)

// program is a key program, in this process and for anybody: who is answered, package key tests.
type program struct {
	r       *Rig
	cfg     key.Config
	setting string
	stop    func()
}

// newProgram is a key program that runs.
func newProgram(r *Rig) *program {
	r.t.Helper()
	dir, err := os.MkdirTemp("", "key-") // short: a socket's path has at most 107 bytes
	if err != nil {
		r.t.Fatal(err)
	}
	socket := filepath.Join(dir, "socket")
	p := &program{r: r, setting: "unix:" + socket, cfg: key.Config{Socket: socket, Dir: filepath.Join(r.Dir, "keys"),
		Guard: func(*net.UnixConn) error { return nil }, Log: r.Log}}
	p.start()
	r.t.Cleanup(func() {
		p.stop()
		if err := os.RemoveAll(dir); err != nil {
			r.t.Error(err)
		}
	})
	return p
}

func (p *program) start() {
	p.r.t.Helper()
	ready := make(chan struct{})
	p.stop = p.r.Run("key program", func(ctx context.Context) error { return key.Serve(ctx, p.cfg, ready) })
	select {
	case <-ready:
	case <-time.After(patience):
		p.r.t.Fatal("the key program does not start")
	}
}

// used has an agent use the program.
func (p *program) used(c *node.Config) { c.Key = p.setting }

// join has a machine join with its key in the program.
func (p *program) join(machine, token string) error {
	_, err := node.Join(p.r.t.Context(), node.JoinConfig{Controller: p.r.App.JoinURL(), Token: token, Key: p.setting,
		StateDir: filepath.Join(p.r.Dir, machine)}, node.JoinDeps{Now: p.r.Now})
	return err
}

// identity is what a machine's own file has of it.
func (r *Rig) identity(machine string) (f struct{ Key, Certificate []byte }) {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(r.Dir, machine, node.IdentityDir, "identity.json"))
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return f
}

// keyless fails if a key is in a machine's directory.
func (r *Rig) keyless(machine string) {
	r.t.Helper()
	if f := r.identity(machine); f.Key != nil {
		r.t.Error("the key is in the agent's directory")
	}
	for _, name := range []string{"report-key.json", "pending.json"} {
		if _, err := os.Stat(filepath.Join(r.Dir, machine, node.IdentityDir, name)); !errors.Is(err, fs.ErrNotExist) {
			r.t.Errorf("%s is in the agent's directory: %v", name, err)
		}
	}
}

// TestKeyProgram: a node whose key is with a key program joins, connects, proves what it says and renews; who copies
// its directory has no key.
func TestKeyProgram(t *testing.T) {
	r := NewRig(t)
	p := newProgram(r)
	if err := p.join("n1", r.Enroll("n1")); err != nil {
		t.Fatal(err)
	}
	stop := r.Agent("n1", p.used)
	r.Online("n1", true)
	r.proves("n1")
	r.keyless("n1")

	if err := os.CopyFS(filepath.Join(r.Dir, "thief"), os.DirFS(filepath.Join(r.Dir, "n1"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(r.Dir, "thief", node.IdentityDir, "identity.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := node.NewConfig("", "", "mainType", filepath.Join(r.Dir, "thief"))
	if _, err := node.New(cfg, node.Deps{}); err == nil || !strings.Contains(err.Error(), "--key") {
		t.Errorf("an agent without the key program: %v", err)
	}

	before := string(r.identity("n1").Certificate)
	stop()
	r.Online("n1", false)
	r.Pass(70 * 24 * time.Hour)
	r.Agent("n1", p.used)
	r.Until("another certificate", func() string {
		if string(r.identity("n1").Certificate) == before {
			return "not yet"
		}
		return ""
	})
	r.Online("n1", true)
	r.keyless("n1")
	var kept struct{ Keys []struct{ ID string } }
	data, err := os.ReadFile(filepath.Join(p.cfg.Dir, "keys.json"))
	if err == nil {
		err = json.Unmarshal(data, &kept)
	}
	if err != nil || len(kept.Keys) > 2 {
		t.Errorf("%d keys are kept: %v", len(kept.Keys), err)
	}
}

// TestKeyProgramIsAway: without its key program the agent works on and says why it has no session; when the program is
// back, it connects, and all that it says is proved.
func TestKeyProgramIsAway(t *testing.T) {
	r := NewRig(t)
	p := newProgram(r)
	if err := p.join("n1", r.Enroll("n1")); err != nil {
		t.Fatal(err)
	}
	stop := r.Agent("n1", p.used)
	r.Online("n1", true)
	r.proves("n1")
	stop()
	r.Online("n1", false)
	p.stop()
	r.Agent("n1", p.used)
	r.Until("the agent says why", func() string {
		for _, e := range r.Logs.FilterMessageSnippet("no session with the broker").All() {
			for _, f := range e.Context {
				if err, ok := f.Interface.(error); ok && strings.Contains(err.Error(), p.setting[len("unix:"):]) &&
					strings.Contains(err.Error(), "does not run") {
					return ""
				}
			}
		}
		return "nothing in the log"
	})
	p.start()
	r.Online("n1", true)
	for _, e := range r.Entries("trouble") {
		t.Errorf("the controller refused: %s", e.Data)
	}
}

// TestKeyMoves: a node that has joined without a key program gets a key of the program's as soon as it is given one,
// and nothing of the old one is left in its directory.
func TestKeyMoves(t *testing.T) {
	r := NewRig(t)
	r.Joined("n1")
	stop := r.Agent("n1")
	r.Online("n1", true)
	r.proves("n1")
	stop()
	r.Online("n1", false)
	if r.identity("n1").Key == nil {
		t.Fatal("this test does not see keys")
	}
	r.Pass(2 * time.Minute) // the controller certifies a node once a minute
	p := newProgram(r)
	r.Agent("n1", p.used)
	r.Until("the key has moved", func() string {
		if r.identity("n1").Key != nil {
			return "not yet"
		}
		if _, err := os.Stat(filepath.Join(r.Dir, "n1", node.IdentityDir, "report-key.json")); !errors.Is(err,
			fs.ErrNotExist) {
			return "the report key has not"
		}
		return ""
	})
	r.keyless("n1")
	r.Online("n1", true)
}

// TestKeyProgramLosesKeys: a join whose key was lost takes another one, if the controller has not heard of it; a node
// whose key was lost joins again.
func TestKeyProgramLosesKeys(t *testing.T) {
	r := NewRig(t)
	p := newProgram(r)
	lose := func() {
		t.Helper()
		p.stop()
		if err := os.RemoveAll(p.cfg.Dir); err != nil {
			t.Fatal(err)
		}
		p.start()
	}
	token := r.Enroll("n1")
	door := r.App.JoinURL()
	r.Stop()
	_, err := node.Join(t.Context(), node.JoinConfig{Controller: door, Token: token, Key: p.setting,
		StateDir: filepath.Join(r.Dir, "n1")}, node.JoinDeps{Now: r.Now})
	if err == nil {
		t.Fatal("it joined without a controller")
	}
	r.Start(nil)
	lose()
	if err := p.join("n1", token); err != nil {
		t.Fatal(err)
	}
	lose()
	stop := r.Agent("n1", p.used)
	r.Until("the agent says why", func() string {
		for _, e := range r.Logs.FilterMessageSnippet("no session with the broker").All() {
			for _, f := range e.Context {
				if err, ok := f.Interface.(error); ok && strings.Contains(err.Error(), "join again") {
					return ""
				}
			}
		}
		return "nothing in the log"
	})
	stop()
	if err := p.join("n1", r.Enroll("n1")); err != nil {
		t.Fatal(err)
	}
	r.Agent("n1", p.used)
	r.Online("n1", true)
}
