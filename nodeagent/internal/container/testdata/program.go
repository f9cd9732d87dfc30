// Program is what test containers run: it does what its arguments say, in turn, and prints a line for each.
package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	runtime.LockOSThread()
	for _, word := range os.Args[1:] {
		what, arg, _ := strings.Cut(word, "=")
		text, err := do(what, arg)
		var errno syscall.Errno
		switch {
		case errors.As(err, &errno):
			text = "errno " + strconv.Itoa(int(errno))
		case err != nil:
			text = err.Error()
		}
		fmt.Printf("%s: %s\n", word, text)
	}
}

func do(what, arg string) (string, error) {
	switch what {
	case "exit":
		n, _ := strconv.Atoi(arg)
		os.Exit(n)
	case "who":
		dir, err := os.Getwd()
		return fmt.Sprintf("%d:%d pid %d in %s", os.Getuid(), os.Getgid(), os.Getpid(), dir), err
	case "env":
		return os.Getenv(arg), nil
	case "read":
		b, err := os.ReadFile(arg)
		return strings.TrimSpace(string(b)), err
	case "write":
		return "done", os.WriteFile(arg, []byte("written"), 0o644)
	case "open":
		f, err := os.OpenFile(arg, os.O_RDWR, 0)
		if err == nil {
			err = f.Close()
		}
		return "done", err
	case "list":
		all, err := os.ReadDir(arg)
		names := ""
		for _, e := range all {
			names += e.Name() + " "
		}
		return names, err
	case "status": // a line of /proc/self/status
		b, err := os.ReadFile("/proc/thread-self/status")
		for line := range strings.Lines(string(b)) {
			if v, ok := strings.CutPrefix(line, arg+":"); ok {
				return strings.TrimSpace(v), err
			}
		}
	case "nets":
		all, err := net.Interfaces()
		names := ""
		for _, i := range all {
			names += fmt.Sprint(i.Name, " ", i.Flags&net.FlagUp != 0, " ")
		}
		return names, err
	case "call": // a system call without valid arguments
		n, _ := strconv.Atoi(arg)
		_, _, e := syscall.RawSyscall(uintptr(n), 0, 0, 0)
		if e != 0 {
			return "", e
		}
		return "done", nil
	case "unshare":
		n, _ := strconv.Atoi(arg)
		return "done", syscall.Unshare(n)
	case "mknod":
		return "done", syscall.Mknod(arg, syscall.S_IFCHR|0o666, 0x103)
	case "fill": // a file, until there is no more room
		f, err := os.Create(arg)
		for n := 0; err == nil; n++ {
			if _, err = f.Write(make([]byte, 1<<20)); err != nil {
				return fmt.Sprint(n, " MiB"), nil
			}
		}
		return "", err
	case "take": // MiB of memory
		return take(arg), nil
	case "deaf": // to a signal
		signal.Ignore(syscall.SIGTERM)
		return "done", nil
	case "await": // a signal
		hear(syscall.SIGTERM, syscall.SIGUSR1)
	case "hear": // any signal that can be
		hear()
	case "sleep":
		fmt.Println("sleeping")
		time.Sleep(time.Hour)
	}
	return "?", nil
}

func take(text string) string {
	n, _ := strconv.Atoi(text)
	var all [][]byte
	for range n {
		block := make([]byte, 1<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		all = append(all, block)
	}
	return fmt.Sprint(len(all), " MiB")
}

func hear(which ...os.Signal) {
	c := make(chan os.Signal, 9)
	signal.Notify(c, which...)
	signal.Reset(syscall.SIGURG) // the runtime's own
	fmt.Println("waiting")
	s, _ := (<-c).(syscall.Signal)
	fmt.Printf("heard %d\n", int(s))
	os.Exit(7)
}
