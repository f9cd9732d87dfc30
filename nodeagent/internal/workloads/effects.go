package workloads

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/nodeagent/internal/confine"
	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/nodeagent/internal/supervise"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// dispatch has the effects of a slot done, after those that are still waiting.
func (m *Manager) dispatch(s *slot, effects []supervise.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case supervise.Report:
			m.changed = true
		case supervise.Emit:
			m.cfg.Emit(e.Type, e.Err, e.Detail)
		default:
			s.queue = append(s.queue, e)
		}
	}
	m.next(s)
}

// next has the first effect of a slot's queue done beside Run's goroutine.
func (m *Manager) next(s *slot) {
	if s.busy || len(s.queue) == 0 || m.work.Err() != nil {
		return
	}
	s.busy = true
	do := m.perform(s, s.queue[0])
	m.workers.Go(func() {
		ev := do()
		if m.work.Err() != nil {
			return // perhaps it was not done; the next agent does it again
		}
		m.call(func() {
			s.busy, s.queue = false, slices.Delete(s.queue, 0, 1)
			if ev != nil {
				m.tell(s, ev)
			}
			m.next(s)
		})
	})
}

// perform returns what does an effect, and the event that answers it, nil if none does yet.
func (m *Manager) perform(s *slot, e supervise.Effect) func() supervise.Event {
	service := s.service
	switch e := e.(type) {
	case supervise.LinkUp:
		err := wire.New(wire.CodeStorage, "",
			"what an earlier slot of this name has left on the node is not removed yet")
		stale := m.stale[service]
		return func() supervise.Event {
			if !stale {
				m.do(func() { err = m.link(m.dir(service, e.Dir), e.Config) })
			}
			return supervise.Linked{Dir: e.Dir, Err: err}
		}
	case supervise.Delete:
		remove := m.remove
		if s.state.Wanted != nil {
			remove = m.discard // the logs of its hooks may still be asked for
		}
		return func() supervise.Event {
			var err error
			m.do(func() { err = remove(service, e.Dir) })
			return supervise.Removed{Dir: e.Dir, Err: storage(err)}
		}
	case supervise.Run:
		m.follows()
		run := m.run(service, e)
		m.paths.Store(e.ID, output{path: run.Log.Path})
		return func() supervise.Event { return m.start(run, e) }
	case supervise.Stop:
		return func() supervise.Event {
			st, err := m.stop(e.ID, e.Grace)
			return m.answered(e.ID, st, err)
		}
	case supervise.Forget:
		m.paths.Delete(e.ID)
		m.cfg.Resources.Free(e.ID)
		m.release(e.ID, keep.Exited)
		return func() supervise.Event { return nil }
	}
	panic(fmt.Sprintf("workloads: nobody does a %T", e))
}

