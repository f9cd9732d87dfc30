package upgrade

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"

	"tandem.internal/testenv/proc"
)

// blob puts a text into an image layout, and returns what refers to it.
func (l *line) blob(layout, mediaType, text string) string {
	sum := sha256.Sum256([]byte(text))
	digits := hex.EncodeToString(sum[:])
	l.file(layout+"/blobs/sha256/"+digits, text)
	return fmt.Sprintf(`{"mediaType":"application/vnd.oci.image.%s","digest":"sha256:%s","size":%d}`, mediaType, digits,
		len(text))
}

// image makes an image layout, whose layers have files: names and texts by turns.
func (l *line) image(name, config string, layers ...[]string) string {
	l.t.Helper()
	var ids, refs []string
	for _, files := range layers {
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		for i := 0; i < len(files); i += 2 {
			err := w.WriteHeader(&tar.Header{Name: files[i], Mode: 0o755, Size: int64(len(files[i+1]))})
			if _, werr := w.Write([]byte(files[i+1])); err != nil || werr != nil {
				l.t.Fatal(err, werr)
			}
		}
		if err := w.Close(); err != nil {
			l.t.Fatal(err)
		}
		sum := sha256.Sum256(archive.Bytes())
		ids = append(ids, `"sha256:`+hex.EncodeToString(sum[:])+`"`)
		refs = append(refs, l.blob(name, "layer.v1.tar", archive.String()))
	}
	conf := l.blob(name, "config.v1+json", fmt.Sprintf(`{"os":"linux","architecture":%q,"config":%s,`+
		`"rootfs":{"type":"layers","diff_ids":[%s]}}`, runtime.GOARCH, config, strings.Join(ids, ",")))
	manifest := l.blob(name, "manifest.v1+json", fmt.Sprintf(`{"schemaVersion":2,"config":%s,"layers":[%s]}`, conf,
		strings.Join(refs, ",")))
	l.file(name+"/oci-layout", `{"imageLayoutVersion":"1.0.0"}`)
	l.file(name+"/index.json", `{"schemaVersion":2,"manifests":[`+manifest+`]}`)
	return filepath.Join(l.Dir, name)
}

