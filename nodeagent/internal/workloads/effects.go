package workloads

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"

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
	e := s.queue[0]
	s.queue = slices.Delete(s.queue, 0, 1)
	do := m.perform(s.service, e)
	m.workers.Go(func() {
		select {
		case m.room <- struct{}{}:
		case <-m.work.Done():
			return
		}
		ev := do(m.work)
		<-m.room
		m.call(func() {
			s.busy = false
			if ev != nil && m.slots[s.service] == s {
				m.tell(s, ev)
			}
			m.next(s)
		})
	})
}

// perform returns what does an effect, and the event that answers it, nil if none does yet.
func (m *Manager) perform(service string, e supervise.Effect) func(ctx context.Context) supervise.Event {
	switch e := e.(type) {
	case supervise.LinkUp:
		return func(context.Context) supervise.Event {
			return supervise.Linked{Dir: e.Dir, Err: m.link(m.dir(service, e.Dir), e.Config)}
		}
	case supervise.Delete:
		return func(context.Context) supervise.Event {
			err := errors.Join(m.remove(service, e.Dir), m.cfg.Groups.Leave(group(service, e.Dir)))
			return supervise.Removed{Dir: e.Dir, Err: storage(err)}
		}
	case supervise.Run:
		m.follows()
		run := m.run(service, e)
		return func(context.Context) supervise.Event { return m.start(run, e) }
	case supervise.Stop:
		return func(ctx context.Context) supervise.Event {
			var st keep.Status
			err := m.keeper("stop "+e.ID, func(k Keeper) (err error) {
				st, err = k.Stop(ctx, e.ID, e.Grace)
				return err
			})
			return m.answered(e.ID, st, err)
		}
	case supervise.Forget:
		m.paths.Delete(e.ID)
		return func(ctx context.Context) supervise.Event {
			if err := m.keeper("forget "+e.ID, func(k Keeper) error { return k.Forget(ctx, e.ID) }); err != nil && ctx.Err() == nil {
				m.cfg.Log.Warn("a run is not forgotten: " + err.Error())
			}
			return nil
		}
	}
	panic(fmt.Sprintf("workloads: nobody does a %T", e))
}

// start has a run started, in its control group.
func (m *Manager) start(run keep.Run, e supervise.Run) supervise.Event {
	c := e.Config.Container
	var constraints map[string]string
	if c != nil {
		constraints = c.Constraints
	}
	dirs, err := m.cfg.Groups.Enter(group(e.Config.Slot.Service, e.Dir), strings.TrimPrefix(e.Hook, "iss_hook_"), constraints)
	if err != nil {
		return m.failed(e.ID, "its control group: "+err.Error())
	}
	run.Cgroups = dirs
	var st keep.Status
	err = m.keeper("start "+e.ID, func(k Keeper) (err error) {
		st, err = k.Start(m.work, run)
		return err
	})
	return m.answered(e.ID, st, err)
}

// answered is the event of what the keeper said of a run; none while it runs.
func (m *Manager) answered(id string, st keep.Status, err error) supervise.Event {
	answer := (*wire.Error)(nil)
	switch {
	case errors.As(err, &answer) && answer.Code == wire.CodeNotFound: // it was forgotten, so its end was known
		return supervise.Ended{Run: id, Exit: wire.WorkloadExit{Code: -1, Lost: true, At: m.now().Wall.UTC()}}
	case errors.As(err, &answer):
		return m.failed(id, answer.Message)
	case err != nil: // the agent stops
		return nil
	case st.State == keep.Running:
		m.call(func() { m.pids[id] = st.PID })
		return nil
	}
	return supervise.Ended{Run: id, Exit: m.exit(st)}
}

func (m *Manager) failed(id, why string) supervise.Event {
	return supervise.Ended{Run: id, Exit: wire.WorkloadExit{Code: -1, Text: clip(why), At: m.now().Wall.UTC()}}
}

// run is what the keeper is asked to run.
func (m *Manager) run(service string, e supervise.Run) keep.Run {
	dir := m.dir(service, e.Dir)
	r := keep.Run{ID: e.ID, Argv: []string{dir + "/" + e.Hook}, Dir: dir, Env: environment(e, dir, m.pids[e.Of]), MaxExecution: e.Max, StopGrace: m.cfg.Rules.Grace,
		Log: keep.Log{Path: m.hookLog(service, e.Dir, e.Hook), Bytes: 64 << 10, Files: 2}}
	if e.Hook == workload.HookStart {
		r.Log = keep.Log{Path: m.logPath(service), Bytes: m.cfg.LogBytes, Files: m.cfg.LogFiles}
	}
	m.paths.Store(e.ID, r.Log.Path)
	return r
}

// environment is all that a hook finds in its environment; pid is of the slot's process, 0: none.
func environment(e supervise.Run, dir string, pid int) []string {
	c := e.Config
	props := c.Properties
	if props == nil {
		props = map[string]string{}
	}
	all, err := json.Marshal(props, json.Deterministic(true))
	if err != nil {
		panic("workloads: properties cannot be written: " + err.Error()) // texts only
	}
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + dir, "TANDEM_HOOK=" + e.Hook, "TANDEM_SLOT=" + c.Slot.String(),
		"TANDEM_SERVICE=" + c.Slot.Service, "TANDEM_NODE=" + c.Slot.Node, "TANDEM_CONFIGURATION_ID=" + c.ConfigurationID, "TANDEM_DIR=" + dir, "TANDEM_PROPERTIES=" + string(all)}
	if pid > 0 {
		env = append(env, "TANDEM_PID="+strconv.Itoa(pid))
	}
	for _, name := range slices.Sorted(maps.Keys(props)) {
		env = append(env, "TANDEM_PROPERTY_"+variable(name)+"="+props[name])
	}
	return env
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

// group is the name of a configuration's control group.
func group(service, dir string) string { return service + "." + dir }

func storage(err error) *wire.Error {
	if err == nil {
		return nil
	}
	return wire.New(wire.CodeStorage, "", err.Error())
}

// clip makes a text fit for a plain string of the wire.
func clip(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	const most = 200
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// signals have the names of those that end processes.
var signals = map[syscall.Signal]string{
	syscall.SIGHUP: "SIGHUP", syscall.SIGINT: "SIGINT", syscall.SIGQUIT: "SIGQUIT", syscall.SIGILL: "SIGILL", syscall.SIGTRAP: "SIGTRAP", syscall.SIGABRT: "SIGABRT",
	syscall.SIGBUS: "SIGBUS", syscall.SIGFPE: "SIGFPE", syscall.SIGKILL: "SIGKILL", syscall.SIGUSR1: "SIGUSR1", syscall.SIGSEGV: "SIGSEGV", syscall.SIGUSR2: "SIGUSR2",
	syscall.SIGPIPE: "SIGPIPE", syscall.SIGALRM: "SIGALRM", syscall.SIGTERM: "SIGTERM",
}

func signalName(s syscall.Signal) string {
	if name, ok := signals[s]; ok {
		return name
	}
	return "signal " + strconv.Itoa(int(s))
}
