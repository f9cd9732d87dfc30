package upgrade

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/proc"
)

// bundle makes a version of the program of another one that brings settings, and stages it.
func (p *patient) bundle(program, version, settings string) {
	p.t.Helper()
	text, file := filepath.Join(p.Dir, version+".yaml"), filepath.Join(p.Dir, "agent-"+version)
	if err := os.WriteFile(text, []byte(settings), 0o600); err != nil {
		p.t.Fatal(err)
	}
	has(p.t, p.Tandem("agent", "bundle", proc.Binary(p.t, "tandem-node-"+program), "--settings", text, "--version",
		version, "--out", file), 0, "wrote "+file, "")
	p.slot("stage", file, "--version", version)
}

// brought waits until the node tells which settings its version has brought; "": none.
func (p *patient) brought(version, want string) {
	p.t.Helper()
	proc.Until(p.t, fmt.Sprintf("version %q has brought %q", version, want), func() string {
		n, err := proc.Get[controller.Node](p.Unit, "/v1/nodes/n1")
		if err != nil || n.Info == nil || version != "" && n.Info.AgentVersion != version ||
			n.Info.Attributes[wire.AttributeSettings] != want {
			return fmt.Sprintf("%+v %v", n.Info, err)
		}
		return ""
	})
}

// counts checks a line of --print-config of the program in a slot.
func (p *patient) counts(slot, want string) {
	p.t.Helper()
	o := proc.Run(p.t, p.Dir, nil, p.program(slot), "--unit", "u1", "--type", "main", "--event-limit", "700",
		"--print-config")
	has(p.t, o, 0, "\n"+want+"\n", "")
}

// TestVersionBringsSettings: an upgrade puts the settings in place that its version brings, below the node's own; a
// version that brings others and is no good goes, and its settings with it; and so they do when the first is given up.
func TestVersionBringsSettings(t *testing.T) {
	t.Parallel()
	p := newPatient(t, []string{"BADNODE=crash"}, nil, "--event-limit", "700")
	p.brought("", "")
	p.bundle(goodVersion, "2.1.0", "beat: 20s\nevent-limit: 800\n")
	p.slot("try")
	p.restart()
	p.event(proc.Patience, nil, "trial-started")
	p.slot("commit")
	p.brought("2.1.0", "beat event-limit")
	p.counts("a", "beat: 20s  # version 2.1.0:1")
	p.counts("a", "event-limit: 700  # flag --event-limit")

	p.bundle(badVersion, "3.1.0", "beat: 25s\nsample-period: 3s\n")
	p.counts("b", "beat: 25s  # version 3.1.0:1")
	p.now()
	has(t, p.Tandem("node", "try", "n1", "--version", "3.1.0"), 0, "on trial", "")
	runs := len(p.node.Runs())
	back := p.node.Await("is the version before again", runs, 2*aTrial,
		func(r proc.ServiceRun) bool { return r.Ready && r.Program == p.program("a") })
	if bad := back - runs; bad != 3 {
		t.Errorf("%d runs of the bad version: %+v", bad, p.node.Runs())
	}
	if ev := p.event(proc.Patience, nil, "trial-rolled-back"); ev.Detail.Version != "3.1.0" {
		t.Errorf("%+v", ev)
	}
	p.brought("2.1.0", "beat event-limit")
	s := p.in("a", "a", "b", "unused", false, 0)
	if s.Brings["a"] == nil || strings.Join(s.Brings["b"], " ") != "beat sample-period" {
		t.Errorf("%v", s.Brings)
	}

	p.slot("rollback")
	p.restart()
	p.brought("", "")
	p.in("factory", "factory", "a", "unused", false, 0)
	p.untouched()
	p.ended()
}
