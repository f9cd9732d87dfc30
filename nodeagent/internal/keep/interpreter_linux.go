package keep

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// maxNesting is how many interpreters of interpreters the kernel takes.
const maxNesting = 5

// notStarted says why the kernel did not start a program in a directory, where its errno does not: it says the same of
// a program that is missing as of one whose interpreter is.
func notStarted(program, dir string, err error) error {
	if errors.Is(err, syscall.ENOEXEC) {
		return fmt.Errorf("%w: it is no program for %s, and no script with #! in front", err, runtime.GOARCH)
	}
	if !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.EACCES) {
		return err
	}
	for range maxNesting {
		name := interpreter(program)
		if name == "" {
			break
		}
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		const execute = 1
		switch aerr := syscall.Access(path, execute); {
		case errors.Is(aerr, syscall.ENOENT):
			return fmt.Errorf("the interpreter %q of %s is missing", name, program)
		case aerr != nil:
			return fmt.Errorf("the interpreter %q of %s: %w", name, program, aerr)
		}
		program = path
	}
	return err
}

// interpreter is the program that the kernel needs to run another one: of a script the one behind #!, of a dynamically
// linked program (ELF) its loader. It is "" if there is none, or it cannot be found out.
func interpreter(program string) string {
	// The slot may have put anything there: a pipe is not waited for.
	f, err := os.OpenFile(program, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // only read
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	head := make([]byte, 4096)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return ""
	}
	if line, ok := bytes.CutPrefix(head[:n], []byte("#!")); ok {
		line, _, _ = bytes.Cut(line, []byte("\n"))
		line, _, _ = bytes.Cut(bytes.Trim(line, " \t"), []byte(" "))
		line, _, _ = bytes.Cut(line, []byte("\t"))
		return string(line)
	}
	return loader(head)
}

// loader is that of an ELF program with this beginning: what its first segment of type PT_INTERP has.
func loader(head []byte) string {
	const ptInterp = 3
	order := binary.NativeEndian
	number := func(at, size uint64) uint64 {
		switch {
		case at > uint64(len(head))-8:
			return 0
		case size == 2:
			return uint64(order.Uint16(head[at:]))
		case size == 4:
			return uint64(order.Uint32(head[at:]))
		}
		return order.Uint64(head[at:])
	}
	if !bytes.HasPrefix(head, []byte("\x7fELF")) {
		return ""
	}
	// offsets in the header and in a segment's, of 32 and of 64 bits
	word, segments, each, count, offset, length := uint64(4), uint64(28), uint64(42), uint64(44), uint64(4), uint64(16)
	if head[4] == 2 {
		word, segments, each, count, offset, length = 8, 32, 54, 56, 8, 32
	}
	for i := range number(count, 2) {
		at := number(segments, word) + i*number(each, 2)
		if number(at, 4) != ptInterp {
			continue
		}
		from, n := number(at+offset, word), number(at+length, word)
		if from > uint64(len(head)) || n > uint64(len(head))-from {
			return ""
		}
		return string(bytes.TrimRight(head[from:from+n], "\x00"))
	}
	return ""
}
