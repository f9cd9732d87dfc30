package app

import (
	"testing"

	"tandem.internal/controller/internal/distribute"
)

// TestKeepNoRecords: --keep-records 0 is none, and not the default of the core, which 0 stands for there.
func TestKeepNoRecords(t *testing.T) {
	for given, want := range map[int]int{0: -1, 1: 1, 100_000: 100_000} {
		var core distribute.Config
		(&Config{KeepRecords: given}).keepIn(&core)
		if core.KeepRecords != want {
			t.Errorf("--keep-records %d: %d", given, core.KeepRecords)
		}
	}
}
