package app

import (
	"errors"
	"fmt"
	"runtime"

	"tandem.internal/nodeagent/internal/monitor"
	"tandem.internal/shared/wire"
)

// capacity asks the operating system what the node has.
func capacity(info *wire.NodeInfo) error {
	info.CPUs = runtime.NumCPU()
	describeMachine(info)
	var errs []error
	var err error
	if info.RAM, err = monitor.Memory(); err != nil {
		errs = append(errs, fmt.Errorf("memory: %w", err))
	}
	for i := range info.Partitions {
		p := &info.Partitions[i]
		if p.Size, err = monitor.Size(p.Path); err != nil {
			errs = append(errs, fmt.Errorf("partition %s: %w", p.Name, err))
		}
	}
	return errors.Join(errs...)
}
