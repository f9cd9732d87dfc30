package fault

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/shared/durable"
)

// publish makes a PUBLISH packet (QoS 1) with a payload of n bytes.
func publish(topic string, id uint16, n int) Packet {
	body := binary.BigEndian.AppendUint16(nil, uint16(len(topic)))
	body = append(body, topic...)
	body = binary.BigEndian.AppendUint16(body, id)
	body = append(body, make([]byte, n)...)
	p := Packet{typePublish<<4 | 2}
	size := len(body)
	for ; size >= 0x80; size >>= 7 {
		p = append(p, byte(size)|0x80)
	}
	return append(append(p, byte(size)), body...)
}

var ping = Packet{0xc0, 0}

// line is a road between a client and a broker that the test plays.
type line struct {
	road           *Road
	client, broker net.Conn
}

func newLine(t *testing.T) *line {
	l := &line{}
	l.road = NewRoad(func(context.Context) (net.Conn, error) {
		var far net.Conn
		far, l.broker = net.Pipe()
		return far, nil
	}, rand.New(rand.NewPCG(1, 2)))
	var err error
	if l.client, err = l.road.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.road.Close()
		l.road.Wait()
	})
	return l
}

func send(t *testing.T, c net.Conn, packets ...Packet) {
	t.Helper()
	for _, p := range packets {
		if _, err := c.Write(p); err != nil {
			t.Fatal(err)
		}
	}
}

// arrived reads what comes within a minute: the IDs of PUBLISH packets, 0 for others.
func arrived(t *testing.T, c net.Conn) (ids []uint16) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	for {
		p, err := readPacket(in)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, io.EOF):
			return ids
		case err != nil:
			t.Fatal(err)
		case p.Topic() == "":
			ids = append(ids, 0)
		default:
			at := bytes.Index(p, []byte(p.Topic())) + len(p.Topic())
			ids = append(ids, binary.BigEndian.Uint16(p[at:]))
		}
	}
}

func TestRoad(t *testing.T) {
	three := []Packet{publish("a", 1, 10), publish("b/c", 2, 300_000), publish("a", 3, 0), ping}
	tests := map[string]struct {
		set  func(r *Road)
		want func(ids []uint16) bool
	}{
		"clear": {func(*Road) {}, func(ids []uint16) bool { return slices.Equal(ids, []uint16{1, 2, 3, 0}) }},
		"delayed": {func(r *Road) { r.SetWeather(Weather{Delay: time.Second}) },
			func(ids []uint16) bool { return len(ids) == 4 }},
		"repeated": {func(r *Road) { r.SetWeather(Weather{Repeat: 1, Spread: time.Second}) },
			func(ids []uint16) bool { slices.Sort(ids); return slices.Equal(ids, []uint16{0, 1, 1, 2, 2, 3, 3}) }},
		"shuffled": {func(r *Road) { r.SetWeather(Weather{Shuffle: 1, Spread: 10 * time.Second}) },
			func(ids []uint16) bool {
				mixed := !slices.Equal(ids, []uint16{1, 2, 3, 0})
				slices.Sort(ids)
				return mixed && slices.Equal(ids, []uint16{0, 1, 2, 3})
			}},
		"dropped": {func(r *Road) {
			r.Drop(func(fromBroker bool, topic string) bool {
				return topic == "a" &&
					!fromBroker
			})
		},
			func(ids []uint16) bool { return slices.Equal(ids, []uint16{2, 0}) }},
		"lost": {func(r *Road) { r.Lose(true, false) }, func(ids []uint16) bool { return len(ids) == 0 }},
		"other direction lost": {func(r *Road) { r.Lose(false, true) },
			func(ids []uint16) bool { return slices.Equal(ids, []uint16{1, 2, 3, 0}) }},
		"tolled": {func(r *Road) {
			r.Toll(func(_ bool, topic string) error {
				if topic == "b/c" {
					return ErrDead
				}
				return nil
			})
		}, func(ids []uint16) bool { return len(ids) <= 1 }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLine(t)
				tt.set(l.road)
				go func() {
					for _, p := range three {
						if _, err := l.client.Write(p); err != nil {
							return // cut off
						}
					}
				}()
				if ids := arrived(t, l.broker); !tt.want(ids) {
					t.Errorf("arrived: %v", ids)
				}
			})
		})
	}
}

