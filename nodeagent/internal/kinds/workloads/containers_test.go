package workloads

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/nodeagent/internal/confine"
	"tandem.internal/nodeagent/internal/container"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// What is a container is taken only where its runtime is, else refused with the reason, which the node tells, too.
func TestContainersAreDemanded(t *testing.T) {
	crun := Containers{Runtime: container.Runtime{Name: "crun", Version: "1.8.1"}}
	for _, row := range []struct {
		of        Containers
		container workload.Container
		least     confine.Level
		attribute string
		want      string
	}{
		{crun, workload.Container{Runtime: "crun", Network: "node"}, "", "crun 1.8.1", ""},
		{crun, workload.Container{}, "landlock+net", "crun 1.8.1", ""},
		{crun, workload.Container{Runtime: "crun"}, "landlock+net", "crun 1.8.1", ""},
		{crun, workload.Container{Runtime: "crun", Network: "node"}, "landlock+net", "crun 1.8.1",
			"with the node's network"},
		{crun, workload.Container{Runtime: "runc"}, "", "crun 1.8.1", "has the container runtime crun, not runc"},
		{Containers{Why: "none is installed"}, workload.Container{Runtime: "crun"}, "", "none: none is installed",
			"no container runtime: none is installed"},
		{Containers{}, workload.Container{Runtime: "crun"}, "", "", "its agent does not look for one"},
	} {
		c := Config{On: true, Groups: &controlGroups{}, Containers: row.of}
		c.Confine.Least = row.least
		err := c.contains(&workload.Config{Container: &row.container})
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Message, row.want) {
			t.Errorf("%+v: %v", row, err)
		}
		if got := row.of.attribute(); got != row.attribute {
			t.Errorf("told %q, want %q", got, row.attribute)
		}
	}
	c := Config{On: true, Groups: &controlGroups{}}
	if errs := c.check([]workload.Config{{Slot: workload.Slot{Service: "web", Node: "n1"},
		Container: &workload.Container{Runtime: "crun"}}}); len(errs) != 1 || errs[0].Code != wire.CodeNotSupported ||
		!strings.Contains(errs[0].Message, "web@n1") {
		t.Errorf("%v", errs)
	}
}

// Where there is no runtime, a directory of containers is opened only if it is there: what is in it is removed.
func TestContainersOfBefore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "containers")
	for range 2 {
		if home, err := (Containers{Dir: dir}).open(); home != nil || err != nil {
			t.Errorf("%v %v", home, err)
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if home, err := (Containers{Dir: dir}).open(); home == nil || err != nil {
		t.Errorf("%v %v", home, err)
	}
}
