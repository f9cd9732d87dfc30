package monitor

import (
	"math"
	"strings"
	"syscall"
	"testing"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/mem"
	"github.com/shirou/gopsutil/v4/net"
)

// What is read of this system is what gopsutil reads of it, before or after.
func TestAgainstGopsutil(t *testing.T) {
	times := func() Times {
		all, err := cpu.Times(false)
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		c := all[0]
		return Times{Busy: c.User + c.Nice + c.System + c.Irq + c.Softirq + c.Steal, Idle: c.Idle + c.Iowait}
	}
	before := times()
	ours, err := systemCPU()
	if after := times(); err != nil || !between(before.Busy, ours.Busy, after.Busy) ||
		!between(before.Idle, ours.Idle, after.Idle) {
		t.Errorf("processors: %+v, %v, want %+v to %+v", ours, err, before, after)
	}

	vm, err := mem.VirtualMemory()
	if err != nil {
		t.Fatal(err)
	}
	total, available, err := memory()
	if err != nil || total != vm.Total || math.Abs(float64(available)-float64(vm.Available)) > float64(total)/4 {
		t.Errorf("memory: %d of %d, %v, want %d of %d", available, total, err, vm.Available, vm.Total)
	}

	theirs, err := net.IOCounters(true)
	if err != nil {
		t.Fatal(err)
	}
	list, err := systemInterfaces()
	if err != nil || len(list) != len(theirs) {
		t.Fatalf("interfaces: %v, %v, want %v", list, err, theirs)
	}
	for i, c := range list {
		if w := theirs[i]; c.Name != w.Name || c.Received < w.BytesRecv || c.Sent < w.BytesSent {
			t.Errorf("interfaces: %+v, want %+v or more", c, w)
		}
	}

	for _, path := range []string{t.TempDir(), "/", "/dev/shm", "/proc"} {
		want, err := disk.Usage(path)
		if err != nil {
			t.Fatal(path, err)
		}
		size, err := Size(path)
		if err != nil || size != want.Total {
			t.Errorf("%s: %d bytes, %v, want %d", path, size, err, want.Total)
		}
		u, err := systemPartition(path)
		if want.Total == 0 {
			if err == nil || !strings.Contains(err.Error(), "without a size") {
				t.Errorf("%s: %v", path, err)
			}
			continue
		}
		if err != nil || math.Abs(u.Bytes-want.UsedPercent/100) > 0.01 ||
			math.Abs(u.Inodes-want.InodesUsedPercent/100) > 0.01 {
			t.Errorf("%s: %+v, %v, want %v %% and %v %%", path, u, err, want.UsedPercent, want.InodesUsedPercent)
		}
	}
	if _, err := Size("/no/such/path"); err == nil {
		t.Error("a path that is not there has a size")
	}
}

// between allows for a time that the kernel lets go back a little, and for the digits that a sum of fractions loses.
func between(before, v, after float64) bool { return before-0.5 <= v && v <= after+0.5 }

func TestReadStat(t *testing.T) {
	for text, want := range map[string]Times{
		"cpu  100 200 300 4000 500 60 70 800 90 10\ncpu0 1 1 1 1 1 1 1 1 1 1\n": {Busy: 15.3, Idle: 45},
		"cpu  100 200 300 4000 500 60 70":                                       {Busy: 7.3, Idle: 45},
	} {
		if got, err := readStat(text); err != nil || math.Abs(got.Busy-want.Busy) > 1e-9 || got.Idle != want.Idle {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                               "does not begin with all processors",
		"cpu0 1 2 3 4 5 6 7 8 9 10\n":    "does not begin with all processors",
		"cpu  1 2 3 4 5 6\n":             "does not begin with all processors",
		"cpu  1 2 3 -4 5 6 7 8 9 10\n":   "/proc/stat: ",
		"cpu  1 2 3 4 5 6 7 eight 9 10.": "/proc/stat: ",
	} {
		if got, err := readStat(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestReadMeminfo(t *testing.T) {
	for text, want := range map[string][2]uint64{
		"MemTotal:  4000 kB\nMemFree: 100 kB\nMemAvailable: 3000 kB\nCached: 7 kB\n": {4000 << 10, 3000 << 10},
		"MemTotal:  4000 kB\nMemFree: 100 kB\nMemAvailable: 0 kB\nCached: 7 kB\n":    {4000 << 10, 0},
		"MemTotal: 4000 kB\nMemFree: 100 kB\nSwapCached: 9 kB\nCached: 7 kB\n":       {4000 << 10, 107 << 10},
	} {
		if total, available, err := readMeminfo(text); err != nil || [2]uint64{total, available} != want {
			t.Errorf("%q: %d, %d, %v, want %d", text, total, available, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                                    "does not tell how much memory",
		"MemTotal: 0 kB\nMemAvailable: 1 kB":  "does not tell how much memory",
		"MemTotal: 10 kB\nMemAvailable: 1 MB": "/proc/meminfo: MemAvailable",
		"MemTotal: -1 kB\n":                   "/proc/meminfo: MemTotal",
	} {
		if _, _, err := readMeminfo(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestReadDev(t *testing.T) {
	const head = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame compressed|bytes\n"
	list, err := readDev(head + "    lo: 11 2 3 4 5 6 7 8 99 10 11 12 13 14 15 16\n" +
		"eth0:1:18446744073709551615 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n")
	if err != nil || len(list) != 2 || list[0] != (Counters{"lo", 11, 99}) ||
		list[1] != (Counters{"eth0:1", math.MaxUint64, 9}) {
		t.Errorf("%+v, %v", list, err)
	}
	for line, want := range map[string]string{
		"lo: 1 2 3 4 5 6 7 8\n":     "lo has 8 figures",
		"lo: x 2 3 4 5 6 7 8 9\n":   "/proc/net/dev: lo: ",
		"lo: 1 2 3 4 5 6 7 8 -9 \n": "/proc/net/dev: lo: ",
	} {
		if _, err := readDev(head + line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// Blocks that only root may write are neither used nor free, and not every file system counts its files.
func TestUsage(t *testing.T) {
	for _, c := range []struct {
		st   syscall.Statfs_t
		want Usage
	}{
		{syscall.Statfs_t{Blocks: 100, Bfree: 40, Bavail: 20, Files: 10, Ffree: 4}, Usage{0.75, 0.6}},
		{syscall.Statfs_t{Blocks: 100, Bfree: 100, Bavail: 100}, Usage{}},
		{syscall.Statfs_t{Blocks: 100, Bfree: 0, Bavail: 0, Files: 1, Ffree: 2}, Usage{1, 0}},
	} {
		if got := usage(c.st); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.st, got, c.want)
		}
	}
}
