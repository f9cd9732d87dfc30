package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"tandem.internal/testenv/proc"
)

// blob reads a document of a layout.
func blob(layout string, d v1.Descriptor, into any) error {
	data, err := os.ReadFile(filepath.Join(layout, "blobs", "sha256", d.Digest.Encoded()))
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// open reads a layout for one architecture as a tool does: down from index.json.
func open(layout, arch string) (m v1.Manifest, c v1.Image, err error) {
	var top, index v1.Index
	data, err := os.ReadFile(filepath.Join(layout, "index.json"))
	if err == nil {
		err = json.Unmarshal(data, &top)
	}
	if err != nil {
		return m, c, err
	}
	if err := blob(layout, top.Manifests[0], &index); err != nil {
		return m, c, err
	}
	for _, d := range index.Manifests {
		if d.Platform.OS == "linux" && d.Platform.Architecture == arch {
			err := blob(layout, d, &m)
			return m, c, errors.Join(err, blob(layout, m.Config, &c))
		}
	}
	return m, c, fmt.Errorf("%s: nothing for %s", layout, arch)
}

// unpack unpacks an image for this machine into a new directory.
func unpack(t *testing.T, layout, arch, root string) (c v1.Image) {
	t.Helper()
	m, c, err := open(layout, arch)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, d := range m.Layers {
		if err := unpackLayer(filepath.Join(layout, "blobs", "sha256", d.Digest.Encoded()), root); err != nil {
			t.Fatal(err)
		}
	}
	// What engines put there for names of other containers.
	if err := os.WriteFile(filepath.Join(root, "etc/hosts"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return c
}

func unpackLayer(path, root string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		to := filepath.Join(root, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.Mkdir(to, 0o755)
		} else if data, err = io.ReadAll(r); err == nil {
			err = os.WriteFile(to, data, 0o755)
		}
		if err := errors.Join(err, os.Chown(to, h.Uid, h.Gid), os.Chmod(to, h.FileInfo().Mode())); err != nil {
			return err
		}
	}
}

// container is what is run of an image.
type container struct {
	name, root string
	image      v1.Image
	args       []string          // instead of the image's own
	env        []string          // beside the image's own
	mounts     map[string]string // directories of this machine, by where they are inside
	net        string            // network namespace; "": a new one
}

// bundle writes what a runtime needs into a directory: the root cannot be written, nobody has any capability.
func (c *container) bundle(dir string) error {
	var uid, gid int
	if _, err := fmt.Sscanf(c.image.Config.User, "%d:%d", &uid, &gid); err != nil {
		return fmt.Errorf("user %q: %w", c.image.Config.User, err)
	}
	args := c.args
	if args == nil {
		args = c.image.Config.Cmd
	}
	type object = map[string]any
	mounts := []object{
		{"destination": "/proc", "type": "proc", "source": "proc"},
		{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "mode=755"}},
	}
	for to, from := range c.mounts {
		mounts = append(mounts, object{"destination": to, "type": "bind", "source": from, "options": []string{"rbind"}})
	}
	net := object{"type": "network"}
	if c.net != "" {
		net["path"] = c.net
	}
	return writeJSON(filepath.Join(dir, "config.json"), object{
		"ociVersion": "1.0.2", "hostname": c.name, "mounts": mounts,
		"process": object{"user": object{"uid": uid, "gid": gid}, "cwd": c.image.Config.WorkingDir,
			"args":         append(append([]string{}, c.image.Config.Entrypoint...), args...),
			"env":          append(append([]string{}, c.image.Config.Env...), c.env...),
			"capabilities": object{}, "noNewPrivileges": true},
		"root": object{"path": c.root, "readonly": true},
		"linux": object{"namespaces": []object{{"type": "pid"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"},
			net}},
	})
}

func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// command is the runtime's command line. crun refuses control groups of the old and the new kind beside each other: in
// a mount namespace of its own it sees new ones alone.
func command(path, state string, args ...string) []string {
	words := []string{path, "--root", state}
	if filepath.Base(path) != "crun" {
		return append(words, args...)
	}
	words = append(append(words, "--cgroup-manager=disabled"), args...)
	if _, err := os.Stat("/sys/fs/cgroup/unified"); err != nil {
		return words
	}
	const script = `mount -t cgroup2 none /sys/fs/cgroup && exec "$@"`
	return append([]string{"unshare", "--mount", "sh", "-c", script, "sh"}, words...)
}

// Images are run as containers: each of them, by each runtime, and a unit of them.
func TestImages(t *testing.T) {
	paths := runtimes(t)
	layouts := made(t)
	t.Run("each by each runtime", func(t *testing.T) { eachRuns(t, paths, layouts) })
	t.Run("a unit", func(t *testing.T) { unitOfImages(t, paths[0], layouts) })
}

// eachRuns: every image is run by every runtime, and is what it says.
func eachRuns(t *testing.T, paths []string, layouts string) {
	for _, name := range []string{"tandem", "tandem-controller", "tandem-broker", "tandem-node"} {
		dir := t.TempDir()
		c := container{name: name, root: filepath.Join(dir, "root"), args: []string{"--version"}}
		c.image = unpack(t, filepath.Join(layouts, name), runtime.GOARCH, c.root)
		if err := c.bundle(dir); err != nil {
			t.Fatal(err)
		}
		// Nodes would take it, too.
		o := proc.Run(t, dir, nil, proc.Binary(t, "tandem"), "item", "image", filepath.Join(layouts, name))
		if o.Status != 0 {
			t.Errorf("%s: %s", name, o.Errors)
		}
		for _, path := range paths {
			argv := command(path, filepath.Join(dir, "state"), "run", "--bundle", dir,
				fmt.Sprint(name, "-", os.Getpid()))
			out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
			if err != nil || !strings.HasPrefix(string(out), name) {
				t.Errorf("%s by %s: %v %s", name, path, err, out)
			}
		}
	}
}

// confined checks what a process of a container may do.
func confined(t *testing.T, pid int) {
	t.Helper()
	dir := "/proc/" + strconv.Itoa(pid)
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Uid:\t65532\t65532\t65532\t65532\n", "Gid:\t65532\t65532\t65532\t65532\n",
		"CapEff:\t0000000000000000\n", "CapPrm:\t0000000000000000\n", "CapBnd:\t0000000000000000\n",
		"NoNewPrivs:\t1\n"} {
		if !strings.Contains(string(status), "\n"+want) {
			t.Errorf("process %d has not %q", pid, want)
		}
	}
	mounts, err := os.ReadFile(dir + "/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); f[4] == "/" && !strings.HasPrefix(f[5], "ro,") {
			t.Errorf("the root can be written: %s", line)
		}
	}
}
