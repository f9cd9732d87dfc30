package main

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// checkTimeout is how long nodes have to judge a submission unless the operator says otherwise (--check-timeout); the
// hosts here wait longer, so that it can be measured.
const checkTimeout = 5 * time.Second

// scaleRoom is the memory that a node and its part of the controller may take here together, in bytes.
const scaleRoom = 200_000

// scaleSection applies to as many nodes as one machine has no connections for: over pipes, in one process.
func scaleSection(b *session) (err error) {
	free, err := memoryOf("/proc/meminfo", "MemAvailable")
	if err != nil {
		return err
	}
	if need := uint64(b.scale) * scaleRoom; free < need {
		return fmt.Errorf("%d nodes may take %d MB of memory, and %d MB are free: --scale takes fewer", b.scale,
			need/1e6, free/1e6)
	}
	debug.FreeOSMemory() // what sections before this one have left
	s, err := b.side(hostConfig{Role: "product", Listen: "pipe"}, b.scale, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	var offline, checked, accepted, used []float64
	for i := range min(b.pairs, scaleRounds) + 1 { // the first round is not counted
		t, err := s.apply(true)
		if err != nil {
			return err
		}
		c, err := s.apply(false)
		if err != nil {
			return err
		}
		if i > 0 {
			offline, checked, accepted = append(offline, t), append(checked, c), append(accepted, s.answered)
			used = append(used, float64(s.used[len(s.used)-1].cpu[0])/1e3/float64(s.n))
		}
	}
	rss, err := memoryOf("/proc/self/status", "VmRSS")
	if err != nil {
		return err
	}
	at := fmt.Sprintf("%d nodes over pipes", b.scale)
	add := func(name, unit string, f figure) {
		f.Section, f.Name, f.Unit = "scale", name+", "+at, unit
		b.add(f)
	}
	add("apply, nodes not asked first", "s", figure{Samples: offline})
	add("apply, nodes asked first", "s", figure{Samples: checked})
	f := figure{Samples: accepted, Note: "the target is the default of --check-timeout"}
	add("until a submission is checked by all and accepted", "s", f.most(checkTimeout.Seconds()))
	add("processor time of controller and nodes, asked first", "µs/node", figure{Samples: used})
	add("resident set after it", "MB", figure{Value: float64(rss) / 1e6,
		Note: "controller, nodes and pipes in one process"})
	return nil
}

// scaleRounds bounds the rounds: each takes many seconds.
const scaleRounds = 5
