package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/nodeagent/internal/kinds/config"
)

func TestDrift(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		r.desire(doc(1, 1))
		r.stop()
		r.ran()
		file := filepath.Join(r.dir, ConfigFile)
		if err := os.WriteFile(file, []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
		r.start()
		r.want("1/1 installed", "1.0.0")
		r.stop()
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		r.start()
		r.want("1/1 installed", "1.0.0")
		if got := r.ran(); got != "repair 1.0.0 , repair 1.0.0 " {
			t.Errorf("ran %q", got)
		}
		if got := r.eventTypes(); got != "key-pinned drift-repaired drift-repaired" {
			t.Errorf("events %q", got)
		}
	})
}

// What somebody does to config.json under a running agent is put right as at the start.
func TestDriftWhileItRuns(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		r.desire(doc(1, 1))
		r.ran()
		file := filepath.Join(r.dir, ConfigFile)
		if err := os.WriteFile(file, []byte(strings.ToUpper(string(body("1.0.0")))), 0o600); err != nil {
			t.Fatal(err)
		}
		r.pass(config.Look)
		r.want("1/1 installed", "1.0.0")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		r.pass(config.Look)
		r.want("1/1 installed", "1.0.0")
		if got := r.ran(); got != "repair 1.0.0 , repair 1.0.0 " {
			t.Errorf("ran %q", got)
		}
		r.desire(try(doc(1, 2), "PT10M"))
		if err := os.WriteFile(file, body("1.0.0"), 0o600); err != nil { // the one of before the trial
			t.Fatal(err)
		}
		r.pass(config.Look)
		r.want("1/2 trying", "2.0.0")
		if got := r.eventTypes(); got != "key-pinned drift-repaired drift-repaired drift-repaired" {
			t.Errorf("events %q", got)
		}
	})
}

// By its setting the agent says what it finds, and leaves it: the node does not have its document until it is right.
func TestDriftIsOnlyReported(t *testing.T) {
	bubble(t, func(r *rig) {
		r.cfg.RepairDrift = false
		r.start()
		r.desire(doc(1, 1))
		r.ran()
		file := filepath.Join(r.dir, ConfigFile)
		if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.pass(3 * config.Look)
		wantAltered := func() {
			t.Helper()
			data, err := os.ReadFile(file)
			if got := r.last(); got != "-/1 installed drift" || err != nil || string(data) != "{}" {
				t.Errorf("reported %q of %s, %v", got, data, err)
			}
		}
		wantAltered()
		r.restart()
		wantAltered()
		if err := os.WriteFile(file, body("1.0.0"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.pass(config.Look)
		r.want("1/1 installed", "1.0.0")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		r.pass(config.Look)
		if got := r.last(); got != "-/1 installed drift" {
			t.Errorf("reported %q", got)
		}
		if got := r.ran(); got != "" {
			t.Errorf("ran %q", got)
		}
		r.desire(doc(1, 2))
		r.want("2/2 installed", "2.0.0")
		if got := r.eventTypes(); got != "key-pinned drift drift drift" {
			t.Errorf("events %q", got)
		}
	})
}
