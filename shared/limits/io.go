package limits

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ioKey is a limit of one block device, by its place among ioNames.
type ioKey int

const (
	rbps ioKey = iota
	wbps
	riops
	wiops
)

// ioNames are io.max's.
var ioNames = []string{"rbps", "wbps", "riops", "wiops"}

// throttles are v1's files for them.
var throttles = []struct {
	resource resource
	v1       string
}{
	{readBytes, "blkio.throttle.read_bps_device"},
	{writeBytes, "blkio.throttle.write_bps_device"},
	{readOps, "blkio.throttle.read_iops_device"},
	{writeOps, "blkio.throttle.write_iops_device"},
}

// device is a block device, MAJOR:MINOR, and its limits a second; unlimited is one, too.
type device struct {
	device string
	limit  map[ioKey]int64
}

// maxDevices bounds the devices of one workload.
const maxDevices = 64

func (v *values) device(name string) (*device, error) {
	major, minor, ok := strings.Cut(name, ":")
	for _, part := range []string{major, minor} {
		if n, err := strconv.ParseUint(part, 10, 32); err != nil || strconv.FormatUint(n, 10) != part {
			ok = false
		}
	}
	if !ok {
		return nil, errors.New("a device is wanted as MAJOR:MINOR, such as 8:0")
	}
	for i := range v.devices {
		if v.devices[i].device == name {
			return &v.devices[i], nil
		}
	}
	if len(v.devices) == maxDevices {
		return nil, fmt.Errorf("there are more than %d devices", maxDevices)
	}
	v.devices = append(v.devices, device{name, map[ioKey]int64{}})
	return &v.devices[len(v.devices)-1], nil
}

// lines splits a value that may have several lines, also divided by commas.
func lines(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == ',' })
}

// throttle reads v1's "8:0 1048576". In v1, 0 is no limit.
func throttle(key ioKey) func(*values, string) error {
	return func(v *values, text string) error {
		seen := []string{}
		for _, line := range lines(text) {
			f := strings.Fields(line)
			if len(f) != 2 || slices.Contains(seen, f[0]) {
				return errors.New("each device once and its limit a second are wanted, such as 8:0 10M")
			}
			seen = append(seen, f[0])
			d, err := v.device(f[0])
			if err != nil {
				return err
			}
			var n int64
			if err := rateOf(f[1], key, &n); err != nil {
				return err
			}
			if n == 0 {
				n = unlimited
			}
			d.limit[key] = n
		}
		if len(seen) == 0 {
			return errors.New("a device and its limit a second are wanted, such as 8:0 10M")
		}
		return nil
	}
}

// readIOMax reads v2's "8:0 rbps=10M wiops=100".
func readIOMax(v *values, text string) error {
	all := lines(text)
	for _, line := range all {
		f := strings.Fields(line)
		if len(f) < 2 {
			return errors.New("a device and its limits are wanted, such as 8:0 rbps=10M wiops=100")
		}
		d, err := v.device(f[0])
		if err != nil {
			return err
		}
		for _, pair := range f[1:] {
			name, value, _ := strings.Cut(pair, "=")
			key := ioKey(slices.Index(ioNames, name))
			if key < 0 {
				return fmt.Errorf("a limit is one of %s, such as rbps=10M", strings.Join(ioNames, ", "))
			}
			if _, twice := d.limit[key]; twice {
				return fmt.Errorf("%s of device %s is given twice", name, d.device)
			}
			var n int64
			if err := rateOf(value, key, &n); err != nil {
				return err
			}
			if n == 0 {
				return fmt.Errorf("%s=0 would stop the device for good; max is no limit", name)
			}
			d.limit[key] = n
		}
	}
	if len(all) == 0 {
		return errors.New("a device and its limits are wanted, such as 8:0 rbps=10M wiops=100")
	}
	return nil
}

func rateOf(text string, key ioKey, to *int64) error {
	if key == rbps || key == wbps {
		return bytesOf(text, 0, to)
	}
	if text == "max" {
		*to = unlimited
		return nil
	}
	return numberOf(text, 0, 1<<32-1, to)
}

// v2 writes the limits as io.max has them.
func (d device) v2() string {
	var out []string
	for key, name := range ioNames {
		if n, ok := d.limit[ioKey(key)]; ok {
			out = append(out, name+"="+orMax(n))
		}
	}
	return strings.Join(out, " ")
}

// v1Rate writes a limit as v1 has it.
func v1Rate(n int64) string {
	if n == unlimited {
		return "0"
	}
	return decimal(n)
}