// A connection that lost something is torn; one that did not lives on.
func TestClearBreaksWhatIsTorn(t *testing.T) {
	for _, talk := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			l := newLine(t)
			l.road.Lose(true, true)
			if talk {
				send(t, l.client, ping)
			}
			synctest.Wait()
			l.road.Clear()
			synctest.Wait()
			_, err := l.client.Write(ping)
			if talk != (err != nil) {
				t.Errorf("after the loss (talked: %v) writing gives %v", talk, err)
			}
		})
	}
}

func TestClosedAndLostRoadsDoNotOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t)
		l.road.Close()
		if _, err := l.road.Open(t.Context()); err == nil {
			t.Error("a closed road was opened")
		}
		l.road.Clear()
		l.road.Lose(true, true)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		if _, err := l.road.Open(ctx); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(began) != 10*time.Second {
			t.Errorf("a lost road gave %v after %v", err, time.Since(began))
		}
	})
}

// What a crash leaves of a file that was being written survives the tidying up of the process that
// does not know that it is dead.
func TestDeathKeepsTheTornFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	steps := 0
	m := &Machine{Dir: dir}
	if err := durable.WriteFile(path, []byte("old"), 0o600,
		func(durable.Step) error { steps++; return nil }); err != nil {
		t.Fatal(err)
	}
	for at := 1; at <= steps; at++ {
		died := 0
		m.Died = func() { died++ }
		m.Arm(at, Crash)
		if err := durable.WriteFile(path, []byte("new"), 0o600, m.Step); !errors.Is(err, ErrDead) {
			t.Fatalf("step %d: %v", at, err)
		}
		if !m.Dead() || died != 1 || m.Do("anything", nil) != ErrDead || m.Commit(false) != ErrDead {
			t.Errorf("step %d: it lives", at)
		}
		if ops := m.Disarm(); len(ops) != at {
			t.Errorf("step %d: %v", at, ops)
		}
		if err := m.Revive(); err != nil {
			t.Fatal(err)
		}
		want := "old"
		if at == steps {
			want = "new" // renamed, only the directory was not synced
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("step %d: %q %v", at, got, err)
		}
		if torn := len(m.Leftovers()); (torn == 1) != (at > 1 && at < steps) {
			t.Errorf("step %d leaves %d torn files", at, torn)
		}
		if err := durable.Clean(path); err != nil || len(m.Leftovers()) != 0 {
			t.Errorf("step %d: cleaning: %v, left %v", at, err, m.Leftovers())
		}
	}
}

func TestFullDiskAndOneFailure(t *testing.T) {
	dir := t.TempDir()
	m := &Machine{Dir: dir}
	write := func() error { return durable.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600, m.Step) }
	m.Fill(true)
	if err := write(); err == nil || m.Commit(false) == nil || !m.Failed() {
		t.Errorf("a full disk takes everything: %v", err)
	}
	m.Fill(false)
	m.Arm(2, Fail)
	if err := write(); err == nil || errors.Is(err, ErrDead) || m.Dead() {
		t.Errorf("one failure: %v", err)
	}
	if err := write(); err != nil || len(m.Leftovers()) != 0 {
		t.Errorf("after one failure: %v, left %v", err, m.Leftovers())
	}
}

// FuzzPacket: what is no MQTT is an error, never a panic or a large allocation.
func FuzzPacket(f *testing.F) {
	f.Add([]byte(publish("a", 1, 200)))
	f.Add([]byte{0x30, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0x30, 0x02, 0x00, 0x09})
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bufio.NewReader(bytes.NewReader(data))
		var whole []byte
		for {
			p, err := readPacket(in)
			if err != nil {
				break
			}
			if p.Topic() != "" && p.again().Topic() != p.Topic() {
				t.Error("a repeated packet has another topic")
			}
			whole = append(whole, p...)
		}
		if !bytes.HasPrefix(data, whole) {
			t.Errorf("read %x from %x", whole, data)
		}
	})
}
