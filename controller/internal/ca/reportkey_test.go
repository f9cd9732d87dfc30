package ca

import (
	"bytes"
	"testing"

	"tandem.internal/shared/wire"
)

// TestReportKey: each node, certificate and unit has a report key of its own, the same after a restart.
func TestReportKey(t *testing.T) {
	cfg := Config{Dir: t.TempDir()}
	c := open(t, cfg)
	key := func(c *CA, node, serial string) []byte {
		t.Helper()
		k, err := c.ReportKey(c.Fingerprint(), node, serial)
		if err != nil || len(k) != wire.ReportKeySize {
			t.Fatal(len(k), err)
		}
		return k
	}
	first := key(c, "n1", "a1")
	elsewhere := open(t, Config{Dir: t.TempDir(), Unit: "u2"})
	others := [][]byte{key(c, "n2", "a1"), key(c, "n1", "a2"), key(c, "n1a", "1"), key(elsewhere, "n1", "a1")}
	for _, other := range others {
		if bytes.Equal(other, first) {
			t.Error("two have the same key")
		}
	}
	if !bytes.Equal(key(open(t, cfg), "n1", "a1"), first) {
		t.Error("another key after a restart")
	}
}

// BenchmarkReportKey is the cost of the key of one report.
func BenchmarkReportKey(b *testing.B) {
	c := open(b, Config{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.ReportKey(c.Fingerprint(), "n1", "a1b2c3d4e5f60718"); err != nil {
			b.Fatal(err)
		}
	}
}
