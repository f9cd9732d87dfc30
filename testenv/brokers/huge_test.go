package brokers

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"

	controller "tandem.internal/controller/app"
	node "tandem.internal/nodeagent/app"
	"tandem.internal/shared/link"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// maxRemaining is the largest Remaining Length, bytes (MQTT 3.1.1, section 2.2.3).
const maxRemaining = 268_435_455

// hugeID is the packet ID of what a huge broker retains.
const hugeID = 77

// huge is a broker that retains one message, as large as it likes, and knows no more of MQTT than it needs to.
type huge struct {
	l     net.Listener
	topic string
	size  int // of the PUBLISH after its head

	mu       sync.Mutex
	sessions int
	gone     bool // somebody has cleared it
	acked    int
	said     map[string]string // the newest payload of each topic
	wg       sync.WaitGroup
}

func newHuge(t *testing.T, name string, size int) *huge {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &huge{l: l, topic: name, size: size, said: map[string]string{}}
	h.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			h.wg.Go(func() { h.serve(c) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); h.wg.Wait() })
	return h
}

func (h *huge) url() string { return "tcp://" + h.l.Addr().String() }

// serve is one session.
func (h *huge) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		head, err := in.ReadByte()
		if err != nil {
			return
		}
		n, err := binary.ReadUvarint(in)
		body := make([]byte, n)
		if err == nil {
			_, err = io.ReadFull(in, body)
		}
		if err == nil {
			err = h.answer(c, head, body)
		}
		if err != nil {
			return
		}
	}
}

// answer deals with a packet.
func (h *huge) answer(c net.Conn, head byte, body []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []byte
	send := false
	switch head >> 4 {
	case 1: // CONNECT
		h.sessions++
		out = []byte{0x20, 2, 0, 0}
	case 3: // PUBLISH
		n := 2 + int(binary.BigEndian.Uint16(body))
		name, payload := string(body[2:n]), body[n:]
		if head&6 != 0 {
			out, payload = append([]byte{0x40, 2}, payload[:2]...), payload[2:]
		}
		h.said[name] = string(payload)
		h.gone = h.gone || name == h.topic && head&1 != 0 && len(payload) == 0
	case 4: // PUBACK
		if binary.BigEndian.Uint16(body) == hugeID {
			h.acked++
		}
	case 8: // SUBSCRIBE
		codes := body[:2:2]
		for rest := body[2:]; len(rest) > 0; {
			n := 2 + int(binary.BigEndian.Uint16(rest))
			send = send || matches(string(rest[2:n]), h.topic)
			codes, rest = append(codes, 1), rest[n+1:]
		}
		out = append(binary.AppendUvarint([]byte{0x90}, uint64(len(codes))), codes...)
	case 10: // UNSUBSCRIBE
		out = []byte{0xb0, 2, body[0], body[1]}
	case 12: // PINGREQ
		out = []byte{0xd0, 0}
	}
	_, err := c.Write(out)
	if err == nil && send && !h.gone {
		err = h.publish(c)
	}
	return err
}

// publish sends what is retained.
func (h *huge) publish(c net.Conn) error {
	out := binary.AppendUvarint([]byte{0x33}, uint64(h.size))
	out = append(binary.BigEndian.AppendUint16(out, uint16(len(h.topic))), h.topic...)
	_, err := c.Write(binary.BigEndian.AppendUint16(out, hugeID))
	chunk := make([]byte, 1<<20)
	for left := h.size - 4 - len(h.topic); left > 0 && err == nil; left -= len(chunk) {
		_, err = c.Write(chunk[:min(left, len(chunk))])
	}
	return err
}

func matches(filter, name string) bool {
	f, n := strings.Split(filter, "/"), strings.Split(name, "/")
	for i := range f {
		if f[i] == "#" {
			return true
		}
		if i >= len(n) || f[i] != "+" && f[i] != n[i] {
			return false
		}
	}
	return len(f) == len(n)
}

// state is what a huge broker has seen; "": it is all that is wanted.
func (h *huge) state(cleared bool, saying string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	said := saying == ""
	for name, payload := range h.said {
		said = said || strings.Contains(name+" "+payload, saying)
	}
	if h.acked > 0 && h.sessions == 1 && h.gone == cleared && said {
		return ""
	}
	return fmt.Sprintf("%d sessions, acknowledged %d times, cleared %v, said %v", h.sessions, h.acked, h.gone, said)
}

// TestHuge: whatever size a broker retains, it costs neither the session nor memory; the controller and the node name
// it, and the controller clears it.
func TestHuge(t *testing.T) {
	n1 := topic.ForNode(unit, "n1")
	for _, size := range []int{64<<20 + 1, maxRemaining} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			held := func(what string, h *huge, cleared bool, saying string) {
				t.Helper()
				ok := &rig{T: t}
				ok.until(what, func() string { return h.state(cleared, saying) })
				var m runtime.MemStats
				if runtime.ReadMemStats(&m); m.HeapAlloc > 64<<20 {
					t.Errorf("%s: %d bytes are in use", what, m.HeapAlloc)
				}
			}
			h := newHuge(t, n1.Reported(wire.KindConfig), size)
			r := &rig{T: t, dir: t.TempDir(), log: zap.NewNop()}
			app, err := controller.New(controller.Config{Unit: unit, StateDir: filepath.Join(r.dir, "controller"),
				SubscribeQoS: 1, BrokerUser: "controller", Broker: h.url()},
				controller.Deps{NoAPI: true, Backoff: backoff})
			if err != nil {
				t.Fatal(err)
			}
			r.app = app
			ctl := live(app.Run)
			held("the controller", h, true, "")
			r.until("the journal names it", func() string {
				for _, e := range r.entries("trouble") {
					if e.Node == "n1" && strings.Contains(string(e.Data), `"too-large"`) &&
						strings.Contains(string(e.Data), h.topic) {
						return ""
					}
				}
				return "not yet"
			})
			if err := ctl.stop(); err != nil {
				t.Error(err)
			}

			h = newHuge(t, n1.Desired(wire.KindConfig), size)
			cfg := node.NewConfig(unit, "n1", "main", filepath.Join(r.dir, "n1"))
			cfg.Broker = h.url()
			a, err := node.New(cfg, node.Deps{NewLink: func(cfg link.Config, handler link.Handler) (link.Link, error) {
				cfg.Backoff = backoff
				return link.Dial(cfg, handler)
			}, Capacity: func(i *wire.NodeInfo) error { i.CPUs, i.RAM = 2, 1<<30; return nil }})
			if err != nil {
				t.Fatal(err)
			}
			agent := live(a.Run)
			held("the node", h, false, `"refused-message"`)
			if err := agent.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}
