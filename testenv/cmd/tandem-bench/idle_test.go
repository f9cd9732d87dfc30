package main

import (
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// What a meter passes on it counts, both ways, and the segments of it.
func TestMeter(t *testing.T) {
	far, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	go func() {
		c, err := far.Accept()
		if err != nil {
			return // the test ends without a connection
		}
		defer c.Close()
		in := make([]byte, 100)
		if _, err := io.ReadFull(c, in); err == nil {
			_, _ = c.Write(in[:30]) // who reads it compares
			_, _ = c.Read(in)       // until the other side is gone
		}
	}()
	m, err := newMeter(far.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.close(); err != nil {
			t.Error(err)
		}
	}()
	c, err := net.Dial("tcp", m.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 30)); err != nil {
		t.Fatal(err)
	}
	got, err := m.read()
	if err != nil {
		t.Fatal(err)
	}
	// SYN, its acknowledgement, what was said and what was answered are four segments at least.
	if got.payload != 130 || got.conns != 1 || got.segments < 4 || got.segments > 20 {
		t.Errorf("%+v", got)
	}
}

// A thread that sleeps so many times has woken so many times.
func TestWakeUps(t *testing.T) {
	pid := strconv.Itoa(os.Getpid())
	runtime.LockOSThread() // it shall not end before it is counted
	defer runtime.UnlockOSThread()
	before, err := wakeUps(pid)
	if err != nil {
		t.Fatal(err)
	}
	const naps = 20
	for range naps {
		if err := syscall.Nanosleep(&syscall.Timespec{Nsec: 100_000}, nil); err != nil {
			t.Fatal(err)
		}
	}
	after, err := wakeUps(pid)
	if err != nil || after < before+naps {
		t.Errorf("%d wake-ups, then %d, %v", before, after, err)
	}
}
