package limits

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"tandem.internal/shared/wire"
)

// resource is one thing that can be limited, whatever version calls it.
type resource int

const (
	memoryMax resource = iota
	memoryLow
	memoryHigh
	memoryAndSwap
	swapMax
	swappiness
	cpuWeight
	cpuQuota
	cpuPeriod
	cpuBurst
	ioWeight
	readBytes
	writeBytes
	readOps
	writeOps
	pidsMax
)

// constraint is how one name is understood.
type constraint struct {
	sets []resource
	read func(v *values, text string) error
}

// table has every constraint, by both versions' names. What the two mean is the same, but for the
// scale of weights (value.go) and memory.soft_limit_in_bytes, whose successor is memory.low.
var table = map[string]constraint{
	"memory.limit_in_bytes": {[]resource{memoryMax},
		func(v *values, s string) error { return bytesOf(s, leastMemory, &v.memoryMax) }},
	"memory.max": {[]resource{memoryMax},
		func(v *values, s string) error { return bytesOf(s, leastMemory, &v.memoryMax) }},
	"memory.soft_limit_in_bytes": {[]resource{memoryLow},
		func(v *values, s string) error { return bytesOf(s, 0, &v.memoryLow) }},
	"memory.low": {[]resource{memoryLow},
		func(v *values, s string) error { return bytesOf(s, 0, &v.memoryLow) }},
	"memory.high": {[]resource{memoryHigh},
		func(v *values, s string) error { return bytesOf(s, leastMemory, &v.memoryHigh) }},
	"memory.memsw.limit_in_bytes": {[]resource{memoryAndSwap},
		func(v *values, s string) error { return bytesOf(s, leastMemory, &v.memoryAndSwap) }},
	"memory.swap.max": {[]resource{swapMax},
		func(v *values, s string) error { return bytesOf(s, 0, &v.swapMax) }},
	"memory.swappiness": {[]resource{swappiness},
		func(v *values, s string) error { return numberOf(s, 0, 100, &v.swappiness) }},
	"cpu.shares": {[]resource{cpuWeight}, readShares},
	"cpu.weight": {[]resource{cpuWeight},
		func(v *values, s string) error { return numberOf(s, 1, 10_000, &v.cpuWeight) }},
	"cpu.cfs_quota_us": {[]resource{cpuQuota},
		func(v *values, s string) error { return quotaOf(s, &v.cpuQuota) }},
	"cpu.cfs_period_us": {[]resource{cpuPeriod},
		func(v *values, s string) error { return numberOf(s, 1000, 1_000_000, &v.cpuPeriod) }},
	"cpu.max": {[]resource{cpuQuota, cpuPeriod}, readCPUMax},
	"cpu.cfs_burst_us": {[]resource{cpuBurst},
		func(v *values, s string) error { return numberOf(s, 0, maxQuota, &v.cpuBurst) }},
	"cpu.max.burst": {[]resource{cpuBurst},
		func(v *values, s string) error { return numberOf(s, 0, maxQuota, &v.cpuBurst) }},
	"blkio.weight":                     {[]resource{ioWeight}, readBlkioWeight},
	"io.weight":                        {[]resource{ioWeight}, readIOWeight},
	"blkio.throttle.read_bps_device":   {[]resource{readBytes}, throttle(rbps)},
	"blkio.throttle.write_bps_device":  {[]resource{writeBytes}, throttle(wbps)},
	"blkio.throttle.read_iops_device":  {[]resource{readOps}, throttle(riops)},
	"blkio.throttle.write_iops_device": {[]resource{writeOps}, throttle(wiops)},
	"io.max":                           {[]resource{readBytes, writeBytes, readOps, writeOps}, readIOMax},
	"pids.max": {[]resource{pidsMax},
		func(v *values, s string) error { return countOf(s, &v.pidsMax) }},
}

// porto are names that the seed and its system use and no ordinary kernel has.
var porto = map[string]bool{
	"cpu.smart": true, "memory.recharge_on_pgfault": true, "memory.low_limit_in_bytes": true, "memory.anon.limit": true,
	"memory.dirty_limit_in_bytes": true, "memory.fs_bps_limit": true, "memory.fs_iops_limit": true,
}

// Names lists the constraints that are known, for people.
func Names() string { return strings.Join(slices.Sorted(maps.Keys(table)), ", ") }

// write makes the settings, in an order in which a new group takes them.
func (m *mapping) write() {
	if m.caps.Version == V2 {
		m.writeV2()
	} else {
		m.writeV1()
	}
}

func (m *mapping) says(r resource) bool { return m.meant[r] != "" }

