package confine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Loopback has a range of users not connect, nor send datagrams, to this machine's loopback addresses, but for some
// ports. It holds, for all processes of these users, until Close, or until this process has ended.
type Loopback struct{ links []int }

// DenyLoopback makes one. top is the root of cgroup v2. It needs CAP_BPF, CAP_NET_ADMIN and Linux 5.8.
func DenyLoopback(top string, first, last uint32, ports []uint16) (l *Loopback, err error) {
	root, err := os.Open(top)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	l = &Loopback{}
	for _, kind := range []uint32{unix.BPF_CGROUP_INET4_CONNECT, unix.BPF_CGROUP_UDP4_SENDMSG,
		unix.BPF_CGROUP_INET6_CONNECT, unix.BPF_CGROUP_UDP6_SENDMSG} {
		six := kind == unix.BPF_CGROUP_INET6_CONNECT || kind == unix.BPF_CGROUP_UDP6_SENDMSG
		link, err := attach(int(root.Fd()), kind, loopbackProgram(first, last, ports, six))
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l.links = append(l.links, link)
	}
	return l, nil
}

// Close lets them connect again.
func (l *Loopback) Close() (err error) {
	for _, link := range l.links {
		err = errors.Join(err, syscall.Close(link))
	}
	l.links = nil
	return err
}

// insn is struct bpf_insn, with the source in the upper half of regs and the destination in the lower.
type insn struct {
	code, regs uint8
	off        int16
	imm        int32
}

// Fields of struct bpf_sock_addr (linux/bpf.h), all in network order.
const (
	atIP4  = 4
	atIP6  = 8
	atPort = 24
)

// uidAndGID is the number of the function bpf_get_current_uid_gid (linux/bpf.h).
const uidAndGID = 15

// Jumps that are given their distance when the program is whole.
const (
	toAllow = 1000
	toPort  = 1001
)

// loopbackProgram is a program for the kernel (BPF) that refuses a call of these users to a loopback address, or to the
// address of all zeros, which stands for one, at another port.
func loopbackProgram(first, last uint32, ports []uint16, six bool) []insn {
	const (
		jump32 = unix.BPF_JMP32
		k      = unix.BPF_K
		r0     = 0
		ctx    = 6
		x, y   = 7, 8
	)
	load := func(to uint8, at int16) []insn { // in this machine's order
		return []insn{{unix.BPF_LDX | unix.BPF_W | unix.BPF_MEM, ctx<<4 | to, at, 0},
			{unix.BPF_ALU | unix.BPF_END | unix.BPF_TO_BE, to, 0, 32}}
	}
	give := func(n int32) []insn {
		return []insn{{unix.BPF_ALU64 | unix.BPF_MOV | k, r0, 0, n}, {unix.BPF_JMP | unix.BPF_EXIT, 0, 0, 0}}
	}
	p := []insn{
		{unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_X, 1<<4 | ctx, 0, 0},
		{unix.BPF_JMP | unix.BPF_CALL, 0, 0, uidAndGID}, // the user is the lower half
		{jump32 | unix.BPF_JLT | k, r0, toAllow, int32(first)},
		{jump32 | unix.BPF_JGT | k, r0, toAllow, int32(last)},
	}
	ip4 := int16(atIP4)
	if six {
		ip4 = atIP6 + 12
		p = append(p, load(x, atIP6)...)
		p = append(p, insn{jump32 | unix.BPF_JNE | k, x, toAllow, 0})
		p = append(p, load(x, atIP6+4)...)
		p = append(p, insn{jump32 | unix.BPF_JNE | k, x, toAllow, 0})
		p = append(p, load(x, atIP6+8)...)
		p = append(p, load(y, ip4)...)
		p = append(p, insn{jump32 | unix.BPF_JEQ | k, x, 3, 0xffff}, // IPv4 as IPv6
			insn{jump32 | unix.BPF_JNE | k, x, toAllow, 0},
			insn{jump32 | unix.BPF_JGT | k, y, toAllow, 1}, // else :: or ::1
			insn{unix.BPF_JMP | unix.BPF_JA, 0, toPort, 0})
	}
	p = append(p, load(x, ip4)...)
	p = append(p, insn{jump32 | unix.BPF_JEQ | k, x, toPort, 0},
		insn{unix.BPF_ALU | unix.BPF_RSH | k, x, 0, 24},
		insn{jump32 | unix.BPF_JNE | k, x, toAllow, 127})
	port := len(p)
	p = append(p, insn{unix.BPF_LDX | unix.BPF_W | unix.BPF_MEM, ctx<<4 | x, atPort, 0},
		insn{unix.BPF_ALU | unix.BPF_END | unix.BPF_TO_BE, x, 0, 16})
	for _, n := range ports {
		p = append(p, insn{jump32 | unix.BPF_JEQ | k, x, toAllow, int32(n)})
	}
	p = append(p, give(0)...)
	allow := len(p)
	p = append(p, give(1)...)
	for i := range p {
		switch p[i].off {
		case toAllow:
			p[i].off = int16(allow - i - 1)
		case toPort:
			p[i].off = int16(port - i - 1)
		}
	}
	return p
}

// attach loads a program and has the kernel ask it for every process in a group and below.
func attach(group int, kind uint32, p []insn) (link int, err error) {
	license := []byte("none\x00")
	load := struct { // of union bpf_attr, for BPF_PROG_LOAD
		kind, count          uint32
		insns, license       uint64
		logLevel, logSize    uint32
		log                  uint64
		version, flags       uint32
		name                 [16]byte
		device, expectedKind uint32
	}{kind: unix.BPF_PROG_TYPE_CGROUP_SOCK_ADDR, count: uint32(len(p)),
		insns: uint64(uintptr(unsafe.Pointer(&p[0]))), license: uint64(uintptr(unsafe.Pointer(&license[0]))),
		expectedKind: kind}
	program, _, e := syscall.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&load)),
		unsafe.Sizeof(load))
	runtime.KeepAlive(p)
	runtime.KeepAlive(license)
	if e != 0 {
		return 0, fmt.Errorf("give the kernel a program (BPF): %w", e)
	}
	defer func() { err = errors.Join(err, syscall.Close(int(program))) }()
	create := struct{ program, target, kind, flags uint32 }{uint32(program), uint32(group), kind, 0}
	fd, _, e := syscall.Syscall(unix.SYS_BPF, unix.BPF_LINK_CREATE, uintptr(unsafe.Pointer(&create)),
		unsafe.Sizeof(create))
	if e != 0 {
		return 0, fmt.Errorf("attach a program to control groups (BPF): %w", e)
	}
	return int(fd), nil
}
