package oci

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// maxText is how long arguments and environment are together: Linux has room for 128 KiB in one string.
const maxText = 128 << 10

// makeConfig makes of an image's configuration what nodes can do, and says what of it they will not.
func makeConfig(from *v1.ImageConfig, layers []*Layer) (c Config, remarks []string, err error) {
	c.Args = slices.Concat(from.Entrypoint, from.Cmd)
	c.Env, c.Labels = from.Env, from.Labels
	size := 0
	for _, s := range slices.Concat(c.Args, c.Env) {
		if strings.ContainsRune(s, 0) {
			return c, nil, invalid("Entrypoint, Cmd or Env", "has a zero byte")
		}
		size += len(s)
	}
	if size > maxText {
		return c, nil, invalid("Entrypoint, Cmd and Env", "have %d bytes; at most %d are taken", size, maxText)
	}
	if len(c.Args) > 0 && c.Args[0] == "" {
		return c, nil, invalid("Entrypoint or Cmd", "the program has no name")
	}
	for _, s := range c.Env {
		if strings.IndexByte(s, '=') < 1 {
			return c, nil, invalid("Env", "%.80q is not NAME=value", s)
		}
	}
	if c.WorkingDir, err = workingDir(from.WorkingDir); err != nil {
		return c, nil, err
	}
	if c.User, err = findUser(from.User, layers); err != nil {
		return c, nil, err
	}
	if c.StopSignal, err = stopSignal(from.StopSignal); err != nil {
		return c, nil, err
	}
	if c.Ports, remarks, err = ports(from.ExposedPorts); err != nil {
		return c, nil, err
	}
	if volumes := slices.Sorted(maps.Keys(from.Volumes)); len(volumes) > 0 {
		remarks = append(remarks, fmt.Sprintf("Volumes are not looked at: %.200q", volumes))
	}
	return c, remarks, nil
}

// workingDir is a directory of the image. What is below /proc can be a directory of the machine (CVE-2024-21626).
func workingDir(dir string) (string, error) {
	if dir == "" {
		return "/", nil
	}
	if dir[0] != '/' || strings.ContainsRune(dir, 0) {
		return "", invalid("WorkingDir", "%.80q is no absolute path", dir)
	}
	dir = path.Clean(dir)
	for _, of := range []string{"/proc", "/sys", "/dev"} {
		if dir == of || strings.HasPrefix(dir, of+"/") {
			return "", invalid("WorkingDir", "%.80q is no directory of the image: %s is the machine's", dir, of)
		}
	}
	return dir, nil
}

// signals are the names of Linux's signals by number, without SIG; the first has no name.
var signals = strings.Fields("- HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD " +
	"CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS")

// realTime is how many signals there are between RTMIN and RTMAX, as C libraries have them.
const realTime = 30

// stopSignal gives a signal, which may be a number or lack SIG, its whole name. The names of numbers below 32 are
// those of Linux on nearly all architectures.
func stopSignal(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	name := strings.TrimPrefix(strings.ToUpper(s), "SIG")
	if n, err := strconv.ParseUint(name, 10, 8); err == nil && n > 0 && n < uint64(len(signals)) {
		name = signals[n]
	}
	if i := slices.Index(signals, name); i > 0 {
		return "SIG" + name, nil
	}
	if name == "RTMIN" || name == "RTMAX" {
		return "SIG" + name, nil
	}
	for _, base := range []string{"RTMIN+", "RTMAX-"} {
		more, is := strings.CutPrefix(name, base)
		if n, err := strconv.ParseUint(more, 10, 8); is && err == nil && n <= realTime {
			return "SIG" + base + strconv.FormatUint(n, 10), nil
		}
	}
	return "", invalid("StopSignal", "%.80q is no signal", s)
}

// ports are an image's ports, sorted. One without a protocol is of TCP. Of others than TCP and UDP it has a remark.
func ports(exposed map[string]struct{}) (all []Port, remarks []string, err error) {
	for _, s := range slices.Sorted(maps.Keys(exposed)) {
		text, protocol, both := strings.Cut(s, "/")
		if !both {
			protocol = "tcp"
		}
		n, err := strconv.ParseUint(text, 10, 16)
		switch {
		case protocol != "tcp" && protocol != "udp":
			remarks = append(remarks, fmt.Sprintf("ExposedPorts: %.80q is left out, it is not of TCP or UDP", s))
		case err != nil || n == 0:
			return nil, nil, invalid("ExposedPorts", "%.80q is no port", s)
		default:
			all = append(all, Port{uint16(n), protocol})
		}
	}
	slices.SortFunc(all, func(a, b Port) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), strings.Compare(a.Protocol, b.Protocol))
	})
	return slices.Compact(all), remarks, nil
}
