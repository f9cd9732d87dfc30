package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/fleet"
	"tandem.internal/testenv/rawmqtt"
)

// peer is a server of somebody else and who publishes through it, as a controller would; the processor time of both is
// the host's.
type peer struct {
	*program
	at   *net.TCPAddr
	send func(at string, b burst) error
}

// newMosquitto runs mosquitto, which makes nothing durable: it keeps documents and statuses as retained messages in
// its memory. The nodes are the floors' bare clients; what publishes is a raw MQTT client.
func newMosquitto(cfg hostConfig) (role, error) {
	at, err := freeAddress()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(cfg.Dir, "mosquitto.conf")
	text := "listener " + port + " 127.0.0.1\nallow_anonymous true\npersistence false\n" +
		"set_tcp_nodelay true\nsys_interval 0\nmax_queued_messages 0\nlog_type error\nlog_dest stderr\n"
	if os.Getuid() == 0 {
		text += "user root\n" // else it takes one that may not read the directory
	}
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return newPeer(cfg, at, publishMQTT, "-c", conf)
}

// newPeer runs the program of a peer, which will listen at an address.
func newPeer(cfg hostConfig, at string, send func(string, burst) error, args ...string) (*peer, error) {
	p := &peer{send: send}
	var err error
	if p.at, err = net.ResolveTCPAddr("tcp", at); err != nil {
		return nil, err
	}
	if p.program, err = startProgram(cfg.Dir, cfg.Program, args...); err != nil {
		return nil, err
	}
	if err := p.answers(at); err != nil {
		return nil, errors.Join(err, p.kill())
	}
	return p, nil
}

func (p *peer) addr() net.Addr { return p.at }
func (p *peer) close() error   { return p.kill() }

func (p *peer) do(op string, args json.RawMessage) (any, error) {
	if op != "publish" {
		return nil, fmt.Errorf("a peer does not know %q", op)
	}
	var b burst
	if err := json.Unmarshal(args, &b); err != nil {
		return nil, err
	}
	return nil, p.send(p.at.String(), b)
}

// publishMQTT publishes with QoS 1 without waiting for each answer, and returns with the last one.
func publishMQTT(at string, b burst) error {
	conn, err := net.Dial("tcp", at)
	if err != nil {
		return err
	}
	c, err := rawmqtt.New(conn, rawmqtt.Hello{ClientID: "controller"})
	if err != nil {
		return err
	}
	defer c.Leave()
	payload := string(make([]byte, b.Size))
	var out []byte
	for i := range b.Nodes - 1 {
		name := topic.ForNode(unitName, fleet.Name(i)).Desired(wire.KindConfig)
		body := binary.BigEndian.AppendUint16(rawmqtt.Text(nil, name), uint16(2+i%60_000))
		out = append(out, rawmqtt.Packet(mqttPublish|mqttQoS1|mqttRetain, append(body, payload...))...)
		if len(out) >= 64<<10 {
			if err := c.Write(out); err != nil {
				return err
			}
			out = out[:0]
		}
	}
	if err := c.Write(out); err != nil {
		return err
	}
	return c.Publish(topic.ForNode(unitName, fleet.Name(b.Nodes-1)).Desired(wire.KindConfig), payload, true)
}

// peersSection does the job of apply, without asking first, with what a user might take instead: a document of 1 KiB
// kept for each node and sent to it, a status of 200 bytes back. Everything is a process of its own.
func peersSection(b *session) error {
	for _, n := range b.sizes {
		if err := b.peersSize(n); err != nil {
			return fmt.Errorf("%d nodes: %w", n, err)
		}
	}
	return nil
}

// peerSide is one that is measured in peers.
type peerSide struct {
	*side
	name, how string
	note      string
	times     []float64
}

// peerSides finds the peers and starts each with its nodes; what is not here is skipped loudly.
func (b *session) peerSides(n int) (all []*peerSide, err error) {
	add := func(cfg hostConfig, echo int, p peerSide) error {
		var err error
		if p.side, err = b.side(cfg, n, echo); err == nil {
			all = append(all, &p)
		}
		return err
	}
	err = errors.Join(
		add(hostConfig{Role: "product", Listen: "127.0.0.1:0"}, 0, peerSide{name: "product", how: "apply, journaled"}),
		add(hostConfig{Role: "lean", Durable: true, Listen: "127.0.0.1:0"}, statusSize,
			peerSide{name: "lean floor", how: "status durable"}))
	if err != nil {
		return all, err
	}
	path, err := findMosquitto()
	if err == nil {
		var v string
		if v, err = versionOf(path, "-h"); err == nil {
			err = add(hostConfig{Role: "mosquitto", Program: path}, statusSize, peerSide{name: "mosquitto",
				how: "nothing durable", note: "mosquitto " + v + ", bare MQTT clients"})
		}
		if err != nil {
			return all, err
		}
	} else {
		fmt.Println("  SKIPPED, mosquitto:", err)
	}
	if path, err = b.natsServer(); err != nil {
		fmt.Println("  SKIPPED, NATS:", err)
		return all, nil
	}
	v, err := versionOf(path, "--version")
	if err != nil {
		return all, err
	}
	note := "nats-server " + v + ", raw clients of its own protocol"
	return all, errors.Join(
		add(hostConfig{Role: "nats", Program: path}, statusSize, peerSide{name: "JetStream",
			how: "acknowledged before fsync", note: note}),
		add(hostConfig{Role: "nats", Program: path, Durable: true}, statusSize, peerSide{name: "JetStream",
			how: "fsync always", note: note}))
}

func (b *session) peersSize(n int) (err error) {
	all, err := b.peerSides(n)
	defer func() {
		for _, p := range all {
			err = errors.Join(err, p.close())
		}
	}()
	if err != nil {
		return err
	}
	for i := range b.pairs + 1 { // the first round is not counted: it fills caches and files
		for k := range all {
			p := all[(i+k)%len(all)]
			var t float64
			if p.echo {
				t, err = p.timed("publish", burst{Nodes: n, Size: documentSize})
			} else {
				t, err = p.apply(true)
			}
			if err != nil {
				return fmt.Errorf("%s, %s: %w", p.name, p.how, err)
			}
			p.times = append(p.times, t)
		}
	}
	at := fmt.Sprintf("%d nodes", n)
	for _, p := range all {
		var used perNode
		for _, u := range p.used[1:] {
			used.add(u, n)
		}
		name := p.name + ", " + p.how + ", " + at
		b.add(figure{Section: "peers", Name: name, Unit: "s", Samples: p.times[1:], Note: p.note})
		b.add(figure{Section: "peers", Name: "processor time of the host: " + name, Unit: "µs/node",
			Samples: used.host})
		b.add(figure{Section: "peers", Name: "processor time of the nodes: " + name, Unit: "µs/node",
			Samples: used.nodes})
		if p.side != all[0].side {
			b.add(figure{Section: "peers", Name: "over product: " + name, Unit: "×",
				Samples: ratios(p.times[1:], all[0].times[1:])})
		}
	}
	return nil
}
