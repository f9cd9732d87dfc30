package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// memorySection measures the controller's process with all nodes connected and idle, each with a
// document; the nodes are another process. What an empty controller takes is counted, too.
func memorySection(b *session) (err error) {
	s, err := b.side(hostConfig{Role: "product", Listen: "127.0.0.1:0"}, b.large, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for range 2 {
		if _, err := s.apply(true); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	pause(ctx, time.Second) // stacks shrink over a few collections
	var m memoryUse
	for range 3 {
		if err := s.host.do("memory", nil, &m); err != nil {
			return err
		}
	}
	if b.profile != "" {
		if err := s.host.do("heap", filepath.Join(b.profile, "memory.heap"), nil); err != nil {
			return err
		}
	}
	at, per := fmt.Sprintf("%d idle nodes", b.large), func(n uint64) float64 { return float64(n) / 1000 / float64(b.large) }
	b.add(figure{Section: "memory", Name: "controller's heap in use, " + at, Unit: "KB/node", Value: per(m.Heap)})
	b.add(figure{Section: "memory", Name: "controller's stacks in use, " + at, Unit: "KB/node", Value: per(m.Stack)})
	b.add(figure{Section: "memory", Name: "controller's heap and stacks, " + at, Unit: "KB/node", Value: per(m.Heap + m.Stack)}.most(45))
	b.add(figure{Section: "memory", Name: "controller's resident set, journal's pages included, " + at, Unit: "KB/node", Value: per(m.RSS)})
	return nil
}

// agentSection builds the node agent as it is shipped, runs it against a controller and measures
// it with a configuration applied.
func agentSection(b *session) (err error) {
	dir, err := b.folder()
	if err != nil {
		return err
	}
	binary := filepath.Join(dir, "tandem-node")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, "./nodeagent/cmd/tandem-node")
	build.Dir, build.Stderr = b.root, os.Stderr
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := build.Run(); err != nil {
		return fmt.Errorf("building the agent: %w", err)
	}
	info, err := os.Stat(binary)
	if err != nil {
		return err
	}
	b.add(figure{Section: "agent", Name: "stripped binary", Unit: "MB", Value: float64(info.Size()) / 1e6}.most(10))

	h, err := start(hostConfig{Role: "product", Dir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	agent := exec.Command(binary, "--unit", unitName, "--node", "node-1", "--type", nodeTypes[0], "--broker", "tcp://"+h.at, "--state-dir", filepath.Join(dir, "agent"), "--log-level", "warn")
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
	for i := range 3 {
		version := fmt.Sprintf("1.0.%d", i)
		if err := h.do("submit", submission{version, false}, nil); err != nil {
			return err
		}
		if err := s.wait(func(v *fleetView) bool { return v.Installed == 1 && v.Version == version }); err != nil {
			return err
		}
	}
	rss, err := residentSet(strconv.Itoa(agent.Process.Pid))
	if err != nil {
		return err
	}
	b.add(figure{Section: "agent", Name: "resident memory after three applies", Unit: "MiB", Value: float64(rss) / (1 << 20)}.most(12))
	return nil
}
