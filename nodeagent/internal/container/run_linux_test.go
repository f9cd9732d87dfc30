package container

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"tandem.internal/nodeagent/internal/tree"
)

// expect runs a container that does one thing after the other, and compares what it says of each.
func (w *world) expect(s Spec, want [][2]string) {
	w.t.Helper()
	text := ""
	for _, c := range want {
		s.Args = append(s.Args, c[0])
		text += c[0] + ": " + c[1] + "\n"
	}
	if got := w.run(s); got != text {
		w.t.Errorf("got\n%swant\n%s", got, text)
	}
}

// namespaces are the flags by which clone and unshare make new ones.
var namespaces = []uint64{unix.CLONE_NEWTIME, unix.CLONE_NEWNS, unix.CLONE_NEWCGROUP, unix.CLONE_NEWUTS,
	unix.CLONE_NEWIPC, unix.CLONE_NEWUSER, unix.CLONE_NEWPID, unix.CLONE_NEWNET}

// confined is what every container finds, whoever makes it.
func confined() [][2]string {
	const eperm, enosys, erofs = "errno 1", "errno 38", "errno 30"
	all := [][2]string{
		{"who", "4711:4712 pid 1 in /"}, {"status=Groups", ""},
		{"status=NoNewPrivs", "1"}, {"status=Seccomp", "2"}, {"nets", "lo true "},
		{"write=/new", erofs}, {"write=/bin/program", erofs}, {"write=/etc/conf", erofs},
		{"write=/tmp/new", "done"}, {"read=/tmp/new", "written"}, {"write=/dev/shm/new", "done"},
		{"write=/proc/sys/kernel/hostname", erofs}, {"read=/proc/keys", ""}, {"read=/proc/timer_list", ""},
		{"read=/proc/version", ""}, {"read=/proc/cmdline", ""},
		{"read=/proc/diskstats", ""}, {"read=/proc/partitions", ""},
		{"list=/sys", "errno 2"}, {"open=/dev/null", "done"}, {"read=/etc/shadow", "of the image"},
		{"mknod=/tmp/null", eperm}, {"fill=/tmp/big", "63 MiB"}, {"env=A", "b"}, {"env=PATH", ""},
		{"call=" + strconv.Itoa(unix.SYS_CLONE3), enosys},
	}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		all = append(all, [2]string{"status=" + set, "0000000000000000"})
	}
	for _, nr := range []int{unix.SYS_MOUNT, unix.SYS_PTRACE, unix.SYS_BPF, unix.SYS_KEYCTL, unix.SYS_SETNS,
		unix.SYS_IO_URING_SETUP, unix.SYS_USERFAULTFD, unix.SYS_PIVOT_ROOT} {
		all = append(all, [2]string{"call=" + strconv.Itoa(nr), eperm})
	}
	for _, flag := range namespaces {
		all = append(all, [2]string{fmt.Sprintf("unshare=%d", flag), eperm})
	}
	return append(all, [2]string{"unshare=" + strconv.Itoa(unix.CLONE_FS), "done"})
}

// image adds files that tests look at.
func (w *world) image() Spec {
	w.write(w.layer, "etc/conf", "conf", 0)
	w.write(w.layer, "etc/shadow", "of the image", 0)
	s := w.spec()
	s.Env = []string{"A=b"}
	return s
}

// TestConfined: rights, root, network, files of the kernel's, system calls.
func TestConfined(t *testing.T) {
	each(t, func(w *world) { w.expect(w.image(), confined()) })
}

// TestConfinedRootless: the same, where the agent is not root.
func TestConfinedRootless(t *testing.T) {
	if !another(t) {
		return
	}
	for _, overlay := range []bool{true, false} {
		t.Run(fmt.Sprint("overlay ", overlay), func(t *testing.T) {
			w := newWorld(t, "crun")
			if overlay && !w.Runtime.Overlay {
				skip(t, w.Runtime.NoMount)
			}
			w.Runtime.Overlay = overlay
			w.expect(w.image(), confined())
			w.layers()
		})
	}
}

