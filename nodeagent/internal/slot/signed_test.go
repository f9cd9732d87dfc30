package slot

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/nodeagent/internal/boot"
	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/publisher/publishertest"
	"tandem.internal/shared/wire"
)

var maker, thief = publishertest.New(1), publishertest.New(2)

// signedWorld is a node whose agents say the version in their file.
type signedWorld struct {
	*testing.T
	dir   string
	tests int // self-tests
}

// store is the slots as one sees them who knows these keys.
func (w *signedWorld) store(keys ...publishertest.Signer) *Store {
	c := Config{Dir: w.dir, Machine: func() boot.Evidence { return boot.Evidence{Kernel: "k"} },
		SelfTest: func(_ context.Context, path string) (string, error) {
			w.tests++
			text, err := os.ReadFile(path)
			return strings.TrimPrefix(string(text), "agent "), err
		}}
	for _, k := range keys {
		c.Publishers = append(c.Publishers, k.Keys(w.T)...)
	}
	return Open(c)
}

func (w *signedWorld) stage(s *Store, version, signature string) (Staged, error) {
	return s.StageFrom(w.Context(), strings.NewReader("agent "+version), Source{Signature: signature})
}

func agentSigned(s publishertest.Signer, version string) string {
	return s.SignAs([]byte("agent "+version), "tandem-node "+version)
}

func code(err error) wire.Code {
	e, ok := errors.AsType[*wire.Error](err)
	if !ok {
		return ""
	}
	return e.Code
}

// Only what a publisher has signed, as this very version, is staged; nothing else is even asked for its version.
func TestOnlySignedVersionsAreStaged(t *testing.T) {
	w := &signedWorld{T: t, dir: filepath.Join(t.TempDir(), "slots")}
	s := w.store(maker)
	for _, c := range []struct {
		name, signature string
		want            wire.Code
		tests           int
	}{
		{"unsigned", "", wire.CodeUnsigned, 0},
		{"by somebody else", agentSigned(thief, "2"), wire.CodeUnknownKey, 0},
		{"in the publisher's name", agentSigned(thief.As(maker), "2"), wire.CodeBadSignature, 0},
		{"of another content", maker.SignAs([]byte("agent 3"), "tandem-node 2"), wire.CodeBadSignature, 0},
		{"no signature", "x", wire.CodeBadSignature, 0},
		{"of no version", maker.Sign([]byte("agent 2")), wire.CodeBadSignature, 1},
		{"of another version", maker.SignAs([]byte("agent 2"), "tandem-node 3"), wire.CodeBadSignature, 1},
		{"of a component", maker.SignAs([]byte("agent 2"), "os 2"), wire.CodeBadSignature, 1},
		{"of a longer version", maker.SignAs([]byte("agent 2"), "tandem-node 2.1"), wire.CodeBadSignature, 1},
		{"of no name", maker.SignAs([]byte("agent 2"), "2"), wire.CodeBadSignature, 1},
	} {
		w.tests = 0
		_, err := w.stage(s, "2", c.signature)
		if !errors.Is(err, ErrRefused) || code(err) != c.want || w.tests != c.tests {
			t.Errorf("%s: %v, %d self-tests", c.name, err, w.tests)
		}
		for _, f := range []string{binaryFile, binaryFile + ".minisig", manifestFile} {
			if _, err := os.Lstat(filepath.Join(w.dir, "a", f)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %s is left: %v", c.name, f, err)
			}
		}
	}
	for _, comment := range []string{"tandem-node 2", "tandem-node\t2  more of it"} {
		got, err := w.stage(s, "2", maker.SignAs([]byte("agent 2"), comment))
		if err != nil || got.Slot != record.A {
			t.Fatalf("%+v %v", got, err)
		}
	}
	if err := s.Arm(record.A, 1); err != nil {
		t.Error(err)
	}
}

// What was staged before the node had keys, or was put there by somebody else, is neither armed nor started.
func TestOnlySignedSlotsAreTried(t *testing.T) {
	for _, c := range []struct {
		name   string
		staged string // signature
		alter  func(dir string) error
		want   wire.Code
	}{
		{"signed", agentSigned(maker, "2"), nil, ""},
		{"before there were keys", "", nil, wire.CodeUnsigned},
		{"by somebody else", agentSigned(thief, "2"), nil, wire.CodeUnknownKey},
		{"an old one, as a new version", maker.SignAs([]byte("agent 2"), "tandem-node 1"), nil, wire.CodeBadSignature},
		{"its signature is gone", agentSigned(maker, "2"), func(dir string) error {
			return os.Remove(filepath.Join(dir, "tandem-node.minisig"))
		}, wire.CodeUnsigned},
		{"with another one's signature", agentSigned(maker, "2"), func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "tandem-node.minisig"), []byte(agentSigned(maker, "3")), 0o600)
		}, wire.CodeBadSignature},
	} {
		w := &signedWorld{T: t, dir: filepath.Join(t.TempDir(), "slots")}
		free, s := w.store(), w.store(maker)
		if _, err := w.stage(free, "2", c.staged); err != nil {
			t.Fatal(c.name, err)
		}
		if c.alter != nil {
			if err := c.alter(filepath.Join(w.dir, "a")); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Arm(record.A, 2); code(err) != c.want || (err == nil) != (c.want == "") {
			t.Errorf("%s: armed: %v", c.name, err)
		}
		// armed by somebody who knows no keys, and seen by the agent
		if err := free.Arm(record.A, 2); err != nil {
			t.Fatal(err)
		}
		if err := s.Disarm(); err != nil {
			t.Fatal(err)
		}
		st, err := s.Status()
		if err != nil || (st.Trying == record.A) != (c.want == "") ||
			!strings.HasPrefix(st.Last.Detail, string(c.want)) {
			t.Errorf("%s: %+v %v", c.name, st, err)
		}
		// and not seen by one
		if c.want != "" {
			if err := free.Arm(record.A, 2); err != nil {
				t.Fatal(err)
			}
		}
		l, err := s.Starting().Next(nil)
		want := map[bool]ID{true: record.A, false: record.Factory}[c.want == ""]
		if err != nil || l.Slot != want || !strings.Contains(l.Note, string(c.want)) ||
			want == record.Factory && (l.Reason != wire.BootFallback || !strings.Contains(l.Detail, string(c.want))) {
			t.Errorf("%s: %+v %v", c.name, l, err)
		}
	}
}

