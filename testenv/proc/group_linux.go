package proc

import "syscall"

// ownGroup makes a child the leader of a process group, and lets it die with us.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
