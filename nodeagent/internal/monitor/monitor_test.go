package monitor

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"tandem.internal/shared/alert"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is a node in a test's hands.
type node struct {
	mu    sync.Mutex
	times Times
	ram   float64
	nics  []Counters
	fail  error            // of everything but partitions
	hang  chan struct{}    // not nil: partition "nfs" answers when it is closed
	looks map[string]int   // per path, begun
	used  map[string]Usage // per path; missing: an error
}

func (n *node) sources() Sources {
	return Sources{
		CPU:        func() (Times, error) { n.mu.Lock(); defer n.mu.Unlock(); return n.times, n.fail },
		RAM:        func() (float64, error) { n.mu.Lock(); defer n.mu.Unlock(); return n.ram, n.fail },
		Interfaces: func() ([]Counters, error) { n.mu.Lock(); defer n.mu.Unlock(); return n.nics, n.fail },
		Partition: func(path string) (Usage, error) {
			n.mu.Lock()
			n.looks[path]++
			u, ok := n.used[path]
			hang := n.hang
			n.mu.Unlock()
			if hang != nil && path == "/nfs" {
				<-hang
			}
			if !ok {
				return Usage{}, errors.New("no such file or directory")
			}
			return u, nil
		},
	}
}

func (n *node) set(f func(*node)) { n.mu.Lock(); defer n.mu.Unlock(); f(n) }

// run runs a monitor in a bubble, until f returns.
func run(t *testing.T, cfg Config, f func(n *node, next func() Sample)) (err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := &node{looks: map[string]int{}, used: map[string]Usage{}, nics: []Counters{{"eth0", 0, 0}}}
		cfg.Sources = n.sources()
		m, nerr := New(cfg)
		if nerr != nil {
			t.Fatal(nerr)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.Run(ctx) }()
		synctest.Wait() // the first look has been taken
		f(n, func() Sample { return <-m.Samples() })
		cancel()
		err = <-done
	})
	return err
}

// got is a sample's value, or what its error says.
func got(t *testing.T, s Sample, p alert.Parameter) (float64, string) {
	t.Helper()
	for _, r := range s.Readings {
		if r.Parameter == p {
			if r.Err != nil {
				return 0, r.Err.Error()
			}
			return r.Value, ""
		}
	}
	t.Fatalf("no %s in %+v", p, s.Readings)
	return 0, ""
}

func want(t *testing.T, s Sample, p alert.Parameter, value float64) {
	t.Helper()
	if v, why := got(t, s, p); why != "" || math.Abs(v-value) > 1e-9 {
		t.Errorf("%s is %v (%s), want %v", p, v, why, value)
	}
}

func wantUnknown(t *testing.T, s Sample, p alert.Parameter, part string) {
	t.Helper()
	if v, why := got(t, s, p); why == "" || !strings.Contains(why, part) {
		t.Errorf("%s is %v (%s), want unknown because of %q", p, v, why, part)
	}
}

func TestSamples(t *testing.T) {
	beats := 0
	start := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	var wall atomic.Pointer[time.Time]
	wall.Store(&start)
	cfg := Config{Partitions: map[string]string{"data": "/data"}, Watch: func(string, time.Duration) (beat,
		end func()) {
		return func() { beats++ }, func() {}
	}, Now: func() time.Time { return *wall.Load() }}
	err := run(t, cfg, func(n *node, next func() Sample) {
		began := time.Now()
		n.set(func(n *node) {
			n.times, n.ram, n.used["/data"] = Times{5, 15}, 0.5, Usage{0.75, 0.125}
			// lo and wlan0 are new, eth0 not
			n.nics = []Counters{{"lo", 1 << 40, 1 << 40}, {"eth0", 1000, 50}, {"wlan0", 999, 999}}
		})
		s := next()
		if time.Since(began) != DefaultPeriod || s.Mono != DefaultPeriod || s.Over != DefaultPeriod ||
			!s.Wall.Equal(start) {
			t.Errorf("%v: %+v", time.Since(began), s)
		}
		want(t, s, alert.CPU, 0.25)
		want(t, s, alert.RAM, 0.5)
		want(t, s, alert.Download, 100)
		want(t, s, alert.Upload, 5)
		want(t, s, alert.Partition("data"), 0.75)
		want(t, s, alert.Inodes("data"), 0.125)
		if len(s.Averages) != 6 || s.Averages[alert.CPU] != 0.25 || s.Averages[alert.Download] != 100 {
			t.Errorf("%v", s.Averages)
		}
		// The wall clock goes back a year: no rate notices. One more interface counts now.
		earlier := start.AddDate(-1, 0, 0)
		wall.Store(&earlier)
		n.set(func(n *node) {
			n.times = Times{15, 15}
			n.nics = []Counters{{"lo", 1 << 41, 1 << 41}, {"eth0", 1100, 50}, {"wlan0", 1999, 999}}
		})
		s = next()
		want(t, s, alert.CPU, 1)
		want(t, s, alert.Download, 110)
		want(t, s, alert.Upload, 0)
		if a := s.Averages[alert.CPU]; math.Abs(a-(0.25*5+1)/6) > 1e-9 {
			t.Errorf("average %v", a)
		}
		// Nobody takes the sample for a while: the one after it covers the time.
		time.Sleep(35 * time.Second)
		if s = next(); s.Mono != 30*time.Second { // it was waiting to be taken
			t.Errorf("at %v", s.Mono)
		}
		n.set(func(n *node) { n.nics = []Counters{{"eth0", 2100, 50}} }) // wlan0 is gone
		if s = next(); s.Over != s.Mono-30*time.Second || s.Over <= DefaultPeriod {
			t.Errorf("at %v over %v", s.Mono, s.Over)
		}
		want(t, s, alert.Download, math.Round(1000/s.Over.Seconds()))
	})
	if err != nil || beats < 4 {
		t.Errorf("%v after %d beats", err, beats)
	}
}

