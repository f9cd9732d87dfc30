package upgrade

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/proc"
)

// offered serves the programs of versions, and counts how often each was asked for.
type offered struct {
	*httptest.Server
	dir   string
	asked atomic.Int64
}

func offer(t *testing.T) *offered {
	o := &offered{dir: t.TempDir()}
	files := http.FileServer(http.Dir(o.dir))
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.asked.Add(1)
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(o.Close)
	return o
}

// put has a file served, and puts the version on offer.
func (p *patient) put(o *offered, version, program string) {
	p.t.Helper()
	data, err := os.ReadFile(program)
	if err != nil {
		p.t.Fatal(err)
	}
	file := filepath.Join(o.dir, "agent-"+version)
	if err := os.WriteFile(file, data, 0o700); err != nil {
		p.t.Fatal(err)
	}
	has(p.t, p.Tandem("agent", "release", file, "--version", version, "--url", o.URL), 0,
		"version "+version+" of the agent is on offer", "")
}

// policy waits until the node is in a state with a policy.
func (p *patient) policy(within time.Duration, state wire.PolicyState, version string) (found controller.PolicyNode) {
	p.t.Helper()
	for end := time.Now().Add(within); ; time.Sleep(100 * time.Millisecond) {
		v, err := proc.Get[controller.PolicyStatus](p.Unit, "/v1/policies/agents/status")
		if err == nil && len(v.Nodes) == 1 && v.Nodes[0].State == state && v.Nodes[0].Version == version {
			return v.Nodes[0]
		}
		if time.Now().After(end) {
			p.t.Fatalf("waited %v for %s of %s: %+v %v\n%s", within, state, version, v, err,
				p.Tandem("events", "--node", "n1").Out)
		}
	}
}

// apply sets the policy.
func (p *patient) apply(text string) {
	p.t.Helper()
	file := filepath.Join(p.Dir, "agents.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	has(p.t, p.Tandem("policy", "apply", file, "--yes-all-nodes"), 0, "policy agents is set", "")
}

// TestPolicyUpgrades: a policy brings a node from the installed agent to the version on offer; a broken version is
// rolled back and not gone to again; what is not the file that was put on offer is never started.
func TestPolicyUpgrades(t *testing.T) {
	t.Parallel()
	p := newPatient(t, []string{"BADNODE=crash"}, nil)
	o := offer(t)
	has(t, p.Tandem("property", "set", "n1", "line", "4"), 0, "line of n1 is set", "")
	p.apply(`{"enabled":true,"constraints":["line == 4"],"agentUpgradePolicy":{"atLeastVersion":"current"}}`)
	p.policy(proc.Patience, wire.PolicyWaiting, "")
	p.put(o, goodVersion, proc.Binary(t, "tandem-node-"+goodVersion))
	p.policy(aTrial, wire.PolicySuccessful, goodVersion)
	proc.Until(t, "the node runs it", func() string {
		n, err := proc.Get[controller.Node](p.Unit, "/v1/nodes/n1")
		if err != nil || n.Info.AgentVersion != goodVersion {
			return fmt.Sprintf("%+v %v", n.Info, err)
		}
		return ""
	})
	p.untouched()

	asked := o.asked.Load()
	p.apply(`{"enabled":true,"constraints":["line == 4"],"agentUpgradePolicy":{"atLeastVersion":"1.0.0"}}`)
	p.policy(proc.Patience, wire.PolicyNoAction, "")
	if n := o.asked.Load(); n != asked {
		t.Errorf("%d requests for a node that has what is wanted", n-asked)
	}

	p.put(o, badVersion, proc.Binary(t, "tandem-node-"+badVersion))
	p.apply(`{"enabled":true,"constraints":["line == 4"],"agentUpgradePolicy":{"atLeastVersion":"` + badVersion + `"}}`)
	n := p.policy(aTrial, wire.PolicyRollbackSucceeded, badVersion)
	if n.Error == nil || !strings.Contains(n.Error.Message, "fatal") || n.Rollback != nil {
		t.Errorf("%+v, %+v", n.Error, n.Rollback)
	}
	p.apply(`{"enabled":true,"constraints":["line == 4"],"agentUpgradePolicy":{"atLeastVersion":"2.5.0"}}`)
	if n := p.policy(proc.Patience, wire.PolicyFailed, badVersion); n.Error == nil ||
		n.Error.Code != wire.CodeQuarantined {
		t.Errorf("%+v", n.Error)
	}

	const alteredVersion = "3.1.0"
	another := filepath.Join(t.TempDir(), "another")
	data, err := os.ReadFile(proc.Binary(t, "tandem-node-"+badVersion))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(another, append(data, 0), 0o700); err != nil { // content that has not failed
		t.Fatal(err)
	}
	p.put(o, alteredVersion, another)
	altered := filepath.Join(o.dir, "agent-"+alteredVersion)
	data[len(data)/2] ^= 1
	if err := os.WriteFile(altered, data, 0o700); err != nil {
		t.Fatal(err)
	}
	p.apply(`{"enabled":true,"constraints":["line == 4"],"agentUpgradePolicy":{"atLeastVersion":"` + alteredVersion +
		`"}}`)
	if n := p.policy(2*proc.Patience, wire.PolicyDownloadFailed, alteredVersion); n.Error == nil ||
		n.Error.Code != wire.CodeHashMismatch {
		t.Errorf("%+v", n.Error)
	}
	if s := p.slot("status"); s.Trial || s.Trying != "" {
		t.Errorf("what was altered is tried: %+v", s)
	}
	p.untouched()
	has(t, p.Tandem("policy", "status", "agents"), 0, "1 download failed", "")
}
