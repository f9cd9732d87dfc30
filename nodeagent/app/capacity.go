package app

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/mem"

	"tandem.internal/shared/wire"
)

// capacity asks the operating system what the node has.
func capacity(info *wire.NodeInfo) error {
	info.CPUs = runtime.NumCPU()
	describeMachine(info)
	var errs []error
	if vm, err := mem.VirtualMemory(); err != nil {
		errs = append(errs, fmt.Errorf("memory: %w", err))
	} else {
		info.RAM = vm.Total
	}
	for i := range info.Partitions {
		p := &info.Partitions[i]
		if u, err := disk.Usage(p.Path); err != nil {
			errs = append(errs, fmt.Errorf("partition %s: %w", p.Name, err))
		} else {
			p.Size = u.Total
		}
	}
	return errors.Join(errs...)
}
