package health

import "tandem.internal/shared/wire"

// Resolve joins the node's own settings with the controller's (nil: none), field by field: the
// controller's times and limits come first, then the node's own, then the defaults. What either
// side forbids stays forbidden: an approval is needed if one side wants it, and the machine is
// rebooted only if neither says no.
//
// The settings returned are complete and sound. If the two do not go together the error says
// where, for the document's refusal; the settings are then the controller's without the
// node's times, or the defaults if those are not sound either.
func Resolve(local wire.HealthSettings, desired *wire.HealthSettings) (wire.HealthSettings, *wire.Error) {
	local.FormatVersion = wire.HealthFormat
	own := wire.HealthSettings{FormatVersion: wire.HealthFormat}
	if desired != nil {
		own = *desired
	}
	joined := join(local, own)
	err := joined.Check()
	if err == nil {
		return joined.Complete(), nil
	}
	strict := wire.HealthSettings{FormatVersion: wire.HealthFormat, Approval: local.Approval, Reboot: local.Reboot}
	if s := join(strict, own); s.Check() == nil {
		return s.Complete(), err
	}
	return join(strict, strict).Complete(), err
}

func join(local, own wire.HealthSettings) wire.HealthSettings {
	out := own
	for _, f := range []struct {
		to   *wire.Span
		from wire.Span
	}{
		{&out.Reset, local.Reset}, {&out.Fallback, local.Fallback}, {&out.Test, local.Test},
		{&out.Deadline, local.Deadline}, {&out.Contact, local.Contact}, {&out.Watchdog, local.Watchdog},
	} {
		if *f.to == 0 {
			*f.to = f.from
		}
	}
	out.Approval, out.Reboot = strictest(true, local.Approval, own.Approval), strictest(false, local.Reboot, own.Reboot)
	limits := wire.HealthLimits{}
	if own.Checks != nil {
		limits = *own.Checks
	}
	if l := local.Checks; l != nil {
		for _, f := range []struct {
			to   **wire.HealthLimit
			from *wire.HealthLimit
		}{{&limits.CPU, l.CPU}, {&limits.RAM, l.RAM}, {&limits.Disk, l.Disk}, {&limits.Network, l.Network}} {
			if *f.to == nil {
				*f.to = f.from
			}
		}
	}
	out.Checks = &limits
	return out
}

// strictest is strict if either of a and b is, and otherwise the one that says anything.
func strictest(strict bool, a, b *bool) *bool {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case *a == strict:
		return a
	}
	return b
}
