package images

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/testenv/proc"
)

// TestShipImages makes the images of every architecture twice, the second time of sources elsewhere that are younger,
// and has skopeo read each of them.
func TestShipImages(t *testing.T) {
	if !*ship {
		t.Skip("it builds for every architecture: make ship-check")
	}
	make := func(sources string) string {
		out := t.TempDir()
		cmd := exec.Command("make", "images", "OUT="+out, "VERSION="+version, "ARCHES=amd64 arm64 armv7 riscv64")
		cmd.Dir, cmd.Env = sources, append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000")
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("make images: %v\n%s", err, said)
		}
		return out
	}
	one, two := make(proc.Root(t)), make(proc.Tree(t))
	run(t, nil, "diff", "-r", one, two)

	run(t, nil, "deploy/demo/brokers", "skopeo", "skopeo")
	if _, err := exec.LookPath("skopeo"); err != nil {
		t.Skip("SKIPPED: skopeo is not installed, so whether it reads the images was NOT tested")
	}
	for _, name := range []string{"tandem", "tandem-controller", "tandem-broker", "tandem-node"} {
		from := "oci:" + filepath.Join(one, name)
		for _, arch := range []string{"amd64", "arm64", "arm", "riscv64"} {
			said := run(t, nil, "skopeo", "--override-arch", arch, "inspect", from)
			if !strings.Contains(said, `"Architecture": "`+arch+`"`) || !strings.Contains(said, `"`+version+`"`) {
				t.Errorf("%s for %s: %s", name, arch, said)
			}
		}
		// Everything, bills of materials, too, as into a registry; and one of them, as into an engine.
		run(t, nil, "skopeo", "copy", "--quiet", "--all", from, "dir:"+t.TempDir())
		file := filepath.Join(t.TempDir(), "image.tar")
		run(t, nil, "skopeo", "copy", "--quiet", from, "docker-archive:"+file+":"+name+":1")
	}
	o := proc.Run(t, proc.Root(t), nil, "make", "images", "OUT="+t.TempDir(), "ARCHES=sparc")
	if o.Status == 0 || !strings.Contains(o.Errors, "there are none for sparc") {
		t.Errorf("of a machine that nobody has: %d %s", o.Status, o.Errors)
	}
}
