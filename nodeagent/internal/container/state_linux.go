package container

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

// Process is the main process of a container: that with the PID, if it began then.
type Process struct {
	PID   int
	Ticks uint64 // when it began, in the kernel's ticks since the machine was started
}

// stored is what runtimes keep of a container, in status (crun) and state.json (runc).
type stored struct {
	PID       int    `json:"pid"`
	Ticks     uint64 `json:"process-start-time"`
	InitPID   int    `json:"init_process_pid"`
	InitTicks uint64 `json:"init_process_start"`
}

// maxStored bounds what is read of that; it has the whole config.json in it.
const maxStored = 4 << 20

// process is the main process of a container, without the runtime; the zero Process if that is not known.
func (h *Home) process(id string) (p Process, err error) {
	for _, name := range []string{"status", "state.json"} {
		data, err := os.ReadFile(filepath.Join(h.running(id), name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return p, fmt.Errorf("state of container %s: %w", id, err)
		}
		var s stored
		if len(data) <= maxStored && json.Unmarshal(data, &s) == nil { // else half written: it was never quite made
			p = Process{max(s.PID, s.InitPID), max(s.Ticks, s.InitTicks)}
		}
	}
	return p, nil
}

// ticksOf is when a process began (proc_pid_stat(5)); not of one that has ended and only waits to be reaped.
func ticksOf(pid int) (ticks uint64, ok bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	f := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if err != nil || len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return 0, false
	}
	ticks, err = strconv.ParseUint(f[19], 10, 64)
	return ticks, err == nil
}

func (p Process) alive() bool {
	ticks, ok := ticksOf(p.PID)
	return p.PID > 1 && ok && ticks == p.Ticks
}

// kill kills the process. That it has ended is no error. The handle is taken before the look, so that no other process
// can take its place in between.
func (p Process) kill() error {
	if p.PID <= 1 {
		return nil
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err == nil && p.alive() {
		err = unix.PidfdSendSignal(fd, syscall.SIGKILL, nil, 0)
	}
	if fd >= 0 {
		err = errors.Join(err, unix.Close(fd))
	}
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill process %d: %w", p.PID, err)
	}
	return nil
}
