package upgrade

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tandem.internal/shared/wire"
	"tandem.internal/testenv/proc"
)

// A workload runs on while the launcher changes the agent's slot, and when it goes back: the same process, and each
// agent has it in its hands. The last one ends it.
func TestUpgradeUnderWorkload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := newPatient(t, nil, nil, "--workload-write", dir)
	file := filepath.Join(dir, "pid")
	script := fmt.Sprintf("#!/bin/sh\necho $$ >>%s\necho up\nexec sleep 1000\n", file)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := fmt.Fprint(w, script); err != nil {
			t.Log(err)
		}
	}))
	t.Cleanup(server.Close)
	quit := func() proc.Output {
		return proc.Run(t, p.Dir, nil, proc.Binary(t, "tandem-node"), "keep", "--dir",
			filepath.Join(p.StateDir("n1"), "keeper"), "--quit")
	}
	t.Cleanup(func() { quit() })
	sum := sha256.Sum256([]byte(script))
	set := filepath.Join(p.Dir, "set.json")
	apply := func(text string) {
		t.Helper()
		if err := os.WriteFile(set, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		has(t, p.Tandem("workload", "apply", set, "--wait"), 0, "", "")
	}
	apply(fmt.Sprintf(`[{"@class":"Instance","slot":"web@n1","resources":{"iss_hook_start":{"@class":"Resource",`+
		`"urls":[%q],"size":%d,"verification":{"checksum":"SHA256:%s","checkPeriod":"0d0h0m"}}}}]`,
		server.URL+"/start", len(script), hex.EncodeToString(sum[:])))
	var started []byte
	pid := 0
	proc.Until(t, "the workload, which runs, says so", func() string {
		var err error
		if started, err = os.ReadFile(file); err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(started)))
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
	keeper := parent(t, pid)
	runsOn := func(when string) {
		t.Helper()
		p.AwaitOnline("n1", true)
		has(t, p.Tandem("workload", "logs", "web@n1"), 0, "up\n", "") // the agent that is there now answers
		proc.Until(t, when+" the node tells of its slot", func() string {
			all, err := proc.Get[struct {
				Slots []struct {
					State  string             `json:"state"`
					Report *wire.WorkloadSlot `json:"report"`
				} `json:"slots"`
			}](p.Unit, "/v1/workloads/slots?node=n1")
			if err != nil || len(all.Slots) != 1 || all.Slots[0].State != string(wire.WorkloadRunning) ||
				all.Slots[0].Report.Restarts != 0 {
				return fmt.Sprintf("%+v, %v", all, err)
			}
			return ""
		})
		if now, err := os.ReadFile(file); err != nil || string(now) != string(started) || syscall.Kill(pid, 0) != nil {
			t.Errorf("%s process %d does not run on; started were %q (%v)", when, pid, now, err)
		}
	}

	p.stage(goodVersion)
	p.slot("try")
	p.restart()
	p.event(proc.Patience, nil, "trial-started")
	p.in("a", "factory", "a", "inprogress", true, 2)
	runsOn("on trial")
	p.slot("rollback")
	p.restart()
	p.in("factory", "factory", "a", "unused", false, 0)
	runsOn("after the way back")
	p.stage(goodVersion)
	p.slot("try")
	p.restart()
	p.slot("commit")
	p.in("a", "a", "a", "active", false, 0)
	runsOn("upgraded")

	apply("[]")
	proc.Until(t, "the process has ended", func() string {
		if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
			return fmt.Sprint(err)
		}
		return ""
	})
	p.untouched()
	p.node.Stop()
	has(t, quit(), 0, "", "")
	proc.Until(t, "the keeper has ended", func() string { // it has hung up, and is about to
		if data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", keeper)); err == nil &&
			strings.Contains(string(data), p.StateDir("n1")) {
			return string(data)
		}
		return ""
	})
	p.ended()
}

// parent is the process whose child a process is.
func parent(t *testing.T, pid int) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	ppid, err := strconv.Atoi(fields[1])
	if err != nil {
		t.Fatal(err)
	}
	return ppid
}
