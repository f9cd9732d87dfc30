package env

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/filetest"
	"tandem.internal/testenv/fault"
)

// Setup says what a test starts with.
type Setup struct {
	Nodes    []NodeSpec // nil: n1, n2 and n3, of mainType
	External bool       // the broker is a process of its own, which can be wiped and swapped
	Seed     uint64     // of everything that is left to chance
	Log      bool       // everybody logs to the test
	Label    string     // begins every failure

	// Controller has the last word on the controller's configuration, before each start. Nil: none.
	Controller func(*controller.Config, *controller.Deps)
}

// Env is a unit on its machines. Its methods are called from the test's goroutine.
type Env struct {
	*testing.T
	Controller *Controller
	Broker     *Broker // nil unless Setup.External

	setup  Setup
	dir    string
	chance *rand.Rand
	nodes  []*Node
	began  time.Time

	mu    sync.Mutex
	diary []string
}

// Run makes a unit in a bubble, starts it, waits until every node is known, runs f, and stops it.
func Run(t *testing.T, s Setup, f func(e *Env)) {
	t.Helper()
	dir := filetest.MemoryDir(t)
	synctest.Test(t, func(t *testing.T) {
		e := &Env{T: t, setup: s, dir: dir, chance: rand.New(rand.NewPCG(s.Seed, 1)), began: time.Now()}
		if e.setup.Nodes == nil {
			e.setup.Nodes = []NodeSpec{{Name: "n1"}, {Name: "n2"}, {Name: "n3"}}
		}
		t.Cleanup(func() {
			e.Close()
			if t.Failed() {
				t.Logf("%swhat happened:\n%s", s.Label, e.story())
			}
		})
		if s.External {
			e.Broker = newBroker(e)
			e.Broker.Start()
		}
		e.Controller = newController(e)
		e.Controller.Start()
		for _, spec := range e.setup.Nodes {
			n := e.Add(spec)
			if !spec.Late {
				n.Start()
			}
		}
		e.Until(time.Minute, "every node is known", func() bool {
			for _, n := range e.nodes {
				if v, ok := e.View(n.Name); !n.spec.Late && (!ok || !v.Online || v.Type != n.spec.Type) {
					return false
				}
			}
			return true
		})
		f(e)
	})
}

// Close stops everything that runs. Run calls it.
func (e *Env) Close() {
	for _, n := range e.nodes {
		n.road.Clear() // nobody waits for a lost road
	}
	for _, n := range e.nodes {
		n.Stop()
	}
	if e.Controller != nil {
		if e.Controller.road != nil {
			e.Controller.road.Clear()
		}
		e.Controller.Stop()
		if e.Controller.road != nil {
			e.Controller.road.Close()
			e.Controller.road.Wait()
		}
	}
	if e.Broker != nil {
		e.Broker.Stop()
	}
	for _, n := range e.nodes {
		n.road.Close()
		n.road.Wait()
	}
	synctest.Wait()
}

// Add makes a node that is not started yet.
func (e *Env) Add(spec NodeSpec) *Node {
	if spec.Type == "" {
		spec.Type = Main
	}
	n := newNode(e, spec)
	e.nodes = append(e.nodes, n)
	return n
}

// Node returns a node by its name.
func (e *Env) Node(name string) *Node {
	e.Helper()
	i := slices.IndexFunc(e.nodes, func(n *Node) bool { return n.Name == name })
	if i < 0 {
		e.Fatalf("there is no node %s", name)
	}
	return e.nodes[i]
}

// Nodes returns all nodes in the order in which they were added.
func (e *Env) Nodes() []*Node { return e.nodes }

// Pass lets time pass, and then everything settle that wants to happen at once.
func (e *Env) Pass(d time.Duration) {
	time.Sleep(d) // virtual: inside a bubble
	synctest.Wait()
}

// Until waits until cond holds and fails the test if it does not within limit.
func (e *Env) Until(limit time.Duration, what string, cond func() bool) {
	e.Helper()
	if !e.Within(limit, cond) {
		e.Fatalf("%safter %v it is not true that %s", e.setup.Label, limit, what)
	}
}

// Within waits until cond holds and reports whether it did within limit.
func (e *Env) Within(limit time.Duration, cond func() bool) bool {
	end := time.Now().Add(limit)
	for step := time.Millisecond; ; step = min(2*step, 2*time.Second) {
		synctest.Wait()
		if cond() {
			return true
		}
		left := time.Until(end)
		if left <= 0 {
			return false
		}
		time.Sleep(min(step, left))
	}
}

// Wrong is a broken rule, seen by anybody at any time.
func (e *Env) Wrong(format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	e.Note("WRONG: %s", what)
	e.Errorf("%s%s", e.setup.Label, what)
}

// Note writes a line into the diary that a failed test shows.
func (e *Env) Note(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	const keep = 400
	if len(e.diary) == keep {
		e.diary = append(e.diary[:0], e.diary[1:]...)
	}
	e.diary = append(e.diary, fmt.Sprintf("%12v  ", time.Since(e.began).Round(time.Millisecond))+
		fmt.Sprintf(format, args...))
}

func (e *Env) story() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.diary, "\n")
}

// rand returns a source of chance of its own for each caller.
func (e *Env) rand() *rand.Rand { return rand.New(rand.NewPCG(e.chance.Uint64(), e.chance.Uint64())) }

// machine makes the computer for a process with this state directory.
func (e *Env) machine(name string) (*fault.Machine, string) {
	dir := filepath.Join(e.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		e.Fatal(err)
	}
	return &fault.Machine{Dir: dir}, dir
}
