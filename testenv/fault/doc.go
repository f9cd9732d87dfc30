// Package fault makes the world go wrong in ways that a test chooses: Machine is the computer
// that one process runs on, with a disk that fills up, fails to sync or dies with it; Road is the
// network between one client and its broker, which loses, delays, repeats, reorders and breaks off.
//
// Everything is driven from outside and happens at a countable operation or by a seeded chance, so
// that a test can go through all of them, or repeat one. The package knows MQTT's framing and
// durable's and the journal's seams; it knows nothing of what Tandem makes of them.
package fault
