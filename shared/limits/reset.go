package limits

import "strings"

// Reset lists what a group that had constraints before is set to first, so that those that are no longer
// named are gone: every control file of the table that the node has, with the value of a new group.
// Limits of devices are not among them, see ResetDevices.
func Reset(caps Capabilities) (list []Setting) {
	all := []Setting{
		{"memory", "memory.memsw.limit_in_bytes", "-1"}, {"memory", "memory.limit_in_bytes", "-1"},
		{"memory", "memory.soft_limit_in_bytes", "-1"},
		{"cpu", "cpu.cfs_burst_us", "0"}, {"cpu", "cpu.cfs_quota_us", "-1"}, {"cpu", "cpu.cfs_period_us", "100000"},
		{"cpu", "cpu.shares", "1024"},
		{"blkio", "blkio.weight", "500"}, {"blkio", "blkio.bfq.weight", "100"},
		{"pids", "pids.max", "max"},
	}
	if caps.Version == V2 {
		all = []Setting{
			{"memory", "memory.max", "max"}, {"memory", "memory.high", "max"}, {"memory", "memory.low", "0"},
			{"memory", "memory.swap.max", "max"},
			{"cpu", "cpu.max.burst", "0"}, {"cpu", "cpu.max", "max 100000"}, {"cpu", "cpu.weight", "100"},
			{"io", "io.weight", "default 100"}, {"io", "io.bfq.weight", "default 100"},
			{"pids", "pids.max", "max"},
		}
	}
	for _, s := range all {
		if caps.has(s.Controller, s.File) {
			list = append(list, s)
		}
	}
	return list
}

// DeviceFiles are the control files with limits of devices that the node has.
func DeviceFiles(caps Capabilities) (list []Setting) {
	if caps.has("io", "io.max") {
		return []Setting{{"io", "io.max", ""}}
	}
	for _, t := range throttles {
		if caps.has("blkio", t.v1) {
			list = append(list, Setting{"blkio", t.v1, ""})
		}
	}
	return list
}

// ResetDevices lists what removes the limits of devices that a control file has now.
func ResetDevices(file Setting, content string) (list []Setting) {
	for line := range strings.Lines(content) {
		dev, _, ok := strings.Cut(strings.TrimSpace(line), " ")
		if _, err := (&values{}).device(dev); !ok || err != nil {
			continue // v1 has a sum below the devices
		}
		value := dev + " 0"
		if file.File == "io.max" {
			value = dev + " rbps=max wbps=max riops=max wiops=max"
		}
		list = append(list, Setting{file.Controller, file.File, value})
	}
	return list
}
