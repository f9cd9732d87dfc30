package limits

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tandem.internal/shared/wire"
)

var (
	v1 = Capabilities{Version: V1, Files: map[string][]string{
		"memory": {"memory.limit_in_bytes", "memory.soft_limit_in_bytes", "memory.memsw.limit_in_bytes",
			"memory.swappiness"},
		"cpu": {"cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us"},
		"blkio": {"blkio.weight", "blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device",
			"blkio.throttle.read_iops_device", "blkio.throttle.write_iops_device"},
		"pids": {"pids.max"},
	}}
	v2 = Capabilities{Version: V2, Files: map[string][]string{
		"memory": {"memory.max", "memory.high", "memory.low", "memory.swap.max"},
		"cpu":    {"cpu.weight", "cpu.max", "cpu.max.burst"},
		"io":     {"io.max", "io.weight"},
		"pids":   {"pids.max"},
	}}
	bfq1 = Capabilities{Version: V1, Files: map[string][]string{"blkio": {"blkio.bfq.weight"}}}
	bfq2 = Capabilities{Version: V2, Files: map[string][]string{"io": {"io.bfq.weight"}}}
)

func TestMap(t *testing.T) {
	for _, c := range []struct{ given, v1, v2 string }{
		{"memory.limit_in_bytes=20G", "memory.limit_in_bytes=21474836480", "memory.max=21474836480"},
		{"memory.limit_in_bytes=-1", "memory.limit_in_bytes=-1", "memory.max=max"},
		{"memory.max=512M", "memory.limit_in_bytes=536870912", "memory.max=536870912"},
		{"memory.soft_limit_in_bytes=64k", "memory.soft_limit_in_bytes=65536", "memory.low=65536"},
		{"memory.low=0", "memory.soft_limit_in_bytes=0", "memory.low=0"},
		{"memory.high=1G", "not-supported /c/memory.high", "memory.high=1073741824"},
		{"memory.limit_in_bytes=1G; memory.memsw.limit_in_bytes=3G", "memory.limit_in_bytes=1073741824; " +
			"memory.memsw.limit_in_bytes=3221225472", "memory.max=1073741824; memory.swap.max=2147483648"},
		{"memory.limit_in_bytes=1G; memory.swap.max=0", "memory.limit_in_bytes=1073741824; " +
			"memory.memsw.limit_in_bytes=1073741824", "memory.max=1073741824; memory.swap.max=0"},
		{"memory.limit_in_bytes=1G; memory.memsw.limit_in_bytes=max", "memory.limit_in_bytes=1073741824; " +
			"memory.memsw.limit_in_bytes=-1", "memory.max=1073741824; memory.swap.max=max"},
		{"memory.memsw.limit_in_bytes=3G", "missing /c/memory.memsw.limit_in_bytes",
			"missing /c/memory.memsw.limit_in_bytes"},
		{"memory.swap.max=3G", "missing /c/memory.swap.max", "memory.swap.max=3221225472"},
		{"memory.max=2G; memory.memsw.limit_in_bytes=1G", "bad-value /c/memory.memsw.limit_in_bytes",
			"bad-value /c/memory.memsw.limit_in_bytes"},
		{"memory.max=1G; memory.limit_in_bytes=1G", "duplicate /c/memory.max", "duplicate /c/memory.max"},
		{"memory.max=1G; memory.swap.max=1G; memory.memsw.limit_in_bytes=2G",
			"duplicate /c/memory.memsw.limit_in_bytes", "duplicate /c/memory.memsw.limit_in_bytes"},
		{"memory.swappiness=10", "memory.swappiness=10", "not-supported /c/memory.swappiness"},
		{"cpu.shares=1024", "cpu.shares=1024", "cpu.weight=100"},
		{"cpu.shares=2", "cpu.shares=2", "cpu.weight=1"},
		{"cpu.shares=262144", "cpu.shares=262144", "cpu.weight=10000"},
		{"cpu.weight=50", "cpu.shares=512", "cpu.weight=50"},
		{"cpu.weight=10000", "cpu.shares=102400", "cpu.weight=10000"},
		{"cpu.cfs_quota_us=50000", "cpu.cfs_quota_us=50000", "cpu.max=50000 100000"},
		{"cpu.cfs_quota_us=-1", "cpu.cfs_quota_us=-1", "cpu.max=max 100000"},
		{"cpu.cfs_quota_us=50000; cpu.cfs_period_us=20000", "cpu.cfs_period_us=20000; cpu.cfs_quota_us=50000",
			"cpu.max=50000 20000"},
		{"cpu.max=50000 20000", "cpu.cfs_period_us=20000; cpu.cfs_quota_us=50000", "cpu.max=50000 20000"},
		{"cpu.max=max", "cpu.cfs_quota_us=-1", "cpu.max=max 100000"},
		{"cpu.cfs_period_us=20000", "missing /c/cpu.cfs_period_us", "missing /c/cpu.cfs_period_us"},
		{"cpu.max=1000; cpu.cfs_burst_us=500", "cpu.cfs_quota_us=1000; cpu.cfs_burst_us=500", "cpu.max=1000 100000; " +
			"cpu.max.burst=500"},
		{"cpu.max=1000; cpu.max.burst=5000", "bad-value /c/cpu.max.burst", "bad-value /c/cpu.max.burst"},
		{"cpu.max=1000; cpu.cfs_quota_us=1000", "duplicate /c/cpu.max", "duplicate /c/cpu.max"},
		{"blkio.weight=500", "blkio.weight=500", "io.weight=100"},
		{"io.weight=default 200", "blkio.weight=1000", "io.weight=200"},
		{"blkio.throttle.read_bps_device=8:0 10M", "blkio.throttle.read_bps_device=8:0 10485760",
			"io.max=8:0 rbps=10485760"},
		{"blkio.throttle.read_bps_device=8:0 10M,8:16 0; blkio.throttle.write_iops_device=8:0 100",
			"blkio.throttle.read_bps_device=8:0 10485760; blkio.throttle.read_bps_device=8:16 0; " +
				"blkio.throttle.write_iops_device=8:0 100", "io.max=8:0 rbps=10485760 wiops=100; io.max=8:16 rbps=max"},
		{"io.max=8:0 wbps=1K riops=max", "blkio.throttle.write_bps_device=8:0 1024; " +
			"blkio.throttle.read_iops_device=8:0 0", "io.max=8:0 wbps=1024 riops=max"},
		{"io.max=8:0 rbps=0", "bad-value /c/io.max", "bad-value /c/io.max"},
		{"pids.max=100", "pids.max=100", "pids.max=100"},
		{"pids.max=-1", "pids.max=max", "pids.max=max"},
		// The seed's own, which are Porto's.
		{"cpu.smart=1", "not-supported /c/cpu.smart", "not-supported /c/cpu.smart"},
		{"memory.limit_in_bytes=20G; memory.recharge_on_pgfault=1", "not-supported /c/memory.recharge_on_pgfault",
			"not-supported /c/memory.recharge_on_pgfault"},
		{"memory.oom_control=1", "not-supported /c/memory.oom_control", "not-supported /c/memory.oom_control"},
		{"a/b=1", "not-supported /c/a~1b", "not-supported /c/a~1b"},
	} {
		constraints := map[string]string{}
		for _, pair := range strings.Split(c.given, "; ") {
			name, value, _ := strings.Cut(pair, "=")
			constraints[name] = value
		}
		for _, v := range []struct {
			caps Capabilities
			want string
		}{{v1, c.v1}, {v2, c.v2}} {
			if got := show(Map(constraints, v.caps, "/c")); got != v.want {
				t.Errorf("%s on %v:\n got %s\nwant %s", c.given, v.caps.Version, got, v.want)
			}
		}
	}
}

