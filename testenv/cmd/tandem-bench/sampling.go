package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// The sampling section looks more often than the agent does, to see something at all.
const (
	samplingPeriod  = 100 * time.Millisecond
	samplingCount   = 100
	samplingDefault = 10 * time.Second // of the agent
)

// samplingSection measures what a look at the node costs: the processor time of the agent's binary that
// takes many samples, less that of one which takes one, over the default period.
func samplingSection(b *session) error {
	binary, err := b.agentBinary()
	if err != nil {
		return err
	}
	spent := func(count int) (time.Duration, error) {
		cmd := exec.Command(binary, "alerts", "sample", "--period", samplingPeriod.String(), "--count",
			strconv.Itoa(count),
			"--partition", "root=/", "--partition", "tmp="+os.TempDir(), "--partition", "bench="+b.dir)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return 0, fmt.Errorf("sampling: %w", err)
		}
		return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
	}
	one, err := spent(1)
	if err != nil {
		return err
	}
	many, err := spent(1 + samplingCount)
	if err != nil {
		return err
	}
	each := max(0, many-one).Seconds() / samplingCount
	b.add(figure{Section: "sampling", Name: "processor time of one sample, " +
		"three partitions", Unit: "ms", Value: each * 1e3})
	b.add(figure{Section: "sampling", Name: fmt.Sprintf("of one core, a sample every %v", samplingDefault), Unit: "%",
		Value: each / samplingDefault.Seconds() * 100}.most(1))
	return nil
}
