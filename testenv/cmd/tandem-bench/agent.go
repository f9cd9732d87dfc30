package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// agentApplies are counted for the processor time of one.
const agentApplies = 50

// agentBinary builds the node agent as it is shipped.
func (b *session) agentBinary() (string, error) {
	dir, err := b.folder()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "tandem-node")
	build := exec.Command("make", "-s", "agent", "AGENT="+binary)
	build.Dir, build.Stderr = b.root, os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("building the agent: %w", err)
	}
	// An installed binary is on the disk: the agent lets go of pages only if they are.
	f, err := os.Open(binary)
	if err != nil {
		return "", err
	}
	return binary, errors.Join(f.Sync(), f.Close())
}

// agentSection builds the node agent as it is shipped, runs it against a controller and measures
// it with a configuration applied.
func agentSection(b *session) (err error) {
	binary, err := b.agentBinary()
	if err != nil {
		return err
	}
	info, err := os.Stat(binary)
	if err != nil {
		return err
	}
	b.add(figure{Section: "agent", Name: "stripped binary", Unit: "MB", Value: float64(info.Size()) / 1e6}.most(10))

	dir := filepath.Dir(binary)
	h, err := start(hostConfig{Role: "product", Dir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	agent := exec.Command(binary, "--unit", unitName, "--node", "node-1", "--type", nodeTypes[0], "--broker", "tcp://"+
		h.at, "--state-dir", filepath.Join(dir, "agent"), "--log-level", "error")
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
	applied := 0
	apply := func(n int) error {
		for range n {
			version := fmt.Sprintf("1.0.%d", applied)
			applied++
			if err := h.do("submit", submission{version, false}, nil); err != nil {
				return err
			}
			if err := s.wait(func(v *fleetView) bool { return v.Installed == 1 && v.Version == version }); err != nil {
				return err
			}
		}
		return nil
	}
	if err := apply(3); err != nil {
		return err
	}
	pid := strconv.Itoa(agent.Process.Pid)
	rss, err := residentSet(pid)
	if err != nil {
		return err
	}
	b.add(figure{Section: "agent", Name: "resident memory after three applies", Unit: "MiB",
		Value: float64(rss) / (1 << 20)}.most(12))
	before, err := processorTime(pid)
	if err != nil {
		return err
	}
	if err := apply(agentApplies); err != nil {
		return err
	}
	after, err := processorTime(pid)
	if err != nil {
		return err
	}
	b.add(figure{Section: "agent", Name: fmt.Sprintf("processor time of an "+
		"apply, mean of %d", agentApplies), Unit: "ms",
		Value: (after - before).Seconds() * 1e3 / agentApplies})
	if rss, err = residentSet(pid); err != nil {
		return err
	}
	b.add(figure{Section: "agent", Name: fmt.Sprintf("resident memory after %d applies", applied), Unit: "MiB",
		Value: float64(rss) / (1 << 20)}.most(12))
	return nil
}

// processorTime is what a process has used so far: its own and the kernel's on its behalf, of all its
// threads that live (proc(5), schedstat, in nanoseconds).
func processorTime(pid string) (time.Duration, error) {
	threads, err := os.ReadDir("/proc/" + pid + "/task")
	if err != nil {
		return 0, err
	}
	total := time.Duration(0)
	for _, t := range threads {
		text, err := os.ReadFile("/proc/" + pid + "/task/" + t.Name() + "/schedstat")
		if err != nil {
			return 0, err
		}
		first, _, _ := bytes.Cut(text, []byte(" "))
		ns, err := strconv.ParseInt(string(first), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("schedstat of thread %s: %w", t.Name(), err)
		}
		total += time.Duration(ns)
	}
	return total, nil
}
