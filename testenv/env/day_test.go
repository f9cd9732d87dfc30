package env_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	controller "tandem.internal/controller/app"
	nodeagent "tandem.internal/nodeagent/app"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/race"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/env"
	"tandem.internal/testenv/fault"
)

var (
	daySeed  = flag.Uint64("day-seed", 1, "seed of TestDay")
	dayNodes = flag.Int("day-nodes", 0, "nodes of TestDay; 0: 50, or 8 under the race detector and with -short")
	dayHours = flag.Int("day-hours", 0, "its length; 0: 24, or 6 under the race detector and with -short")
)

// The shortest times that the day's settings have.
const (
	reset    = 20 * time.Minute
	fallback = 5 * time.Minute
)

// TestDay lets a fleet live through a day of random trouble: crashes, power cuts, partitions, full
// disks, wrong clocks, loads, configurations and releases good and bad, orders, and a controller and a
// broker that come and go. Then calm returns, and every node has to be healthy or to say why, and the
// controller to agree with it.
func TestDay(t *testing.T) {
	nodes, hours := 50, 24
	if race.Enabled || testing.Short() {
		nodes, hours = 8, 6
	}
	if *dayNodes > 0 {
		nodes = *dayNodes
	}
	if *dayHours > 0 {
		hours = *dayHours
	}
	t.Logf("seed %d (again: go test ./testenv/env -run TestDay -day-seed %d)", *daySeed, *daySeed)
	chance := rand.New(rand.NewPCG(*daySeed, 7))
	setup := env.Setup{External: true, Seed: *daySeed, Log: os.Getenv("TANDEM_TEST_LOG") != "",
		Label: fmt.Sprintf("day %d: ", *daySeed)}
	for i := range nodes {
		spec := env.NodeSpec{Name: fmt.Sprintf("n%d", i+1), Tended: true}
		switch i % 7 {
		case 2:
			spec.MaxPriority = 5
		case 3: // which some settings do not go with
			spec.Config = func(c *nodeagent.Config) { c.FallbackTime = 3 * time.Minute }
		}
		setup.Nodes = append(setup.Nodes, spec)
	}
	env.Run(t, setup, func(e *env.Env) {
		d := &day{schedule: &schedule{Env: e, chance: chance}, orders: map[string]int{}, sent: map[string]int{}}
		d.hermit = e.Nodes()[0]
		d.begin()
		began := time.Now()
		for !t.Failed() && time.Since(began) < time.Duration(hours)*time.Hour {
			if time.Since(began) > time.Hour { // and nobody hears of it for the rest of the day
				if d.alone.IsZero() {
					d.alone = time.Now()
				}
				d.hermit.Body().Alone.Store(true)
				d.hermit.Road().Cut()
			}
			for range 1 + nodes/10 {
				d.do(troubles)
			}
			d.last(time.Duration(1+chance.IntN(12)) * time.Minute)
			d.recover()
		}
		d.calm()
		d.check()
		t.Logf("%d nodes, %d hours: %v", nodes, hours, d.summary())
	})
}

// day is a fleet on its day.
type day struct {
	*schedule
	hermit *env.Node      // it is cut off for most of the day, and nothing else happens to it
	alone  time.Time      // since when it is
	orders map[string]int // reboots that were ordered, by node
	sent   map[string]int // what was done and told, by its name
}

// trouble is an action on a day.
type trouble struct {
	weight int
	name   string
	do     func(d *day)
}

func (d *day) do(all []trouble) {
	total := 0
	for _, a := range all {
		total += a.weight
	}
	pick := d.chance.IntN(total)
	for _, a := range all {
		if pick -= a.weight; pick < 0 {
			d.Note("— %s", a.name)
			d.sent[a.name]++
			a.do(d)
			return
		}
	}
}

// node is any but the hermit.
func (d *day) node() *env.Node { return d.Nodes()[1+d.chance.IntN(len(d.Nodes())-1)] }