// contained are the processes of containers of this unit, by the program that is in their image.
func (l *line) contained() (pids []int) {
	l.t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		l.t.Fatal(err)
	}
	for _, dir := range all {
		words, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // it may have ended
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil &&
			bytes.HasPrefix(words, []byte("/bin/program\x00")) &&
			bytes.Contains(environ, []byte("\x00UNIT="+l.Dir+"\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// limit is the least that a process's control groups, or those above, have in a file.
func limit(t *testing.T, pid int, controller string, files ...string) (least int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for entry := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSpace(entry), ":", 3)
		root := "/sys/fs/cgroup/" + controller
		if f[1] == "" {
			root = "/sys/fs/cgroup"
		} else if f[1] != controller {
			continue
		}
		for dir := filepath.Join(root, f[2]); len(dir) > len(root); dir = filepath.Dir(dir) {
			for _, file := range files {
				value, err := os.ReadFile(filepath.Join(dir, file))
				n, perr := strconv.ParseInt(strings.TrimSpace(string(value)), 10, 64)
				if err == nil && perr == nil && (least == 0 || n < least) {
					least = n
				}
			}
		}
	}
	return least
}

// TestImageReachesItsNode: from an image layout to a container on a node, with its layers, its user and its limit,
// without a network and a root that it can change; it outlives its agent; another version takes its place; and when it
// is not desired any more, nothing is left of it.
func TestImageReachesItsNode(t *testing.T) {
	t.Parallel()
	crun, err := exec.LookPath("crun")
	if err != nil || os.Getuid() != 0 {
		const why = "NOT TRIED: services that are images. It takes root, and crun, which deploy/demo/brokers installs"
		if os.Getenv("CI") == "true" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	l := openLine(&line{t: t, group: "/", runtime: crun}) // what it can limit is known from the start
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(l.Dir, "program"),
		"internal/container/testdata/program.go")
	build.Dir, build.Env = filepath.Join(proc.Root(t), "nodeagent"), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	program, err := os.ReadFile(filepath.Join(l.Dir, "program"))
	if err != nil {
		t.Fatal(err)
	}
	const config = `{"Entrypoint":["/bin/program"],"Cmd":["who","nets","write=/new","read=/etc/conf","list=/etc",` +
		`"env=LEVEL","env=OF","status=NoNewPrivs","sleep"],"Env":["LEVEL=image","OF=image"],"WorkingDir":"/etc"}`
	base := []string{"bin/program", string(program), "etc/conf", "of the base", "etc/more", ""}
	meta := func(version string) string {
		return l.file("meta-"+version+".json", fmt.Sprintf(`{"codename":"sensor","type":"service","version":%q,`+
			`"platforms":[{"architecture":%q}],"env":{"LEVEL":"item"},"quotas":{"ram":50331648}}`, version,
			runtime.GOARCH))
	}
	has(t, l.Tandem("item", "create", meta("1.0.0")), 0, "sensor", "")
	one := l.image("one", config, base, []string{"etc/conf", "of the first"})
	has(t, l.Tandem("item", "release", meta("1.0.0"), one, "--image"), 2, "", "user 0")
	has(t, l.Tandem("item", "release", meta("1.0.0"), one, "--image", "--user", "4711:4712", "--ready"), 0, "ready", "")
	has(t, l.Tandem("subject", "apply", l.file("subject.json",
		`{"codename":"hall","type":"group","items":[{"type":"service","codename":"sensor","env":{"UNIT":"`+l.Dir+
			`"}}]}`)), 0, "", "")
	has(t, l.Tandem("node", "n1"), 0, "crun", "")
	has(t, l.Tandem("desired", "apply", "--wait"), 0, "", "")
	l.until("n1", "service sensor", "1.0.0", "hall/0", "crun", "running")
	expect := func(lines ...string) {
		t.Helper()
		var o proc.Output
		proc.Until(t, "its output has "+strings.Join(lines, ", "), func() string {
			o = l.Tandem("workload", "logs", "sensor.hall.0@n1")
			for _, text := range lines {
				if !strings.Contains(o.Out, text+"\n") {
					return o.Out + o.Errors
				}
			}
			return ""
		})
	}
	expect("who: 4711:4712 pid 1 in /etc", "nets: lo true ", "write=/new: errno 30", "read=/etc/conf: of the first",
		"list=/etc: conf hosts more ", "env=LEVEL: item", "env=OF: image", "status=NoNewPrivs: 1", "sleeping")
	var first []int
	proc.Until(t, "one program runs", func() string {
		if first = l.contained(); len(first) != 1 {
			return fmt.Sprint(first)
		}
		return ""
	})
	var slots struct {
		List []struct{ Report struct{ Confined string } }
	}
	o := l.Tandem("workload", "list", "--json")
	if err := json.Unmarshal([]byte(o.Out), &slots, json.MatchCaseInsensitiveNames(true)); err != nil ||
		len(slots.List) != 1 || slots.List[0].Report.Confined != "container" {
		t.Errorf("%v %s", err, o.Out)
	}

	l.Nodes["n1"].Kill()
	l.startNode()
	l.until("n1", "service sensor", "1.0.0", "running")
	if now := l.contained(); !slices.Equal(now, first) {
		t.Errorf("after its agent was killed there are %v, and was %v", now, first)
	}
	if err := syscall.Kill(first[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	proc.Until(t, "it is started anew", func() string {
		if now := l.contained(); len(now) != 1 || now[0] == first[0] {
			return fmt.Sprint(now)
		}
		return ""
	})

	two := l.image("two", config, base, []string{"etc/conf", "of the second", "etc/.wh.more", ""})
	has(t, l.Tandem("item", "release", meta("1.1.0"), two, "--image", "--user", "4711:4712", "--ready"), 0, "ready", "")
	has(t, l.Tandem("desired", "apply", "--wait"), 0, "", "")
	l.until("n1", "service sensor", "1.1.0", "running")
	expect("read=/etc/conf: of the second", "list=/etc: conf hosts ")
	if now := l.contained(); len(now) != 1 {
		t.Errorf("there are %v", now)
	} else if n := limit(t, now[0], "memory", "memory.limit_in_bytes", "memory.max"); n != 50331648 {
		t.Errorf("its memory is limited to %d", n)
	}

	has(t, l.Tandem("subject", "remove", "hall"), 0, "", "")
	has(t, l.Tandem("desired", "apply", "--wait"), 0, "", "")
	proc.Until(t, "nothing is left", func() string {
		left := fmt.Sprint(l.contained())
		for _, dir := range []string{"containers/bundles", "containers/state", "layers", "workloads/slots",
			"workloads/logs"} {
			all, err := os.ReadDir(filepath.Join(l.StateDir("n1"), dir))
			if err != nil || len(all) > 0 {
				left += fmt.Sprint(dir, all, err)
			}
		}
		if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || bytes.Contains(mounts, []byte(l.Dir)) {
			left += string(mounts)
		}
		if left == "[]" {
			return ""
		}
		return left
	})
}
