package slot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/nodeagent/internal/boot"
	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/shared/wire"
)

// lyingDisk gives back something else than what was written to a slot, of the same length.
type lyingDisk struct{ Disk }

func (d lyingDisk) Open(name string) (io.ReadCloser, error) {
	f, err := d.Disk.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	if len(data) > 0 {
		data[len(data)/2] ^= 1
	}
	return io.NopCloser(bytes.NewReader(data)), errors.Join(err, f.Close())
}

// What was written is read back before it counts.
func TestDiskThatLies(t *testing.T) {
	ran := false
	s := Open(Config{Dir: "/slots", Disk: lyingDisk{newSim()}, SelfTest: func(context.Context, string) (string, error) {
		ran = true
		return "2", nil
	}})
	_, err := s.StageFrom(t.Context(), bytes.NewReader(binary("2")), Source{})
	if err == nil || !strings.Contains(err.Error(), "does not give back what was written to slot a") ||
		errors.Is(err, ErrRefused) || ran {
		t.Errorf("%v, started: %v", err, ran)
	}
	if st, err := s.Status(); err != nil || st.Slots[0].Hash != "" || st.Slots[0].State != record.Unused {
		t.Errorf("%+v %v", st, err)
	}
}

// A slot whose file has changed since it was staged cannot be armed.
func TestArmVerifies(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "slots")
	s := Open(Config{Dir: dir})
	staged, err := s.Stage(t.Context(), Source{File: script(t, "2")})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "a", binaryFile)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-2] ^= 1
	if err := os.WriteFile(file, data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Arm(staged.Slot, 3); !errors.Is(err, record.ErrBroken) {
		t.Errorf("%v", err)
	}
	if st, err := s.Status(); err != nil || st.Trying != record.None || st.Next != nil {
		t.Errorf("%+v %v", st, err)
	}
}

// A node on which every trace of the slots but a bad copy of the record is gone is no new one.
func TestOnlyABadCopyIsLeft(t *testing.T) {
	d := newSim()
	if err := d.Replace(copies[1]+badMark+"1", []byte("bad")); err != nil {
		t.Fatal(err)
	}
	machine := func() boot.Evidence { return boot.Evidence{Kernel: "k"} }
	l, err := Open(Config{Dir: "/slots", Disk: d, Machine: machine}).Starting().Next(nil)
	if err != nil || l.Slot != record.Factory || l.Reason != wire.BootUnknown || len(l.Notes) != 2 ||
		!strings.Contains(l.Notes[1], "rebuilt") {
		t.Errorf("%+v %v", l, err)
	}
}
