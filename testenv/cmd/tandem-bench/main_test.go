package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(run(os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// Every section runs with a handful of nodes and leaves figures of all it is asked for; what the
// figures are is no matter here.
func TestSections(t *testing.T) {
	names := []string{"apply", "tls", "stall", "storm", "restart", "refill", "scale", "memory", "holds"}
	if !testing.Short() {
		names = append(names, "agent", "peers", "shipped", "records", "idle")
	}
	args := []string{"-sizes", "12", "-large", "12", "-scale", "12", "-pairs", "1", "-root", "../../..",
		"-holds", "6,12", "-procs", "1,1000", "-records", "1000", "-idle", "100ms", "-watch", "1s"}
	if etcd, err := exec.LookPath("etcd"); err == nil && !testing.Short() { // a test builds none
		names, args = append(names, "etcd"), append(args, "-etcd", etcd)
	}
	path := filepath.Join(t.TempDir(), "bench.json")
	if err := bench(append(append(args, "-json", path), names...)); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	targets, figures, commits := map[string]int{}, map[string]int{}, 0
	for _, f := range r.Figures {
		figures[f.Section]++
		if f.Met != nil {
			targets[f.Section]++
		}
		if _, what, ok := strings.Cut(f.Name, "commits of the host, "); ok && !strings.HasPrefix(what, "request") {
			commits++
			if f.Value < 1 {
				t.Errorf("nothing was made durable: %+v", f)
			}
		}
		if f.Value < 0 || f.Name == "" {
			t.Errorf("%+v", f)
		}
	}
	if commits != 4 { // of both floors, and of the product with and without asking first
		t.Errorf("%d figures of commits", commits)
	}
	for _, name := range names {
		if targets[name] == 0 && !slices.Contains([]string{"tls", "peers", "idle"}, name) {
			t.Errorf("%s says nothing of what is asked for", name)
		}
		if figures[name] == 0 {
			t.Errorf("%s has no figures", name)
		}
	}
}

func TestBadFlags(t *testing.T) {
	for _, args := range [][]string{{"-sizes", "x"}, {"-sizes", "1"}, {"-transport", "udp"}, {"nosuchsection"},
		{"-nosuchflag"}} {
		if bench(args) == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

func TestFigures(t *testing.T) {
	if m := median([]float64{3, 1, 2}); m != 2 {
		t.Error(m)
	}
	if m := median([]float64{4, 1, 2, 3}); m != 2.5 {
		t.Error(m)
	}
	v := make([]float64, 100)
	for i := range v {
		v[i] = float64(100 - i)
	}
	if p := percentile(v, 0.99); p != 99 {
		t.Error(p)
	}
	for n, want := range map[int][2]float64{2: {1, 2}, 5: {1, 5}, 6: {1, 6}, 9: {2, 8}, 15: {4, 12}, 25: {8, 18}} {
		low, high, sure := interval(v[100-n:]) // n … 1
		if low != want[0] || high != want[1] || sure != (n >= 6) {
			t.Errorf("%d samples: %v … %v, %v", n, low, high, sure)
		}
	}
	if r := ratios([]float64{3, 1}, []float64{2, 4}); !slices.Equal(r, []float64{1.5, 0.25}) {
		t.Error(r)
	}
	if f := (figure{Samples: []float64{1, 1.2, 9}}).most(1.3); !*f.Met {
		t.Error("the median decides")
	}
	if f := (figure{Value: 1.4}).least(1.5); *f.Met {
		t.Error("1.4 is not at least 1.5")
	}
}

func TestMilliseconds(t *testing.T) {
	const out = "BenchmarkShow-2 \t 3\t 0 ns/op\t 2500000 ns/show\nBenchmarkShowMore-2 1 7 ns/op\n" +
		"BenchmarkShow 3 0 ns/op 3e6 ns/show\nPASS\n"
	if got, err := milliseconds(out, "BenchmarkShow", "ns/show"); err != nil || !slices.Equal(got, []float64{2.5, 3}) {
		t.Error(got, err)
	}
	if got, err := milliseconds(out, "BenchmarkFact", perOp); err == nil {
		t.Error("no error, but", got)
	}
}
