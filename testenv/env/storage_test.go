package env_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/env"
)

func epoch(e *env.Env) uint64 {
	e.Helper()
	s, err := e.Controller.Unit().Status(context.Background())
	if err != nil {
		e.Fatal(err)
	}
	return s.Epoch
}

// Without its journal the controller begins anew from the readable copy, in a higher epoch, and the
// nodes follow. A clock that stands in the past does not keep them from it.
func TestJournalIsLost(t *testing.T) {
	for name, skew := range map[string]time.Duration{"clock right": 0, "clock in the past": -48 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, s env.Setup) {
				env.Run(t, s, func(e *env.Env) {
					e.Apply(env.Doc("1.0.0"))
					e.Apply(env.Doc("2.0.0"))
					e.Reached("2.0.0")
					before := epoch(e)
					e.Node("n3").Stop()
					e.Pass(time.Minute)
					e.Controller.Stop()
					e.Controller.LoseJournal()
					e.Controller.SetClock(skew)
					e.Controller.Start()
					e.Reached("2.0.0", "n1", "n2")
					e.Node("n3").Start()
					e.Reached("2.0.0")
					if now := epoch(e); now <= before {
						t.Errorf("the epoch is %d after %d", now, before)
					}
					e.Refused(env.Doc("1.5.0"), wire.CodeWrongState)
					e.Apply(env.Doc("3.0.0"))
					e.Reached("3.0.0")
					e.Calm()
				})
			})
		})
	}
}

// Neither journal nor copy: the nodes work on, and what they run is not taken from them until
// somebody applies something.
func TestControllerLosesEverything(t *testing.T) {
	env.Run(t, env.Setup{}, func(e *env.Env) {
		e.Apply(env.Doc("2.0.0"))
		e.Reached("2.0.0")
		e.Pass(time.Minute)
		e.Controller.Stop()
		e.Controller.LoseJournal()
		if err := os.Remove(e.Controller.Copy()); err != nil {
			t.Fatal(err)
		}
		e.Controller.Start()
		e.Pass(time.Hour)
		if s := e.Status(); s.State != "absent" || s.Progress.Online != 3 {
			t.Errorf("status is %+v", s)
		}
		for _, n := range e.Nodes() {
			if !strings.Contains(string(n.File()), "2.0.0") {
				t.Errorf("%s runs %s", n.Name, n.File())
			}
		}
		e.Apply(env.Doc("0.1.0"))
		e.Reached("0.1.0")
		e.Calm()
	})
}

// A backup that is put back knows less than the nodes do. Its epoch rises, so that they listen; the
// newer readable copy shows that something is odd, and a person decides.
func TestOldBackupIsRestored(t *testing.T) {
	env.Run(t, env.Setup{}, func(e *env.Env) {
		e.Apply(env.Doc("1.0.0"))
		e.Reached("1.0.0")
		backup, before := e.Controller.Backup(), epoch(e)
		e.Apply(env.Doc("2.0.0"))
		e.Apply(env.Doc("3.0.0"))
		e.Reached("3.0.0")
		e.Controller.Stop()
		e.Controller.PutJournal(backup)
		e.Controller.Start()
		e.Pass(time.Minute)
		if s := e.Status(); s.State != "failed" || s.Error.Code != wire.CodeHashMismatch || s.Version != "1.0.0" {
			t.Errorf("status is %+v", s)
		}
		if err := e.Restore(); err != nil {
			t.Error(err)
		}
		e.Reached("1.0.0")
		if now := epoch(e); now <= before {
			t.Errorf("the epoch is %d after %d", now, before)
		}
		e.Apply(env.Doc("4.0.0"))
		e.Reached("4.0.0")
		e.Calm()
	})
}

// The file copied by hand does not say that it is a copy: what the nodes report does.
func TestOldFileIsPutBack(t *testing.T) {
	env.Run(t, env.Setup{}, func(e *env.Env) {
		e.Apply(env.Doc("1.0.0"))
		e.Reached("1.0.0")
		e.Controller.Stop()
		old, err := os.ReadFile(e.Controller.Journal())
		if err != nil {
			t.Fatal(err)
		}
		e.Controller.Start()
		before := epoch(e)
		for _, v := range []string{"2.0.0", "3.0.0", "4.0.0"} {
			e.Apply(env.Doc(v))
			e.Reached(v)
		}
		e.Controller.Stop()
		e.Controller.PutJournal(old)
		if err := os.Remove(e.Controller.Copy()); err != nil {
			t.Fatal(err)
		}
		e.Controller.Start()
		e.Reached("1.0.0")
		if now := epoch(e); now <= before {
			t.Errorf("the epoch is %d after %d", now, before)
		}
		e.Calm()
	})
}

