package app

import (
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/shared/link"
	"tandem.internal/shared/wire"
)

// takeLink takes in how far the connection has come.
func (a *Agent) takeLink(up bool, err error) {
	l := health.Link{Address: up || a.deps.Address(a.cfg.Broker), Broker: up}
	if err != nil {
		now := a.deps.Now()
		l.Error, l.Text = indicatorOf(err, now, a.trust.Corrected(now)), err.Error()
		if l.Error == 0 {
			l.Text = ""
		}
		if l.Error == wire.IndicatorCertificate && a.renewer != nil && a.renewer.Rooted() {
			a.renewer.AskCAs() // the CA may have been replaced while this node was away
		}
	}
	a.healthEvent(l)
	if errors.Is(err, link.ErrUnavailable) {
		a.healthEvent(health.Contact{Result: wire.ContactTemporary})
	}
}

// indicatorOf says what kind of trouble keeps the node from its broker, 0 if it is just not there. now is this node's
// clock, controller the controller's as far as it is known.
func indicatorOf(err error, now, controller time.Time) wire.Indicator {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil &&
		(now.Before(invalid.Cert.NotBefore) || !controller.After(invalid.Cert.NotAfter)):
		return wire.IndicatorClock
	case errors.As(err, &authority), errors.As(err, &host), errors.As(err, &invalid):
		return wire.IndicatorCertificate
	case errors.Is(err, link.ErrUnavailable): // ErrRefused, too, and no fault of this node's
		return wire.IndicatorNoBroker
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
	local := strings.HasPrefix(broker, "unix:") || slices.ContainsFunc([]string{"127.0.0.1", "localhost", "[::1]"},
		func(host string) bool { return strings.Contains(broker, host) })
	return local || slices.ContainsFunc(addrs, func(addr net.Addr) bool {
		n, ok := addr.(*net.IPNet)
		return ok && n.IP.IsGlobalUnicast()
	})
}

// takeContact takes in that a sound beacon came; newer: it was sent now.
func (a *Agent) takeContact(h inbox.Heard, newer bool) {
	if !h.Up { // also a last will, which is as old as its session
		a.healthEvent(health.Contact{Result: wire.ContactFailure})
	}
	if !newer {
		return // retained, or played again: it says nothing about now
	}
	if h.Up {
		a.healthEvent(health.Contact{Result: wire.ContactSuccess})
	}
	if h.Up || h.Rest > 0 { // a controller that goes down without a word does not end what it announced
		a.healthEvent(health.Maintenance{Left: h.Rest})
	}
}

// takeAccepted takes in that a document newer than all before was accepted. It is contact if it was sent now, and not
// kept by the broker since an unknown time.
func (a *Agent) takeAccepted(d *documents, retained bool) {
	_, last := d.inbox.State.Report()
	ev := health.Contact{Document: last == nil || last.State != wire.StateRejected}
	if !retained {
		ev.Result = wire.ContactSuccess
	}
	a.healthEvent(ev)
}