func span(d time.Duration) wire.Span { return wire.SpanOf(d) }

// settings are those of everybody.
func settings() wire.HealthSettings {
	return wire.HealthSettings{FormatVersion: wire.HealthFormat, Reset: span(reset), Fallback: span(fallback),
		Test: span(5 * time.Minute)}
}

// rules watch all that the fleet's bodies can be loaded with.
func rules() unitconfig.AlertRules {
	return unitconfig.AlertRules{
		CPU: &unitconfig.FractionRule{MinThreshold: 0.5, MaxThreshold: 0.8},
		RAM: &unitconfig.FractionRule{MinThreshold: 0.4, MaxThreshold: 0.9,
			MinTimeout: duration.Duration(5 * time.Minute)},
		Partitions: []unitconfig.PartitionRule{{Name: "services", MinThreshold: 0.7, MaxThreshold: 0.85}},
	}
}

// begin gives everybody a configuration and settings.
func (d *day) begin() {
	d.version++
	d.Apply(env.Doc(fmt.Sprintf("%d.0.0", d.version), env.Entry{Rules: rules()}))
	if err := d.SetHealth(settings()); err != nil {
		d.Fatal(err)
	}
	d.Reached("1.0.0")
	d.Until(time.Hour, "everybody has the settings", func() bool {
		for _, n := range d.Nodes() {
			if h, ok := d.Health(n.Name); !ok || h.Report == nil || h.Report.Settings.Reset.Std() != reset ||
				!h.Report.Contact.In {
				return false
			}
		}
		return true
	})
}

var troubles = []trouble{
	{6, "agent crashes", func(d *day) { d.node().Kill() }},
	{4, "power cut", func(d *day) { d.node().Body().PowerCut() }},
	{6, "agent crashes soon", func(d *day) { d.node().Machine.Arm(1+d.chance.IntN(60), fault.Crash) }},
	{3, "an operation fails", func(d *day) { d.node().Machine.Arm(1+d.chance.IntN(60), fault.Fail) }},
	{3, "agent is restarted", func(d *day) { n := d.node(); n.Stop(); d.start(n) }},
	{5, "road is lost", func(d *day) {
		up := d.chance.IntN(3)
		d.node().Road().Lose(up != 1, up != 2)
	}},
	{3, "road is cut", func(d *day) { d.node().Road().Cut() }},
	{3, "weather", func(d *day) { d.node().Road().SetWeather(d.weather()) }},
	{4, "clock is set", func(d *day) { d.node().SetClock(d.jump()) }},
	{3, "disk is full", func(d *day) { d.node().Machine.Fill(true) }},
	{5, "CPU", func(d *day) { d.node().Body().CPU.Store(900 + d.chance.Int64N(100)) }},
	{5, "RAM", func(d *day) { d.node().Body().RAM.Store(900 + d.chance.Int64N(100)) }},
	{5, "partition", func(d *day) { d.node().Body().Disk.Store(800 + d.chance.Int64N(200)) }},
	{8, "release", func(d *day) {
		n := d.node()
		like := []string{env.Good, env.Good, env.Crashy, env.Deaf, env.Hungry}[d.chance.IntN(5)]
		if version, err := n.Body().Stage(like); err == nil {
			_ = d.TrySlot(n.Name, version) // which may be refused, or not be heard
		}
	}},
	{3, "approval", func(d *day) {
		n := d.node()
		_ = d.Approve(n.Name, n.Body().Version()) // of a trial, if there is one
	}},
	{4, "reboot order", func(d *day) {
		n := d.node()
		n.Body().Stubborn.Store(d.chance.IntN(4) == 0)
		d.orders[n.Name]++
		_ = d.Reboot(n.Name) // which may be refused, or not be heard
	}},
	{3, "settings", func(d *day) {
		h := settings()
		switch d.chance.IntN(4) {
		case 0:
			h.Reset = span(time.Hour)
		case 1: // not with every node's own
			h.Contact = span(4 * time.Minute)
		case 2:
			h.Approval = new(true)
		case 3:
			h.Checks = &wire.HealthLimits{CPU: &wire.HealthLimit{Max: 0.85}}
		}
		_ = d.SetHealth(h, d.node().Name) // the controller may be down
	}},
	{1, "maintenance", func(d *day) {
		_ = d.Maintain(time.Duration(d.chance.IntN(60)) * time.Minute) // the controller may be down
	}},
	{4, "configuration", func(d *day) { d.configure(wire.ModeApply) }},
	{2, "configuration on trial", func(d *day) { d.configure(wire.ModeTry) }},
	{1, "confirmation", func(d *day) {
		if r, err := d.TryConfirm(); err == nil {
			d.Note("%s is confirmed", r.Version)
		}
	}},
	{2, "controller crashes", func(d *day) { d.Controller.Kill() }},
	{1, "controller crashes soon", func(d *day) { d.Controller.Machine.Arm(1+d.chance.IntN(200), fault.Crash) }},
	{1, "controller's clock is set", func(d *day) {
		d.Controller.Stop()
		d.Controller.SetClock(d.jump())
		d.startController()
	}},
	{1, "controller's road is cut", func(d *day) { d.Controller.Road().Cut() }},
	{1, "broker is wiped", func(d *day) { d.Broker.Wipe() }},
	{1, "broker is swapped", func(d *day) { d.Broker.Swap() }},
}