func TestCopyIsRemoved(t *testing.T) {
	env.Run(t, env.Setup{}, func(e *env.Env) {
		e.Apply(env.Doc("1.0.0"))
		e.Reached("1.0.0")
		want, err := os.ReadFile(e.Controller.Copy())
		if err != nil {
			t.Fatal(err)
		}
		for _, again := range []func(){
			e.Controller.Restart, func() { e.Refused(env.Doc("1.0.0"), wire.CodeAlreadyExists) }} {
			if err := os.Remove(e.Controller.Copy()); err != nil {
				t.Fatal(err)
			}
			again()
			e.Pass(time.Minute)
			if got, err := os.ReadFile(e.Controller.Copy()); err != nil || string(got) != string(want) {
				t.Errorf("the copy is %q (%v), want %q", got, err, want)
			}
			if s := e.Status(); s.State != "installed" || s.Version != "1.0.0" {
				t.Errorf("status is %+v", s)
			}
		}
		e.Calm()
	})
}

// A copy that is not what was accepted: nothing is distributed any more until somebody restores it
// or applies a valid configuration, of whatever version.
func TestCopyIsDamaged(t *testing.T) {
	damage := map[string]struct {
		content string
		code    wire.Code
	}{
		"garbage": {"\x00\x01 not JSON", wire.CodeMalformed},
		"empty":   {"", wire.CodeMalformed},
		"altered": {string(env.Doc("9.0.0")), wire.CodeHashMismatch},
	}
	for name, d := range damage {
		t.Run(name, func(t *testing.T) {
			for _, restart := range []bool{false, true} {
				env.Run(t, env.Setup{}, func(e *env.Env) {
					e.Apply(env.Doc("2.0.0"))
					e.Reached("2.0.0")
					if err := os.WriteFile(e.Controller.Copy(), []byte(d.content), 0o600); err != nil {
						t.Fatal(err)
					}
					if restart {
						e.Controller.Restart()
					}
					e.Until(time.Minute, "it is noticed", func() bool {
						s := e.Status()
						return s.State == "failed" && s.Error != nil && s.Error.Code == d.code
					})
					n9 := e.Add(env.NodeSpec{Name: "n9"})
					n9.Start()
					e.Pass(time.Minute)
					if n9.File() != nil {
						t.Errorf("distributed in spite of it: %s", n9.File())
					}
					if restart {
						e.Apply(env.Doc("1.0.0")) // lower, but anything valid recovers
						e.Reached("1.0.0")
					} else {
						if err := e.Restore(); err != nil {
							t.Error(err)
						}
						e.Reached("2.0.0")
					}
					if s := e.Status(); s.State != "installed" || s.Error != nil {
						t.Errorf("status is %+v", s)
					}
					e.Calm()
				})
			}
		})
	}
}

// A full disk stops acceptance with a clear error, and nothing that was acknowledged is lost.
func TestControllersDiskIsFull(t *testing.T) {
	both(t, func(t *testing.T, s env.Setup) {
		env.Run(t, s, func(e *env.Env) {
			e.Apply(env.Doc("1.0.0"))
			e.Reached("1.0.0")
			e.Controller.Machine.Fill(true)
			for range 3 {
				_, err := e.Submit(controller.Submission{Kind: "config", Document: env.Doc("2.0.0")})
				if w := wire.AsError(err); err == nil || w.Code != wire.CodeStorage ||
					!strings.Contains(w.Message, "the disk is full") {
					t.Errorf("refused with %v", err)
				}
				e.Pass(time.Minute)
			}
			e.Node("n1").Restart() // the nodes' world goes on
			e.Pass(time.Minute)
			e.Controller.Machine.Fill(false)
			e.Pass(10 * time.Second)
			e.Apply(env.Doc("2.0.0"))
			e.Reached("2.0.0")
			e.Calm()
		})
	})
}

func TestNodesDiskIsFull(t *testing.T) {
	env.Run(t, env.Setup{}, func(e *env.Env) {
		e.Apply(env.Doc("1.0.0"))
		e.Reached("1.0.0")
		e.Node("n2").Machine.Fill(true)
		e.Apply(env.Doc("2.0.0"))
		e.Reached("2.0.0", "n1", "n3")
		e.Until(time.Minute, "n2 says why not", func() bool {
			v, _ := e.View("n2")
			last := v.Documents[wire.KindConfig].Last
			return last != nil && last.Version == "2.0.0" && last.Error != nil && last.Error.Code == wire.CodeStorage
		})
		if !strings.Contains(string(e.Node("n2").File()), "1.0.0") {
			t.Errorf("n2 runs %s", e.Node("n2").File())
		}
		e.Node("n2").Machine.Fill(false)
		e.Reached("2.0.0")
		e.Calm()
	})
}