func show(settings []Setting, errs []*wire.Error) string {
	var out []string
	for _, s := range settings {
		out = append(out, s.File+"="+s.Value)
	}
	for _, e := range errs {
		out = append(out, fmt.Sprintf("%s %s", e.Code, e.Path))
	}
	return strings.Join(out, "; ")
}

// Whoever has the seed's examples from Porto is told what they are, and not that they are unknown.
func TestPorto(t *testing.T) {
	for _, name := range []string{"cpu.smart", "memory.recharge_on_pgfault"} {
		if _, errs := Map(map[string]string{name: "1"}, v2, ""); len(errs) != 1 ||
			!strings.Contains(errs[0].Message, "Porto") {
			t.Errorf("%s: %v", name, errs)
		}
	}
}

func TestWeightsOfBFQ(t *testing.T) {
	for given, want := range map[string]string{"blkio.weight=1000": "200", "io.weight=5000": "1000",
		"blkio.weight=500": "100"} {
		name, value, _ := strings.Cut(given, "=")
		for _, caps := range []Capabilities{bfq1, bfq2} {
			got, errs := Map(map[string]string{name: value}, caps, "")
			if len(errs) > 0 || len(got) != 1 || got[0].Value != want ||
				!strings.HasSuffix(got[0].File, "io.bfq.weight") {
				t.Errorf("%s on %v: %v, %v", given, caps.Version, got, errs)
			}
		}
	}
}

