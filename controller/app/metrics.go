package app

import "tandem.internal/controller/internal/metrics"

// show says what the metrics are of.
func (a *App) show() {
	a.shown.Attach(a.core)
	if a.broker != nil {
		a.shown.AttachBroker(a.broker.Stats)
	}
	if a.trust.ca != nil {
		a.shown.AttachCA(a.trust.ca.Expires)
	}
}

// Metrics are the controller's, as Prometheus is told them.
func (a *App) Metrics() *metrics.Metrics { return a.shown }