// start has a run started, in its control group. One that the keeper knows is taken over.
func (m *Manager) start(run keep.Run, e supervise.Run) supervise.Event {
	var st keep.Status
	get := func(k Keeper) (err error) {
		st, err = k.Get(m.work, e.ID)
		return err
	}
	if err := m.keeper("start "+e.ID, get, wire.CodeNotFound); !unknown(err) {
		return m.answered(e.ID, st, err)
	}
	if m.lacks(e.Config) != nil {
		return m.lost(e.ID) // with the machine: no verdict on it, and it is started when there is a runtime
	}
	if err := m.unsigned(e.Config); err != nil {
		return m.refused(e.ID, err)
	}
	paths, err := m.cfg.Resources.Use(m.work, e.ID, e.Config.Resources) // takes time: it is nobody's turn meanwhile
	if err != nil {
		return m.refused(e.ID, err)
	}
	var refused error
	err = m.keeper("start "+e.ID, func(k Keeper) (err error) {
		if err := get(k); !unknown(err) {
			return err
		}
		if refused = m.setRight(run.Dir, e.Config, paths); refused != nil {
			refused = fmt.Errorf("the links to its resources: %w", refused)
			return nil
		}
		run := run
		run.Confine = m.confine(run.Dir, e.Config, paths)
		if e.Of != "" {
			of, err := k.Get(m.work, e.Of)
			if err != nil && !unknown(err) {
				return err
			}
			if of.State == keep.Running {
				run.Env = append(slices.Clip(run.Env), "TANDEM_PID="+strconv.Itoa(of.PID))
			}
		}
		var constraints map[string]string
		if c := e.Config.Container; c != nil {
			constraints = c.Constraints
		}
		if run.Cgroups, refused = m.cfg.Groups.Enter(group(e.Config.Slot.Service, e.Dir),
			strings.TrimPrefix(e.Hook, "iss_hook_"), constraints); refused != nil {
			refused = fmt.Errorf("its control group: %w", refused)
			return nil
		}
		if e.Config.Contained() && e.Hook == workload.HookStart {
			if refused = m.contain(&run, e.Config, paths); refused != nil {
				refused = fmt.Errorf("its container: %w", refused)
				return nil
			}
		}
		if end, err := keep.Tail(run.Log.Path, 0); err == nil {
			m.paths.Store(e.ID, output{run.Log.Path, end})
		}
		st, err = k.Start(m.work, run)
		// so it is not started; by one that is about to end the next one does
		if answer, ok := errors.AsType[*wire.Error](err); ok && answer.Code == wire.CodeNotSupported {
			refused, err = errors.New("the keeper is of a version that cannot confine it as far as --confine says, or "+
				"knows of no containers; another one takes its place when nothing runs"), nil
		} else if ok && answer.Code != wire.CodeUnavailable {
			refused, err = errors.New(answer.Message), nil
		}
		return err
	})
	if err == nil && refused != nil {
		return m.refused(e.ID, refused)
	}
	return m.answered(e.ID, st, err)
}

// refused is the end of a run that was not started; nil: the agent stops.
func (m *Manager) refused(id string, why error) supervise.Event {
	if m.work.Err() != nil {
		return nil
	}
	return supervise.Ended{Run: id, Exit: wire.WorkloadExit{Code: -1, Text: wire.Plain(why.Error(), wire.MaxText),
		At: m.now().Wall.UTC().Truncate(time.Second)}}
}

// unsigned says why no hook of a configuration may be started: it may be run by, or read, what no publisher has signed.
func (m *Manager) unsigned(c workload.Config) error {
	for _, name := range slices.Sorted(maps.Keys(c.Resources)) {
		err := m.cfg.Resources.Look(c.Resources[name]).Unsigned
		if m.cfg.Signed {
			err = cmp.Or(err, c.Misplaced(c.Resources[name]))
		}
		if err != nil {
			return fmt.Errorf("the resource %.64q: %s", name, err.Message)
		}
	}
	return nil
}

func unknown(err error) bool {
	e, ok := errors.AsType[*wire.Error](err)
	return ok && e.Code == wire.CodeNotFound
}

// answered is the event of what the keeper said of a run.
func (m *Manager) answered(id string, st keep.Status, err error) supervise.Event {
	switch {
	case unknown(err): // it was never started, or forgotten
		return m.lost(id)
	case err != nil: // the agent stops
		return nil
	case st.State == keep.Running:
		return supervise.Running{Run: id, Up: st.Up}
	}
	return supervise.Ended{Run: id, Exit: m.exit(st)}
}

// lost is the end of a run that nobody saw.
func (m *Manager) lost(id string) supervise.Event {
	return supervise.Ended{Run: id,
		Exit: wire.WorkloadExit{Code: -1, Lost: true, At: m.now().Wall.UTC().Truncate(time.Second)}}
}

// run is what the keeper is asked to run.
func (m *Manager) run(service string, e supervise.Run) keep.Run {
	dir := m.dir(service, e.Dir)
	r := keep.Run{ID: e.ID, Slot: service, Argv: []string{filepath.Join(dir, e.Hook)}, Dir: dir,
		Env: environment(e, dir), MaxExecution: e.Max, StopGrace: m.cfg.Rules.Grace,
		Log: keep.Log{Path: m.hookLog(service, e.Hook), Bytes: 64 << 10, Files: 2}}
	if e.Hook == workload.HookStart {
		r.Log = keep.Log{Path: m.logPath(service), Bytes: m.cfg.LogBytes, Files: m.cfg.LogFiles}
	}
	return r
}

