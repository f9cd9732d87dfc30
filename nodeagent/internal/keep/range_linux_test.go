package keep

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUsersAreBounded: a keeper that the kernel does not bound gives no users, and what is no range is refused.
func TestUsersAreBounded(t *testing.T) {
	dir := t.TempDir()
	_, err := openUsers(dir, slotRange, nil)
	if err == nil || !strings.Contains(err.Error(), "has to be started by root") {
		t.Error(err)
	}
	for text, want := range map[string]string{"": "", "70000-74095": "", "70000": "range", "70001-70000": "range",
		"70000-70000": "range", "999-2000": "the system's", "65000-65534": "nobody", "65535-65600": "nobody",
		"65536-65540": "", "70000-99999": "at most", "x-y": "range", "70000-4294967296": "range"} {
		u, err := ParseUsers(text)
		if want == "" && (err != nil || u.String() != text) || want != "" && (err == nil ||
			!strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, %v", text, u, err)
		}
	}
	for text, want := range map[string]string{"": "[] false", "all": "[] true", "53, 1883": "[53 1883] false",
		"0": "all, or", "53,": "all, or", "65536": "all, or", strings.Repeat("1,", 256) + "1": "at most"} {
		ports, all, err := Loopback(text).Ports()
		if got := fmt.Sprint(ports, all); err == nil && got != want || err != nil &&
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	if err := (Users{0, 10}).Overlap(); err == nil || !strings.Contains(err.Error(), "must be nobody else's") {
		t.Error(err)
	}
	if err := slotRange.Overlap(); err != nil {
		t.Error(err)
	}
}

// TestUsersOfBefore: a file of users that cannot be read gives no users, nor does another range while a slot of before
// has files.
func TestUsersOfBefore(t *testing.T) {
	state := t.TempDir()
	dir := filepath.Join(state, "keeper")
	for _, d := range []string{dir, filepath.Join(state, "slots/a")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s, err := loadUsers(dir, Users{2000, 2009}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, slot := range []string{"a", "b"} { // b has no files
		if _, err := s.of(slot, filepath.Join(state, "slots", slot)); err != nil {
			t.Fatal(err)
		}
	}
	if s, err = loadUsers(dir, Users{2000, 2009}, nil); err != nil || len(s.file.Slots) != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	_, err = loadUsers(dir, Users{3000, 3009}, nil)
	if err == nil || !strings.Contains(err.Error(), `"a" has the user 2001, which is none of 3000-3009`) {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(state, "slots/a")); err != nil {
		t.Fatal(err)
	}
	s, err = loadUsers(dir, Users{2002, 2009}, nil) // b's is the group of all now
	if err != nil || len(s.file.Slots) > 0 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, text := range []string{"{", `{"format":2,"slots":[]}`} {
		if err := os.WriteFile(filepath.Join(dir, "users.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := loadUsers(dir, Users{2000, 2009}, nil)
		if err == nil || !strings.Contains(err.Error(), "users.json") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
