package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// segmentHeaders is what a TCP segment takes on the wire beside what it carries: IPv4 and TCP with time stamps. The
// frame around it is not counted, for it depends on the link.
const segmentHeaders = 20 + 32

// meter passes connections on and counts what goes over them between it and who dials.
type meter struct {
	to       string
	listener net.Listener
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns []*net.TCPConn // to the dialler; more than one if it came again
	open  []net.Conn
	over  bool
}

func newMeter(to string) (*meter, error) {
	// Keep-alive as the controller's listeners have it: their probes are on the wire, too.
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &meter{to: to, listener: l}
	m.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			m.pass(c)
		}
	})
	return m, nil
}

// pass connects c with the other side.
func (m *meter) pass(c net.Conn) {
	far, err := net.Dial("tcp", m.to)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil || m.over {
		_ = c.Close() // its dialler sees that nobody is there
		if far != nil {
			_ = far.Close()
		}
		return
	}
	m.conns, m.open = append(m.conns, c.(*net.TCPConn)), append(m.open, c, far)
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // ends when either side has ended
		_ = errors.Join(to.Close(), from.Close())
	}
	m.wg.Go(func() { pass(far, c) })
	m.wg.Go(func() { pass(c, far) })
}

// traffic is what went over the connections so far.
type traffic struct {
	payload  int64 // bytes that segments carried, both ways
	segments int64 // both ways, empty ones too
	conns    int
}

// read fails when a connection has ended: its segments cannot be counted any more.
func (m *meter) read() (t traffic, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t.conns = len(m.conns)
	for _, c := range m.conns {
		payload, segments, err := counts(c)
		if err != nil {
			return t, err
		}
		t.payload += payload
		t.segments += segments
	}
	return t, nil
}

func (m *meter) close() error {
	err := m.listener.Close()
	m.mu.Lock()
	m.over = true
	for _, c := range m.open {
		_ = c.Close() // the other way may have closed it
	}
	m.mu.Unlock()
	m.wg.Wait()
	return err
}

// wakeUps is how often the threads of a process have gone to sleep by themselves, and so how often they woke.
func wakeUps(pid string) (uint64, error) {
	threads, err := os.ReadDir("/proc/" + pid + "/task")
	if err != nil {
		return 0, err
	}
	total := uint64(0)
	for _, t := range threads {
		text, err := os.ReadFile("/proc/" + pid + "/task/" + t.Name() + "/status")
		if err != nil {
			return 0, err
		}
		n, err := procField(string(text), "voluntary_ctxt_switches")
		if err != nil {
			return 0, fmt.Errorf("thread %s: %w", t.Name(), err)
		}
		total += n
	}
	return total, nil
}

// idleSection watches the shipped agent at the shipped controller while nothing happens.
func idleSection(b *session) (err error) {
	bin, err := b.programs()
	if err != nil {
		return err
	}
	dir, err := b.folder()
	if err != nil {
		return err
	}
	s, err := startShipped(bin, dir, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	m, err := newMeter(s.at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	cmd := exec.Command(filepath.Join(bin, "tandem-node"), "--unit", unitName, "--node", "node-1", "--type",
		nodeTypes[0], "--broker", "tcp://"+m.listener.Addr().String(), "--state-dir", filepath.Join(dir, "agent"),
		"--log-level", "error")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		kerr := cmd.Process.Kill()
		_ = cmd.Wait() // it says that it was killed
		err = errors.Join(err, kerr)
	}()
	if err := s.until(func(v *fleetView) bool { return v.Online == 1 }); err != nil {
		return err
	}
	if err := s.apply("1.0.0", 1); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*b.watch)
	defer cancel()
	pause(ctx, b.watch/6) // what follows on a start and an apply is over
	return b.watchAgent(ctx, m, strconv.Itoa(cmd.Process.Pid))
}

// idleSight is one look at the agent.
type idleSight struct {
	at    time.Time
	woken uint64
	used  time.Duration
	wire  traffic
}

func (m *meter) look(pid string) (i idleSight, err error) {
	i.at = time.Now()
	if i.woken, err = wakeUps(pid); err != nil {
		return i, err
	}
	if i.used, err = processorTime(pid); err != nil {
		return i, err
	}
	i.wire, err = m.read()
	return i, err
}

func (b *session) watchAgent(ctx context.Context, m *meter, pid string) error {
	before, err := m.look(pid)
	if err != nil {
		return err
	}
	pause(ctx, b.watch)
	after, err := m.look(pid)
	if err != nil {
		return err
	}
	if before.wire.conns != 1 || after.wire.conns != 1 {
		return fmt.Errorf("the agent did not stay connected: %d connections", after.wire.conns)
	}
	took := after.at.Sub(before.at)
	payload := after.wire.payload - before.wire.payload
	segs := after.wire.segments - before.wire.segments
	for _, f := range []struct {
		name, unit string
		value      float64
		note       string
	}{
		{"wake-ups of its threads", "/min", float64(after.woken-before.woken) / took.Minutes(), ""},
		{"processor time", "ms/min", (after.used - before.used).Seconds() * 1e3 / took.Minutes(), ""},
		{"bytes that TCP carried, both ways", "B/h", float64(payload) / took.Hours(), "without TLS"},
		{"TCP segments, both ways, empty ones too", "/h", float64(segs) / took.Hours(), ""},
		{"bytes on the wire, both ways", "B/h", float64(payload+segmentHeaders*segs) / took.Hours(),
			"IPv4 and TCP headers in, frames of the link and TLS not"},
	} {
		b.add(figure{Section: "idle", Name: fmt.Sprintf("idle agent, %v: %s", b.watch, f.name), Unit: f.unit,
			Value: f.value, Note: f.note})
	}
	return nil
}