// A slot in force that nobody has signed is not started: the one before is, or the installed binary, at each start.
// Once it is signed, or nobody asks, it runs again.
func TestUnsignedSlotInForce(t *testing.T) {
	w := &signedWorld{T: t, dir: filepath.Join(t.TempDir(), "slots")}
	free, s := w.store(), w.store(maker)
	begin := func(s *Store, want ID) Launch {
		t.Helper()
		l, err := s.Starting().Next(nil)
		if err != nil || l.Slot != want {
			t.Fatalf("%+v %v, want %s", l, err, want)
		}
		return l
	}
	keep := func(version, signature string) ID {
		t.Helper()
		got, err := w.stage(free, version, signature)
		if err == nil {
			err = free.Arm(got.Slot, 1)
		}
		if err == nil {
			begin(free, got.Slot)
			err = free.Commit(got.Slot)
		}
		if err != nil {
			t.Fatal(err)
		}
		return got.Slot
	}
	first := keep("2", "")
	for range 2 {
		if l := begin(s, record.Factory); !strings.Contains(l.Note, "slot factory stands in; slot a: unsigned: ") {
			t.Errorf("%+v", l)
		}
	}
	begin(free, first)
	second := keep("3", agentSigned(maker, "3"))
	begin(s, second)
	third := keep("4", "")
	begin(s, second) // the one before
	if err := os.WriteFile(filepath.Join(w.dir, string(third), "tandem-node.minisig"), []byte(agentSigned(maker, "4")),
		0o600); err != nil {
		t.Fatal(err)
	}
	begin(s, third)
	if st, err := s.Status(); err != nil || st.Slots[0].State == st.Slots[1].State {
		t.Errorf("%+v %v", st, err)
	}
}

// A launcher that cannot tell whose signatures are demanded tries nothing, and goes on with what is in force.
func TestKeysThatCannotBeRead(t *testing.T) {
	w := &signedWorld{T: t, dir: filepath.Join(t.TempDir(), "slots")}
	free := w.store()
	if _, err := w.stage(free, "2", ""); err != nil {
		t.Fatal(err)
	}
	if err := free.Arm(record.A, 2); err != nil {
		t.Fatal(err)
	}
	blind := free.cfg
	blind.Unread = errors.New("no such file")
	l, err := Open(blind).Starting().Next(nil)
	if err != nil || l.Slot != record.Factory || !strings.Contains(l.Note, "keys cannot be read: no such file") {
		t.Errorf("%+v %v", l, err)
	}
	if err := free.Arm(record.A, 2); err != nil {
		t.Fatal(err)
	}
	if _, err := free.Starting().Next(nil); err != nil {
		t.Fatal(err)
	}
	if err := free.Commit(record.A); err != nil {
		t.Fatal(err)
	}
	if l, err := Open(blind).Starting().Next(nil); err != nil || l.Slot != record.A {
		t.Errorf("%+v %v", l, err)
	}
}

// Signed judges without reading the slot.
func TestSigned(t *testing.T) {
	w := &signedWorld{T: t, dir: filepath.Join(t.TempDir(), "slots")}
	s := w.store(maker)
	if _, err := w.stage(s, "2", agentSigned(maker, "2")); err != nil {
		t.Fatal(err)
	}
	x := SlotStatus{Slot: record.A, Version: "2"}
	if sig, err := s.Signed(x); err != nil || sig.Release() != (publisher.Release{Name: "tandem-node", Version: "2"}) {
		t.Errorf("%+v %v", sig, err)
	}
	if _, err := w.store(thief).Signed(x); code(err) != wire.CodeUnknownKey {
		t.Error(err)
	}
	if _, err := s.Signed(SlotStatus{Slot: record.B, Version: "2"}); code(err) != wire.CodeUnsigned {
		t.Error(err)
	}
	if got, err := w.stage(w.store(), "3", ""); err != nil || got.Slot != record.A { // in its place
		t.Fatal(got, err)
	}
	if _, err := s.Signed(SlotStatus{Slot: record.A, Version: "3"}); code(err) != wire.CodeUnsigned {
		t.Error(err)
	}
	if sig, err := w.store().Signed(SlotStatus{Slot: record.B}); err != nil || sig.ID() != "" {
		t.Errorf("%+v %v", sig, err)
	}
}