// A weight is refused where no disk obeys any of its files, and is written to all that there are.
func TestWeightsThatNothingObeys(t *testing.T) {
	both := Capabilities{Version: V2, Files: map[string][]string{"io": {"io.weight", "io.bfq.weight"}}}
	for idle, want := range map[string]string{
		"": "io.weight=300; io.bfq.weight=300", "io.weight": "io.weight=300; io.bfq.weight=300",
		"io.bfq.weight": "io.weight=300; io.bfq.weight=300", "io.weight io.bfq.weight": "not-supported /c/io.weight",
	} {
		both.Idle = strings.Fields(idle)
		if got := show(Map(map[string]string{"io.weight": "300"}, both, "/c")); got != want {
			t.Errorf("idle is %q: %s, want %s", idle, got, want)
		}
	}
	v1 := v1
	v1.Idle = []string{"blkio.weight", "io.weight"}
	if errs := Check(map[string]string{"blkio.weight": "500", "pids.max": "9"}, v1, ""); len(errs) != 1 ||
		!strings.HasPrefix(errs[0].Message, "this node cannot enforce blkio.weight: none of its disks obeys it") {
		t.Errorf("%v", errs)
	}
}

func TestBadValues(t *testing.T) {
	for name, values := range map[string][]string{
		"memory.max": {"", "x", "1.5G", "-2", "20", "20GB", "+1G", "1_0G", "0x100000",
			"9999999999999P", "99999999999999999999", "G"},
		"cpu.shares":       {"1", "262145", "-1", "max", "1k"},
		"cpu.weight":       {"0", "10001"},
		"cpu.max":          {"", "1 2 3", "50000 10", "999", "x 100000", "17592186045"},
		"cpu.cfs_quota_us": {"0", "-5"},
		"io.weight":        {"0", "8:0 100"},
		"io.max": {"", "8:0", "sda rbps=1", "8:0 speed=1", "8:0 rbps=1 rbps=2", "08:0 rbps=1",
			"8:0 riops=99999999999", "8:0 rbps"},
		"blkio.throttle.read_bps_device": {"", "8:0", "8:0 1,8:0 2", "8 1", "8:0 x"},
		"pids.max":                       {"0", "1.5", "99999999999"},
	} {
		for _, value := range values {
			for _, caps := range []Capabilities{v1, v2} {
				if got := show(Map(map[string]string{name: value}, caps, "/c")); got != "bad-value /c/"+name {
					t.Errorf("%s=%q on %v: %s", name, value, caps.Version, got)
				}
			}
		}
	}
}