func (m *mapping) writeV1() {
	v := &m.values
	if m.says(memoryMax) {
		m.set(memoryMax, "memory", minusOne(v.memoryMax), "memory.limit_in_bytes")
	}
	if m.says(memoryAndSwap) {
		m.set(memoryAndSwap, "memory", minusOne(v.memoryAndSwap), "memory.memsw.limit_in_bytes")
	}
	if m.says(swapMax) {
		m.set(swapMax, "memory", minusOne(plus(v.memoryMax, v.swapMax)), "memory.memsw.limit_in_bytes")
	}
	if m.says(memoryLow) {
		m.set(memoryLow, "memory", minusOne(v.memoryLow), "memory.soft_limit_in_bytes")
	}
	if m.says(memoryHigh) {
		m.set(memoryHigh, "memory", "", "memory.high") // v1 has none, and says so
	}
	if m.says(swappiness) {
		m.set(swappiness, "memory", decimal(v.swappiness), "memory.swappiness")
	}
	if m.says(cpuWeight) {
		m.set(cpuWeight, "cpu", decimal(v.shares()), "cpu.shares")
	}
	if m.says(cpuPeriod) && v.cpuPeriod != 0 {
		m.set(cpuPeriod, "cpu", decimal(v.cpuPeriod), "cpu.cfs_period_us")
	}
	if m.says(cpuQuota) {
		m.set(cpuQuota, "cpu", minusOne(v.cpuQuota), "cpu.cfs_quota_us")
	}
	if m.says(cpuBurst) {
		m.set(cpuBurst, "cpu", decimal(v.cpuBurst), "cpu.cfs_burst_us")
	}
	if m.says(ioWeight) {
		m.setWeight("blkio", "blkio.weight", v.blkioWeight(), "blkio.bfq.weight")
	}
	for key, to := range throttles {
		if !m.says(to.resource) {
			continue
		}
		for _, d := range v.devices {
			if limit, ok := d.limit[ioKey(key)]; ok {
				m.set(to.resource, "blkio", d.device+" "+v1Rate(limit), to.v1)
			}
		}
	}
	if m.says(pidsMax) {
		m.set(pidsMax, "pids", orMax(v.pidsMax), "pids.max")
	}
}

func (m *mapping) writeV2() {
	v := &m.values
	if m.says(memoryMax) {
		m.set(memoryMax, "memory", orMax(v.memoryMax), "memory.max")
	}
	if m.says(memoryAndSwap) {
		m.set(memoryAndSwap, "memory", orMax(minus(v.memoryAndSwap, v.memoryMax)), "memory.swap.max")
	}
	if m.says(swapMax) {
		m.set(swapMax, "memory", orMax(v.swapMax), "memory.swap.max")
	}
	if m.says(memoryLow) {
		m.set(memoryLow, "memory", orMax(v.memoryLow), "memory.low")
	}
	if m.says(memoryHigh) {
		m.set(memoryHigh, "memory", orMax(v.memoryHigh), "memory.high")
	}
	if m.says(swappiness) {
		m.set(swappiness, "memory", "", "memory.swappiness") // v2 has none, and says so
	}
	if m.says(cpuWeight) {
		m.set(cpuWeight, "cpu", decimal(v.cpuWeight), "cpu.weight")
	}
	if m.says(cpuQuota) {
		value := orMax(v.cpuQuota)
		if v.cpuPeriod != 0 {
			value += " " + decimal(v.cpuPeriod)
		} else {
			value += " " + strconv.Itoa(defaultPeriod)
		}
		m.set(cpuQuota, "cpu", value, "cpu.max")
	}
	if m.says(cpuBurst) {
		m.set(cpuBurst, "cpu", decimal(v.cpuBurst), "cpu.max.burst")
	}
	if m.says(ioWeight) {
		m.setWeight("io", "io.weight", v.ioWeight, "io.bfq.weight")
	}
	for _, d := range v.devices {
		m.set(m.firstOf(readBytes, writeBytes, readOps, writeOps), "io", d.device+" "+d.v2(), "io.max")
	}
	if m.says(pidsMax) {
		m.set(pidsMax, "pids", orMax(v.pidsMax), "pids.max")
	}
}

// setWeight sets the weight of input and output in each file for it that the node has: n in the usual one, and in
// BFQ's, whose scale is 1 to 1000 with the same default as io.weight. Some disk has to obey one of them.
func (m *mapping) setWeight(controller, file string, n int64, bfq string) {
	there, obeyed := false, false
	for _, s := range []Setting{{controller, file, decimal(n)},
		{controller, bfq, decimal(clamp(m.values.ioWeight, 1, 1000))}} {
		if m.caps.has(controller, s.File) {
			m.settings = append(m.settings, s)
			there, obeyed = true, obeyed || !slices.Contains(m.caps.Idle, s.File)
		}
	}
	name := m.meant[ioWeight]
	switch {
	case !there:
		m.set(ioWeight, controller, "", file) // says so
	case !obeyed:
		m.fail(wire.CodeNotSupported, name, "this node cannot enforce %s: none of its disks obeys it; one does whose "+
			"scheduler (/sys/block/DISK/queue/scheduler) is bfq, or for which io.cost.qos of cgroup v2 is enabled",
			name)
	}
}

// firstOf is the first of some resources that a constraint names.
func (m *mapping) firstOf(list ...resource) resource {
	return list[max(0, slices.IndexFunc(list, m.says))]
}
