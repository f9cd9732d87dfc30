package app

import (
	"math"
	"strings"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/nodeagent/internal/monitor"
	"tandem.internal/shared/alert"
	"tandem.internal/shared/wire"
)

// takeSample takes in what was measured: for the alerts, and for the checks that go by a value.
func (a *Agent) takeSample(s monitor.Sample) {
	a.node.alerts.Handle(s.Sample)
	a.recent.take(s)
	ttl := a.checkTTL()
	disk, network := math.Inf(-1), math.Inf(-1)
	for _, r := range s.Readings {
		if r.Err != nil {
			a.log.Debug("cannot be measured", zap.String("parameter", string(r.Parameter)), zap.Error(r.Err))
			r.Value = math.NaN() // and so is the greatest of several of which one is unknown
		}
		switch {
		case r.Parameter == alert.CPU || r.Parameter == alert.RAM:
			a.healthEvent(health.Sample{Name: string(r.Parameter), Value: r.Value, TTL: ttl})
		case r.Parameter == alert.Download || r.Parameter == alert.Upload:
			network = max(network, r.Value)
		default:
			disk = max(disk, r.Value)
		}
	}
	if !math.IsInf(disk, 0) {
		a.healthEvent(health.Sample{Name: health.SampleDisk, Value: disk, TTL: ttl})
	}
	if !math.IsInf(network, 0) {
		a.healthEvent(health.Sample{Name: health.SampleNetwork, Value: network, TTL: ttl})
	}
	a.checkModules()
	a.lookAtDevices()
	a.reportLoad(s)
	a.writeTextfile(s)
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
		a.healthEvent(health.Check{Name: string(d.name), OK: ok, Message: message, TTL: ttl})
	}
	storage := ""
	if a.dirty() {
		storage = "the state cannot be saved"
	}
	a.healthEvent(health.Check{Name: checkStorage, OK: storage == "", Message: storage, TTL: ttl})
	hung := ""
	for name, verdict := range a.node.programs {
		if verdict != "" && !strings.HasPrefix(name, programCheck) {
			hung = "the loop " + name + " is late"
		}
	}
	a.healthEvent(health.Check{Name: health.CheckWatchdog, OK: hung == "", Message: hung, TTL: ttl})
}
