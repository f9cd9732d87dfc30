package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync"
	"syscall"
	"time"

	"tandem.internal/broker/server"
	"tandem.internal/controller/app"
	"tandem.internal/shared/link/linktest"
)

// unitName is the unit of every host here.
const unitName = "bench"

// hostConfig says what the nodes connect to.
type hostConfig struct {
	Role   string // product, lean, floor, broker, mosquitto, nats; nodes or natsnodes
	Dir    string // for files; made by the caller
	Listen string // TCP address; "pipe": in this process

	// Floor.
	Mochi   bool // mochi by itself instead of the embedded broker
	Durable bool // a group commit before each PUBACK; NATS: fsync before each acknowledgement

	Program string // of mosquitto or NATS

	// Product.
	Broker string   // address of an external broker; "": embedded
	TLS    bool     // the embedded broker serves with TLS, to nodes that have joined
	Socket string   // of the HTTP API; "": there is none
	Env    []string // of a process of its own, beside what this one has

	// Nodes.
	Nodes   int
	Echo    int
	Connect string // where they connect
	Certs   string // file with their certificates; "": without TLS
}

// processors is a role whose work is done by another process, too.
type processors interface{ processor() (time.Duration, error) }

// committing is a role that makes durable what it gets, with so many commits so far.
type committing interface{ commits() int64 }

// role is a host's inside: it answers one operation at a time.
type role interface {
	do(op string, args json.RawMessage) (any, error)
	addr() net.Addr
	close() error
}

func newRole(cfg hostConfig, pipe *linktest.Pipe) (role, error) {
	switch cfg.Role {
	case "nodes":
		return newNodes(cfg, pipe)
	case "natsnodes":
		return newNATSNodes(cfg), nil
	case "mosquitto":
		return newMosquitto(cfg)
	case "nats":
		return newNATS(cfg)
	}
	var l net.Listener
	var err error
	switch {
	case pipe != nil:
		l, err = pipe.Listen()
	case cfg.Listen != "":
		l, err = new(net.ListenConfig).Listen(context.Background(), "tcp", cfg.Listen)
	}
	if err != nil {
		return nil, err
	}
	switch cfg.Role {
	case "product":
		return newProduct(cfg, l)
	case "lean":
		return newLean(cfg, l)
	case "floor":
		return newFloor(cfg, l)
	case "broker":
		return newBroker(l)
	}
	return nil, fmt.Errorf("no role %q", cfg.Role)
}

// host is a running role: in this process behind a pipe, or in a child process over TCP, so that
// neither shares a heap, a garbage collector or file descriptors with the nodes.
type host struct {
	cfg  hostConfig
	role role // nil: a child
	pipe *linktest.Pipe
	at   string

	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner

	mu sync.Mutex // one operation at a time
}

// childFlag makes this program a host; its value is a hostConfig.
const childFlag = "-host"

func start(cfg hostConfig) (*host, error) {
	if cfg.Listen == "pipe" {
		return inside(cfg, linktest.NewPipe())
	}
	raw, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	h := &host{cfg: cfg, cmd: exec.Command(self, childFlag, string(raw))}
	h.cmd.Stderr = os.Stderr
	h.cmd.Env = append(append(os.Environ(), childVariable+"=1"), cfg.Env...)
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	h.out = bufio.NewScanner(out)
	h.out.Buffer(nil, 16<<20)
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	if err := h.answer(&h.at); err != nil {
		return nil, errors.Join(err, h.kill())
	}
	return h, nil
}

// inside starts a host in this process.
func inside(cfg hostConfig, pipe *linktest.Pipe) (h *host, err error) {
	h = &host{cfg: cfg, pipe: pipe}
	h.role, err = newRole(cfg, pipe)
	return h, err
}

// childVariable tells a test binary that it is a child.
const childVariable = "TANDEM_BENCH_CHILD"

type request struct {
	Op   string
	Args json.RawMessage
}

type response struct {
	Result json.RawMessage
	Error  string
}

// do runs one operation on the host.
func (h *host) do(op string, args, result any) error {
	raw, err := json.Marshal(args)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.role != nil {
		r, err := operate(h.role, op, raw)
		if err != nil || result == nil {
			return err
		}
		if raw, err = json.Marshal(r); err != nil {
			return err
		}
		return json.Unmarshal(raw, result)
	}
	line, err := json.Marshal(request{op, raw})
	if err != nil {
		return err
	}
	if _, err := h.in.Write(append(line, '\n')); err != nil {
		return err
	}
	return h.answer(result)
}

