package watch

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Notifier tells systemd how the agent is (sd_notify(3)). A nil Notifier tells nobody.
type Notifier struct {
	addr     net.UnixAddr
	watchdog time.Duration
}

// notifyLimit is how long a message may take: systemd that does not read must not hold the agent up.
const notifyLimit = time.Second

// NewNotifier reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. Without a socket it returns nil. pid
// is this process's: a watchdog that is meant for another one is not ours.
func NewNotifier(lookupEnv func(string) (string, bool), pid int) (*Notifier, error) {
	socket, _ := lookupEnv("NOTIFY_SOCKET")
	if socket == "" {
		return nil, nil
	}
	if socket[0] != '/' && socket[0] != '@' {
		return nil, fmt.Errorf("NOTIFY_SOCKET: %q is neither a path nor an abstract socket", socket)
	}
	n := &Notifier{addr: net.UnixAddr{Name: socket, Net: "unixgram"}} // package net reads a leading @ as abstract
	if usec, _ := lookupEnv("WATCHDOG_USEC"); usec != "" {
		v, err := strconv.ParseInt(usec, 10, 64)
		if err != nil || v <= 0 || v > int64(time.Duration(1<<63-1)/time.Microsecond) {
			return nil, fmt.Errorf("WATCHDOG_USEC: %q is not a number of microseconds", usec)
		}
		if meant, _ := lookupEnv("WATCHDOG_PID"); meant == "" || meant == strconv.Itoa(pid) {
			n.watchdog = time.Duration(v) * time.Microsecond
		}
	}
	return n, nil
}

// Watchdog returns within which time systemd wants a Ping; 0: it wants none.
func (n *Notifier) Watchdog() time.Duration {
	if n == nil {
		return 0
	}
	return n.watchdog
}

// Ready says that the agent has started; status is a line for people.
func (n *Notifier) Ready(status string) error { return n.send("READY=1", "STATUS="+line(status)) }

// Status says what the agent is doing, in a line for people.
func (n *Notifier) Status(status string) error { return n.send("STATUS=" + line(status)) }

// Stopping says that the agent is about to stop in good order.
func (n *Notifier) Stopping() error { return n.send("STOPPING=1") }

// Ping says that all is well.
func (n *Notifier) Ping() error {
	if n.Watchdog() == 0 {
		return nil
	}
	return n.send("WATCHDOG=1")
}

func (n *Notifier) send(lines ...string) (err error) {
	if n == nil {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &n.addr)
	if err != nil {
		return fmt.Errorf("tell systemd: %w", err)
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(notifyLimit)); err != nil {
		return fmt.Errorf("tell systemd: %w", err)
	}
	if _, err := conn.Write([]byte(strings.Join(lines, "\n"))); err != nil {
		return fmt.Errorf("tell systemd: %w", err)
	}
	return nil
}

// line makes one line of text.
func line(text string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(text) }
