package server

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mochi-mqtt/server/v2/packets"
	"pgregory.net/rapid"

	"tandem.internal/shared/wire"
)

// matches implements MQTT 3.1.1, section 4.7, level by level.
func matches(filter, name string) bool {
	f, n := strings.Split(filter, "/"), strings.Split(name, "/")
	for i, level := range f {
		switch {
		case level == "#":
			return true
		case i == len(n), level != "+" && level != n[i]:
			return false
		}
	}
	return len(f) == len(n)
}

// TestRetainedIsAMap: after any sequence of set and remove the tree has what a map by topic would have, finds by a
// filter what a comparison with each topic finds, and has no empty level.
func TestRetainedIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "live", ""}), 1, 4)
		filters := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "live", "+"}), 1, 4)
		var r retained
		model := map[string]string{}
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			name := strings.Join(names.Draw(t, "topic"), "/")
			if rapid.Bool().Draw(t, "remove") {
				r.set(name, nil, 1)
				delete(model, name)
			} else {
				payload := strconv.Itoa(i)
				r.set(name, []byte(payload), 1)
				model[name] = payload
			}
			if got, ok := r.get(name); string(got) != model[name] || ok != (model[name] != "") {
				t.Fatalf("get %q: %q, want %q", name, got, model[name])
			}
			if r.len() != len(model) {
				t.Fatalf("%d are counted, want %d", r.len(), len(model))
			}
			filter := strings.Join(filters.Draw(t, "filter"), "/")
			if rapid.Bool().Draw(t, "all below") {
				filter = strings.TrimPrefix(rapid.SampledFrom([]string{filter, ""}).Draw(t, "below")+"/#", "/")
			}
			want, got := []string{}, []string{}
			for name, payload := range model {
				if matches(filter, name) {
					want = append(want, name+"="+payload)
				}
			}
			r.match(filter, func(name string, payload []byte, _ byte) { got = append(got, name+"="+string(payload)) })
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Fatalf("%q finds %q, want %q", filter, got, want)
			}
		}
		for name := range model {
			r.set(name, nil, 1)
		}
		if r.len() != 0 || len(r.root.children) != 0 {
			t.Fatalf("%d messages and %d levels are left of nothing", r.len(), len(r.root.children))
		}
	})
}

// TestRetainedIsSmall measures the memory of the messages that nodes usually retain.
func TestRetainedIsSmall(t *testing.T) {
	const nodes, size, most = 5000, 128, 320 // bytes a message, the payload's 128 included
	var r retained
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	payload := make([]byte, size)
	before := heap()
	for i := range nodes {
		n := of(node(i))
		for _, name := range []string{n.Live(), n.Reported(wire.KindConfig), n.Reported(wire.KindInfo),
			n.Desired(wire.KindConfig)} {
			r.set(name, payload, 1)
		}
	}
	got := (heap() - before) / int64(r.len())
	if got > most {
		t.Errorf("a message of %d bytes takes %d", size, got)
	}
	runtime.KeepAlive(&r)
}

// TestIdleClientIsShallow: the stack of an idle client's reading goroutine fits into 4 KiB, twice that under -race, and
// that of mochi's writing goroutine into 8 KiB. With mochi's reading goroutine they took 24 KiB together.
func TestIdleClientIsShallow(t *testing.T) {
	const clients, most = 200, 18 << 10
	s := serve(t, Config{}, nil)
	stacks := func() int64 {
		for range 4 { // a collection halves what is mostly unused
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.StackInuse)
	}
	before := stacks()
	all := make([]*rawClient, clients)
	for i := range all {
		all[i] = s.dial(t).mustConnect("node/" + node(i))
		all[i].subscribe(of(node(i)).DesiredFilter(), of(node(i)).Request())
		all[i].report(of(node(i)).Live(), "up", true)
	}
	for _, c := range all { // the PINGRESP goes out when what was before is done
		c.ping()
	}
	eventually(t, "their stacks are small", func() bool { return (stacks()-before)/clients <= most })
}

