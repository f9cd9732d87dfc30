package workloads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/container"
	"tandem.internal/nodeagent/internal/workloads"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Containers are what runs containers on a node. What a look finds later takes its place, on the owner's goroutine.
type Containers struct {
	Dir     string            // in which they are made, absolute
	Runtime container.Runtime // the zero Runtime: none
	Why     string            // there is none; "": nobody has looked
	// Look looks for a runtime again; nil: what there is, or is not, stays so.
	Look func(context.Context) (container.Runtime, error)
	// Found is told what a look has changed, on the owner's goroutine; the zero Runtime: only the reason for none.
	Found func(container.Runtime)
}

// Looks for a container runtime come after pauses that grow from the first to the last: without end while there is
// none, and betterLooks times for one that is better than what was found last.
const (
	firstLook   = 10 * time.Second
	lastLook    = 15 * time.Minute
	lookTime    = time.Minute // for one
	betterLooks = 4
)

// home is where containers are made: at each moment by one runtime. Its methods are for any goroutine.
type home struct {
	mu  sync.Mutex
	own *container.Home // nil: none are there, and none can be made
	why string          // none can be made
}

// set opens the directory of containers, if there can be some: also such as an earlier agent has made, whose runtime
// was taken off the node.
func (h *home) set(c *Containers) (err error) {
	var own *container.Home
	_, none := os.Lstat(c.Dir)
	if c.Runtime.Name != "" || c.Dir != "" && !errors.Is(none, fs.ErrNotExist) {
		own, err = container.Open(container.Home{Dir: c.Dir, Runtime: c.Runtime})
	}
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.own, h.why = own, ""; c.Runtime.Name == "" {
		h.why = "this node has no container runtime: " + cmp.Or(c.Why, "its agent does not look for one")
	}
	return nil
}

func (h *home) now() (*container.Home, string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.own, h.why
}

// Lacks says why no container can be made by a runtime now; "": some can.
func (h *home) Lacks(runtime string) string {
	own, why := h.now()
	if why == "" && own.Runtime.Name != runtime {
		why = another(own.Runtime.Name, runtime)
	}
	return why
}

func another(is, wanted string) string {
	return fmt.Sprintf("this node has the container runtime %s, not %s", is, wanted)
}

// Prepare is that of container.Home.
func (h *home) Prepare(ctx context.Context, id string, s container.Spec) ([]string, error) {
	own, why := h.now()
	if why != "" {
		return nil, errors.New(why)
	}
	return own.Prepare(ctx, id, s)
}

// Delete is that of container.Home.
func (h *home) Delete(ctx context.Context, id string) error {
	if own, _ := h.now(); own != nil {
		return own.Delete(ctx, id)
	}
	return nil
}

// List is that of container.Home.
func (h *home) List() ([]string, error) {
	if own, _ := h.now(); own != nil {
		return own.List()
	}
	return nil, nil
}

// seek looks for a container runtime until ctx ends, while there is none, or a better one is possible.
func (r *runner) seek(ctx context.Context) {
	now := r.cfg.Containers // which nobody else changes
	if now.Look == nil {
		return
	}
	pause := firstLook
	for n := 0; now.Runtime.Name == "" || now.Runtime.Better && n < betterLooks; {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		pause = min(3*pause, lastLook)
		n++
		found := now
		rt, err := r.look(ctx, now)
		switch {
		case ctx.Err() != nil:
			return
		case now.Runtime.Name != "" && (err != nil || rt.Better && !more(rt, now.Runtime)):
			continue // what there is stays
		case err != nil:
			found.Why = wire.Plain(err.Error(), wire.MaxText)
		default:
			found.Runtime, found.Why = rt, ""
		}
		if err := r.home.set(&found); err != nil {
			r.cfg.Log.Warn("the directory of containers cannot be opened; it is tried again", zap.Error(err))
			continue
		}
		now, n = found, 0 // of those for a better one
		r.host.Do(func() {
			r.cfg.Containers = found
			found.Found(found.Runtime)
		})
		r.manager.Look()
	}
	now.Look = nil
	r.host.Do(func() { r.cfg.Containers = now })
}

// more says whether a runtime is better than another one, though there may be a better one yet.
func more(rt, than container.Runtime) bool {
	i, j := slices.Index(wire.ContainerRuntimes, rt.Name), slices.Index(wire.ContainerRuntimes, than.Name)
	return i <= j && (rt.Overlay || !than.Overlay) && (i < j || rt.Overlay != than.Overlay)
}

func (r *runner) look(ctx context.Context, c Containers) (container.Runtime, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	return c.Look(ctx)
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

// contains says why a configuration cannot run in a container here; nil: it can, or is to be none, or its slot waits
// for a runtime that is looked for.
func (c Config) contains(w *workload.Config) *wire.Error {
	switch {
	case !w.Contained():
		return nil
	case c.Look != nil && (c.Runtime.Name == "" || c.Runtime.Better):
	case c.Runtime.Name == "":
		why := cmp.Or(c.Why, "its agent does not look for one")
		return wire.New(wire.CodeNotSupported, "/container/runtime", "this node has no container runtime: "+why)
	case c.Runtime.Name != w.Container.Runtime:
		return wire.New(wire.CodeNotSupported, "/container/runtime", another(c.Runtime.Name, w.Container.Runtime))
	}
	return workloads.Connects(w, c.Confine.Least)
}
