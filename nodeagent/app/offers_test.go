package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// What a node tells for placement is what the settings say, each once and sorted, and is valid as a node of the format
// that placement reads.
func TestOffers(t *testing.T) {
	there := filepath.Join(t.TempDir(), "can0")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.cfg.SamplePeriod = 10 * time.Second
		r.cfg.DMIPS, r.cfg.MaxInstances = 1200, 8
		r.cfg.Resources = []string{"net=3", "i2c"}
		r.cfg.Devices = []string{"can0=" + there + ",shared=2", "gone=" + there + ".not"}
		r.cfg.Subjects = []string{"line-4", "driver-7"}
		r.cfg.Components = map[string]string{"boot": "/bin/true"}
		r.listen()
		r.start()
		infos := func() []*wire.Reported {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.reports[wire.KindInfo]
		}
		told := func() string {
			reports := infos()
			detail := string(reports[len(reports)-1].Detail)
			_, rest, _ := strings.Cut(detail, `"cpu":`)
			return `"cpu":` + rest
		}
		const devices = `,"devices":[{"name":"can0","shared":2}]`
		want := `"cpu":1200,"runtimes":[RUNTIME"maxInstances":8},COMPONENT],` +
			`"resources":[{"name":"i2c"},{"name":"net","shared":3}]` + devices + `,"subjects":["driver-7","line-4"]}`
		arch, variant := platform(runtime.GOARCH, processor())
		rt := `{"id":"ID","type":"ID","architecture":"` + arch + `",`
		if variant != "" {
			rt += `"variant":"` + variant + `",`
		}
		rt += `"os":"linux"`
		want = strings.NewReplacer("RUNTIME", strings.ReplaceAll(rt, "ID", "process")+",",
			"COMPONENT", strings.ReplaceAll(rt, "ID", "boot")+"}").Replace(want)
		if got := told(); got != want {
			t.Errorf("told\n%s\nwant\n%s", got, want)
		}
		node := `{"node":"n1","ram":1024,` + want
		if _, problems := items.ParseNode([]byte(node)); problems != nil {
			t.Errorf("it is no node of the format: %v", problems)
		}
		n := len(infos())
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(infos()) != n {
			t.Error("told again without a change")
		}
		if err := os.Remove(there); err != nil { // the device is unplugged
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if got := told(); got != strings.Replace(want, devices, "", 1) {
			t.Errorf("told\n%s\nafter a device went", got)
		}
	})
}

// A mistake in them is one in the setting.
func TestOffersRefused(t *testing.T) {
	for _, row := range []struct {
		setting string
		set     func(*Config)
	}{
		{"dmips", func(c *Config) { c.DMIPS = -1 }},
		{"max-instances", func(c *Config) { c.MaxInstances = 1_000_001 }},
		{"resource", func(c *Config) { c.Resources = []string{"=2"} }},
		{"resource", func(c *Config) { c.Resources = []string{"i2c=two"} }},
		{"resource", func(c *Config) { c.Resources = []string{"i2c=2", "i2c=3"} }},
		{"device", func(c *Config) { c.Devices = []string{"can0=dev/can0"} }},
		{"device", func(c *Config) { c.Devices = []string{"shared=2"} }},
		{"device", func(c *Config) { c.Devices = []string{"can0=/dev/can0,shared=x"} }},
		{"device", func(c *Config) { c.Devices = []string{"can0=/dev/can0", "can0=/dev/can1"} }},
		{"subject", func(c *Config) { c.Subjects = []string{"no name"} }},
		{"storage-partition", func(c *Config) { c.StoragePartition = "data" }},
		{"state-partition", func(c *Config) {
			c.Partitions, c.StatePartition = map[string]string{"data": "/var"}, "date"
		}},
		{"component", func(c *Config) { c.Components = map[string]string{"process": "/bin/true"} }},
	} {
		c := NewConfig("u1", "n1", "mainType", t.TempDir())
		row.set(&c)
		var usage *UsageError
		if err := c.complete(); !errors.As(err, &usage) || usage.Setting != row.setting {
			t.Errorf("%s: %v", row.setting, err)
		}
	}
	c := NewConfig("u1", "n1", "mainType", t.TempDir())
	c.Partitions = map[string]string{"var": "/var", "data": "/data", "tmp": "/tmp"}
	c.StoragePartition, c.StatePartition = "data", "data"
	if err := c.complete(); err != nil {
		t.Error(err)
	}
	const want = "[{data /data 0 [storage state]} {tmp /tmp 0 []} {var /var 0 []}]"
	if got := fmt.Sprint(c.partitions()); got != want {
		t.Errorf("partitions %s", got)
	}
	c.Devices = []string{"can0=/dev/can0", "shared=0", "tty=/dev/ttyS0"} // as a variable of the environment is divided
	all, err := c.devices()
	if err != nil || len(all) != 2 || all[0].Shared.Shared != 0 || all[1].Shared.Shared != 1 {
		t.Errorf("%+v %v", all, err)
	}
}

// Variants are named as images name them.
func TestPlatform(t *testing.T) {
	for _, row := range [][4]string{{"amd64", "x86_64", "amd64", ""}, {"arm64", "aarch64", "arm64", "v8"},
		{"arm", "armv7l", "arm", "v7"}, {"arm", "armv6l", "arm", "v6"}, {"arm", "aarch64", "arm", "v8"},
		{"arm", "", "arm", ""}} {
		if arch, variant := platform(row[0], row[1]); arch != row[2] || variant != row[3] {
			t.Errorf("%s on %s: %s %s", row[0], row[1], arch, variant)
		}
	}
}
