package main

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// productRow is a row of a section that one of the product's own benchmarks makes.
type productRow struct {
	benchmark, name string
	per             string  // of the figure that counts: ns/op, or one that the benchmark reports itself
	most            float64 // milliseconds; 0: it is a floor, of which nothing is asked
}

// perOp is what every benchmark reports.
const perOp = "ns/op"

// productBenchmarks are benchmarks of a package.
type productBenchmarks struct {
	pkg  string
	rows []productRow
}

// policyBenchmarks are those of policies and rollouts.
var policyBenchmarks = []productBenchmarks{
	{"./shared/policy", []productRow{
		{"BenchmarkMatchFloor", "floor: one property looked up, 10,000 nodes × 100 policies", perOp, 0},
		{"BenchmarkMatch", "policies judged, 10,000 nodes × 100 policies", perOp, 1000},
		{"BenchmarkNodeChange", "a changed node is read and judged, 100 policies", perOp, 5},
	}},
	{"./controller/internal/kinds/policies", []productRow{
		{"BenchmarkMatching", "documents made, 10,000 nodes × 100 policies", perOp, 1000},
		{"BenchmarkOneNode", "the document of a changed node, 100 policies", perOp, 5},
	}},
	{"./controller/internal/rollout", []productRow{
		{"BenchmarkFact", "rollout: one fact about a node, 10,000 nodes", "ns/fact", 5},
		{"BenchmarkShow", "a rollout is shown, 10,000 nodes", "ns/show", 300},
	}},
	{"./controller/internal/cli", []productRow{
		{"BenchmarkRolloutFloor", "floor: a request by the controller's socket", perOp, 0},
		{"BenchmarkPolicyStatus", "tandem policy status, 10,000 nodes", perOp, 300},
		{"BenchmarkRolloutShow", "tandem rollout show, 10,000 nodes", perOp, 300},
		{"BenchmarkRolloutList", "tandem rollout list, 10,000 nodes", perOp, 300},
	}},
}

// desiredBenchmarks are those of items and what should run where.
var desiredBenchmarks = []productBenchmarks{
	{"./controller/internal/desired", []productRow{
		{"BenchmarkFullFloor", "floor: every node looked at for every instance", perOp, 0},
		{"BenchmarkFull", "desired status of a unit in which nothing runs", perOp, 1000},
		{"BenchmarkChange", "decided anew when a node goes or comes back", perOp, 50},
	}},
	{"./controller/internal/follow", []productRow{
		{"BenchmarkFollow", "from the cloud side's desired status to what nodes get", perOp, 1000},
		{"BenchmarkFollowChange", "the same after one item has another version", perOp, 50},
		{"BenchmarkUnitStatus", "the unit status is assembled and compared", perOp, 0},
	}},
}

func policiesSection(b *session) error { return productSection(b, "policies", policyBenchmarks) }

func desiredSection(b *session) error { return productSection(b, "desired", desiredBenchmarks) }

// productSection runs benchmarks of the product itself, each package in a process of its own.
func productSection(b *session, section string, all []productBenchmarks) error {
	for _, p := range all {
		var names []string
		for _, row := range p.rows {
			names = append(names, strings.TrimPrefix(row.benchmark, "Benchmark"))
		}
		cmd := exec.Command("go", "test", "-run", "^$", "-bench", "^Benchmark("+strings.Join(names, "|")+")$",
			"-benchtime", "0.5s", "-count", "3", p.pkg)
		cmd.Dir = b.root
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("the benchmarks of %s: %w\n%s", p.pkg, err, out)
		}
		for _, row := range p.rows {
			samples, err := milliseconds(string(out), row.benchmark, row.per)
			if err != nil {
				return fmt.Errorf("%s: %w", p.pkg, err)
			}
			f := figure{Section: section, Name: row.name, Unit: "ms", Samples: samples}
			if row.most > 0 {
				f = f.most(row.most)
			}
			b.add(f)
		}
	}
	return nil
}

// milliseconds returns the times, in ms, that "go test -bench" prints of a benchmark in a unit such as ns/op.
func milliseconds(out, benchmark, per string) (samples []float64, err error) {
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		at := slices.Index(f, per)
		if at < 1 {
			continue
		}
		if name, _, _ := strings.Cut(f[0], "-"); name != benchmark { // behind it: the number of processors
			continue
		}
		ns, err := strconv.ParseFloat(f[at-1], 64)
		if err != nil {
			return nil, err
		}
		samples = append(samples, ns/1e6)
	}
	if samples == nil {
		return nil, fmt.Errorf("there is no benchmark %s with %s any more", benchmark, per)
	}
	return samples, nil
}
