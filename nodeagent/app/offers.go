package app

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// OfferSetting has the settings of what the node tells for placement (items.md, Node).
type OfferSetting struct {
	DMIPS        int      `name:"dmips"`
	MaxInstances int      `name:"max-instances"`
	Resources    []string `name:"resource"`
	Devices      []string `name:"device"`
	Subjects     []string `name:"subject"`
	// names of partitions
	StoragePartition string `name:"storage-partition"`
	StatePartition   string `name:"state-partition"`
}

// Help describes the settings.
func (*OfferSetting) Help() map[string]string {
	return map[string]string{
		"dmips": "computing power of this node in DMIPS, of which update items reserve (items.md); 0: not known, and " +
			"no item is placed here that needs some",
		"max-instances": "most instances of services at a time that each of the node's runtimes runs; 0: any number",
		"resource": "resource that instances share, NAME=SHARED, by SHARED of them at a time; NAME alone: by any " +
			"number (items.md)",
		"device": "device that instances share, NAME=/dev/PATH, or NAME=/dev/PATH,shared=N for N of them at a time " +
			"in place of 1, 0 for any number. It is told of only while it is there",
		"storage-partition": "which --partition instances of services have their storage on (items.md); none: it is " +
			"not limited",
		"state-partition": "which --partition instances of services keep their state on; it may be the same",
		"subject":         "subject of update items that this node reports, by codename (items.md)",
	}
}

// device is one of --device.
type device struct {
	wire.Shared
	path string
}

// checkOffers checks the settings. The error is a *UsageError.
func (c *Config) checkOffers() error {
	var info wire.NodeInfo
	if err := c.offers(&info, "", func(device) bool { return true }); err != nil {
		return err
	}
	for setting, name := range map[string]string{
		"storage-partition": c.StoragePartition, "state-partition": c.StatePartition} {
		if _, there := c.Partitions[name]; name != "" && !there {
			return bad(setting, "there is no --partition %s", name)
		}
	}
	for _, own := range append([]string{wire.RuntimeProcess}, wire.ContainerRuntimes...) {
		if _, both := c.Components[own]; both && c.Workloads {
			return bad("component", "%q is the name of what runs workloads", own)
		}
	}
	if _, err := wire.Decode[wire.NodeInfo](wire.Encode(&info)); err != nil {
		e := wire.AsError(err)
		setting := "max-instances"
		for start, name := range map[string]string{
			"/cpu": "dmips", "/partitions": "partition", "/resources": "resource", "/devices": "device",
			"/subjects": "subject"} {
			if strings.HasPrefix(e.Path, start) {
				setting = name
			}
		}
		return bad(setting, "%s: %s", strings.TrimPrefix(e.Path, "/"), e.Message)
	}
	return nil
}

// offers fills in what a node tells for placement: of the devices those that are there. machine is that of runtimes.
func (c *Config) offers(info *wire.NodeInfo, machine string, there func(device) bool) error {
	resources, err := c.resources()
	if err != nil {
		return err
	}
	devices, err := c.devices()
	if err != nil {
		return err
	}
	for _, d := range devices {
		if there(d) {
			info.Devices = append(info.Devices, d.Shared)
		}
	}
	info.CPU, info.Runtimes, info.Resources = int64(c.DMIPS), c.runtimes(machine), resources
	info.Subjects = slices.Sorted(slices.Values(c.Subjects))
	info.Partitions = c.partitions()
	return nil
}

// partitions are those that are set, without their sizes, and what they are for.
func (c *Config) partitions() (all []wire.Partition) {
	for _, name := range slices.Sorted(maps.Keys(c.Partitions)) {
		p := wire.Partition{Name: name, Path: c.Partitions[name]}
		if name == c.StoragePartition {
			p.Types = append(p.Types, items.ForStorage)
		}
		if name == c.StatePartition {
			p.Types = append(p.Types, items.ForState)
		}
		all = append(all, p)
	}
	return all
}

func (c *Config) resources() (all []wire.Shared, err error) {
	for _, text := range c.Resources {
		s := wire.Shared{}
		count, given := "", false
		if s.Name, count, given = strings.Cut(text, "="); given {
			if s.Shared, err = strconv.Atoi(count); err != nil {
				return nil, bad("resource", "%.80q is no number of instances", count)
			}
		}
		all = append(all, s)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name }) // a generic sort makes the agent larger
	return all, nil
}

// devices reads --device. A variable of the environment is divided at commas: what follows one belongs to the device
// before it.
func (c *Config) devices() (all []device, err error) {
	if len(c.Devices) == 0 {
		return nil, nil
	}
	for text := range strings.SplitSeq(strings.Join(c.Devices, ","), ",") {
		if count, shared := strings.CutPrefix(text, "shared="); shared && len(all) > 0 {
			if all[len(all)-1].Shared.Shared, err = strconv.Atoi(count); err != nil {
				return nil, bad("device", "%.80q is no number of instances", count)
			}
			continue
		}
		d := device{Shared: wire.Shared{Shared: 1}}
		d.Name, d.path, _ = strings.Cut(text, "=")
		if !filepath.IsAbs(d.path) {
			return nil, bad("device", "%.80q is not NAME=/dev/PATH", text)
		}
		all = append(all, d)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all, nil
}

// runtimes are what runs update items on this node. machine is the kernel's name of the processor; "": not known.
func (c *Config) runtimes(machine string) (all []wire.Runtime) {
	arch, variant := platform(runtime.GOARCH, machine)
	add := func(name string, most int) {
		all = append(all, wire.Runtime{ID: name, Type: name, Architecture: arch, Variant: variant, OS: runtime.GOOS,
			MaxInstances: most})
	}
	if c.Workloads {
		add(wire.RuntimeProcess, c.MaxInstances)
		if c.contain != "" {
			add(c.contain, c.MaxInstances)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Components)) {
		add(name, 0)
	}
	return all
}

// platform names an architecture of Go as OCI's image specification does: Go's names, with a variant for ARM.
func platform(goarch, machine string) (arch, variant string) {
	switch {
	case goarch == "arm64", goarch == "arm" && machine == "aarch64":
		variant = "v8"
	case goarch == "arm" && len(machine) > len("armv") && strings.HasPrefix(machine, "armv"):
		variant = machine[len("arm"):][:2] // armv7l
	}
	return goarch, variant
}

// processor is the kernel's name of the processor, as uname -m says it.
func processor() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Machine[:])
}

// there reports whether a device is there.
func (d device) there() bool {
	_, err := os.Stat(d.path)
	return err == nil
}

// lookAtDevices tells of the node anew if a device has come or gone. Nothing else that is told is looked at as often.
func (a *Agent) lookAtDevices() {
	var now wire.NodeInfo
	err := a.cfg.offers(&now, "", device.there)
	if err != nil || a.session == 0 || slices.Equal(now.Devices, a.devices) {
		return // the settings were checked at the start
	}
	a.refreshInfo()
	a.send(&a.info)
}
