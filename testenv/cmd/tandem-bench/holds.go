package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What a controller is to keep to, or it does not hold so many nodes.
const (
	holdsApply   = 30 * time.Second // until every node has a document and its report is journaled
	holdsRestart = time.Minute      // until a new one's view is complete: nodes try in ever longer times
	holdsMemory  = 768 << 20        // resident set, and GOMEMLIMIT: that of deploy/systemd/tandem-controller.service
	holdsWithin  = 10 * time.Minute // the section as a whole
	holdsApplies = 3                // of each step; the first is not counted
)

// holdsSection finds out how many nodes one controller holds with a limit of memory and of processors, in steps. Nodes
// are bare clients of the bench in a process of their own, on the same machine: what they use is not the controller's,
// but it is not there for the controller either. With more processors than the machine has, up to twice as many, it
// measures what memory these take; times are not better then.
func holdsSection(b *session) error {
	ends := time.Now().Add(holdsWithin)
	for _, procs := range b.procs {
		if procs > 2*runtime.NumCPU() {
			fmt.Printf("  not with %d processors: this machine has %d\n", procs, runtime.NumCPU())
			continue
		}
		held, last := 0, time.Duration(0)
		for _, n := range b.holds {
			if left := time.Until(ends); left < 4*last {
				fmt.Printf("  no time for %d nodes: %s are left, and the step before took %s\n", n,
					left.Round(time.Second), last.Round(time.Second))
				break
			}
			began := time.Now()
			missed, err := b.holdsStep(procs, n)
			if err != nil && held == 0 {
				return fmt.Errorf("%d nodes with %d processors: %w", n, procs, err)
			}
			if err != nil {
				fmt.Printf("  %d nodes: %v\n", n, err)
			}
			if last = time.Since(began); missed || err != nil {
				break
			}
			held = n
		}
		b.add(figure{Section: "holds", Name: "held with " + ofProcs(procs), Unit: "nodes",
			Value: float64(held), Note: fmt.Sprintf("of %v that were to be tried", b.holds)})
	}
	return nil
}

// holdsStep measures one number of nodes. missed: a bound was not kept to.
func (b *session) holdsStep(procs, n int) (missed bool, err error) {
	began := time.Now()
	s, err := b.side(hostConfig{Role: "product", Listen: "127.0.0.1:0", Env: []string{
		"GOMEMLIMIT=" + strconv.Itoa(holdsMemory), "GOMAXPROCS=" + strconv.Itoa(procs)}}, n, 0)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	connected := time.Since(began)
	var applied []float64
	for range holdsApplies {
		t, err := s.apply(true)
		if err != nil {
			return false, err
		}
		applied = append(applied, t)
	}
	rss, most, err := s.residentSet()
	if err != nil {
		return false, err
	}
	_, restarted, err := s.restarted()
	if err != nil {
		return false, err
	}
	after, _, err := s.residentSet()
	if err != nil {
		return false, err
	}
	var host []float64
	for _, u := range s.used[1:] {
		host = append(host, float64(u.cpu[0])/1e9)
	}
	reports := make([]float64, 0, len(applied))
	for _, t := range applied[1:] {
		reports = append(reports, float64(n)/t*60)
	}
	add := func(name, unit string, f figure) figure {
		f.Section, f.Unit = "holds", unit
		f.Name = fmt.Sprintf("%s, %d nodes, %s", name, n, ofProcs(procs))
		b.add(f)
		return f
	}
	bound := func(name, unit string, f figure) {
		f = add(name, unit, f)
		missed = missed || !*f.Met
	}
	add("until all are connected and reported", "s", figure{Value: connected.Seconds()})
	bound("apply, nodes not asked first", "s", figure{Samples: applied[1:]}.most(holdsApply.Seconds()))
	add("processor time of the controller and its broker, an apply", "s", figure{Samples: host})
	add("reports journaled in an apply", "/min", figure{Samples: reports})
	bound("resident set after the applies", "MB", figure{Value: rss}.most(holdsMemory/1e6))
	add("the largest resident set so far", "MB", figure{Value: most})
	bound("killed: until the view is complete", "s", figure{Value: restarted}.most(holdsRestart.Seconds()))
	add("resident set after the restart", "MB", figure{Value: after})
	return missed, nil
}

// ofProcs says how many there are for the controller.
func ofProcs(n int) string {
	if all := runtime.NumCPU(); n > all {
		return fmt.Sprintf("%d processors of Go on %d", n, all)
	}
	return fmt.Sprintf("%d processors", n)
}

// residentSet is that of the host now, and the most that it was, in MB.
func (s *side) residentSet() (now, most float64, err error) {
	path := fmt.Sprintf("/proc/%d/status", s.host.cmd.Process.Pid)
	rss, err := memoryOf(path, "VmRSS")
	if err != nil {
		return 0, 0, err
	}
	peak, err := memoryOf(path, "VmHWM")
	return float64(rss) / 1e6, float64(peak) / 1e6, err
}

// restarted kills the host, starts another on its directory, and returns the seconds until that answers, and until its
// view is complete.
func (s *side) restarted() (ready, complete float64, err error) {
	cfg := s.host.cfg
	cfg.Listen = s.host.at
	if err := s.host.kill(); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	h, err := start(cfg)
	if err != nil {
		return 0, 0, err
	}
	s.host = h
	ready = time.Since(began).Seconds()
	if err = s.wait(func(v *fleetView) bool { return v.Online == s.n && v.Installed == s.n }); err != nil {
		return 0, 0, err
	}
	complete = time.Since(began).Seconds()
	return ready, complete, s.nodes.do("online", s.n, nil)
}

// numbers reads numbers of least or more, with commas between, from the smallest.
func numbers(flag, text string, least int) (all []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < least {
			return nil, fmt.Errorf("--%s: %q is no number from %d", flag, part, least)
		}
		all = append(all, n)
	}
	slices.Sort(all)
	return all, nil
}