// confine is what the hooks of a configuration may reach: its directory, its resources, which are at paths, and what
// Config has. Resources that are fetched again later lie beside those of now. Of the trees it has its own alone: parts
// of images are among the others. One that is made again later it has only when it is started anew.
func (m *Manager) confine(dir string, c workload.Config, paths map[string]string) *keep.Confine {
	own := confine.Room{Write: []string{dir}}
	for name, a := range c.Resources {
		path := paths[name]
		at := filepath.Dir(path)
		if a.Unpack != nil {
			own.Read = append(own.Read, path)
			if a.Unpack.Path != "" {
				at = filepath.Dir(at)
			}
		}
		if filepath.IsAbs(at) && !slices.Contains(own.Known, at) {
			own.Known = append(own.Known, at)
		}
	}
	slices.Sort(own.Read)
	return &keep.Confine{Least: m.cfg.Confine.Least, Room: m.cfg.Confine.Room.With(own)}
}

// environment is all that a hook finds in its environment, but for TANDEM_PID, the slot's process if that
// is there. A container gets nothing of the node's files but what an operator sets.
func environment(e supervise.Run, dir string) []string {
	c := e.Config
	props := c.Properties
	if props == nil {
		props = map[string]string{}
	}
	all, err := json.Marshal(props, json.Deterministic(true))
	if err != nil {
		panic("workloads: properties cannot be written: " + err.Error()) // texts only
	}
	var env []string
	if !c.Contained() {
		env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + dir,
			"TMPDIR=" + dir, dirEnv + "=" + dir}
	}
	env = append(env, "TANDEM_HOOK="+e.Hook, "TANDEM_SLOT="+c.Slot.String(),
		"TANDEM_SERVICE="+c.Slot.Service, "TANDEM_NODE="+c.Slot.Node,
		"TANDEM_CONFIGURATION_ID="+c.ConfigurationID, "TANDEM_PROPERTIES="+string(all))
	given := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(props)) {
		if v := variable(name); !given[v] { // of two names that make the same variable, the first
			given[v] = true
			env = append(env, "TANDEM_PROPERTY_"+v+"="+props[name])
		}
	}
	own := len(env)
	for _, name := range setVariables(c) {
		if !slices.ContainsFunc(env[:own], func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
			env = append(env, name+"="+props[workload.EnvPrefix+name])
		}
	}
	return env
}

const dirEnv = "TANDEM_DIR"

// setVariables are the names of those that properties set, in order.
func setVariables(c workload.Config) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(c.Properties)) {
		v, is := strings.CutPrefix(name, workload.EnvPrefix)
		if is && workload.ValidVariable(v) && (!strings.HasPrefix(v, "TANDEM_") || v == dirEnv) {
			names = append(names, v)
		}
	}
	return names
}

// variable makes a property's name fit for a variable's.
func variable(name string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}, name)
}

// group is the name of a configuration's control group. It begins with the directory: no service is named
// like a file of the kernel's then.
func group(service, dir string) string { return dir + "." + service }

func storage(err error) *wire.Error {
	if err == nil {
		return nil
	}
	return wire.New(wire.CodeStorage, "", err.Error())
}

// signals have the names of those that end processes.
var signals = map[syscall.Signal]string{
	syscall.SIGHUP: "SIGHUP", syscall.SIGINT: "SIGINT", syscall.SIGQUIT: "SIGQUIT", syscall.SIGILL: "SIGILL",
	syscall.SIGTRAP: "SIGTRAP", syscall.SIGABRT: "SIGABRT",
	syscall.SIGBUS: "SIGBUS", syscall.SIGFPE: "SIGFPE", syscall.SIGKILL: "SIGKILL", syscall.SIGUSR1: "SIGUSR1",
	syscall.SIGSEGV: "SIGSEGV", syscall.SIGUSR2: "SIGUSR2",
	syscall.SIGWINCH: "SIGWINCH", syscall.SIGPIPE: "SIGPIPE", syscall.SIGALRM: "SIGALRM", syscall.SIGTERM: "SIGTERM",
}

func signalName(s syscall.Signal) string {
	if name, ok := signals[s]; ok {
		return name
	}
	return "signal " + strconv.Itoa(int(s))
}
