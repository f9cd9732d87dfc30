package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tandem.internal/shared/limits"
)

// mount is one hierarchy: the directory of the group under which the tree is to be, and what it controls.
type mount struct {
	version     limits.Version
	top         string // the directory of all groups that this process can see
	dir         string
	controllers []string // of v1: among those that constraints are about, and cpuacct
}

// base is the group that belongs to the agent: its own, or in v2 the one that it left for a child of it.
func (m mount) base() string {
	if m.version == limits.V2 && filepath.Base(m.dir) == agentGroup {
		return filepath.Dir(m.dir)
	}
	return m.dir
}

// readMounts finds the hierarchies: v1's first.
func readMounts(cfg Config) ([]mount, error) {
	info, err := os.ReadFile(filepath.Join(cfg.Proc, "mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("find the control groups: %w", err)
	}
	own, err := os.ReadFile(filepath.Join(cfg.Proc, "cgroup"))
	if err != nil {
		return nil, fmt.Errorf("find this process's control group: %w", err)
	}
	groups := parseGroups(string(own))
	var v1, v2 []mount
	var seen []string
	for line := range strings.Lines(string(info)) {
		root, dir, kind, options, ok := parseMount(line)
		if !ok {
			continue
		}
		m := mount{version: limits.V2, top: dir}
		group := groups[""]
		if kind == "cgroup" {
			m.version = limits.V1
			for _, c := range strings.Split(options, ",") {
				if (slices.Contains(controllers, c) || c == "cpuacct") && !slices.Contains(seen, c) {
					m.controllers = append(m.controllers, c)
					seen = append(seen, c)
					group = groups[c]
				}
			}
			if len(m.controllers) == 0 {
				continue
			}
		} else if len(v2) > 0 {
			continue
		}
		if cfg.Group != "" {
			group = cfg.Group
		}
		m.dir = filepath.Join(dir, below(root, group))
		if m.version == limits.V1 {
			v1 = append(v1, m)
		} else {
			v2 = append(v2, m)
		}
	}
	return append(v1, v2...), nil
}

// Own is the directory of this process's group of cgroup v2; "" where there is no v2.
func Own() (string, error) {
	mounts, err := readMounts(Config{Proc: ownProc})
	if n := len(mounts) - 1; n >= 0 && mounts[n].version == limits.V2 {
		return mounts[n].dir, err
	}
	return "", err
}

// parseGroups reads /proc/PID/cgroup (cgroups(7)): the group by controller, v2's by "".
func parseGroups(text string) map[string]string {
	groups := map[string]string{}
	for line := range strings.Lines(text) {
		if f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3); len(f) == 3 {
			for _, c := range strings.Split(f[1], ",") {
				groups[c] = f[2]
			}
		}
	}
	return groups
}

// parseMount reads a line of /proc/PID/mountinfo (proc_pid_mountinfo(5)), if it is of a cgroup file system.
func parseMount(line string) (root, dir, kind, options string, ok bool) {
	before, after, ok := strings.Cut(line, " - ")
	f, g := strings.Fields(before), strings.Fields(after)
	if !ok || len(f) < 5 || len(g) < 3 || g[0] != "cgroup" && g[0] != "cgroup2" {
		return "", "", "", "", false
	}
	return unescape(f[3]), unescape(f[4]), g[0], g[2], true
}

// unescape reads a path in which blanks are written \040.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// below is where a group is under a mount that shows the hierarchy from root on. A group outside it is
// one that this process cannot see: the mount's own is taken.
func below(root, group string) string {
	if root == "/" {
		return group
	}
	rest, ok := strings.CutPrefix(group, root)
	if !ok || rest != "" && rest[0] != '/' {
		return "/"
	}
	return rest
}

// Top is the directory of all groups of cgroup v2 that this process can see; "" where there is no v2.
func Top() (string, error) {
	mounts, err := readMounts(Config{Proc: ownProc})
	if n := len(mounts) - 1; n >= 0 && mounts[n].version == limits.V2 {
		return mounts[n].top, err
	}
	return "", err
}
