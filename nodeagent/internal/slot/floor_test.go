package slot

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/shared/filetest"
	"tandem.internal/shared/publisher/publishertest"
	"tandem.internal/shared/wire"
)

// withFloor is a version that its publisher has signed with a floor; "": without one.
func withFloor(by publishertest.Signer, version, floor string) string {
	comment := "tandem-node " + version
	if floor != "" {
		comment += " floor:" + floor
	}
	return by.SignAs([]byte("agent "+version), comment)
}

// set is the slots as one sees them who was given --floor.
func (w *signedWorld) set(floor string, keys ...publishertest.Signer) *Store {
	c := w.store(keys...).cfg
	c.Floor = floor
	return Open(c)
}

// keep stages a version, tries and commits it, as somebody with the store does; the error is that of the first step
// that is refused.
func (w *signedWorld) keep(s *Store, version, signature string) error {
	got, err := w.stage(s, version, signature)
	if err != nil {
		return err
	}
	if err := s.Arm(got.Slot, 1); err != nil {
		return err
	}
	if l, err := s.Starting().Next(nil); err != nil || l.Slot != got.Slot {
		w.Fatalf("%+v %v", l, err)
	}
	return s.Commit(got.Slot)
}

func (w *signedWorld) floor(s *Store, want string) {
	w.Helper()
	st, err := s.Status()
	if err != nil || st.Floor != want {
		w.Errorf("floor %q %v %v, want %q", st.Floor, st.Notes, err, want)
	}
}

func (w *signedWorld) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *signedWorld) below(err error) {
	w.Helper()
	if code(err) != wire.CodeBelowFloor {
		w.Errorf("%v, want %s", err, wire.CodeBelowFloor)
	}
}

// The highest floor that was signed of what was tried holds from then on, whatever is signed later: nothing below it is
// staged, armed or started on trial. What is in force stays.
func TestSignedFloor(t *testing.T) {
	w := &signedWorld{T: t, dir: filepath.Join(t.TempDir(), "slots")}
	free, s := w.store(), w.store(maker, thief)
	w.must(w.keep(s, "2.0.0", withFloor(maker, "2.0.0", "")))
	w.floor(s, "")
	got, err := w.stage(s, "3.0.0", withFloor(maker, "3.0.0", "2.5.0"))
	w.must(err)
	w.floor(s, "") // it is not tried yet
	w.must(s.Arm(got.Slot, 1))
	w.floor(s, "2.5.0")
	if l, err := s.Starting().Next(nil); err != nil || l.Slot != got.Slot {
		t.Fatalf("%+v %v", l, err)
	}
	if _, err := s.Rollback(got.Slot, wire.BootFallback, "no good"); err != nil {
		t.Fatal(err)
	}
	if l, err := s.Starting().Next(nil); err != nil || l.Slot != record.A { // 2.0.0 is in force, and stays
		t.Errorf("%+v %v", l, err)
	}

	_, err = w.stage(s, "2.4.0", withFloor(maker, "2.4.0", "1.0.0"))
	w.below(err)
	if !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
	got, err = w.stage(free, "2.4.0", withFloor(maker, "2.4.0", "1.0.0")) // by a program that knows no floors
	w.must(err)
	w.below(s.Arm(got.Slot, 1))
	_, err = s.Signed(SlotStatus{Slot: got.Slot, Version: "2.4.0"})
	w.below(err)
	w.must(free.Arm(got.Slot, 1))
	w.must(s.Disarm())
	if st, err := s.Status(); err != nil || st.Trying != record.None || st.Last.Hash != got.Hash {
		t.Errorf("%+v %v", st, err)
	}
	w.must(free.Arm(got.Slot, 1))
	if l, err := s.Starting().Next(nil); err != nil || l.Slot != record.A || !strings.Contains(l.Note, "below-floor") {
		t.Errorf("%+v %v", l, err)
	}
	w.floor(s, "2.5.0")
	w.must(w.keep(s, "2.6.0", withFloor(thief, "2.6.0", "2.5.1"))) // another of the node's publishers
	w.must(w.keep(s, "2.7.0", withFloor(maker, "2.7.0", "1.0.0")))
	w.floor(s, "2.5.1")
	w.floor(free, "") // who asks for no signatures asks for no floor
	w.must(w.keep(free, "1.0.0", ""))
}

// What only says that it is signed raises no floor, and a version that an agent without floors has armed raises it when
// it is kept.
func TestFloorIsSigned(t *testing.T) {
	w := &signedWorld{T: t, dir: filepath.Join(t.TempDir(), "slots")}
	free, s := w.store(), w.store(maker)
	for _, forged := range []string{withFloor(thief, "2.0.0", "2.0.0"), withFloor(thief.As(maker), "2.0.0", "2.0.0"),
		strings.Replace(withFloor(maker, "2.0.0", "1.0.0"), "floor:1", "floor:2", 1),
		withFloor(maker, "2.1.0", "2.0.0")} {
		got, err := w.stage(free, "2.0.0", forged)
		w.must(err)
		if err := s.Arm(got.Slot, 1); err == nil {
			t.Error("it is armed")
		}
		w.must(free.Arm(got.Slot, 1))
		if l, err := free.Starting().Next(nil); err != nil || l.Slot != got.Slot {
			t.Fatalf("%+v %v", l, err)
		}
		w.must(s.Commit(got.Slot))
		w.floor(s, "")
	}
	got, err := w.stage(free, "2.0.0", withFloor(maker, "2.0.0", "2.0.0"))
	w.must(err)
	w.must(free.Arm(got.Slot, 1))
	if l, err := s.Starting().Next(nil); err != nil || l.Slot != got.Slot {
		t.Fatalf("%+v %v", l, err)
	}
	w.floor(s, "")
	w.must(s.Commit(got.Slot))
	w.floor(s, "2.0.0")
}

