package metrics_test

import (
	"fmt"
	"strings"
	"testing"

	"tandem.internal/broker/metrics"
	"tandem.internal/broker/server"
)

// TestFigures: each metric of the broker is the figure that its name says.
func TestFigures(t *testing.T) {
	r := metrics.NewRegistry("1.2.3")
	r.MustRegister(metrics.Broker(func() server.Stats {
		return server.Stats{Connections: 1, Clients: 2, Retained: 3, Subscriptions: 4, Received: 5, Sent: 6,
			BytesReceived: 7, BytesSent: 8, Dropped: 9, DeniedPublishes: 10, DeniedSubscribes: 11, Refused: 12,
			Stalled: 13, Takeovers: 14, Taken: 15, IntakeFailures: 16, EventsLost: 17}
	}))
	text, err := metrics.Text(r)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"connections", "clients", "retained", "subscriptions", "received_total", "sent_total",
		"received_bytes_total", "sent_bytes_total", "dropped_total", "denied_publishes_total",
		"denied_subscribes_total", "refused_total", "stalled_total", "takeovers_total"}
	for i, name := range names {
		if line := fmt.Sprintf("\ntandem_broker_%s %d\n", name, i+1); !strings.Contains(string(text), line) {
			t.Errorf("there is no %s in\n%s", line, text)
		}
	}
	if defs := metrics.Defs(); len(defs) != len(names) {
		t.Errorf("%d metrics, and %d are looked at", len(defs), len(names))
	}
}
