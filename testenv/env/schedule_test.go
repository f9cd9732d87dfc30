package env_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/race"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/env"
	"tandem.internal/testenv/fault"
)

var (
	schedules = flag.Int("schedules", 0, "random schedules that TestSchedules runs; 0: 2000, or 150 under the race "+
		"detector, or 400 with -short")
	seed = flag.Uint64("seed", 0, "the one schedule that TestSchedules runs, with everything logged; 0: all")
)

// TestSchedules makes everything go wrong at random, lets calm return, and asks whether the unit
// is where it should be. What must hold at every moment is checked by package env as it happens.
//
// A seed repeats what is done to the unit and when, by virtual time. What the unit does in
// between is up to Go's scheduler, so a failure may need a few repetitions to come again.
func TestSchedules(t *testing.T) {
	if *seed != 0 {
		runSchedule(t, *seed)
		return
	}
	n := *schedules
	switch {
	case n != 0:
	case testing.Short():
		n = 400
	case race.Enabled: // which makes each cost six times as much, and looks at the same code each time
		n = 150
	default:
		n = 2000
	}
	for i := range n {
		s := uint64(i + 1)
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			t.Parallel()
			runSchedule(t, s)
		})
	}
}

func runSchedule(t *testing.T, number uint64) {
	chance := rand.New(rand.NewPCG(number, 0))
	setup := env.Setup{
		External: chance.IntN(3) == 0, Seed: number, Log: *seed != 0 && os.Getenv("TANDEM_TEST_LOG") != "",
		Label: fmt.Sprintf("schedule %d (again: go test ./testenv/env -run TestSchedules -seed %d): ", number, number),
	}
	// Checkpoints come often, so that replay begins at one.
	every := []uint64{1, 7, 1000}[chance.IntN(3)]
	setup.Controller = func(_ *controller.Config, d *controller.Deps) {
		d.Tune = func(c *controller.Tuning) { c.CheckpointEvery = every }
	}
	for i := range 2 + chance.IntN(4) {
		spec := env.NodeSpec{Name: fmt.Sprintf("n%d", i+1), Late: i > 1 && chance.IntN(4) == 0}
		if chance.IntN(3) == 0 {
			spec.Type = "sideType"
		}
		if chance.IntN(3) == 0 {
			spec.MaxPriority = 5
		}
		setup.Nodes = append(setup.Nodes, spec)
	}
	env.Run(t, setup, func(e *env.Env) {
		s := &schedule{Env: e, chance: chance}
		for range 8 + chance.IntN(16) {
			s.do(actions)
			s.pass()
			s.reap()
		}
		for _, wait := range s.open {
			wait()
		}
		e.Calm()
	})
}

// schedule is one unit on a bad day.
type schedule struct {
	*env.Env
	chance  *rand.Rand
	version int
	open    []func() // submissions whose verdict nobody waits for
}

// action is something that is done to the unit, with the weight of its chance.
type action struct {
	weight int
	name   string
	do     func(s *schedule)
}

var actions = []action{
	{14, "apply", func(s *schedule) { s.submit(wire.ModeApply) }},
	{5, "try", func(s *schedule) { s.submit(wire.ModeTry) }},
	{4, "confirm", func(s *schedule) {
		if r, err := s.TryConfirm(); err == nil {
			s.Note("%s is confirmed", r.Version)
		}
	}},
	{2, "refused", func(s *schedule) {
		doc := [][]byte{env.Doc("0.0.1"), []byte("{"), env.Doc("x")}[s.chance.IntN(3)]
		s.open = append(s.open, s.Later(controller.Submission{Kind: "config", Document: doc}, nil))
	}},
	{4, "kill node", func(s *schedule) { s.node().Kill() }},
	{6, "node dies soon", func(s *schedule) { s.node().Machine.Arm(1+s.chance.IntN(30), fault.Crash) }},
	{3, "node fails once", func(s *schedule) { s.node().Machine.Arm(1+s.chance.IntN(30), fault.Fail) }},
	{3, "stop node", func(s *schedule) { s.node().Stop() }},
	{2, "restart node", func(s *schedule) { n := s.node(); n.Stop(); s.start(n) }},
	{1, "change node", func(s *schedule) {
		n := s.node()
		n.Stop()
		n.SetType([]string{env.Main, "sideType"}[s.chance.IntN(2)])
	}},
	{3, "kill controller", func(s *schedule) { s.Controller.Kill() }},
	{7, "controller dies soon", func(s *schedule) { s.Controller.Machine.Arm(1+s.chance.IntN(30), fault.Crash) }},
	{3, "controller fails once", func(s *schedule) { s.Controller.Machine.Arm(1+s.chance.IntN(30), fault.Fail) }},
	{2, "restart controller", func(s *schedule) { s.Controller.Stop(); s.startController() }},
	{2, "controller's clock", func(s *schedule) {
		s.Controller.Stop()
		s.Controller.SetClock(s.jump())
	}},
	{2, "node's clock", func(s *schedule) { s.node().SetClock(s.jump()) }},
	{4, "lose road", func(s *schedule) {
		up := s.chance.IntN(3)
		s.node().Road().Lose(up != 1, up != 2)
	}},
	{2, "cut road", func(s *schedule) { s.node().Road().Cut() }},
	{2, "close road", func(s *schedule) { s.node().Road().Close() }},
	{5, "clear road", func(s *schedule) {
		if n := s.node(); !n.Machine.Dead() {
			n.Road().Clear()
		}
	}},
	{5, "weather", func(s *schedule) { s.node().Road().SetWeather(s.weather()) }},
	{3, "controller's road", func(s *schedule) {
		r := s.Controller.Road()
		switch {
		case r == nil:
		case s.chance.IntN(3) == 0:
			r.Cut()
		case s.chance.IntN(2) == 0:
			r.SetWeather(s.weather())
		default:
			r.Lose(s.chance.IntN(2) == 0, true)
		}
	}},
	{3, "broker", func(s *schedule) {
		switch {
		case s.Broker == nil:
			s.Controller.Stop() // and the broker in it
			s.startController()
		case s.chance.IntN(2) == 0:
			s.Broker.Wipe()
		default:
			s.Broker.Swap()
		}
	}},
	{2, "node's disk", func(s *schedule) { m := s.node().Machine; m.Fill(!m.Full()) }},
	{2, "controller's disk", func(s *schedule) { m := s.Controller.Machine; m.Fill(!m.Full()) }},
	{1, "copy altered", func(s *schedule) {
		if err := os.WriteFile(s.Controller.Copy(), []byte("{}"), 0o600); err != nil {
			s.Fatal(err)
		}
	}},
	{1, "copy removed", func(s *schedule) {
		if err := os.Remove(s.Controller.Copy()); err != nil && !os.IsNotExist(err) {
			s.Fatal(err)
		}
	}},
	{3, "check", func(s *schedule) {
		if s.Controller.Running() && !s.Controller.Machine.Full() && s.Within(0, s.answers) {
			synctest.Wait() // a machine that is to die soon may do so over what the answer set in motion
			if s.Controller.Running() {
				s.Check()
			}
		}
	}},
}

