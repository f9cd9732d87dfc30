package cgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/shared/limits"
)

// Of those in the agent's group, its own go with it, and nobody else.
func TestOurs(t *testing.T) {
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := child.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = child.Wait() // by that signal
	}()
	for pid, want := range map[int]bool{os.Getpid(): true, child.Process.Pid: true, os.Getppid(): false, 1: false,
		1 << 30: false} {
		if got := ours(pid); got != want {
			t.Errorf("process %d: %v", pid, got)
		}
	}
}

// What a group lacks is said.
func TestLackingGroup(t *testing.T) {
	m := newMachine(t, "/login")
	m.fill = func(_ string, files map[string]string) { delete(files, "cgroup.controllers") }
	tree := m.open()
	if caps := tree.Capabilities(); caps.Version != limits.V2 || !strings.Contains(caps.Why, "cgroup.controllers") {
		t.Errorf("%+v", caps)
	}
}

func TestNames(t *testing.T) {
	tree := newMachine(t, "/a").open()
	for _, name := range []string{"", ".", "..", "a/b", ".hidden", "cgroup.procs", "memory.max", "tasks", "a\nb",
		strings.Repeat("x", 201)} {
		if _, err := tree.Group(name); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
	for _, name := range []string{"shop@node-1", "tasks.x", "a.b", "memory"} {
		if _, err := tree.Group(name); err != nil {
			t.Error(err)
		}
	}
}

func TestParsing(t *testing.T) {
	if got := parseGroups("9:name=systemd:/\n4:memory:/a:b\n2:cpu,cpuacct:/c\n0::/d\n"); got["memory"] != "/a:b" ||
		got["cpuacct"] != "/c" || got[""] != "/d" {
		t.Errorf("%q", got)
	}
	for line, want := range map[string]string{
		"30 22 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw": "/ /sys/fs/cgroup cgroup2 rw",
		"31 22 0:27 /docker/x /sys/fs/my\\040group rw - cgroup cgroup rw,memory": "/docker/x /sys/fs/my group " +
			"cgroup rw,memory",
		"31 22 0:27 / / rw - ext4 /dev/vda rw": "",
		"- cgroup2":                            "",
		"":                                     "",
	} {
		root, dir, kind, options, ok := parseMount(line)
		if got := strings.TrimSpace(root + " " + dir + " " + kind + " " + options); ok != (want != "") || got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	for _, c := range [][3]string{{"/", "/a", "/a"}, {"/docker/x", "/docker/x/y", "/y"}, {"/docker/x", "/docker/x", ""},
		{"/docker/x", "/docker/xy", "/"}, {"/docker/x", "/", "/"}} {
		if got := below(c[0], c[1]); got != c[2] {
			t.Errorf("%s under %s is %q, want %q", c[1], c[0], got, c[2])
		}
	}
}

func FuzzMountinfo(f *testing.F) {
	f.Add("31 22 0:27 /docker/x /sys/fs/my\\040group rw - cgroup cgroup rw,memory", "4:memory:/a\n0::/b\n")
	f.Fuzz(func(t *testing.T, line, groups string) {
		if root, dir, kind, _, ok := parseMount(line); ok && (root == "" || dir == "" || kind == "") {
			t.Fatalf("%q", line)
		}
		for _, g := range parseGroups(groups) {
			if b := below("/x", g); len(b) > len(g)+1 {
				t.Fatalf("%q under /x is %q", g, b)
			}
		}
	})
}

// Which weights are obeyed is for the disks' schedulers to say, at the time of asking.
func TestIdle(t *testing.T) {
	m := newMachine(t, "/tandem-node")
	cfg := m.config()
	cfg.Sys = filepath.Join(m.dir, "sys")
	tree := Open(cfg)
	queue := func(disk, scheduler string) {
		dir := filepath.Join(cfg.Sys, "block", disk, "queue")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		m.write(filepath.Join(dir, "scheduler"), scheduler+"\n")
	}
	check := func(want string) {
		t.Helper()
		if got := strings.Join(tree.Idle(), " "); got != want {
			t.Errorf("idle are %s, want %s", got, want)
		}
	}
	const all = "io.weight blkio.weight io.bfq.weight blkio.bfq.weight"
	check(all) // no disks
	queue("vda", "none [mq-deadline] kyber bfq")
	queue("ram0", "none")
	check(all)
	queue("sdb", "mq-deadline kyber [bfq] none")
	check("io.weight blkio.weight")
	queue("sdb", "noop deadline [cfq]")
	check("io.bfq.weight blkio.bfq.weight")
	queue("sdb", "[none]")
	m.write(filepath.Join(m.dir, "io.cost.qos"), "8:0 enable=0 ctrl=auto\n")
	check(all)
	m.write(filepath.Join(m.dir, "io.cost.qos"), "8:0 enable=0 ctrl=auto\n8:16 enable=1 ctrl=auto\n")
	check("blkio.weight io.bfq.weight blkio.bfq.weight")
}
