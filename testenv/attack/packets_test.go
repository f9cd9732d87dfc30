package attack

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/rawmqtt"
)

// packets are connections that do not do as MQTT 3.1.1 says.
var packets = []attempt{
	{"MQTT 3.1 instead of 3.1.1", aNode, speaks("MQIsdp", 3),
		refusals{"a session like any other", "a session like any other", closed}},
	{"MQTT 5 instead of 3.1.1", aNode, speaks("MQTT", 5), refusals{"CONNACK 132", "a session like any other",
		"CONNACK 1"}},
	{"MQTT 9, which does not exist", aNode, speaks("MQTT", 9), refusals{"CONNACK 130", "CONNACK 1", "CONNACK 1"}},
	{"another protocol's name", aNode, speaks("HTTP", 4), refusals{"CONNACK 130", closed, closed}},
	{"PUBLISH before CONNECT", aNode, opens(func(a *try) []byte {
		return rawmqtt.Packet(0x30, append(rawmqtt.Text(nil, of("n1").Live()), a.poison...))
	}), everywhere(closed)},
	{"HTTP at the broker", aNode, opens(func(*try) []byte { return []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n") }),
		everywhere(closed)},
	{"a CONNECT that announces 256 MiB", aNode,
		opens(func(*try) []byte { return []byte{0x10, 0xff, 0xff, 0xff, 0x7f} }), everywhere(closed)},
	{"a length without an end", aNode, opens(func(*try) []byte { return []byte{0x10, 0xff, 0xff, 0xff, 0xff, 0xff} }),
		everywhere(closed)},
	{"CONNECT twice", aNode, follows(
		func(*try) []byte { return rawmqtt.Connect(rawmqtt.Hello{ClientID: "node/n1", User: "node/n1"}) }),
		everywhere(closed)},
	{"a PUBLISH that announces 256 MiB", aNode,
		follows(func(*try) []byte { return []byte{0x32, 0xff, 0xff, 0xff, 0x7f} }), everywhere(closed)},
	{"a PUBLISH of 1 MiB", aNode, follows(func(a *try) []byte {
		return rawmqtt.Packet(0x30, append(rawmqtt.Text(nil, of("mallory").Event()), strings.Repeat(" ", 1<<20)...))
	}), everywhere(closed)},
	{"a SUBSCRIBE without a filter", aNode, follows(func(*try) []byte { return rawmqtt.Packet(0x82, []byte{0, 1}) }),
		everywhere(closed)},
	{"a packet of a type that does not exist", aNode, follows(func(*try) []byte { return rawmqtt.Packet(0x00, nil) }),
		everywhere(closed)},
	{"a PUBLISH of QoS 3", aNode, follows(func(a *try) []byte {
		return rawmqtt.Packet(0x36, append(rawmqtt.Text(nil, of("mallory").Event()), 0, 1, 'x'))
	}), everywhere(closed)},
}

// speaks says hello in another protocol. Where that is let in, the rules have to be the same.
func speaks(name string, level byte) func(*try) string {
	return func(a *try) string {
		conn, err := rawmqtt.Open(a.at, a.as("node/mallory"))
		if err != nil {
			return why(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(rawmqtt.Patience)); err != nil {
			return err.Error()
		}
		all := rawmqtt.Connect(rawmqtt.Hello{ClientID: "node/mallory", User: "node/mallory", Name: name, Level: level})
		for _, head := range []byte{0x30, 0x31} { // plain, and to be kept
			body := rawmqtt.Text(nil, of("n1").Live())
			if level == 5 {
				body = append(body, 0) // no properties
			}
			all = append(all, rawmqtt.Packet(head, append(body, a.poison...))...)
		}
		if _, err := conn.Write(append(all, 0xc0, 0)); err != nil { // and PINGREQ, whose answer comes after them
			return why(err)
		}
		var got []byte
		for buf := make([]byte, 1024); ; {
			n, err := conn.Read(buf)
			if got = append(got, buf[:n]...); err != nil {
				break
			}
			if len(got) >= 4 && got[0] == 0x20 && got[3] == 0 && got[len(got)-2] == 0xd0 {
				if err := a.mark(a.session("node/mallory"), own("node/mallory")); err != nil {
					return why(err)
				}
				if bad := a.heard(); bad != "" {
					return bad
				}
				return "a session like any other"
			}
		}
		if len(got) >= 4 && got[0] == 0x20 {
			return fmt.Sprintf("CONNACK %d", got[3])
		}
		return closed
	}
}

// opens sends bytes in the place of CONNECT.
func opens(bytes func(*try) []byte) func(*try) string {
	return func(a *try) string {
		c, err := rawmqtt.Open(a.at, a.as("node/mallory"))
		if err != nil {
			return why(err)
		}
		defer c.Close()
		return a.answer(c, bytes(a))
	}
}

// answer is what comes back for bytes, until the connection ends.
func (a *try) answer(c net.Conn, b []byte) string {
	if err := c.SetDeadline(time.Now().Add(rawmqtt.Patience)); err != nil {
		return err.Error()
	}
	if _, err := c.Write(b); err != nil {
		return why(err)
	}
	got, err := io.ReadAll(io.LimitReader(c, 1<<16))
	end := closed
	if err != nil {
		end = why(err)
	}
	if len(got) > 0 {
		return fmt.Sprintf("%.20x, and %s", got, end)
	}
	return end
}

// follows sends bytes in a session; it has to end.
func follows(bytes func(*try) []byte) func(*try) string {
	return func(a *try) string {
		c := a.session("node/mallory")
		if err := c.Write(bytes(a)); err != nil {
			return why(err)
		}
		if err := c.Ended(); err != nil {
			return err.Error()
		}
		return closed
	}
}

// payloads are messages that a node may send, with contents that it should not.
var payloads = []attempt{
	{"JSON of 100,000 levels", aNode,
		reports("b1", func(*try) string { return strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) }),
		everywhere("journaled: malformed")},
	{"a number of 200,000 digits", aNode, reports("b2", func(*try) string {
		return `{"v":1,"node":"b2","kind":"config","boot":"b","seq":1` + strings.Repeat("0", 200_000) + `}`
	}), everywhere("journaled: bad-value")},
	{"one name twice in an object", aNode,
		reports("b3", func(*try) string { return `{"v":1,"node":"b3","kind":"config","boot":"b","seq":1,"seq":2}` }),
		everywhere("journaled: duplicate")},
	{"a report in another's name on its own topic", aNode, reports("b4", func(*try) string {
		m := wire.Reported{V: wire.Version, Node: "n1", Kind: wire.KindConfig, Boot: "b", Seq: 1 << 40}
		return string(wire.Encode(&m))
	}), everywhere("journaled: wrong-target")},
	{"what another node's workloads do, in its own report", aNode,
		reportsOf("b6", wire.KindWorkloads, func(*try) string {
			w := wire.Workloads{Slots: []wire.WorkloadSlot{{Slot: "web@n1", ID: "evil", State: wire.WorkloadRunning,
				Since: time.Now()}}}
			m := wire.Reported{V: wire.Version, Node: "b6", Kind: wire.KindWorkloads, Boot: "b", Seq: 1,
				Detail: wire.Encode(&w)}
			return string(wire.Encode(&m))
		}), everywhere("journaled: wrong-target")},
	{"a submission that is a bomb, by the cloud", theCloud,
		submits("config", strings.Repeat("[", 60)+strings.Repeat("]", 60)), everywhere("refused: malformed")},
	{"workloads that are texts made of texts, by the cloud", theCloud, submits("workloads", laughs),
		everywhere("refused: bad-value")},
}

// laughs is a set of workloads in which one text is made of another one, some hundred times.
var laughs = `[{"@class":"TopologicalInstance","slot":"web@n1","properties":{"p":"` + strings.Repeat("x", 4000) + `"}},
	{"@class":"InstanceFiller","name":"f","filter":"instance[p]",
	"instance":{"properties":{"q":"` + strings.Repeat(`@{prop(\"p\")}`, 250) + `"},
	"resources":{"iss_hook_start":
	{"@class":"Resource","uuid":"s","urls":["http://127.0.0.1/s"],"size":1,"verification":{}}}}}]`

// submits has the cloud side submit a document; the outcome is the answer.
func submits(what, document string) func(*try) string {
	return func(a *try) string {
		c := a.session("cloud/eu")
		subscribe(a.t, c, topic.ForOutbox(unitName, "+"))
		s := wire.Submission{V: wire.Version, ID: "bomb-" + what + "-" + string(a.kind), From: "cloud",
			Document: []byte(document)}
		return a.answered(c, what, s.ID, a.cloud.Sign(unitName, what, &s, time.Now()))
	}
}

// answered publishes a submission; the outcome is the answer.
func (a *try) answered(c *rawmqtt.Client, what, id string, payload []byte) string {
	if err := c.Publish(topic.ForInbox(unitName, what), string(payload), false); err != nil {
		return why(err)
	}
	var answer wire.Answer
	if err := c.Until("the answer", func(all []rawmqtt.Message) bool {
		for _, m := range all {
			if strings.Contains(m.Payload, id) && json.Unmarshal([]byte(m.Payload), &answer) == nil {
				return true
			}
		}
		return false
	}); err != nil {
		return why(err)
	}
	if answer.Error == nil {
		return fmt.Sprintf("answered: %+v", answer)
	}
	return fmt.Sprintf("%s: %s", answer.State, answer.Error.Code)
}

// reports has a node that was quiet before report something; the outcome is the journal's record of it.
func reports(name string, text func(*try) string) func(*try) string {
	return reportsOf(name, wire.KindConfig, text)
}

func reportsOf(name string, kind wire.Kind, text func(*try) string) func(*try) string {
	return func(a *try) string {
		c := a.session("node/" + name)
		if err := c.Publish(of(name).Reported(kind), text(a), true); err != nil {
			return why(err)
		}
		out := "nothing is in the journal"
		eventually(func() bool {
			for _, e := range a.Entries("trouble") {
				var d struct {
					Error *wire.Error `json:"error"`
				}
				if e.Node == name {
					if err := json.Unmarshal(e.Data, &d); err != nil || d.Error == nil {
						out = string(e.Data)
						return true
					}
					out = "journaled: " + string(d.Error.Code)
					return true
				}
			}
			return false
		})
		if n := a.View(name); n.Documents[wire.KindConfig].Running != nil || n.Documents[wire.KindConfig].Last != nil ||
			len(n.Slots) > 0 {
			return fmt.Sprintf("BELIEVED: %+v", n)
		}
		return out
	}
}

// siege is a connection that is never finished, and is held open while everything else goes on.
type siege struct {
	name string
	want refusals
	hold func(u *unit) (net.Conn, error) // what is said at the beginning
	drip []byte                          // what is said after it, a byte at a time

	end  chan string
	conn net.Conn
}

// held is what becomes of a siege: cut after the time that a server gives strangers, or, where that
// may be longer than this suite, perhaps still there, without having harmed anybody.
const (
	cut  = "cut off"
	held = "to no avail, cut off or not"
)

func newSieges() []*siege {
	raw := func(addr func(*unit) string) func(u *unit) (net.Conn, error) {
		return func(u *unit) (net.Conn, error) { return net.Dial("tcp", addr(u)) }
	}
	atBroker := func(u *unit) string { return u.at }
	atJoin := func(u *unit) string { return strings.TrimPrefix(u.App.JoinURL(), "https://") }
	atHTTP := func(u *unit) string { return u.http }
	mutual := func(u *unit) (net.Conn, error) { return rawmqtt.Open(u.at, u.as("node/mallory")) }
	hello := rawmqtt.Connect(rawmqtt.Hello{ClientID: "node/mallory", User: "node/mallory",
		Will: &rawmqtt.Will{Topic: of("n1").Live(), Payload: "poison of a siege"}})
	const start = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" // of a ClientHello that announces 512 bytes
	return []*siege{
		{name: "a TLS handshake that never begins, at the broker", want: refusals{cut, held, cut}, hold: raw(atBroker)},
		{name: "a TLS handshake a byte at a time, at the broker", want: refusals{cut, held, cut}, hold: raw(atBroker),
			drip: []byte(start)},
		{name: "a CONNECT that never comes", want: refusals{cut, held, cut}, hold: mutual},
		{name: "a CONNECT a byte at a time", want: refusals{cut, held, cut}, hold: mutual, drip: hello},
		{name: "a TLS handshake that never begins, at the join door", want: doors(cut), hold: raw(atJoin)},
		{name: "a TLS handshake a byte at a time, at the join door", want: doors(cut), hold: raw(atJoin),
			drip: []byte(start)},
		{name: "a request a byte at a time, at the HTTP door", want: doors(cut), hold: raw(atHTTP),
			drip: []byte("GET /v1/nodes HTTP/1.1\r\nHost: x\r\nX: ")},
	}
}

// besiege begins what takes its time.
func (u *unit) besiege() {
	for _, s := range newSieges() {
		if strings.HasPrefix(s.want.on(u.kind), notHere) {
			continue
		}
		var err error
		if s.conn, err = s.hold(u); err != nil {
			u.t.Fatalf("%s: %v", s.name, err)
		}
		s.end = make(chan string, 1)
		u.sieges = append(u.sieges, s)
		u.t.Cleanup(func() { _ = s.conn.Close() }) // relieve has closed it
		var drips sync.WaitGroup
		stop := make(chan struct{})
		drips.Go(func() {
			tick := time.NewTicker(200 * time.Millisecond)
			defer tick.Stop()
			for i := 0; i+1 < len(s.drip); i++ { // never the last one
				if _, err := s.conn.Write(s.drip[i : i+1]); err != nil {
					return
				}
				select {
				case <-tick.C:
				case <-stop:
					return
				}
			}
		})
		go func() {
			_, err := io.Copy(io.Discard, s.conn)
			close(stop)
			drips.Wait()
			if errors.Is(err, net.ErrClosed) || errors.Is(err, tls.AlertError(0)) {
				s.end <- held
				return
			}
			s.end <- cut
		}()
	}
}

// relieve sees what became of the sieges.
func (u *unit) relieve() {
	for _, s := range u.sieges {
		u.t.Run("siege: "+s.name, func(t *testing.T) {
			want := s.want.on(u.kind)
			if want == held {
				if err := s.conn.Close(); err != nil {
					t.Log(err)
				}
			}
			select {
			case got := <-s.end:
				if got != want && want != held {
					t.Errorf("it was %s, and should have been %s", got, want)
				}
			case <-time.After(2 * rawmqtt.Patience):
				t.Errorf("it was not %s", want)
			}
			if err := s.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				t.Log(err)
			}
		})
	}
}