// What no node can enforce is known without one; what some can is not refused.
func TestCheckAny(t *testing.T) {
	for given, want := range map[string]string{
		"": "", "memory.max=1G": "", "memory.high=1G": "", "memory.swappiness=10": "", "io.weight=5": "",
		"blkio.weight=500; pids.max=3": "", "memory.swap.max=1G": "",
		"cpu.smart=1":       "not-supported /c/cpu.smart",
		"memory.limit=1G":   "not-supported /c/memory.limit",
		"memory.max=20GB":   "bad-value /c/memory.max",
		"cpu.max.burst=500": "bad-value /c/cpu.max.burst",
		"memory.max=1G; memory.limit_in_bytes=1G": "duplicate /c/memory.max",
	} {
		constraints := map[string]string{}
		for _, pair := range strings.Split(given, "; ") {
			if name, value, ok := strings.Cut(pair, "="); ok {
				constraints[name] = value
			}
		}
		if got := show(nil, CheckAny(constraints, "/c")); got != want {
			t.Errorf("%s: %q, want %q", given, got, want)
		}
	}
}

// Where something is missing, the message says what and why.
func TestWhatANodeLacks(t *testing.T) {
	for _, c := range []struct {
		caps Capabilities
		want string
	}{
		{Capabilities{Why: "no control groups are mounted"}, "this node has no control groups to enforce memory.max " +
			"with: no control groups are mounted"},
		{Capabilities{Version: V2, Why: "the group is not delegated"}, "this node cannot enforce memory.max: its " +
			"control groups v2 have no memory.max: the group is not delegated"},
		{Capabilities{Version: V1}, "this node cannot enforce memory.max: its control groups v1 have no " +
			"memory.limit_in_bytes"},
	} {
		errs := Check(map[string]string{"memory.max": "1G"}, c.caps, "/c")
		if len(errs) != 1 || errs[0].Message != c.want || errs[0].Code != wire.CodeNotSupported {
			t.Errorf("%v, want %q", errs, c.want)
		}
		if errs := Check(nil, c.caps, "/c"); errs != nil {
			t.Errorf("nothing is asked for: %v", errs)
		}
	}
}

// Every constraint can be enforced somewhere, and every file that Map writes has a way back.
func TestEverythingIsReset(t *testing.T) {
	some := map[string]string{
		"memory.memsw.limit_in_bytes": "2G", "cpu.cfs_period_us": "100000", "cpu.max": "50000",
		"cpu.cfs_quota_us": "50000", "pids.max": "5", "memory.swappiness": "5",
		"cpu.shares": "5", "cpu.weight": "5", "blkio.weight": "50", "io.weight": "50",
		"io.max": "8:0 rbps=1 wbps=1 riops=1 wiops=1", "cpu.cfs_burst_us": "1", "cpu.max.burst": "1",
	}
	for name := range table {
		value, ok := some[name]
		if !ok {
			value = "1G"
			if strings.HasPrefix(name, "blkio.throttle") {
				value = "8:0 5"
			}
		}
		constraints := map[string]string{name: value}
		switch {
		case strings.HasPrefix(name, "memory.") && strings.Contains(name, "sw"):
			constraints["memory.limit_in_bytes"] = "1G"
		case name == "cpu.cfs_period_us" || strings.Contains(name, "burst"):
			constraints["cpu.cfs_quota_us"] = "50000"
		}
		enforced := false
		for _, caps := range []Capabilities{v1, v2} {
			settings, errs := Map(constraints, caps, "")
			enforced = enforced || len(errs) == 0
			for _, s := range settings {
				same := func(o Setting) bool { return o.Controller == s.Controller && o.File == s.File }
				if slices.ContainsFunc(Reset(caps), same) {
					continue
				}
				back := ResetDevices(Setting{s.Controller, s.File, ""}, s.Value+"\nTotal 5\n")
				if !slices.ContainsFunc(DeviceFiles(caps), same) || len(back) != 1 ||
					!strings.HasPrefix(back[0].Value, "8:0 ") {
					if s.File == "memory.swappiness" { // a new group has its parent's
						continue
					}
					t.Errorf("%v: %s is never set back: %v", caps.Version, s.File, back)
				}
			}
		}
		if !enforced {
			t.Errorf("%s=%s can be enforced nowhere", name, value)
		}
	}
}

