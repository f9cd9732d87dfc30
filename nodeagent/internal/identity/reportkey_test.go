package identity

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// runReportKey runs the loop of the report key; what it hands over is in got.
func (b *kept) runReportKey(first bool) (got *[]string, stop func()) {
	got = &[]string{}
	b.k.cfg.OnReportKey = func(k ReportKey) { b.mu.Lock(); *got = append(*got, string(k)); b.mu.Unlock() }
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { b.k.RunReportKey(ctx, first) })
	synctest.Wait()
	return got, func() { cancel(); running.Wait(); pass(time.Minute) } // until connections have ended
}

func (b *kept) serial() string { return b.k.Current().cert.Leaf.SerialNumber.Text(16) }

// TestReportKey: the node asks once for each certificate, and has the key on the disk before it is used.
func TestReportKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := keep(t)
		defer b.stop()
		got, stop := b.runReportKey(true)
		first := string(keyFor(b.serial()))
		if !slices.Equal(*got, []string{first}) || string(b.k.ReportKey()) != first {
			t.Fatalf("%q handed over, %q kept", *got, b.k.ReportKey())
		}
		pass(life) // a renewal or two
		if n := len(b.reportKeys); n != len(*got) || n < 2 || b.reportKeys[n-1] != b.serial() ||
			string(b.k.ReportKey()) != string(keyFor(b.serial())) {
			t.Errorf("asked for %q, kept %q", b.reportKeys, b.k.ReportKey())
		}
		stop()
		asked := len(b.reportKeys)
		_, stop = b.runReportKey(true)
		pass(time.Hour)
		stop()
		if len(b.reportKeys) != asked {
			t.Error("it asked again for a key that it has")
		}
	})
}

// TestReportKeyOfAnotherJoin: a key that is damaged, or of another join, is none.
func TestReportKeyOfAnotherJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := keep(t)
		defer b.stop()
		_, stop := b.runReportKey(true)
		stop()
		file := filepath.Join(b.dir, reportKeyFile)
		good, err := os.ReadFile(file)
		if err != nil || b.k.ReportKey() == nil {
			t.Fatal(err)
		}
		b.k.id.join = "another"
		if b.k.ReportKey() != nil {
			t.Error("the key of another join counts")
		}
		b.k.id.join = b.k.Current().join
		if err := os.WriteFile(file, good[:len(good)-9], 0o600); err != nil {
			t.Fatal(err)
		}
		if b.k.ReportKey() != nil {
			t.Error("half a key counts")
		}
	})
}

// TestFirstReportKey: an agent on trial does not ask for the first key, and asks for those that follow.
func TestFirstReportKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := keep(t)
		defer b.stop()
		_, stop := b.runReportKey(false)
		pass(24 * time.Hour)
		stop()
		if len(b.reportKeys) != 0 {
			t.Errorf("on trial it asked for %q", b.reportKeys)
		}
		_, stop = b.runReportKey(true)
		stop()
		got, stop := b.runReportKey(false)
		defer stop()
		pass(life)
		if len(*got) == 0 {
			t.Error("on trial it keeps the key of a certificate that ends")
		}
	})
}

// TestReportKeyAgain: a controller that does not know report keys, and a disk that takes nothing, are asked again, ever
// more rarely; a key that is not on the disk is not used.
func TestReportKeyAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := keep(t)
		defer b.stop()
		asked := 0
		b.set(func() {
			b.noReports = true
			b.steps = func(durable.Step) error { asked++; return errors.New("the disk is full") }
		})
		got, stop := b.runReportKey(true)
		defer stop()
		pass(12 * time.Hour)
		b.set(func() { b.noReports = false })
		pass(24 * time.Hour)
		if n := len(b.reportKeys); n < 20 || n > 60 || asked < n || len(*got) != 0 || b.k.ReportKey() != nil {
			t.Errorf("%d questions in a day, %d writes, handed over: %q", n, asked, *got)
		}
		b.set(func() { b.steps = nil })
		pass(2 * maxKeysPause)
		if len(*got) != 1 || len(b.k.ReportKey()) != wire.ReportKeySize {
			t.Errorf("handed over: %q", *got)
		}
	})
}