// TestHostNetwork: the node's network, where it is asked for.
func TestHostNetwork(t *testing.T) {
	each(t, func(w *world) {
		all, err := net.Interfaces()
		if err != nil {
			t.Fatal(err)
		}
		names := ""
		for _, i := range all {
			names += fmt.Sprint(i.Name, " ", i.Flags&net.FlagUp != 0, " ")
		}
		s := w.spec()
		s.HostNetwork = true
		w.expect(s, [][2]string{{"nets", names}})
	})
}

// TestNames: with the node's network there are the files by which the node resolves names, whatever the image has, and
// links that lead there; without one the image's own, else one that knows localhost. Nobody can change them.
func TestNames(t *testing.T) {
	each(t, func(w *world) {
		layers := t.TempDir()
		own, over := filepath.Join(layers, "own", "tree"), filepath.Join(layers, "over", "tree")
		w.write(own, "etc/hosts", "of the image", 0)
		w.write(own, "etc/resolv.conf", "-> /bin", 0)
		w.write(over, "etc", "-> bin", 0)
		defer syscall.Umask(syscall.Umask(0o077))
		node := func(name string) string {
			data, err := os.ReadFile(name)
			if err != nil {
				return "errno 2"
			}
			return strings.TrimSpace(string(data))
		}
		hosts, resolver := node(hostsFile), node(resolveFile)
		local := strings.TrimSpace(localhost)
		s := w.spec()
		check := func(network bool, hosts, resolver string) {
			t.Helper()
			s.HostNetwork = network
			w.expect(s, [][2]string{{"read=/etc/hosts", hosts}, {"read=/etc/resolv.conf", resolver},
				{"write=/etc/hosts", "errno 30"}})
		}
		check(true, hosts, resolver)
		check(false, local, "errno 2")
		s.Layers = append(s.Layers, own)
		check(true, hosts, resolver)
		check(false, "of the image", "errno 21")
		s.Layers = append(s.Layers, over)
		check(true, hosts, resolver)
	})
}

// TestBinds: what is declared is there, and cannot be changed; whatever the image has at its place.
func TestBinds(t *testing.T) {
	each(t, func(w *world) {
		own := t.TempDir()
		w.write(own, "conf", "of the node", 0)
		secret := filepath.Join(own, "secret")
		w.write(own, "secret/file", "secret", 0)
		// An image that would have the mounts somewhere else.
		w.write(w.layer, "state", "-> "+secret, 0)
		w.write(w.layer, "etc", "-> "+secret, 0)
		w.write(w.layer, "dev", "-> "+secret, 0)
		w.write(w.layer, "tmp", "-> "+secret, 0)
		w.write(w.layer, "proc", "a file", 0)
		s := w.spec()
		s.Dir = "/state/data"
		s.Binds = []Bind{{Host: filepath.Join(own, "conf"), Inside: "/etc/conf"}}
		if _, _, err := w.try("wrong", s); err == nil || !strings.Contains(err.Error(), "no directory in its image") {
			t.Errorf("begins in a link: %v", err)
		}
		s.Dir = "/"
		w.expect(s, [][2]string{{"read=/etc/conf", "of the node"}, {"write=/etc/conf", "errno 30"},
			{"list=/etc", "conf "}, {"list=/tmp", ""}})
		if all, err := os.ReadDir(secret); err != nil || len(all) != 1 {
			t.Errorf("%v %v", all, err)
		}
	})
}