// The node's own --floor takes the place of the signed one, lower or higher, also where nobody has to sign.
func TestFloorOfTheNode(t *testing.T) {
	w := &signedWorld{T: t, dir: filepath.Join(t.TempDir(), "slots")}
	s := w.store(maker)
	w.must(w.keep(s, "2.0.0", withFloor(maker, "2.0.0", "2.0.0")))
	lower := w.set("1.0.0", maker)
	w.below(w.keep(lower, "0.9.0", withFloor(maker, "0.9.0", "")))
	w.must(w.keep(lower, "1.0.0", withFloor(maker, "1.0.0", "")))
	if st, err := lower.Status(); err != nil || st.Floor != "1.0.0" || st.Signed != "2.0.0" {
		t.Errorf("%+v %v", st, err)
	}
	w.floor(s, "2.0.0")
	if l, err := s.Starting().Next(nil); err != nil || l.Path == "" { // without the setting what is in force stays
		t.Errorf("%+v %v", l, err)
	}
	w.below(w.keep(w.set("3.0.0"), "2.9.0", ""))
	w.must(w.keep(w.set("3.0.0"), "3.0.0", ""))
}

// logged is a disk that tells what was replaced, and may refuse to.
type logged struct {
	Disk
	names  []string
	refuse string
}

func (d *logged) Replace(name string, data []byte) error {
	if name == d.refuse {
		return errFull
	}
	d.names = append(d.names, name)
	return d.Disk.Replace(name, data)
}

// The floor is on the disk before the version is armed, and no version is armed, or kept, whose floor is not.
func TestFloorComesFirst(t *testing.T) {
	w := &signedWorld{T: t, dir: filepath.Join(t.TempDir(), "slots")}
	c := w.store(maker).cfg
	disk := &logged{Disk: OpenDisk(w.dir, nil), refuse: floorFile}
	c.Disk = disk
	s := Open(c)
	got, err := w.stage(s, "2.0.0", withFloor(maker, "2.0.0", "2.0.0"))
	w.must(err)
	disk.names = nil
	if err := s.Arm(got.Slot, 1); !errors.Is(err, errFull) || len(disk.names) > 0 {
		t.Errorf("%v %v", err, disk.names)
	}
	w.must(w.store().Arm(got.Slot, 1))
	if l, err := s.Starting().Next(nil); err != nil || l.Slot != got.Slot {
		t.Fatalf("%+v %v", l, err)
	}
	if err := s.Commit(got.Slot); !errors.Is(err, errFull) {
		t.Error(err)
	}
	if st, err := s.Status(); err != nil || !st.Trial {
		t.Errorf("%+v %v", st, err)
	}
	disk.refuse, disk.names = "", nil
	w.must(s.Commit(got.Slot))
	if text := strings.Join(disk.names, " "); !strings.HasPrefix(text, floorFile+" "+RecordFile+" ") {
		t.Error(text)
	}
}

// A damaged floor lets nothing be tried until somebody at the node says which one counts; what is in force goes on.
func TestFloorIsDamaged(t *testing.T) {
	w := &signedWorld{T: t, dir: filepath.Join(t.TempDir(), "slots")}
	s := w.store(maker)
	w.must(w.keep(s, "2.0.0", withFloor(maker, "2.0.0", "2.0.0")))
	file := filepath.Join(w.dir, floorFile)
	whole, err := os.ReadFile(file)
	w.must(err)
	got, err := w.stage(s, "2.1.0", withFloor(maker, "2.1.0", ""))
	w.must(err)
	for bit := range 8 * len(whole) {
		damaged := filetest.Flipped(whole, bit)
		w.must(os.WriteFile(file, damaged, 0o600))
		if err := s.Arm(got.Slot, 1); err == nil || !strings.Contains(err.Error(), "--floor") {
			t.Errorf("%q: %v", damaged, err)
		}
	}
	if st, err := s.Status(); err != nil || len(st.Notes) != 1 || st.Trying != record.None {
		t.Errorf("%+v %v", st, err)
	}
	_, err = w.stage(s, "2.1.0", withFloor(maker, "2.1.0", ""))
	if err == nil || errors.Is(err, ErrRefused) {
		t.Error(err) // the file that is staged is not to blame
	}
	if l, err := s.Starting().Next(nil); err != nil || l.Slot != record.A {
		t.Errorf("%+v %v", l, err)
	}
	w.must(w.keep(w.set("2.0.0", maker), "2.2.0", withFloor(maker, "2.2.0", "2.0.5")))
	w.floor(s, "2.0.5")
}
