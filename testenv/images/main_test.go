package images

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"tandem.internal/testenv/proc"
)

var ship = flag.Bool("ship", false, "make the images of every architecture, twice; minutes")

// asDocker is the variable that makes this program the one that the document calls docker: it names the test's
// directory.
const asDocker = "TEST_BINARY_IS_DOCKER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asDocker); dir != "" {
		status, err := docker(dir, os.Args[1:])
		if err != nil {
			fmt.Fprintln(os.Stderr, "docker of the tests:", err)
			status = 125
		}
		os.Exit(status)
	}
	os.Exit(proc.Main(m))
}

const version = "1.0.0-dev.7+abc"

// made makes the images of the programs for this machine, and returns the folder with their layouts.
func made(t *testing.T) string {
	t.Helper()
	programs, out := t.TempDir(), t.TempDir()
	system := filepath.Join(programs, "linux_"+runtime.GOARCH)
	if err := os.Symlink(filepath.Dir(proc.Binary(t, "tandem")), system); err != nil {
		t.Fatal(err)
	}
	run(t, nil, "go", "run", "./testenv/cmd/release", "images", "-version", version, "-time", "1700000000",
		"-programs", programs, "-out", out)
	return out
}

// run runs a program in the root of the sources and returns what it prints.
func run(t *testing.T, env []string, argv ...string) string {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = proc.Root(t), append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, out)
	}
	return strings.TrimSpace(string(out))
}

// runtimes are the container runtimes of this machine, by their paths. The test is skipped loudly where there is none,
// and for who is not root.
func runtimes(t *testing.T) (paths []string) {
	t.Helper()
	for _, name := range []string{"crun", "runc"} {
		path, err := exec.LookPath(name)
		for _, dir := range []string{"/usr/sbin/", "/sbin/"} {
			if err != nil {
				path, err = exec.LookPath(dir + name)
			}
		}
		if err == nil {
			paths = append(paths, path)
		}
	}
	if len(paths) == 0 || os.Getuid() != 0 {
		const why = "NOT TRIED: images. It takes root, and crun or runc, which deploy/demo/brokers installs"
		if os.Getenv("CI") == "true" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	return paths
}
