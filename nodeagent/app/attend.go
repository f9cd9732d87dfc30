package app

import (
	"crypto/x509"
	"errors"
	"math"
	"net"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/alert"
	"tandem.internal/nodeagent/internal/boot"
	"tandem.internal/nodeagent/internal/clock"
	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/nodeagent/internal/machine"
	"tandem.internal/nodeagent/internal/monitor"
	"tandem.internal/nodeagent/internal/watch/judge"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/event"
	"tandem.internal/shared/link"
	"tandem.internal/shared/wire"
)

// EventAlert is the type of the events that carry an alert (seed 000, Alert Rules).
const EventAlert = event.Alert

// sampled takes in what was measured: for the alerts, and for the checks that go by a value.
func (a *Agent) sampled(s monitor.Sample) {
	a.care.alerts.Handle(s.Sample)
	ttl := a.checkTTL()
	disk, network := math.Inf(-1), math.Inf(-1)
	for _, r := range s.Readings {
		if r.Err != nil {
			a.log.Debug("cannot be measured", zap.String("parameter", string(r.Parameter)), zap.Error(r.Err))
			continue
		}
		switch {
		case r.Parameter == alert.CPU || r.Parameter == alert.RAM:
			a.well(health.Sample{Name: string(r.Parameter), Value: r.Value, TTL: ttl})
		case r.Parameter == alert.Download || r.Parameter == alert.Upload:
			network = max(network, r.Value)
		default:
			disk = max(disk, r.Value)
		}
	}
	if !math.IsInf(disk, 0) {
		a.well(health.Sample{Name: health.SampleDisk, Value: disk, TTL: ttl})
	}
	if !math.IsInf(network, 0) {
		a.well(health.Sample{Name: health.SampleNetwork, Value: network, TTL: ttl})
	}
	a.checkModules()
}

// alerts is the machine of the node's alerts.
type alerts = machine.Machine[alert.State, alert.Event, alert.Effect]

// alertMachine returns the machine of the node's alerts from what was saved. Alerts bound their own number.
func (a *Agent) alertMachine(saved alert.Durable) alerts {
	return alerts{
		State: alert.New(a.id.Node, saved, alert.Limits{}),
		Now:   a.now,
		Step:  func(s alert.State, _ clock.Now, ev alert.Event) (alert.State, []alert.Effect) { return s.Step(ev) },
		Sort: func(e alert.Effect) machine.Order {
			if e, ok := e.(alert.Emit); ok {
				ev := a.made(EventAlert, nil, e.Alert)
				return machine.Order{Emit: &ev}
			}
			return machine.Order{Save: true}
		},
		Commit: a.saveStep,
		Run:    func(alert.Effect) {},
	}
}

// vital are the kinds without which the node is not well.
func (a *Agent) vital() (all []*documents) {
	for _, d := range a.documents {
		if d.kind.Vital {
			all = append(all, d)
		}
	}
	return all
}

// checkModules says how the agent's own modules and the watched programs are.
func (a *Agent) checkModules() {
	ttl := a.checkTTL()
	for _, d := range a.vital() {
		ok, message := true, ""
		if _, last := d.inbox.State.Report(); last != nil && last.State == wire.StateFailed {
			ok, message = false, "version "+last.Version+" failed"
			if last.Error != nil {
				message += ": " + last.Error.Message
			}
		}
		a.well(health.Check{Name: string(d.name), OK: ok, Message: message, TTL: ttl})
	}
	storage := ""
	if a.dirty() {
		storage = "the state cannot be saved"
	}
	a.well(health.Check{Name: checkStorage, OK: storage == "", Message: storage, TTL: ttl})
	hung := ""
	for name, verdict := range a.care.programs {
		if verdict != "" && !strings.HasPrefix(name, programCheck) {
			hung = "the loop " + name + " is late"
		}
	}
	a.well(health.Check{Name: health.CheckWatchdog, OK: hung == "", Message: hung, TTL: ttl})
}

