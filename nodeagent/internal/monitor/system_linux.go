package monitor

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// systemCPU counts waiting for a disk as idle, and what the host of a virtual machine took as busy:
// the node could not use it.
func systemCPU() (Times, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Times{}, err
	}
	return readStat(string(stat))
}

// readStat reads /proc/stat, whose first line has what all processors have spent, in ticks of 10 ms: user, nice,
// system, idle, iowait, irq, softirq and, from Linux 2.6.11, steal. What follows is part of user and nice.
func readStat(text string) (t Times, err error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 8 || fields[0] != "cpu" {
		return Times{}, errors.New("/proc/stat does not begin with all processors")
	}
	for i, field := range fields[1:min(len(fields), 9)] {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return Times{}, fmt.Errorf("/proc/stat: %w", err)
		}
		if seconds := float64(n) / 100; i == 3 || i == 4 {
			t.Idle += seconds
		} else {
			t.Busy += seconds
		}
	}
	return t, nil
}

func memory() (total, available uint64, err error) {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0, err
	}
	return readMeminfo(string(info))
}

// readMeminfo reads /proc/meminfo, whose figures are in KiB. Linux before 3.14 does not reckon what is available.
func readMeminfo(text string) (total, available uint64, err error) {
	kib := map[string]uint64{"MemTotal": 0, "MemAvailable": 0, "MemFree": 0, "Cached": 0}
	found := false
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		if _, ok := kib[name]; !ok {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("/proc/meminfo: %s: %w", name, err)
		}
		kib[name], found = n, found || name == "MemAvailable"
	}
	if kib["MemTotal"] == 0 {
		return 0, 0, errors.New("the system does not tell how much memory there is")
	}
	if !found {
		kib["MemAvailable"] = kib["MemFree"] + kib["Cached"]
	}
	return kib["MemTotal"] << 10, kib["MemAvailable"] << 10, nil
}

func systemInterfaces() ([]Counters, error) {
	dev, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		return nil, err
	}
	return readDev(string(dev))
}

// readDev reads /proc/net/dev: after two lines of headings, an interface a line. Its name, which may have colons in it,
// ends with one; then come eight figures of what was received, the bytes first, and as many of what was sent.
func readDev(text string) (list []Counters, err error) {
	for line := range strings.Lines(text) {
		end := strings.LastIndexByte(line, ':')
		if end < 0 {
			continue
		}
		c := Counters{Name: strings.TrimSpace(line[:end])}
		fields := strings.Fields(line[end+1:])
		if len(fields) < 9 {
			return nil, fmt.Errorf("/proc/net/dev: %s has %d figures", c.Name, len(fields))
		}
		if c.Received, err = strconv.ParseUint(fields[0], 10, 64); err == nil {
			c.Sent, err = strconv.ParseUint(fields[8], 10, 64)
		}
		if err != nil {
			return nil, fmt.Errorf("/proc/net/dev: %s: %w", c.Name, err)
		}
		list = append(list, c)
	}
	return list, nil
}

func systemPartition(path string) (Usage, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return Usage{}, err
	}
	if st.Blocks == 0 {
		return Usage{}, errors.New("a file system without a size")
	}
	return usage(st), nil
}

// usage is what is used of what unprivileged programs can use: blocks that are kept for root count as neither.
func usage(st syscall.Statfs_t) (u Usage) {
	used := st.Blocks - st.Bfree
	if most := used + st.Bavail; most > 0 {
		u.Bytes = float64(used) / float64(most)
	}
	if st.Files > 0 && st.Files >= st.Ffree {
		u.Inodes = float64(st.Files-st.Ffree) / float64(st.Files)
	}
	return u
}

// Size is how many bytes the file system has on which path is.
func Size(path string) (uint64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return 0, err
	}
	return st.Blocks * uint64(st.Bsize), nil
}
