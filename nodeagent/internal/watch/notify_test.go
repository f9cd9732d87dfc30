package watch

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func env(pairs ...string) func(string) (string, bool) {
	return func(key string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == key {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func TestNotifier(t *testing.T) {
	for _, socket := range []string{filepath.Join(t.TempDir(), "notify"), "@tandem-test-" + filepath.Base(t.TempDir()) +
		strings.ReplaceAll(t.TempDir(), "/", "-")} {
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		n, err := NewNotifier(env("NOTIFY_SOCKET", socket, "WATCHDOG_USEC", "30000000", "WATCHDOG_PID", "42"), 42)
		if err != nil || n.Watchdog() != 30*time.Second {
			t.Fatalf("%v, %v", n.Watchdog(), err)
		}
		buf := make([]byte, 1000)
		for _, c := range []struct {
			send func() error
			want string
		}{
			{func() error { return n.Ready("in contact\nREADY=0") }, "READY=1\nSTATUS=in contact READY=0"},
			{func() error { return n.Status("looking for a broker") }, "STATUS=looking for a broker"},
			{n.Ping, "WATCHDOG=1"},
			{n.Stopping, "STOPPING=1"},
		} {
			if err := c.send(); err != nil {
				t.Fatal(err)
			}
			if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
				t.Fatal(err)
			}
			size, err := conn.Read(buf)
			if err != nil || string(buf[:size]) != c.want {
				t.Errorf("%q, %v, want %q", buf[:size], err, c.want)
			}
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		if err := n.Ping(); err == nil || !strings.HasPrefix(err.Error(), "tell systemd: ") {
			t.Errorf("nobody listens: %v", err)
		}
	}
}

// systemd that does not read holds nobody up for long.
func TestNotifierDoesNotWait(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	n, err := NewNotifier(env("NOTIFY_SOCKET", socket), 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		if err := n.Status("full"); err != nil {
			return // the queue was full, and the deadline came
		}
		if i == 100_000 {
			t.Fatal("the queue never fills")
		}
	}
}

func TestNewNotifier(t *testing.T) {
	for _, c := range []struct {
		env  []string
		want string // part of the error; "" none
		dog  time.Duration
	}{
		{nil, "", 0},
		{[]string{"WATCHDOG_USEC", "1000000"}, "", 0},
		{[]string{"NOTIFY_SOCKET", "/run/n"}, "", 0},
		{[]string{"NOTIFY_SOCKET", "/run/n", "WATCHDOG_USEC", "1000000"}, "", time.Second},
		{[]string{"NOTIFY_SOCKET", "/run/n", "WATCHDOG_USEC", "1000000", "WATCHDOG_PID", "7"}, "", 0},
		{[]string{"NOTIFY_SOCKET", "vsock:2:3"}, "NOTIFY_SOCKET", 0},
		{[]string{"NOTIFY_SOCKET", "/run/n", "WATCHDOG_USEC", "soon"}, "WATCHDOG_USEC", 0},
		{[]string{"NOTIFY_SOCKET", "/run/n", "WATCHDOG_USEC", "0"}, "WATCHDOG_USEC", 0},
		{[]string{"NOTIFY_SOCKET", "/run/n", "WATCHDOG_USEC", "9223372036854775807"}, "WATCHDOG_USEC", 0},
	} {
		n, err := NewNotifier(env(c.env...), 42)
		if n.Watchdog() != c.dog || (err == nil) != (c.want == "") || err != nil &&
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, %v", c.env, n.Watchdog(), err)
		}
	}
	var none *Notifier
	for _, send := range []func() error{func() error { return none.Ready("") }, func() error { return none.Status("") },
		none.Ping, none.Stopping} {
		if err := send(); err != nil {
			t.Error(err)
		}
	}
}
