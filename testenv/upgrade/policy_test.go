package upgrade

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

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

// put has a file served, and puts the version on offer. It returns the file.
func (p *patient) put(o *offered, version, program string) string {
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
	return file
}

// policy waits until the node is in a state with a policy, and why; "": for no reason.
func (p *patient) policy(state wire.PolicyState, version string, why wire.Code) {
	p.t.Helper()
	proc.Until(p.t, fmt.Sprintf("the node is at %s %s", state, version), func() string {
		v, err := proc.Get[controller.PolicyStatus](p.Unit, "/v1/policies/agents/status")
		if err != nil || len(v.Nodes) != 1 || v.Nodes[0].State != state || v.Nodes[0].Version != version {
			return fmt.Sprintf("%+v %v", v, err)
		}
		if e := v.Nodes[0].Error; e == nil && why != "" || e != nil && e.Code != why {
			return fmt.Sprintf("%+v", e)
		}
		return ""
	})
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

// TestPolicyFromAWebServer: a node that has not joined cannot fetch from its controller, and asks the other address of
// the release, once it has a policy. What is not the file that was put on offer is never started.
func TestPolicyFromAWebServer(t *testing.T) {
	t.Parallel()
	p := newPatient(t, nil, nil)
	o := offer(t)
	has(t, p.Tandem("property", "set", "n1", "line", "4"), 0, "line of n1 is set", "")
	file := p.put(o, goodVersion, proc.Binary(t, "tandem-node-"+goodVersion))
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(file, data, 0o700); err != nil {
		t.Fatal(err)
	}
	if n := o.asked.Load(); n != 0 {
		t.Errorf("%d requests of a node without a policy", n)
	}
	p.apply(`{"enabled":true,"constraints":["line == 4"],"agentUpgradePolicy":{"atLeastVersion":"current"}}`)
	p.policy(wire.PolicyDownloadFailed, goodVersion, wire.CodeHashMismatch)
	if n := o.asked.Load(); n == 0 {
		t.Error("it came from elsewhere")
	}
	if s := p.slot("status"); s.Trial || s.Trying != "" || s.Slots[0].Version != "" {
		t.Errorf("what was altered is tried: %+v", s)
	}
	has(t, p.Tandem("policy", "status", "agents"), 0, "1 download failed", "")
	p.untouched()
}
