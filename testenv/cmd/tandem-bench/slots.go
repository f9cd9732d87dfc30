package main

import (
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The slots section runs so many slots on one node, and looks at the node for so long.
const (
	slotCount = 200
	slotWatch = 30 * time.Second
	slotHook  = "#!/bin/sh\nexec sleep 100000\n"
)

// workloads asks for a set of workloads to be applied.
type workloads struct {
	Document []byte
	Version  string
}

// workloadSet is a set of workloads of so many slots, all with one hook.
func workloadSet(n int, url string) []byte {
	sum := md5.Sum([]byte(slotHook))
	var b strings.Builder
	b.WriteByte('[')
	if n == 0 {
		return []byte("[]")
	}
	for i := range n {
		fmt.Fprintf(&b, `{"@class":"TopologicalInstance","slot":"slot-%03d@node-1",`+
			`"properties":{"kind":"sleeper","port":"%d"}},`, i, 8000+i)
	}
	fmt.Fprintf(&b, `{"@class":"InstanceFiller","name":"sleeper","filter":"instance[kind = 'sleeper']",
		"instance":{"properties":{},"resources":{"iss_hook_start":{"@class":"Resource","urls":[%q],"size":%d,
		"verification":{"checksum":"MD5:%s","checkPeriod":"0d1h0m"}}}}}]`, url, len(slotHook),
		hex.EncodeToString(sum[:]))
	return []byte(b.String())
}

// slotsSection runs many slots on one real node and measures what they cost the agent and the keeper
// when nothing happens.
func slotsSection(b *session) (err error) {
	binary, err := b.agentBinary()
	if err != nil {
		return err
	}
	dir := filepath.Dir(binary)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_,
			_ = fmt.Fprint(w, slotHook)
	}))
	defer server.Close()
	h, err := start(hostConfig{Role: "product", Dir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	state := filepath.Join(dir, "agent")
	agent := exec.Command(binary, "--unit", unitName, "--node", "node-1", "--type", nodeTypes[0], "--broker", "tcp://"+
		h.at, "--state-dir", state, "--log-level", "error")
	agent.Stderr = os.Stderr
	if err := agent.Start(); err != nil {
		return err
	}
	defer func() {
		kerr := agent.Process.Kill()
		_ = agent.Wait() // it says that it was killed
		err = errors.Join(err, kerr)
	}()
	s := &side{host: h, n: 1}
	if err := s.wait(func(v *fleetView) bool { return v.Online == 1 }); err != nil {
		return err
	}
	began := time.Now()
	sets := 0
	set := func(n int) error {
		sets++
		if err := h.do("workloads", workloads{Document: workloadSet(n, server.URL),
			Version: fmt.Sprintf("1.0.%d", sets)}, nil); err != nil {
			return err
		}
		ctx, cancel := patient()
		defer cancel()
		for running := -1; running != n; {
			if err := h.do("running", nil, &running); err != nil {
				return err
			}
			if !pause(ctx, viewEvery) {
				return fmt.Errorf("%d of %d slots run", running, n)
			}
		}
		return nil
	}
	if err := set(slotCount); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, set(0)) }() // first of all: nothing is to be left
	b.add(figure{Section: "slots", Name: fmt.Sprintf("from the submission until "+
		"%d slots run", slotCount), Unit: "s", Value: time.Since(began).Seconds()})
	keeper, err := keeperOf(state)
	if err != nil {
		return err
	}
	for _, p := range []struct {
		name    string
		pid     int
		mib, of float64 // what is allowed; 0: nothing is said
	}{{"agent", agent.Process.Pid, 40, 3}, {"keeper", keeper, 0, 0}} {
		pid := strconv.Itoa(p.pid)
		before, err := processorTime(pid)
		if err != nil {
			return err
		}
		from := time.Now()
		time.Sleep(slotWatch)
		after, err := processorTime(pid)
		if err != nil {
			return err
		}
		share := figure{Section: "slots", Name: fmt.Sprintf("%s with %d idle slots, of one core", p.name, slotCount),
			Unit: "%", Value: (after - before).Seconds() / time.Since(from).Seconds() * 100}
		rss, err := residentSet(pid)
		if err != nil {
			return err
		}
		memory := figure{Section: "slots", Name: fmt.Sprintf("%s with %d idle slots, resident", p.name, slotCount),
			Unit: "MiB", Value: float64(rss) / (1 << 20)}
		if p.mib > 0 {
			share, memory = share.most(p.of), memory.most(p.mib)
		}
		b.add(share)
		b.add(memory)
	}
	return nil
}

// keeperOf finds the keeper of a state directory.
func keeperOf(state string) (int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && strings.Contains(string(line), "\x00keep\x00") && strings.Contains(string(line), state) {
			return pid, nil
		}
	}
	return 0, errors.New("the keeper is not there")
}
