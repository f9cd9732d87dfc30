//go:build !linux

package monitor

import (
	"errors"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/mem"
	"github.com/shirou/gopsutil/v4/net"
)

// systemCPU counts waiting for a disk as idle, and what the host of a virtual machine took as busy:
// the node could not use it.
func systemCPU() (Times, error) {
	all, err := cpu.Times(false)
	if err != nil {
		return Times{}, err
	}
	if len(all) == 0 {
		return Times{}, errors.New("the system does not tell")
	}
	t := all[0]
	return Times{Busy: t.User + t.Nice + t.System + t.Irq + t.Softirq + t.Steal, Idle: t.Idle + t.Iowait}, nil
}

func memory() (total, available uint64, err error) {
	vm, err := mem.VirtualMemory()
	if err == nil && vm.Total == 0 {
		err = errors.New("the system does not tell how much memory there is")
	}
	if err != nil {
		return 0, 0, err
	}
	return vm.Total, vm.Available, nil
}

func systemInterfaces() ([]Counters, error) {
	all, err := net.IOCounters(true)
	if err != nil {
		return nil, err
	}
	list := make([]Counters, len(all))
	for i, c := range all {
		list[i] = Counters{Name: c.Name, Received: c.BytesRecv, Sent: c.BytesSent}
	}
	return list, nil
}

func systemPartition(path string) (Usage, error) {
	u, err := disk.Usage(path)
	if err != nil {
		return Usage{}, err
	}
	if u.Total == 0 {
		return Usage{}, errors.New(u.Fstype + " is a file system without a size")
	}
	return Usage{Bytes: u.UsedPercent / 100, Inodes: u.InodesUsedPercent / 100}, nil
}

// Size is how many bytes the file system has on which path is.
func Size(path string) (uint64, error) {
	u, err := disk.Usage(path)
	if err != nil {
		return 0, err
	}
	return u.Total, nil
}
