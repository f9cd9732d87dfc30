package slot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"tandem.internal/nodeagent/internal/confine"
	"tandem.internal/shared/wire"
)

// selfTestLimit is the time limit of a self-test.
const selfTestLimit = 20 * time.Second

// maxSealed is the size of a binary, in bytes, up to which it is copied into memory.
const maxSealed = 64 << 20

// Version is the self-test of production: "BINARY version" has to exit with status 0 within 20 seconds and to print
// "tandem-node VERSION". Its session is killed when it does not. What is executed is a copy that nobody can alter, and
// that has this hash, sha256:…; "": any.
func Version(ctx context.Context, path, hash string) (string, error) {
	limited, cancel := context.WithTimeout(ctx, selfTestLimit)
	defer cancel()
	for {
		version, err := version(limited, path, hash)
		switch {
		case errors.Is(err, syscall.ETXTBSY) && limited.Err() == nil:
			// A child that was forked at the wrong moment has the file open for writing until it executes.
			time.Sleep(lockPause)
		case err != nil && limited.Err() != nil && ctx.Err() == nil:
			return "", fmt.Errorf("it did not end within %v", selfTestLimit)
		default:
			return version, err
		}
	}
}

// errAltered says that a file is not what was measured before.
var errAltered = errors.New("its file was altered while it was tested")

func version(ctx context.Context, path, hash string) (_ string, err error) {
	copied, has, err := seal(ctx, path)
	if err != nil {
		return "", err
	}
	if hash != "" && has != hash {
		err = errAltered
	}
	if copied == nil {
		if err != nil {
			return "", err
		}
		return start(ctx, path, nil)
	}
	defer func() { err = errors.Join(err, copied.Close()) }()
	if err != nil {
		return "", err
	}
	// executing the copy does not show whether the file can be executed where it is
	const execute = 1
	if err := syscall.Access(path, execute); err != nil {
		return "", &os.PathError{Op: "execute", Path: path, Err: err}
	}
	version, err := start(ctx, path, copied)
	if errors.Is(err, syscall.EACCES) { // a policy forbids it, of SELinux perhaps
		return start(ctx, path, nil)
	}
	return version, err
}

// seal copies a file into memory that cannot be written any more, and measures the copy. The copy is nil where the
// kernel has no such memory, or nothing in it may be executed (vm.memfd_noexec), or the file is longer than maxSealed:
// the hash is the file's then.
func seal(ctx context.Context, path string) (copied *os.File, hash string, err error) {
	from, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, h := io.Discard, sha256.New()
	if info, err := from.Stat(); err != nil {
		return nil, "", err
	} else if info.Size() <= maxSealed {
		copied = memory()
	}
	if copied != nil {
		to = copied
	}
	_, err = io.Copy(io.MultiWriter(to, h), &stopper{ctx, from})
	if err == nil && copied != nil {
		err = freeze(copied)
	}
	if err != nil && copied != nil {
		err, copied = errors.Join(err, copied.Close()), nil
	}
	return copied, wire.HashPrefix + hex.EncodeToString(h.Sum(nil)), err
}

// start starts a binary, a sealed copy of it if there is one, and reads which version it says it is. It gets no more
// rights than this process has, by no program that it starts, and no terminal.
func start(ctx context.Context, path string, copied *os.File) (string, error) {
	program := path
	if copied != nil {
		program = "/proc/self/fd/3" // the first of ExtraFiles
	}
	cmd := exec.CommandContext(ctx, program, "version")
	cmd.Args[0] = path
	if copied != nil {
		cmd.ExtraFiles = []*os.File{copied}
	}
	cmd.Env = slices.DeleteFunc(os.Environ(),
		func(v string) bool { return strings.HasPrefix(v, "TANDEM_") || strings.HasPrefix(v, "NOTIFY_SOCKET=") })
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out := &limitedBuffer{limit: 4096}
	cmd.Stdout, cmd.Stderr = out, out
	var err error
	confine.Apart(func() {
		if err = confine.NoNewPrivs(); err == nil {
			err = cmd.Start()
		}
	})
	if err == nil {
		err = cmd.Wait()
	}
	if errors.Is(err, syscall.ENOEXEC) {
		return "", errors.New("it is no program for this machine")
	} else if err != nil {
		return "", fmt.Errorf("%w: %s", err, bytes.TrimSpace(out.Bytes()))
	}
	return parseVersion(out.Bytes())
}
