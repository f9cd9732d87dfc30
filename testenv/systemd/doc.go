// Package systemd owns tests of the service units in deploy/systemd: that they say what systemd
// understands, that their programs take the flags and the example configurations, that each
// setting is explained, and that the sandbox is as tight as systemd-analyze can tell.
package systemd
