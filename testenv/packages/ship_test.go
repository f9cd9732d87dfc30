package packages

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/testenv/proc"
)

// most are the largest packages that pass, in bytes; the others are for machines with room.
var most = map[string]int64{"tandem-node": 4_500_000, "tandem-controller": 8_000_000}

// architectures are those that packages are built for, as deb and rpm name them.
var architectures = map[string]string{"amd64": "x86_64", "arm64": "aarch64", "armhf": "armv7hl", "riscv64": "riscv64"}

// installed are the files of each package, beside what all have.
var installed = map[string][]string{
	"tandem": {"/usr/share/doc/tandem/examples/unit-config.json", "/usr/share/man/man1/tandem.1.gz"},
	"tandem-controller": {"/etc/tandem/controller.yaml", "/usr/lib/systemd/system/tandem-controller.service",
		"/usr/lib/systemd/system/tandem-backup.service", "/usr/lib/systemd/system/tandem-backup.timer",
		"/usr/lib/sysusers.d/tandem-controller.conf", "/usr/lib/tandem-controller/before-restart",
		"/usr/share/man/man8/tandem-controller.8.gz"},
	"tandem-node": {"/etc/tandem/node.yaml", "/usr/lib/systemd/system/tandem-node.service",
		"/usr/lib/systemd/system/tandem-node.service.d/package.conf", "/usr/lib/tandem-node/launcher",
		"/usr/lib/systemd/system/tandem-node.path", "/usr/lib/systemd/system/tandem-workloads.service",
		"/usr/lib/systemd/system/tandem-keeper.service", "/usr/lib/systemd/system/tandem-reboot.service",
		"/usr/lib/systemd/system/tandem-join.service", "/usr/lib/tandem-node/tandem-join",
		"/usr/lib/systemd/system/tandem-reboot.path", "/usr/lib/sysusers.d/tandem-node.conf",
		"/usr/lib/tmpfiles.d/tandem-node.conf", "/usr/share/tandem-node/tandem-node-oci.conf",
		"/usr/share/tandem-node/tandem-node-users.conf", "/usr/share/man/man8/tandem-node.8.gz"},
	"tandem-broker": {"/etc/tandem/broker.yaml", "/usr/lib/systemd/system/tandem-broker.service",
		"/usr/share/man/man8/tandem-broker.8.gz"},
	"tandem-key": {"/usr/lib/systemd/system/tandem-key.service", "/usr/lib/sysusers.d/tandem-key.conf",
		"/usr/share/man/man8/tandem-key.8.gz"},
}

// build makes packages of the sources in a directory, and returns where they are.
func build(t *testing.T, sources, version string, more ...string) string {
	t.Helper()
	out := t.TempDir()
	cmd := exec.Command("make", append([]string{"packages", "OUT=" + out, "VERSION=" + version}, more...)...)
	cmd.Dir, cmd.Env = sources, append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make packages: %v\n%s", err, said)
	}
	return out
}

// need installs a tool by deploy/demo/brokers if that can be done, and skips the test loudly if it is missing still.
func need(t *testing.T, command, debian string) {
	t.Helper()
	run(t, nil, "deploy/demo/brokers", command, debian)
	tool(t, command)
}

func heavy(t *testing.T) {
	t.Helper()
	if !*ship {
		t.Skip("it builds packages: make ship-check")
	}
}

// TestShip builds packages once for each thing that is to be seen of them.
func TestShip(t *testing.T) {
	heavy(t)
	release := build(t, proc.Root(t), "1.0.0")
	t.Run("same bytes", func(t *testing.T) { // elsewhere, and the sources are younger
		sameFiles(t, release, build(t, proc.Tree(t), "1.0.0"))
	})
	t.Run("sizes", func(t *testing.T) {
		for name, limit := range most {
			info, err := os.Stat(filepath.Join(release, name+"_1.0.0_amd64.deb"))
			if err != nil {
				t.Fatal(err)
			}
			if t.Logf("%s: %d bytes", name, info.Size()); info.Size() > limit {
				t.Errorf("%s has %d bytes, and may have %d", name, info.Size(), limit)
			}
		}
	})
	t.Run("deb", func(t *testing.T) { contentsOfDeb(t, release) })
	t.Run("rpm", func(t *testing.T) { contentsOfRPM(t, release) })
	t.Run("lintian", func(t *testing.T) {
		need(t, "lintian", "lintian")
		for _, name := range programs {
			run(t, nil, "lintian", "--allow-root", "--fail-on", "error,warning",
				filepath.Join(release, name+"_1.0.0_amd64.deb"))
		}
	})
	t.Run("machines", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("SKIPPED: only root can start machines, so installing, upgrading and removing was NOT tested")
		}
		next := build(t, proc.Root(t), "1.1.0", "COMPRESS=zstd")
		t.Log(run(t, nil, "deploy/packages/try", release, next))
	})
}

func TestShipElsewhere(t *testing.T) {
	heavy(t)
	need(t, "rpm", "rpm")
	for deb, rpm := range architectures {
		out := build(t, proc.Root(t), "1.0.0-rc.1", "COMPRESS=zstd", "ARCHES="+deb)
		for _, name := range programs {
			file := filepath.Join(out, name+"_1.0.0~rc.1_"+deb+".deb")
			if got := run(t, nil, "dpkg-deb", "--show", "--showformat=${Version} ${Architecture}", file); got !=
				"1.0.0~rc.1 "+deb {
				t.Errorf("%s: %s", file, got)
			}
			file = filepath.Join(out, name+"-1.0.0~rc.1-1."+rpm+".rpm")
			if got := run(t, nil, "rpm", "-qp", "--qf", "%{VERSION} %{ARCH}", file); got != "1.0.0~rc.1 "+rpm {
				t.Errorf("%s: %s", file, got)
			}
		}
	}
}

