package watch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"tandem.internal/nodeagent/internal/watch/judge"
	"tandem.internal/shared/topic"
)

// maxPrograms bounds what is watched in one directory.
const maxPrograms = 64

// Programs looks at the programs that want to be watched. In dir, a program NAME has one file or both:
//
//	NAME.touch  whose time of change must move within the watchdog time; better every 25 s
//	NAME.pid    with the decimal number of a process, which must live
//
// Removing its files ends the watch. Other files are left alone; a directory that is not there has no
// programs. Whoever may write to dir can make the node restart: it should belong to root.
func Programs(dir string) ([]judge.Program, error) {
	if dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []judge.Program
	for _, e := range entries {
		kind := filepath.Ext(e.Name())
		name := strings.TrimSuffix(e.Name(), kind)
		if kind != ".touch" && kind != ".pid" || !topic.ValidName(name) {
			continue
		}
		info, err := os.Stat(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed just now
		}
		i := slices.IndexFunc(list, func(p judge.Program) bool { return p.Name == name })
		if i < 0 {
			if len(list) == maxPrograms {
				return nil, fmt.Errorf("%s: more than %d programs", dir, maxPrograms)
			}
			i = len(list)
			list = append(list, judge.Program{Name: name})
		}
		p := &list[i]
		switch {
		case err != nil:
			p.Trouble = err.Error()
		case !info.Mode().IsRegular():
			p.Trouble = e.Name() + " is not a regular file"
		case kind == ".touch":
			p.Touched = stamp(info)
		default:
			if p.Process, err = named(filepath.Join(dir, e.Name())); err != nil {
				p.Trouble = err.Error()
			} else if p.Process.PID != 0 {
				p.Process.Named = stamp(info)
			}
		}
	}
	return list, nil
}

// stamp is a file's time of change. It is only ever compared with itself.
func stamp(info fs.FileInfo) string { return strconv.FormatInt(info.ModTime().UnixNano(), 10) }

// named reads a process file and looks for the process. A file that has gone names none.
func named(path string) (judge.Process, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return judge.Process{}, nil
	}
	if err != nil {
		return judge.Process{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 32))
	if err != nil {
		return judge.Process{}, err
	}
	pid, err := parsePID(data)
	if err != nil {
		return judge.Process{}, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	start, err := started(pid)
	if err != nil {
		return judge.Process{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return judge.Process{PID: pid, Start: start}, nil
}

func parsePID(data []byte) (int, error) {
	text := strings.TrimSpace(string(data))
	pid, err := strconv.ParseInt(text, 10, 32)
	if err != nil || pid < 1 {
		return 0, fmt.Errorf("%.32q is not the number of a process", text)
	}
	return int(pid), nil
}

// started returns when a process began, in a unit that only tells it from others; 0 if it does not run.
func started(pid int) (uint64, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err == nil {
		return parseStat(string(stat))
	}
	// It has gone, or the system hides it.
	switch kerr := syscall.Kill(pid, 0); {
	case errors.Is(kerr, syscall.ESRCH):
		return 0, nil
	case kerr == nil || errors.Is(kerr, syscall.EPERM):
		return 1, nil
	default:
		return 0, kerr
	}
}

// parseStat reads /proc/PID/stat (proc(5)): the state and the start time follow the name, which stands in
// parentheses and may have any byte in it.
func parseStat(stat string) (uint64, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return 0, errors.New("/proc/PID/stat is not as expected")
	}
	if state := fields[0]; state == "Z" || state == "X" {
		return 0, nil // a dead one that nobody has waited for
	}
	ticks, err := strconv.ParseUint(fields[19], 10, 63)
	if err != nil {
		return 0, fmt.Errorf("/proc/PID/stat: %w", err)
	}
	return ticks + 1, nil // the first process began at 0
}