func (h *host) answer(result any) error {
	if !h.out.Scan() {
		return errors.Join(errors.New("the host has ended"), h.out.Err())
	}
	var r response
	if err := json.Unmarshal(h.out.Bytes(), &r); err != nil {
		return err
	}
	if r.Error != "" {
		return errors.New(r.Error)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(r.Result, result)
}

// close stops the host in order.
func (h *host) close() error {
	if h.role != nil {
		return h.role.close()
	}
	return errors.Join(h.in.Close(), h.cmd.Wait())
}

// kill ends a child as a power cut would.
func (h *host) kill() error {
	if err := h.cmd.Process.Kill(); err != nil {
		return err
	}
	if err := h.cmd.Wait(); err != nil && h.cmd.ProcessState == nil {
		return err
	}
	return nil
}

// child is the program's life as a host: operations come as lines on standard input.
func child(raw string) error {
	var cfg hostConfig
	if err := json.Unmarshal([]byte(raw), &cfg); err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	say := func(result any, err error) error {
		var r response
		if err != nil {
			r.Error = err.Error()
		} else if r.Result, err = json.Marshal(result); err != nil {
			return err
		}
		return out.Encode(r)
	}
	if cfg.Role == "broker" && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(server.GCPercent) // as tandem-broker does
	}
	if (cfg.Role == "product" || cfg.Role == "lean" || cfg.Role == "floor") && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(app.GCPercent) // as tandem-controller does; a floor shall not collect more often
	}
	r, err := newRole(cfg, nil)
	if err != nil {
		return say(nil, err)
	}
	at := ""
	if a := r.addr(); a != nil {
		at = a.String()
	}
	if err := say(at, nil); err != nil {
		return errors.Join(err, r.close())
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var q request
		if err = json.Unmarshal(in.Bytes(), &q); err != nil {
			break
		}
		if err = say(operate(r, q.Op, q.Args)); err != nil {
			break
		}
	}
	return errors.Join(err, in.Err(), r.close())
}

// operate runs an operation that every role has, or the role's own.
func operate(r role, op string, args json.RawMessage) (any, error) {
	switch op {
	case "memory":
		return memory()
	case "gc":
		runtime.GC()
		return nil, nil
	case "cpu": // the outcome is the processor time that the role has used, nanoseconds
		var u syscall.Rusage
		err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		used := u.Utime.Nano() + u.Stime.Nano()
		if p, ok := r.(processors); ok && err == nil {
			var more time.Duration
			more, err = p.processor()
			used += more.Nanoseconds()
		}
		return used, err
	case "commits": // the outcome is how many there were; 0 where nobody can know
		if c, ok := r.(committing); ok {
			return c.commits(), nil
		}
		return 0, nil
	case "allocations": // the outcome is how many there were, and their bytes
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return [2]uint64{s.Mallocs, s.TotalAlloc}, nil
	case "heap": // args: a path
		var path string
		if err := json.Unmarshal(args, &path); err != nil {
			return nil, err
		}
		f, err := os.Create(path)
		if err != nil {
			return nil, err
		}
		return nil, errors.Join(pprof.Lookup("heap").WriteTo(f, 0), f.Close())
	case "profile": // args: a path, "" to stop
		var path string
		if err := json.Unmarshal(args, &path); err != nil {
			return nil, err
		}
		return nil, profile(path)
	}
	return r.do(op, args)
}

var profiling *os.File

func profile(path string) (err error) {
	if path == "" {
		pprof.StopCPUProfile()
		err = profiling.Close()
		heap, herr := os.Create(strings.TrimSuffix(profiling.Name(), filepath.Ext(profiling.Name())) + ".heap")
		if herr == nil {
			herr = errors.Join(pprof.Lookup("allocs").WriteTo(heap, 0), heap.Close())
		}
		return errors.Join(err, herr)
	}
	if profiling, err = os.Create(path); err != nil {
		return err
	}
	return pprof.StartCPUProfile(profiling)
}

// memoryUse is a process's memory in bytes.
type memoryUse struct {
	Heap, Stack uint64 // in use after a collection: runtime.MemStats HeapInuse, StackInuse
	RSS         uint64
}

func memory() (m memoryUse, err error) {
	for range 2 { // twice: what finalizers and pools held goes with the second
		debug.FreeOSMemory()
	}
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	m.Heap, m.Stack = s.HeapInuse, s.StackInuse
	m.RSS, err = residentSet("self")
	return m, err
}

// residentSet reads VmRSS of a process.
func residentSet(pid string) (uint64, error) { return memoryOf("/proc/"+pid+"/status", "VmRSS") }

// memoryOf reads a field of a file of proc(5), in bytes.
func memoryOf(path, field string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	kb, err := procField(string(text), field)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return kb << 10, err
}

// procField finds the number in a line "field: number", whatever its unit.
func procField(text, field string) (n uint64, err error) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			_, err := fmt.Sscan(rest, &n)
			return n, err
		}
	}
	return 0, errors.New("no " + field)
}

// patience bounds every wait of a benchmark.
const patience = 2 * time.Minute

func patient() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}
