//go:build race

package race

// Enabled says whether this program is built with the race detector.
const Enabled = true