// TestNewsComesAfterWhatIsRetained: a client that subscribes while new documents are published gets none that is older
// than one that it already has.
func TestNewsComesAfterWhatIsRetained(t *testing.T) {
	s := serve(t, Config{Limits: Limits{Inflight: 60_000, PendingPerClient: 4096}}, nil)
	name := of("n1").Desired(wire.KindConfig)
	if err := s.Publish(name, []byte("0"), true); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	wg.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := s.Publish(name, fmt.Appendf(nil, "%d", i), true); err != nil {
				t.Error(err)
			}
		}
	})
	for range 50 {
		c := s.dial(t).mustConnect("node/n1")
		c.subscribe(of("n1").DesiredFilter())
		newest, found := -1, false
		for range 20 {
			pk := c.next(packets.Publish)
			n, err := strconv.Atoi(string(pk.Payload))
			if err != nil {
				t.Fatal(err)
			}
			if n < newest {
				t.Fatalf("document %d came after %d", n, newest)
			}
			newest, found = n, found || pk.FixedHeader.Retain
		}
		if !found {
			t.Error("what was retained did not come")
		}
		c.nc.Close()
	}
}

// TestRetainedQoSAndLimits: each retained message is sent once, with the lower QoS of publish and subscription. Events
// report those that exceed the limits.
func TestRetainedQoSAndLimits(t *testing.T) {
	s := serve(t, Config{Limits: Limits{Inflight: 1, PendingBytes: 1000}, Passwords: passwords}, nil)
	n1 := s.dial(t).mustConnect("node/n1")
	n1.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish, Retain: true},
		TopicName: of("n1").Live(), Payload: []byte("up")})
	n1.ping()
	for _, k := range []wire.Kind{wire.KindConfig, wire.KindInfo, wire.KindHealth} {
		n1.report(of("n1").Reported(k), strings.Repeat("x", 400), true)
	}
	ask := func(qos byte, filter string) (got []string) {
		c := s.dial(t).mustConnect("controller", withPassword("c-secret"))
		c.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Subscribe, Qos: 1}, PacketID: 1,
			Filters: packets.Subscriptions{{Filter: filter, Qos: qos}}})
		c.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pingreq}})
		for {
			switch pk, err := c.read(); {
			case err != nil:
				t.Fatal(err)
			case pk.FixedHeader.Type == packets.Publish:
				if !pk.FixedHeader.Retain {
					t.Errorf("%s came as news", pk.TopicName)
				}
				got = append(got, fmt.Sprintf("%s %d", pk.TopicName[strings.LastIndexByte(pk.TopicName, '/')+1:],
					pk.FixedHeader.Qos))
			case pk.FixedHeader.Type == packets.Pingresp:
				return got
			}
		}
	}
	if got := ask(1, "tandem/1/u1/node/+/n1/live"); fmt.Sprint(got) != "[live 0]" {
		t.Errorf("%q", got)
	}
	if got := ask(1, of("n1").Reported(wire.KindInfo)); fmt.Sprint(got) != "[info 1]" {
		t.Errorf("%q", got)
	}
	if n := s.Stats().Dropped; n != 0 {
		t.Errorf("%d were dropped", n)
	}
	for _, c := range []struct {
		qos     byte
		want    string
		dropped int64 // so far
		why     string
	}{
		{0, "[live 0 config 0 health 0]", 1, "bytes were waiting"},
		{1, "[live 0 config 1]", 3, unacknowledged},
	} {
		if got := ask(c.qos, "tandem/1/u1/#"); fmt.Sprint(got) != c.want {
			t.Errorf("%q, want %s", got, c.want)
		}
		if n := s.Stats().Dropped; n != c.dropped {
			t.Errorf("%d were dropped, want %d", n, c.dropped)
		}
		eventually(t, "it is told of", func() bool {
			return slices.ContainsFunc(s.events.of(Dropped),
				func(ev Event) bool { return strings.Contains(ev.Detail, c.why) })
		})
	}
}