// configure submits a version that some nodes refuse, by their own rules or their software's.
func (d *day) configure(mode wire.Mode) {
	d.version++
	var entries []env.Entry
	for _, n := range d.Nodes() {
		switch d.chance.IntN(25) {
		case 0:
			entries = append(entries, env.Entry{Node: n.Name, Priority: 9})
		case 1:
			entries = append(entries, env.Entry{Node: n.Name, Labels: []string{env.Boom}, Rules: rules()})
		}
	}
	all := env.Entry{Labels: []string{fmt.Sprint("v", d.version)}}
	if d.chance.IntN(4) > 0 {
		all.Rules = rules()
	}
	sub := controller.Submission{Kind: "config",
		Document: env.Doc(fmt.Sprintf("%d.0.0", d.version), append(entries, all)...), Mode: mode}
	if mode == wire.ModeTry {
		sub.ConfirmWithin = []time.Duration{time.Minute, 10 * time.Minute, time.Hour}[d.chance.IntN(3)]
	}
	d.open = append(d.open, d.Later(sub, nil))
}

// last lets time pass, while whoever ends by itself is started again.
func (d *day) last(t time.Duration) {
	for ; t > 0; t -= time.Minute {
		d.Pass(min(t, time.Minute))
		for _, n := range d.Nodes() {
			if err := n.Tend(); err != nil {
				d.excuse(n, err)
			}
		}
	}
}

// excuse accepts that a node does not start on a full disk, or because its machine dies of it.
func (d *day) excuse(n *env.Node, err error) {
	if !n.Machine.Full() && !n.Machine.Dead() && !n.Machine.Armed() {
		d.Wrong("%s does not start: %v", n.Name, err)
	}
}

// recover ends some of the trouble.
func (d *day) recover() {
	if !d.Controller.Running() {
		d.Controller.Stop()
		if d.chance.IntN(2) == 0 {
			d.startController()
		}
	}
	for _, n := range d.Nodes() {
		if n != d.hermit && d.chance.IntN(4) == 0 {
			d.ease(n)
		}
		if !n.Running() {
			n.Stop()
			if n == d.hermit || d.chance.IntN(3) == 0 {
				d.start(n)
			}
		}
	}
}

func (d *day) ease(n *env.Node) {
	n.Body().Ease()
	n.Body().Stubborn.Store(false)
	n.Machine.Fill(false)
	if !n.Machine.Dead() {
		n.Road().Clear()
		n.Road().SetWeather(fault.Weather{})
	}
}
