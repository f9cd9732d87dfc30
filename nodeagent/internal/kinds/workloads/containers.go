package workloads

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"tandem.internal/nodeagent/internal/confine"
	"tandem.internal/nodeagent/internal/container"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Containers are what runs containers on a node.
type Containers struct {
	Dir     string            // in which they are made, absolute
	Runtime container.Runtime // the zero Runtime: none
	Why     string            // there is none; "": nobody has looked
}

// open opens the directory of containers, if there can be some: also such as an earlier agent has made, whose runtime
// was taken off the node.
func (c Containers) open() (*container.Home, error) {
	if c.Runtime.Name == "" {
		if _, err := os.Lstat(c.Dir); c.Dir == "" || errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	return container.Open(container.Home{Dir: c.Dir, Runtime: c.Runtime})
}

// attribute is what the node tells of it.
func (c Containers) attribute() string {
	switch {
	case c.Runtime.Name != "":
		return c.Runtime.Name + " " + c.Runtime.Version
	case c.Why != "":
		return wire.AttributeNone + ": " + c.Why
	}
	return ""
}

// contains says why a configuration cannot run in a container here; nil: it can, or is to be none.
func (c Config) contains(w *workload.Config) *wire.Error {
	switch {
	case !w.Contained():
		return nil
	case c.Runtime.Name == "":
		why := c.Why
		if why == "" {
			why = "its agent does not look for one"
		}
		return wire.New(wire.CodeNotSupported, "/container/runtime", "this node has no container runtime: "+why)
	case c.Runtime.Name != w.Container.Runtime:
		return wire.New(wire.CodeNotSupported, "/container/runtime", fmt.Sprintf("this node has the container "+
			"runtime %s, not %s", c.Runtime.Name, w.Container.Runtime))
	case w.Container.Network != "" && c.Confine.Least.Has(confine.Net):
		return wire.New(wire.CodeNotAllowed, "/container/network", "what this node runs cannot connect to what "+
			"listens on it (--confine), and with the node's network it could")
	}
	return nil
}