// watched takes in what the watchdog says.
func (a *Agent) watched(r judge.Report) {
	name := r.Name
	if r.Program {
		name = programCheck + r.Name
	}
	trouble := r.Verdict
	if r.Verdict == judge.Back || r.Verdict == judge.Gone {
		trouble = ""
	}
	a.care.programs[name] = trouble
	detail := watchdogDetail{Name: r.Name, Program: r.Program, Verdict: string(r.Verdict), For: duration.Duration(r.For.Truncate(time.Second)), Text: r.Trouble}
	a.emit(event.Watchdog, nil, detail)
	switch {
	case !r.Program:
		a.checkModules()
	case r.Verdict == judge.Gone:
		delete(a.care.programs, name)
		a.well(health.Gone{Name: name})
	default:
		a.program(name)
	}
}

// watchdogDetail is what an event of the watchdog tells.
type watchdogDetail = event.WatchdogDetail

// program says how a watched program is; it does not go stale, the watchdog says what changes.
func (a *Agent) program(name string) {
	verdict := a.care.programs[name]
	a.well(health.Check{Name: name, OK: verdict == "", Message: string(verdict), TTL: far})
}

// speechless tells of a version on trial that never came so far as to tell anything itself, not even
// that it was tried: the launcher went back to the slot before.
func (a *Agent) speechless() {
	st, err := a.care.slots.Status()
	if err != nil {
		return // which is said when health asks for the slots
	}
	now, last := st.Boot, st.Last
	tried := slices.ContainsFunc(st.Unreported, func(b boot.Start) bool { return b.Trial && b.Slot == last.Slot && b.Number < now.Number })
	if !tried || now.Trial || last.Committed || a.care.health.State.Trial.ID != "" {
		return
	}
	a.keep(a.made(health.EventTrialRolledBack, nil, health.Detail{Slot: string(last.Slot), Version: last.Version, Reason: last.Reason, Text: last.Detail}))
}

// linked tells health how far the connection has come.
func (a *Agent) linked(up bool, err error) {
	l := health.Link{Address: up || a.deps.Address(a.cfg.Broker), Broker: up}
	if err != nil {
		l.Error, l.Text = indicatorOf(err), err.Error()
		if l.Error == 0 {
			l.Text = ""
		}
	}
	a.well(l)
	if errors.Is(err, link.ErrUnavailable) {
		a.well(health.Contact{Result: wire.ContactTemporary})
	}
}

// indicatorOf says what kind of trouble keeps the node from its broker, 0 if it is just not there.
func indicatorOf(err error) wire.Indicator {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &authority), errors.As(err, &host), errors.As(err, &invalid):
		return wire.IndicatorCertificate
	case errors.Is(err, link.ErrRefused):
		return wire.IndicatorRefused
	}
	return 0
}

// address says whether there is a way out: an address that is not only this machine's, unless the
// broker is on it.
func address(broker string) bool {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return true // nobody knows; a session that is not there says enough
	}
	local := strings.Contains(broker, "127.0.0.1") || strings.Contains(broker, "localhost") || strings.Contains(broker, "[::1]") || strings.HasPrefix(broker, "unix:")
	return local || slices.ContainsFunc(addrs, func(addr net.Addr) bool {
		n, ok := addr.(*net.IPNet)
		return ok && n.IP.IsGlobalUnicast()
	})
}

// heardController takes in that a sound beacon came.
func (a *Agent) heardController(payload []byte, newer bool) {
	b, err := wire.Decode[wire.Beacon](payload)
	if err != nil {
		return // it was decoded before
	}
	if !b.Up { // also a last will, which is as old as its session
		a.well(health.Contact{Result: wire.ContactFailure})
	}
	if !newer {
		return // retained, or played again: it says nothing about now
	}
	if b.Up {
		a.well(health.Contact{Result: wire.ContactSuccess})
	}
	left := time.Duration(0)
	if !b.Maintenance.IsZero() {
		left = b.Maintenance.Sub(b.Time)
	}
	if b.Up || left > 0 { // a controller that goes down without a word does not end what it announced
		a.well(health.Maintenance{Left: left})
	}
}
