package keep

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// process is one line of /proc.
type process struct {
	pid, parent, group, session int
	ticks                       uint64 // when it began, since the boot
	dead                        bool   // a zombie: nothing of it is left but its status
	kernel                      bool   // a thread of the kernel's
}

// processes lists all that this one can see.
func processes() (map[int]process, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("look at processes: %w", err)
	}
	names, err := d.Readdirnames(-1)
	if err = errors.Join(err, d.Close()); err != nil {
		return nil, fmt.Errorf("look at processes: %w", err)
	}
	all := map[int]process{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := lookAt(pid); ok {
			all[pid] = p
		}
	}
	return all, nil
}

// lookAt looks at one process; ok is false if it is gone.
func lookAt(pid int) (p process, ok bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	return parseStat(pid, data)
}

// newestPID is the number that the kernel has given to a process last (proc_loadavg(5)); 0: it cannot be known.
func newestPID() int {
	data, err := os.ReadFile("/proc/loadavg")
	if f := strings.Fields(string(data)); err == nil && len(f) == 5 {
		if pid, err := strconv.Atoi(f[4]); err == nil {
			return pid
		}
	}
	return 0
}

// kernelThread is PF_KTHREAD among a process's flags.
const kernelThread = 0x0020_0000

// parseStat reads /proc/PID/stat (proc_pid_stat(5)). The name in it is in parentheses and may have any
// character.
func parseStat(pid int, data []byte) (p process, ok bool) {
	f := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(f) < 20 {
		return process{}, false
	}
	p = process{pid: pid, dead: f[0] == "Z" || f[0] == "X"}
	var errs [5]error
	var flags uint64
	p.parent, errs[0] = strconv.Atoi(f[1])
	p.group, errs[1] = strconv.Atoi(f[2])
	p.session, errs[2] = strconv.Atoi(f[3])
	p.ticks, errs[3] = strconv.ParseUint(f[19], 10, 64)
	flags, errs[4] = strconv.ParseUint(f[6], 10, 64)
	p.kernel = flags&kernelThread != 0
	return p, errors.Join(errs[:]...) == nil
}

// maxEnviron bounds what is read of a process's environment.
const maxEnviron = 4 << 20

// marked finds the mark in a process's environment: "" if there is none, or it cannot be read. unsure says
// that this may change: the process has no environment and no arguments, as while it goes from one program to
// another, or it has the environment of the keeper of dir, as one that is not yet a run's.
func marked(pid int, dir string) (mark string, unsure bool) {
	environ, err := readSome(pid, "environ")
	if err != nil || len(environ) > 0 {
		return find(environ, Mark), dir != "" && find(environ, homeEnv) == dir
	}
	args, err := readSome(pid, "cmdline")
	return "", err == nil && len(args) == 0
}

// readSome reads a file of a process, as far as maxEnviron.
func readSome(pid int, name string) ([]byte, error) {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/" + name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxEnviron))
	return data, errors.Join(err, f.Close())
}

// find finds a variable among those of an environment, which end with zero bytes.
func find(environ []byte, name string) string {
	for v := range bytes.SplitSeq(environ, []byte{0}) {
		if value, ok := bytes.CutPrefix(v, []byte(name+"=")); ok {
			return string(value)
		}
	}
	return ""
}

// kill kills a process if it still is the one that was looked at. The handle is taken before the second
// look, so that no other process can take its place in between.
func (p process) kill() error {
	h, err := os.FindProcess(p.pid)
	if err != nil {
		return fmt.Errorf("kill process %d: %w", p.pid, err)
	}
	defer func() { _ = h.Release() }() // never fails
	now, ok := lookAt(p.pid)
	if !ok || now.ticks != p.ticks || now.dead {
		return nil
	}
	if err := h.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) &&
		!errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill process %d: %w", p.pid, err)
	}
	return nil
}

// bootID is the kernel's.
func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if errors.Is(err, fs.ErrNotExist) {
		return "", errors.New("/proc does not say when the machine was started; the keeper needs all of /proc")
	}
	if err != nil {
		return "", fmt.Errorf("find the machine's start: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// prctl operations (prctl(2)).
const prSetChildSubreaper = 36

// adoptOrphans makes this process the parent of whatever its runs leave behind.
func adoptOrphans() error {
	if _, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0, 0, 0, 0); e != 0 {
		return fmt.Errorf("become the parent of orphans: %w", e)
	}
	return nil
}

// closeOnExec keeps what this process was given open from reaching its runs.
func closeOnExec() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("look at open files: %w", err)
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}