func TestMapProperties(t *testing.T) {
	names := slices.Sorted(maps.Keys(table))
	rapid.Check(t, func(t *rapid.T) {
		constraints := rapid.MapOfN(rapid.SampledFrom(names),
			rapid.SampledFrom([]string{"1", "5000", "100M", "max", "20G", "8:0 500", "8:0 rbps=5", "x"}), 0, 6).Draw(t,
			"constraints")
		for _, caps := range []Capabilities{v1, v2} {
			settings, errs := Map(constraints, caps, "/c")
			again, errsAgain := Map(constraints, caps, "/c")
			if !reflect.DeepEqual(settings, again) || !reflect.DeepEqual(errs, errsAgain) {
				t.Fatal("not the same twice")
			}
			if len(errs) > 0 && settings != nil || len(errs) == 0 && len(constraints) > 0 && len(settings) == 0 {
				t.Fatalf("%v: %v and %v", constraints, settings, errs)
			}
			for _, s := range settings {
				if !slices.Contains(caps.Files[s.Controller], s.File) || s.Value == "" ||
					strings.ContainsAny(s.Value, "\n") {
					t.Fatalf("%v", s)
				}
			}
		}
	})
}

func FuzzMap(f *testing.F) {
	for name, value := range map[string]string{"memory.limit_in_bytes": "20G", "io.max": "8:0 rbps=1M wiops=max",
		"blkio.throttle.read_bps_device": "8:0 1\n8:1 2", "cpu.max": "max 100000", "cpu.smart": "1"} {
		f.Add(name, value)
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		for _, caps := range []Capabilities{v1, v2, {}} {
			settings, errs := Map(map[string]string{name: value}, caps, "/c")
			if len(settings) > 0 == (len(errs) > 0) {
				t.Fatalf("%q=%q: %v, %v", name, value, settings, errs)
			}
		}
	})
}

// TestText: what is read of what was written allows and refuses the same constraints.
func TestText(t *testing.T) {
	for want, c := range map[string]Capabilities{
		"none": {Why: "no control groups are mounted", Files: map[string][]string{"memory": {"memory.max"}}},
		"v1 blkio.throttle.read_bps_device -blkio.weight memory.limit_in_bytes memory.swappiness": {Version: V1,
			Files: map[string][]string{"memory": {"memory.stat", "memory.swappiness", "memory.limit_in_bytes"},
				"blkio": {"blkio.weight", "blkio.throttle.read_bps_device"}}, Idle: []string{"blkio.weight"}},
		"v2 cpu.max -io.bfq.weight io.max io.weight pids.max": {Version: V2, Files: map[string][]string{
			"cpu": {"cpu.max", "cpu.stat"}, "io": {"io.weight", "io.bfq.weight", "io.max"}, "pids": {"pids.max"}},
			Idle: []string{"io.bfq.weight", "blkio.weight"}},
		"v2": {Version: V2},
	} {
		text := c.Text()
		if text != want {
			t.Errorf("got %q, want %q", text, want)
		}
		read, err := ParseCapabilities(text)
		if err != nil || read.Text() != want || read.Version != c.Version {
			t.Errorf("%q: read as %+v, %v", want, read, err)
		}
		for name, value := range map[string]string{"memory.max": "64M", "memory.swappiness": "5",
			"cpu.max": "1000 10000", "io.weight": "50", "io.max": "8:0 rbps=10M", "pids.max": "5"} {
			given := map[string]string{name: value}
			if was, is := len(Check(given, c, "")), len(Check(given, read, "")); was != is {
				t.Errorf("%q: %s has %d errors where it was written, and %d where it was read", want, name, was, is)
			}
		}
	}
	for _, bad := range []string{"", "v3", "V1 memory.max", "memory.max"} {
		if c, err := ParseCapabilities(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, c)
		}
	}
}
