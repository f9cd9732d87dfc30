package seal

import (
	"bytes"
	"testing"
	"time"

	"tandem.internal/shared/wire"
)

// Who could announce a maintenance without the unit's key could stop every node's clocks.
func TestMaintenanceIsSigned(t *testing.T) {
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	plain := &wire.Beacon{V: 1, Unit: "u1", Epoch: 3, Up: true, Time: at, Jitter: "PT30S"}
	with := *plain
	with.Maintenance = at.Add(time.Hour)
	if got, want := string(BeaconPreimage(&with)), string(BeaconPreimage(plain))+
		"maintenance 2026-11-20T11:00:00Z\n"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	s, trust := keys(1)
	sig := s.Sign(BeaconPreimage(plain))
	if err := trust.Verify(BeaconPreimage(&with), sig); err == nil {
		t.Error("a maintenance was added to a signed beacon")
	}
	sig = s.Sign(BeaconPreimage(&with))
	if err := trust.Verify(BeaconPreimage(plain), sig); err == nil {
		t.Error("a maintenance was taken from a signed beacon")
	}
	later := with
	later.Maintenance = at.Add(2 * time.Hour)
	if bytes.Equal(BeaconPreimage(&with), BeaconPreimage(&later)) {
		t.Error("two ends of a maintenance share a preimage")
	}
}
