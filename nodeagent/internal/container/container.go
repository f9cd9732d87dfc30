// Package container runs programs of OCI images in the node's container runtime, crun or runc: it says what a container
// is (config.json of the OCI runtime specification), puts its layers together, and has the runtime make, start and
// remove it.
//
// It guarantees
//   - that a container has no rights of its owner's choice: no capabilities, no new privileges, no user 0 unless the
//     node's owner allows it, a read-only root, no network unless asked for, and of the node's files and devices those
//     that are declared, and copies of those by which names are resolved in its network;
//   - that nothing of an image decides where something is mounted, and no file of it is read to find out who runs it;
//   - that overlays are mounted where nobody else sees them, and so end with the container, whoever was killed;
//   - that what is left of a container is found by its name and removed.
//
// The main process is an orphan as soon as the container is made: its parent is the nearest subreaper, the keeper,
// which signals it and has its exit code. The keeper also bounds it: limits are those of the control groups in which
// Create is called. It must not decide what runs, or when.
package container

import (
	"errors"
	"fmt"
	"math"
	"path"
	"strings"
	"unicode/utf8"
)

// Spec is what a container is to be.
type Spec struct {
	Layers []string // trees (package tree), the lowest first
	Args   []string // the program and its arguments
	Env    []string // all of it, NAME=value
	Dir    string   // in which it begins; "": /
	// The user and group that it is: on the node too, where the agent is root; else it is the agent's on the node, and
	// this one only in the container.
	UID, GID    uint32
	StopSignal  int  // by which it is asked to end; 0: SIGTERM. Who asks sends it to the runtime
	HostNetwork bool // it has the node's network; else one of its own, in which there is nothing but itself
	Binds       []Bind
	// Group is the control group that runc makes for this container alone, as in /proc/self/cgroup: Delete ends
	// whatever is in it. crun has none, and stays where it is called.
	Group string
}

// Bind is a file of the node that the container has, and cannot change.
type Bind struct{ Host, Inside string } // absolute

// Bounds of what a Spec may have.
const (
	maxLayers = 128
	maxWords  = 4096
	maxText   = 128 << 10 // bytes of arguments and environment together
	maxID     = math.MaxInt32
)

// check says what is wrong with a Spec.
func (s Spec) check() error {
	switch {
	case len(s.Layers) == 0 || len(s.Layers) > maxLayers:
		return fmt.Errorf("a container has 1 to %d layers", maxLayers)
	case len(s.Args) == 0 || s.Args[0] == "":
		return errors.New("a container has a program")
	case s.UID == 0:
		return errors.New("it would run as user 0, which no container does: its image has to name another user")
	case s.UID > maxID || s.GID > maxID:
		return fmt.Errorf("a user or group above %d", maxID)
	case s.Group != "" && (!plain(s.Group) || s.Group == "/"):
		return fmt.Errorf("the control group %.100q: a plain path from / is possible", s.Group)
	}
	size := 0
	for _, words := range [][]string{s.Args, s.Env} {
		if len(words) > maxWords {
			return fmt.Errorf("more than %d arguments or variables", maxWords)
		}
		for _, w := range words {
			if strings.IndexByte(w, 0) >= 0 {
				return errors.New("a zero byte in an argument or a variable")
			}
			size += len(w) + 1
		}
	}
	if size > maxText {
		return fmt.Errorf("arguments and environment take %d bytes; %d are possible", size, maxText)
	}
	for _, v := range s.Env {
		if strings.IndexByte(v, '=') < 1 {
			return fmt.Errorf("the variable %.100q: it is written NAME=value", v)
		}
	}
	// The runtime makes links to /proc/self/fd in /dev.
	if s.Dir != "" && (!plain(s.Dir) || within(s.Dir, "/proc") || within(s.Dir, "/dev")) {
		return fmt.Errorf("it would begin in %.100q: a plain path from / is possible, and none below /proc or /dev",
			s.Dir)
	}
	return s.checkPlaces()
}

// checkPlaces looks at what is mounted: each on its own, and nothing over what the container needs.
func (s Spec) checkPlaces() error {
	var all []string
	for _, b := range s.Binds {
		if !plain(b.Host) || !plain(b.Inside) || b.Inside == "/" || within(b.Inside, "/proc") ||
			within(b.Inside, "/dev") {
			return fmt.Errorf("%.100q cannot be had as %.100q: plain paths from / are possible, and none below /proc "+
				"or /dev", b.Host, b.Inside)
		}
		all = append(all, b.Inside)
	}
	for i, a := range all {
		for j, b := range all {
			if i != j && within(a, b) {
				return fmt.Errorf("%.100q and %.100q are in one another", a, b)
			}
		}
	}
	return nil
}

// plain says whether a path is absolute, without . and .., and can be written into options of a mount and JSON.
func plain(p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && !strings.ContainsAny(p, "\x00\n") && utf8.ValidString(p)
}

// within says whether a path is dir or below it.
func within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// Runtime is a program that has run a container on this node.
type Runtime struct {
	Name    string // crun or runc
	Path    string
	Version string
	Groups  string // the node's control groups: v1, hybrid or v2
	Overlay bool   // layers are mounted over each other; else there is a tree of hard links for each container
	NoMount string // why there is no overlay
	// Better says that another look may find more: overlays, or a runtime before this one that is there and failed.
	Better bool
}

// Probing says how to look for a runtime.
type Probing struct {
	Dir string // of the probe's own, which is made and removed
	// Path is the runtime to take, whatever else there is; "": the first that works. Its name has to be crun or runc.
	Path string
	// True is a program that ends with 0, and needs no other file; "": this one, which then is to be called as
	// "tandem-node version".
	True string
	// Group is the control group for runc; "": this process's own.
	Group string
}

// Home is where the containers of one agent are. All paths in it are absolute: crun takes others as those of a bundle.
type Home struct {
	Dir     string
	Runtime Runtime
}
