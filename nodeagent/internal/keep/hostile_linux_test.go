package keep

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// hostileMay is all that a hostile process of a slot is to be able to do.
const hostileMay = `own-file done
temporary done
stderr done
read-resource done
replace-link done
signal-own done
groups [71000]
capabilities none
key refused
state refused
config refused
list-state refused
list-slots refused
list-resources refused
agent-slot refused
write-resource refused
other-file refused
other-list refused
other-write refused
keeper-identity refused
keeper-socket refused
log refused
signal-agent refused
signal-keeper refused
signal-other refused
trace-agent refused
trace-keeper refused
trace-other refused
environ-agent refused
environ-keeper refused
environ-other refused
become-root refused
become-agent refused
become-other refused
group-of-other refused
give-away refused
set-user-program refused
loopback refused
`

// asHostile tries what hostileMay lists.
func asHostile() int {
	state, agent, keeper, other := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	number := func(text string) int { n, _ := strconv.Atoi(text); return n }
	try := func(name string, f func() error) {
		if f() == nil {
			fmt.Println(name, "done")
		} else {
			fmt.Println(name, "refused")
		}
	}
	read := func(path string) func() error { return func() error { _, err := os.ReadFile(path); return err } }
	list := func(path string) func() error { return func() error { _, err := os.ReadDir(path); return err } }
	write := func(path string) func() error {
		return func() error { return os.WriteFile(path, []byte("x"), 0o600) }
	}
	in := func(path string) string { return filepath.Join(state, path) }
	try("own-file", write("own"))
	try("temporary", func() error { _, err := os.CreateTemp("", ""); return err })
	try("stderr", func() error { f, err := os.OpenFile("/dev/stderr", os.O_WRONLY, 0); _ = f.Close(); return err })
	try("read-resource", read("resource"))
	try("replace-link", func() error { return os.Rename("own", "resource") })
	try("signal-own", func() error { return syscall.Kill(os.Getpid(), 0) })
	groups, _ := os.Getgroups()
	fmt.Println("groups", groups)
	fmt.Println("capabilities", capabilities())
	try("key", read(in("identity/identity.json")))
	try("state", read(in("state.db")))
	try("config", read(in("config.json")))
	try("list-state", list(state))
	try("list-slots", list(in("workloads/slots")))
	try("list-resources", list(in("resources/copies")))
	try("agent-slot", write(in("slots/a/tandem-node")))
	try("write-resource", write(in("resources/copies/0123")))
	try("other-file", read(in("workloads/slots/other/c1/secret")))
	try("other-list", list(in("workloads/slots/other/c1")))
	try("other-write", write(in("workloads/slots/other/c1/x")))
	try("keeper-identity", read(in("keeper/identity")))
	try("keeper-socket", func() error { _, err := dial(context.Background(), in("keeper")); return err })
	try("log", read(in("logs/other.1")))
	for _, what := range []struct{ name, pid string }{{"agent", agent}, {"keeper", keeper}, {"other", other}} {
		try("signal-"+what.name, func() error { return syscall.Kill(number(what.pid), 0) })
	}
	for _, what := range []struct{ name, pid string }{{"agent", agent}, {"keeper", keeper}, {"other", other}} {
		try("trace-"+what.name, func() error { return syscall.PtraceAttach(number(what.pid)) })
	}
	for _, what := range []struct{ name, pid string }{{"agent", agent}, {"keeper", keeper}, {"other", other}} {
		try("environ-"+what.name, read("/proc/"+what.pid+"/environ"))
	}
	become := func(uid int) func() error {
		return func() error {
			_, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid))
			return orNil(e)
		}
	}
	try("become-root", become(0))
	try("become-agent", become(number(os.Args[5])))
	try("become-other", become(number(os.Args[6])))
	try("group-of-other", func() error { return syscall.Setgroups([]int{number(os.Args[6])}) })
	try("give-away", func() error { return os.Chown(".", number(os.Args[6]), -1) })
	try("set-user-program", func() error { // no set-user-ID program gives it another user
		out, err := exec.Command("/bin/su", "-c", "id -u", "root").Output()
		if err == nil && strings.TrimSpace(string(out)) != "0" {
			return os.ErrPermission
		}
		return err
	})
	try("loopback", func() error {
		c, err := net.Dial("tcp", os.Args[7])
		if err == nil {
			err = c.Close()
		}
		return err
	})
	return 0
}

func orNil(e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

// capabilities are those that this process has in any set.
func capabilities() string {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err.Error()
	}
	found := ""
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		if value = strings.TrimSpace(value); strings.HasPrefix(name, "Cap") && strings.Trim(value, "0") != "" ||
			name == "NoNewPrivs" && value != "1" {
			found += name + "=" + value + " "
		}
	}
	if found == "" {
		return "none"
	}
	return found
}