func sameFiles(t *testing.T, a, b string) {
	t.Helper()
	files, err := os.ReadDir(a)
	if err != nil || len(files) != 2*len(programs) {
		t.Fatal(len(files), err)
	}
	for _, f := range files {
		one, err := os.ReadFile(filepath.Join(a, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		two, err := os.ReadFile(filepath.Join(b, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one, two) {
			t.Errorf("%s has other bytes when it is built once more", f.Name())
		}
	}
}

// files are those of a package, in order; settings are in their own list.
func files(t *testing.T, name string, more ...string) []string {
	t.Helper()
	if name == "tandem" {
		for _, page := range []string{"*.md", "adr/*.md"} {
			pages, err := filepath.Glob(filepath.Join(proc.Root(t), "shared/docs", page))
			if err != nil || len(pages) < 20 {
				t.Fatal(len(pages), err)
			}
			for _, p := range pages {
				more = append(more, filepath.Join("/usr/share/doc/tandem/docs", filepath.Dir(page), filepath.Base(p)))
			}
		}
	}
	all := append([]string{"/usr/bin/" + name, "/usr/share/doc/" + name + "/README.md",
		"/usr/share/doc/" + name + "/changelog.gz", "/usr/share/doc/" + name + "/copyright",
		"/usr/share/doc/" + name + "/notice.md.gz"}, more...)
	return sorted(append(all, installed[name]...))
}

func contentsOfDeb(t *testing.T, dir string) {
	for _, name := range programs {
		file := filepath.Join(dir, name+"_1.0.0_amd64.deb")
		var got []string
		for line := range strings.Lines(run(t, nil, "dpkg-deb", "--contents", file)) {
			f := strings.Fields(line)
			path := strings.TrimPrefix(f[5], ".")
			want := map[bool]string{true: "-rw-r--r--", false: "drwxr-xr-x"}[!strings.HasSuffix(path, "/")]
			switch {
			case strings.HasPrefix(path, "/usr/bin/t"), path == "/usr/lib/tandem-node/launcher",
				path == "/usr/lib/tandem-node/tandem-join", path == "/usr/lib/tandem-controller/before-restart":
				want = "-rwxr-xr-x"
			case strings.HasSuffix(path, ".yaml"):
				want = "-rw-------"
			}
			if f[0] != want || f[1] != "root/root" || f[3] != "2023-11-14" {
				t.Errorf("%s: %s", name, line)
			}
			if !strings.HasSuffix(path, "/") {
				got = append(got, path)
			}
		}
		equal(t, name, sorted(got), files(t, name, "/usr/share/lintian/overrides/"+name))
		fields := run(t, nil, "dpkg-deb", "--field", file)
		if strings.Contains(fields, "License:") || !strings.Contains(fields, "\nDescription: ") ||
			strings.Contains(fields, "\nDepends: systemd (>= 250)") != (name != "tandem") {
			t.Errorf("%s:\n%s", name, fields)
		}
		control := t.TempDir()
		run(t, nil, "dpkg-deb", "--control", file, control)
		conffiles, err := os.ReadFile(filepath.Join(control, "conffiles"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		equal(t, name+"'s settings", strings.Fields(string(conffiles)), settings(name))
	}
}

func contentsOfRPM(t *testing.T, dir string) {
	need(t, "rpm", "rpm")
	for _, name := range programs {
		file := filepath.Join(dir, name+"-1.0.0-1.x86_64.rpm")
		var got []string
		for line := range strings.Lines(run(t, nil, "rpm", "-qp", "--qf",
			"[%{FILEMODES:perms} %{FILEUSERNAME}:%{FILEGROUPNAME} %{FILENAMES}\n]", file)) {
			f := strings.Fields(line)
			if f[1] != "root:root" || strings.HasSuffix(f[2], ".yaml") && f[0] != "-rw-------" {
				t.Errorf("%s: %s", name, line)
			}
			if f[0][0] == '-' {
				got = append(got, f[2])
			}
		}
		equal(t, name, sorted(got), files(t, name))
		equal(t, name+"'s settings", strings.Fields(run(t, nil, "rpm", "-qp", "--configfiles", file)), settings(name))
		if host := run(t, nil, "rpm", "-qp", "--qf", "%{BUILDHOST}", file); host != "tandem" {
			t.Errorf("%s names the machine that built it: %s", name, host)
		}
		needs := run(t, nil, "rpm", "-qp", "--requires", file)
		if strings.Contains(needs, "systemd >= 250") != (name != "tandem") {
			t.Errorf("%s needs %s", name, needs)
		}
	}
	for i := range rising[1:] {
		older, newer := version(t, rising[i]), version(t, rising[i+1])
		if got := run(t, nil, "rpm", "--eval", `%{lua:print(rpm.vercmp("`+older+`", "`+newer+`"))}`); got != "-1" {
			t.Errorf("rpm compares %s and %s: %s", older, newer, got)
		}
	}
}
