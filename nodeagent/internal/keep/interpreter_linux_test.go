package keep

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What the kernel calls "no such file" of a program that is there is its interpreter: the error names it.
func TestMissingInterpreter(t *testing.T) {
	r := newRig(t)
	file := func(name string, content []byte, mode os.FileMode) string {
		path := filepath.Join(r.work, name)
		if err := os.WriteFile(path, content, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file("plain", []byte("#!/bin/sh\n"), 0o600)
	inner := file("inner", []byte("#!/usr/bin/nope\n"), 0o700)
	sh, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	ld := interpreter("/bin/sh")
	if ld == "" {
		t.Fatal("/bin/sh has no loader")
	}
	other := ld[:len(ld)-1] + "?"
	for _, c := range []struct{ name, content, err string }{
		{"script", "#!/usr/bin/nope\nexit 0\n", `the interpreter "/usr/bin/nope" of ` + r.work + `/script is missing`},
		{"argument", "#! /usr/bin/nope -e\nexit 0\n", `the interpreter "/usr/bin/nope" of `},
		{"windows", "#!/bin/sh\r\nexit 0\r\n", `the interpreter "/bin/sh\r" of `},
		{"nested", "#!" + inner + "\n", `the interpreter "/usr/bin/nope" of ` + inner + ` is missing`},
		{"relative", "#!plain\n", `the interpreter "plain" of ` + r.work + `/relative: permission denied`},
		{"binary", strings.ReplaceAll(string(sh), ld, other), `the interpreter "` + other + `" of `},
		{"no-program", "exit 0\n", "exec format error: it is no program for "},
		{"good", "#!/bin/sh\nexit 0\n", ""},
	} {
		run := r.shell(c.name, "")
		run.Argv = []string{file(c.name, []byte(c.content), 0o700)}
		r.start(run)
		if s := r.wait(c.name); !strings.Contains(s.Error, c.err) || (c.err == "") != (s.Error == "") {
			t.Errorf("%s: error %q, want %q", c.name, s.Error, c.err)
		}
	}
}

// TestPipeForAProgram: a slot that has put a pipe in its hook's place does not stop the keeper.
func TestPipeForAProgram(t *testing.T) {
	r := newRig(t)
	run := r.shell("pipe", "")
	run.Argv = []string{filepath.Join(r.work, "pipe")}
	if err := syscall.Mkfifo(run.Argv[0], 0o700); err != nil {
		t.Fatal(err)
	}
	if s := r.start(run); !strings.Contains(s.Error, "permission denied") {
		t.Errorf("%+v", s)
	}
}

// The loader is found in programs of 32 and of 64 bits; what is cut off or points outside has none.
func TestLoader(t *testing.T) {
	const ld = "/lib/ld-musl.so.1"
	order := binary.NativeEndian
	small := make([]byte, 4096)
	copy(small, "\x7fELF\x01")
	order.PutUint32(small[28:], 52) // program headers: where they begin, how long each is, how many
	order.PutUint16(small[42:], 32)
	order.PutUint16(small[44:], 2)
	order.PutUint32(small[52:], 6) // one of another type
	order.PutUint32(small[84:], 3) // PT_INTERP: where, how long
	order.PutUint32(small[88:], 200)
	order.PutUint32(small[100:], uint32(len(ld)+1))
	copy(small[200:], ld)
	large := make([]byte, 4096)
	copy(large, "\x7fELF\x02")
	order.PutUint64(large[32:], 64)
	order.PutUint16(large[54:], 56)
	order.PutUint16(large[56:], 1)
	order.PutUint32(large[64:], 3)
	order.PutUint64(large[72:], 300)
	order.PutUint64(large[96:], uint64(len(ld)+1))
	copy(large[300:], ld)
	for bits, head := range map[string][]byte{"32": small, "64": large} {
		if got := loader(head); got != ld {
			t.Errorf("%s bits: %q", bits, got)
		}
	}
	far := bytes.Clone(large)
	order.PutUint64(far[72:], 1<<63)
	if got := loader(far); got != "" {
		t.Errorf("outside of the file: %q", got)
	}
	far = bytes.Clone(large)
	order.PutUint64(far[96:], 1<<40)
	if got := loader(far); got != "" {
		t.Errorf("longer than the file: %q", got)
	}
	order.PutUint64(far[32:], ^uint64(0)-3)
	if got := loader(far); got != "" {
		t.Errorf("headers outside of the file: %q", got)
	}
}