func (s *schedule) do(all []action) {
	total := 0
	for _, a := range all {
		total += a.weight
	}
	pick := s.chance.IntN(total)
	i := slices.IndexFunc(all, func(a action) bool { pick -= a.weight; return pick < 0 })
	s.Note("— %s", all[i].name)
	all[i].do(s)
}

// answers reports whether the controller can be asked now.
func (s *schedule) answers() bool { _, ok := s.TryStatus(); return ok }

func (s *schedule) node() *env.Node { return s.Nodes()[s.chance.IntN(len(s.Nodes()))] }

// submit hands in a new version: for everybody or with exceptions, which a node's rules or its
// software may refuse.
func (s *schedule) submit(mode wire.Mode) {
	s.version++
	var entries []env.Entry
	for _, n := range s.Nodes() {
		switch s.chance.IntN(8) {
		case 0:
			entries = append(entries, env.Entry{Node: n.Name, Priority: 9})
		case 1:
			entries = append(entries, env.Entry{Node: n.Name, Labels: []string{env.Boom}})
		}
	}
	entries = append(entries, env.Entry{Type: env.Main, Labels: []string{fmt.Sprint("v", s.version)}})
	if s.chance.IntN(2) == 0 {
		entries = append(entries, env.Entry{Type: "sideType", Priority: uint32(s.chance.IntN(8))})
	}
	doc := env.Doc(fmt.Sprintf("%d.0.0", s.version), entries...)
	sub := controller.Submission{Kind: "config", Document: doc, Mode: mode}
	if mode == wire.ModeTry {
		sub.ConfirmWithin = []time.Duration{time.Second, 10 * time.Second, 2 * time.Minute, time.Hour}[s.chance.IntN(4)]
	}
	wait := s.Later(sub, nil)
	if s.chance.IntN(2) == 0 {
		s.open = append(s.open, wait)
	} else {
		wait()
	}
}

// pass lets a moment or a while pass.
func (s *schedule) pass() {
	s.Pass([]time.Duration{0, time.Millisecond, 100 * time.Millisecond, 2 * time.Second, 20 * time.Second,
		3 * time.Minute}[s.chance.IntN(6)])
}

// reap collects the dead, and sometimes starts what does not run.
func (s *schedule) reap() {
	if !s.Controller.Running() {
		s.Controller.Stop()
		if s.chance.IntN(2) == 0 {
			s.startController()
		}
	}
	for _, n := range s.Nodes() {
		if !n.Running() {
			n.Stop()
			if s.chance.IntN(3) == 0 {
				s.start(n)
			}
		}
	}
}

// start starts a node; it need not succeed on a full disk, or if the machine dies of it.
func (s *schedule) start(n *env.Node) {
	if err := n.TryStart(); err != nil && !n.Machine.Full() && !n.Machine.Dead() && !n.Machine.Armed() {
		s.Wrong("%s does not start: %v", n.Name, err)
	}
}

func (s *schedule) startController() {
	m := s.Controller.Machine
	if err := s.Controller.TryStart(); err != nil && !m.Full() && !m.Dead() && !m.Armed() {
		s.Wrong("the controller does not start: %v", err)
	}
}

func (s *schedule) weather() fault.Weather {
	if s.chance.IntN(4) == 0 {
		return fault.Weather{}
	}
	return fault.Weather{
		Repeat: s.chance.Float64() / 2, Shuffle: s.chance.Float64() / 2,
		Spread: []time.Duration{10 * time.Millisecond, time.Second, 10 * time.Second}[s.chance.IntN(3)],
		Delay:  []time.Duration{0, 10 * time.Millisecond, time.Second}[s.chance.IntN(3)],
	}
}

// jump is how wrong a clock is.
func (s *schedule) jump() time.Duration {
	return []time.Duration{0, time.Minute, -time.Minute, 24 * time.Hour, -24 * time.Hour, -20 * 365 * 24 * time.Hour,
		9 * 365 * 24 * time.Hour}[s.chance.IntN(7)]
}
