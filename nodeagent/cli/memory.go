package cli

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// agentUnmaps and keeperUnmaps are the pauses before each time that pages are let go, the last of them for
// ever: most of what is resident is the binary, and much of that is of use only while the process starts.
var (
	agentUnmaps  = []time.Duration{100 * time.Millisecond, 400 * time.Millisecond, 30 * time.Second, time.Hour}
	keeperUnmaps = []time.Duration{2 * time.Second, time.Hour}
)

// unmapUnused has the kernel forget now and then which pages of the binary were used. Those that are in
// use come back from its cache within microseconds, the rest it may give to others. The function that it
// returns ends that.
func unmapUnused(pauses []time.Duration) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-quit:
				return
			case <-time.After(pauses[min(i, len(pauses)-1)]):
			}
			if smaps, err := os.ReadFile("/proc/self/smaps"); err == nil { // else the pages stay, which harms nobody
				for _, m := range binaryMappings(smaps) {
					// the same
					_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start, syscall.MADV_DONTNEED)
				}
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

type mapping struct{ start, end uintptr }

// binaryMappings finds in /proc/PID/smaps (proc(5)) the mappings of files that are not writable and of
// which this process has changed nothing: all that is in them is in the file.
func binaryMappings(smaps []byte) (list []mapping) {
	var m mapping
	found := false
	for line := range bytes.Lines(smaps) {
		fields := strings.Fields(string(line))
		switch {
		case len(fields) >= 5 && !strings.HasSuffix(fields[0], ":"):
			start, end, _ := strings.Cut(fields[0], "-")
			from, ferr := strconv.ParseUint(start, 16, 64)
			to, terr := strconv.ParseUint(end, 16, 64)
			m = mapping{uintptr(from), uintptr(to)}
			found = ferr == nil && terr == nil && len(fields) == 6 && strings.HasPrefix(fields[5], "/") &&
				(fields[1] == "r-xp" || fields[1] == "r--p")
		case found && len(fields) == 3 && (fields[0] == "Private_Dirty:" || fields[0] == "Anonymous:") &&
			fields[1] != "0":
			found = false
		case found && len(fields) > 0 && fields[0] == "VmFlags:": // the last line of a mapping
			list = append(list, m)
			found = false
		}
	}
	return list
}
