package app

import "testing"

// TestBackupToIsLookedAt: a key that nothing can be encrypted for is refused at the start, and not every night.
func TestBackupToIsLookedAt(t *testing.T) {
	const key = "age1lggyhqrw2nlhcxprm67z43rta597azn8gknawjehu9d9dl0jq3yqqvfafg"
	for want, keys := range map[string][]string{
		"": {key},
		`--backup-to: "age1…" is no public key of age, age1…: age-keygen -y FILE prints that of a key`: {key, "age1…"},
	} {
		c := Config{Unit: "u", StateDir: "d", BackupTo: keys}
		got := ""
		if err := c.Check(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q", keys, got)
		}
	}
}
