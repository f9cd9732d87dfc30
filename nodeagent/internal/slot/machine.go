package slot

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
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
