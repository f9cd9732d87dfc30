package slot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tandem.internal/nodeagent/internal/boot"
)

// EnvKernel may name the kernel's boot ID where /proc does not show it; %b in a systemd unit.
const EnvKernel = "TANDEM_KERNEL_BOOT_ID"

// EnvWorkloads may name the control group (v2) of all workloads, as /proc/PID/cgroup names groups.
const EnvWorkloads = "TANDEM_WORKLOAD_GROUP"

// Machine asks Linux. What cannot be read is left out.
func Machine() boot.Evidence {
	var ev boot.Evidence
	if data, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		ev.Kernel = strings.ReplaceAll(strings.TrimSpace(string(data)), "-", "")
	} else {
		ev.Kernel = os.Getenv(EnvKernel)
	}
	ev.OOMKills = oomKills("/proc/vmstat")
	// what ended those, mostly their own limits, says nothing of the agent
	if group := os.Getenv(EnvWorkloads); group != "" {
		ev.OOMKills -= min(oomKills("/sys/fs/cgroup"+group+"/memory.events"), ev.OOMKills)
	}
	ev.Panic = lastPanic("/sys/fs/pstore")
	return ev
}

// lastPanic names the youngest of what crashed kernels have left in dir, if they have a place for it
// and we may look.
func lastPanic(dir string) (text string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	var youngest time.Time
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !strings.HasPrefix(e.Name(), "dmesg-") || !info.ModTime().After(youngest) {
			continue
		}
		youngest = info.ModTime()
		text = fmt.Sprintf("%s/%s of %s", dir, e.Name(), youngest.UTC().Format(time.RFC3339))
	}
	return text
}

// oomKills finds the count of processes killed for memory in a file such as /proc/vmstat, or memory.events of a control
// group; 0 if it cannot be read.
func oomKills(path string) uint64 {
	counts, err := os.ReadFile(path)
	_, rest, found := strings.Cut("\n"+string(counts), "\noom_kill ")
	if err != nil || !found {
		return 0
	}
	text, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// selfTestLimit is the time limit of a self-test.
const selfTestLimit = 20 * time.Second

// Version is the self-test of production: "BINARY version" has to exit with status 0 within 20 seconds
// and to print "tandem-node VERSION". Its process group is killed when it does not.
func Version(ctx context.Context, path string) (string, error) {
	limited, cancel := context.WithTimeout(ctx, selfTestLimit)
	defer cancel()
	for {
		version, err := version(limited, path)
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

func version(ctx context.Context, path string) (string, error) {
	cmd := exec.CommandContext(ctx, path, "version")
	cmd.Env = slices.DeleteFunc(os.Environ(),
		func(v string) bool { return strings.HasPrefix(v, "TANDEM_") || strings.HasPrefix(v, "NOTIFY_SOCKET=") })
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out := &limitedBuffer{limit: 4096}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); errors.Is(err, syscall.ENOEXEC) {
		return "", errors.New("it is no program for this machine")
	} else if err != nil {
		return "", fmt.Errorf("%w: %s", err, bytes.TrimSpace(out.Bytes()))
	}
	return parseVersion(out.Bytes())
}

// parseVersion reads what "tandem-node version" prints.
func parseVersion(out []byte) (string, error) {
	line, _, _ := strings.Cut(string(out), "\n")
	words := strings.Fields(line)
	if len(words) < 2 || words[0] != binaryFile {
		return "", fmt.Errorf("it says %.80q, and not which version of %s it is", line, binaryFile)
	}
	if len(words[1]) > 100 {
		return "", errors.New("its version is longer than 100 bytes")
	}
	return words[1], nil
}

// limitedBuffer keeps the beginning of what is written to it.
type limitedBuffer struct {
	bytes.Buffer
	limit int
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if room := b.limit - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