// What cannot be measured is unknown, says why, and is known again as soon as it can be.
func TestTrouble(t *testing.T) {
	cfg := Config{Partitions: map[string]string{"data": "/data"}}
	err := run(t, cfg, func(n *node, next func() Sample) {
		n.set(func(n *node) { n.fail = errors.New("permission denied") })
		s := next()
		wantUnknown(t, s, alert.CPU, "permission denied")
		wantUnknown(t, s, alert.RAM, "permission denied")
		wantUnknown(t, s, alert.Download, "permission denied")
		wantUnknown(t, s, alert.Upload, "permission denied")
		wantUnknown(t, s, alert.Partition("data"), "partition data: no such file")
		wantUnknown(t, s, alert.Inodes("data"), "no such file")
		if len(s.Averages) != 0 {
			t.Errorf("averages of nothing: %v", s.Averages)
		}
		n.set(func(n *node) {
			n.fail, n.times, n.ram = nil, Times{10, 10}, math.NaN()
			n.nics, n.used["/data"] = []Counters{{"eth0", 5000, 5000}}, Usage{Bytes: 1.5}
		})
		s = next()
		wantUnknown(t, s, alert.CPU, "since now")
		wantUnknown(t, s, alert.Download, "since now")
		wantUnknown(t, s, alert.RAM, "no number")
		want(t, s, alert.Partition("data"), 1)
		// Counters that go back, of one direction; processor times that do not move.
		n.set(func(n *node) { n.nics = []Counters{{"eth0", 10, 6000}} })
		s = next()
		wantUnknown(t, s, alert.CPU, "not moved")
		wantUnknown(t, s, alert.Download, "eth0 went back")
		want(t, s, alert.Upload, 100)
		n.set(func(n *node) {
			n.nics, n.times = []Counters{{"eth0", 110, 6000}}, Times{20, 9.9} // iowait went back a little
		})
		s = next()
		want(t, s, alert.CPU, 1)
		want(t, s, alert.Download, 10)
		want(t, s, alert.Upload, 0)
		n.set(func(n *node) { n.times = Times{1, 1} }) // a counter of another kernel, after a migration
		wantUnknown(t, next(), alert.CPU, "went back")
	})
	if err != nil {
		t.Error(err)
	}
}

// A dead file server costs the values of its partition and nothing else.
func TestPartitionHangs(t *testing.T) {
	cfg := Config{Partitions: map[string]string{"a": "/a", "nfs": "/nfs", "z": "/z"}, Period: 3 * time.Second}
	err := run(t, cfg, func(n *node, next func() Sample) {
		hang := make(chan struct{})
		n.set(func(n *node) {
			n.hang, n.used["/a"], n.used["/nfs"], n.used["/z"] = hang, Usage{Bytes: 0.1}, Usage{Bytes: 0.2},
				Usage{Bytes: 0.3}
		})
		for i := range 5 {
			s := next()
			if s.Mono != time.Duration(i+1)*3*time.Second {
				t.Errorf("sample %d at %v", i, s.Mono)
			}
			want(t, s, alert.Partition("a"), 0.1)
			want(t, s, alert.Partition("z"), 0.3)
			wantUnknown(t, s, alert.Partition("nfs"), "partition nfs: the file system does not answer")
			wantUnknown(t, s, alert.Inodes("nfs"), "does not answer")
		}
		n.set(func(n *node) {
			if n.looks["/nfs"] != 1 || n.looks["/a"] != 5 {
				t.Errorf("looks begun: %v", n.looks)
			}
			n.hang = nil
		})
		close(hang)
		synctest.Wait()
		want(t, next(), alert.Partition("nfs"), 0.2)
	})
	if err != nil {
		t.Error(err)
	}
}

