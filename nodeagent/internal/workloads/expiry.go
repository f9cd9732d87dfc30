package workloads

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tandem.internal/nodeagent/internal/supervise"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// overdue says why a resource of a configuration is not put in force any more: its publisher's signature has expired,
// by this node's own clock. What is in force in the slot stays so, under any name, and its process is started again
// (ADR 052). Nil: it may be.
func (m *Manager) overdue(inForce *supervise.Place, a workload.Artifact) *wire.Error {
	if !m.cfg.Signed {
		return nil
	}
	err := publisher.Expired(a.Verification.Minisign, m.cfg.Now())
	if err == nil || inForce == nil {
		return err
	}
	for _, b := range inForce.Config.Resources {
		if strings.EqualFold(a.Verification.Checksum, b.Verification.Checksum) {
			return nil
		}
	}
	return err
}

// renewals tells of what is in force by a signature that has expired since.
func (m *Manager) renewals(r *wire.WorkloadSlot, p *supervise.Place) {
	if p == nil || p.Done {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(p.Config.Resources)) {
		if err := m.overdue(nil, p.Config.Resources[name]); err != nil {
			r.Error = cmp.Or(r.Error, wire.New(err.Code, "/resources/"+name,
				fmt.Sprintf("the resource %.64q stays in force: %s", name, err.Message)))
		}
	}
}

// expired counts the resources in force whose signatures have expired: that changes without an event.
func (m *Manager) expired() (n int) {
	for _, s := range m.slots {
		var r wire.WorkloadSlot
		if m.renewals(&r, s.saved.Main); r.Error != nil {
			n++
		}
	}
	return n
}