// layers runs a container of several layers and looks at what they come to.
func (w *world) layers() {
	w.t.Helper()
	base := filepath.Join(w.t.TempDir(), "layers")
	layer := func(n string) string { return filepath.Join(base, n, "tree") }
	hide := func(n string, names ...string) {
		w.write(filepath.Dir(layer(n)), "whiteouts", strings.Join(names, "\x00")+"\x00", 0)
	}
	for _, f := range []string{"a/one", "a/two", "a/deep/x", "b/one", "c", "d/one", "f", "link/x", "again/x"} {
		w.write(layer("1"), f, "1", 0)
	}
	w.write(layer("1"), "to", "-> /a", 0)
	// Hides a file, a directory, all that is in one that it has anew, what is not there, and what is in what it hides.
	w.write(layer("2"), "a/two", "2", 0)
	w.write(layer("2"), "d/two", "2", 0)
	w.write(layer("2"), "to/y", "2", 0) // a directory in place of a link
	w.write(layer("2"), "link", "-> a", 0)
	w.write(layer("2"), "none/at", "dir/", 0) // as package tree makes it
	hide("2", "a/deep", "a/one", "again", "again/x", "b", "d", "none/at/all", "to/z")
	w.write(layer("3"), "b/three", "3", 0)
	w.write(layer("3"), "f/x", "3", 0) // a directory in place of a file
	w.write(layer("3"), "again/y", "3", 0)
	hide("3", "c")
	s := w.spec()
	s.Layers = []string{layer("1"), layer("2"), w.layer, layer("3")}
	w.expect(s, [][2]string{
		{"list=/a", "two "}, {"read=/a/two", "2"}, {"list=/b", "three "}, {"read=/c", "errno 2"}, {"list=/d", "two "},
		{"list=/f", "x "}, {"list=/to", "y "}, {"read=/link/two", "2"}, {"list=/again", "y "}, {"list=/none", "at "},
	})
	// One that hides all below it.
	w.write(layer("4"), "only", "4", 0)
	hide("4", ".")
	s.Layers = []string{layer("1"), layer("2"), layer("4"), w.layer}
	w.expect(s, [][2]string{{"read=/a/two", "errno 2"}, {"read=/only", "4"}})
	// As many as there may be, of which each hides something.
	s.Layers = []string{w.layer}
	for i := 1; i < maxLayers; i++ {
		n := fmt.Sprint("many", i)
		w.write(layer(n), fmt.Sprint("f", i), "", 0)
		hide(n, fmt.Sprint("f", i-1))
		s.Layers = append(s.Layers, layer(n))
	}
	w.expect(s, [][2]string{{"read=/f1", "errno 2"}, {"read=/f126", "errno 2"}, {"read=/f127", ""}})
	if got, err := os.ReadFile(filepath.Join(layer("1"), "a/one")); err != nil || string(got) != "1" {
		w.t.Errorf("a layer has changed: %q %v", got, err)
	}
}

// TestLayersOfAStore: from archives, as nodes get them, to what a container sees.
func TestLayersOfAStore(t *testing.T) {
	each(t, func(w *world) {
		store, err := tree.Open(filepath.Join(t.TempDir(), "trees"))
		if err != nil {
			t.Fatal(err)
		}
		add := func(files map[string]string) string {
			var blob, archive bytes.Buffer
			z := gzip.NewWriter(&blob)
			out := tar.NewWriter(io.MultiWriter(z, &archive))
			for name, content := range files {
				err = errors.Join(err, out.WriteHeader(&tar.Header{Name: name, Mode: 0o4755, Size: int64(len(content)),
					Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}))
				_, werr := out.Write([]byte(content))
				err = errors.Join(err, werr)
			}
			if err = errors.Join(err, out.Close(), z.Close()); err != nil {
				t.Fatal(err)
			}
			sum := func(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }
			path, err := store.Add(t.Context(), &blob, tree.Ref{Digest: sum(blob.Bytes()), DiffID: sum(archive.Bytes()),
				Size: int64(blob.Len())})
			if err != nil {
				t.Fatal(err)
			}
			return path
		}
		program, err := os.ReadFile(filepath.Join(w.layer, "bin/program"))
		if err != nil {
			t.Fatal(err)
		}
		s := w.spec()
		s.Layers = []string{
			add(map[string]string{"bin/program": string(program), "etc/a": "1", "etc/b": "1", "opt/x": "1"}),
			add(map[string]string{"etc/.wh.a": "", "opt/.wh..wh..opq": "", "opt/y": "2", "var/lib/.wh.none": ""}),
		}
		w.expect(s, [][2]string{{"list=/etc", "b hosts "}, {"list=/opt", "y "}, {"list=/var/lib", ""}})
	})
}

// TestLayers: what they come to, by overlays and by links.
func TestLayers(t *testing.T) { each(t, (*world).layers) }