func TestRunSaysWhatHangs(t *testing.T) {
	cfg := Config{Partitions: map[string]string{"nfs": "/nfs"}}
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		n := &node{looks: map[string]int{}, hang: hang}
		cfg.Sources = n.sources()
		m, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.Run(ctx) }()
		<-m.Samples()
		cancel()
		if err := <-done; err == nil || err.Error() != "partitions that do not answer: nfs" {
			t.Error(err)
		}
		close(hang)
	})
}

// Stopping in the middle of a look does not wait for it longer than Patience.
func TestStopDuringALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		n := &node{looks: map[string]int{}, hang: hang}
		m, err := New(Config{Partitions: map[string]string{"nfs": "/nfs"}, Sources: n.sources()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), DefaultPeriod+time.Millisecond)
		defer cancel()
		began := time.Now()
		if err := m.Run(ctx); err == nil {
			t.Error("the hanging partition is not named")
		}
		if took := time.Since(began); took > DefaultPeriod+time.Millisecond+DefaultPatience {
			t.Errorf("it took %v to stop", took)
		}
		close(hang)
	})
}

func TestInterfaces(t *testing.T) {
	list := []Counters{{Name: "lo"}, {Name: "eth0"}, {Name: "eth1"}, {Name: "docker0"}}
	for _, c := range []struct {
		patterns []string
		want     string
	}{
		{nil, "eth0 eth1 docker0"},
		{[]string{"eth0"}, "eth0"},
		{[]string{"eth*"}, "eth0 eth1"},
		{[]string{"eth*", "eth0", "lo"}, "lo eth0 eth1"},
		{[]string{"wlan0"}, `no interface is called ["wlan0"]`},
	} {
		kept, err := chosen(list, c.patterns)
		var names []string
		for _, k := range kept {
			names = append(names, k.Name)
		}
		out := strings.Join(names, " ")
		if err != nil {
			out = err.Error()
		}
		if out != c.want {
			t.Errorf("%v: %s, want %s", c.patterns, out, c.want)
		}
	}
	if kept, err := chosen(list[:1], nil); err != nil || len(kept) != 0 {
		t.Errorf("a node without a network: %v, %v", kept, err)
	}
}

func TestNew(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Period: time.Millisecond}, "is below 100ms"},
		{Config{Period: -time.Second}, "is below 100ms"},
		{Config{Window: -1}, "negative"},
		{Config{Interfaces: []string{"eth["}}, `the interface pattern "eth["`},
	} {
		if _, err := New(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.cfg, err)
		}
	}
	m, err := New(Config{Partitions: map[string]string{"b": "/", "a": "/"}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range m.Parameters() {
		names = append(names, string(p))
	}
	if got := strings.Join(names, " "); got != "cpu ram download upload partition:a inodes:a partition:b inodes:b" {
		t.Error(got)
	}
}

// The real node: everything is known and within its range.
func TestSystem(t *testing.T) {
	m, err := New(Config{Period: 500 * time.Millisecond, Partitions: map[string]string{"tmp": t.TempDir(),
		"gone": filepath.Join(t.TempDir(), "gone")}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- m.Run(ctx) }()
	s := <-m.Samples()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for i, p := range m.Parameters() {
		r := s.Readings[i]
		if r.Parameter != p {
			t.Errorf("reading %d is %s, not %s", i, r.Parameter, p)
		}
		if strings.HasSuffix(string(p), ":gone") {
			wantUnknown(t, s, p, "no such file")
			continue
		}
		if r.Err != nil || r.Value < 0 || p.Fraction() && r.Value > 1 {
			t.Errorf("%+v", r)
		}
	}
	if v, _ := got(t, s, alert.RAM); v == 0 {
		t.Error("no memory is used")
	}
}

// BenchmarkSample is one look at the real node.
func BenchmarkSample(b *testing.B) {
	m, err := New(Config{Partitions: map[string]string{"tmp": b.TempDir()}})
	if err != nil {
		b.Fatal(err)
	}
	m.start()
	b.ReportAllocs()
	for b.Loop() {
		m.sample(b.Context())
	}
}
