// Package monitoring tests deploy/monitoring: its alerts and its dashboard with promtool, and its configuration with a
// Prometheus that scrapes a real controller and a real broker.
package monitoring
