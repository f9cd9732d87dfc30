// Command tandem-bench measures the product against floors in the same run on the same machine: the lean floor shares
// nothing with the product but bbolt; the other is the product's broker with bare clients, one durable commit per
// status and nothing else. It measures what a user might take instead, too: etcd, NATS JetStream, mosquitto. It prints
// a table with what is asked for beside what was met, and with --json writes a file. It must not tune what it measures.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	if len(args) == 2 && args[0] == childFlag {
		if err := child(args[1]); err != nil {
			fmt.Fprintln(os.Stderr, "tandem-bench: host:", err)
			return 1
		}
		return 0
	}
	if err := bench(args); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "tandem-bench:", err)
		}
		return 1
	}
	return 0
}

// options are what the sections are told.
type options struct {
	sizes     []int
	large     int           // nodes in the sections with one size
	scale     int           // nodes in scale
	holds     []int         // nodes in holds, step by step
	procs     []int         // processors in holds
	records   int           // in records
	idle      time.Duration // in shipped
	watch     time.Duration // in idle
	pairs     int
	transport []string
	dir       string
	profile   string
	etcd      string // program; "": a current one is built
	root      string // of the source tree, for what is built or tested
}

// sections in the order of the table.
var sections = []struct {
	name, about string
	run         func(*session) error
}{
	{"apply", "a unit configuration to every node, and every status journaled", applySection},
	{"etcd", "the same with etcd's watch and put", etcdSection},
	{"peers", "the same with mosquitto and NATS JetStream", peersSection},
	{"tls", "the same apply, and connecting, with mutual TLS beside plain", tlsSection},
	{"stall", "one node that does not read, and the others", stallSection},
	{"storm", "all nodes come back with new documents waiting", stormSection},
	{"restart", "the controller is killed and starts again", restartSection},
	{"scale", "a checked apply to as many nodes as memory allows, over pipes", scaleSection},
	{"holds", "how many nodes one controller holds with a limit of memory, on 2 and 4 processors", holdsSection},
	{"refill", "a broker outside is killed and an empty one starts", refillSection},
	{"viewers", "an apply while a hundred viewers look on", viewersSection},
	{"memory", "the controller's memory per idle node", memorySection},
	{"shipped", "the shipped controller's memory as its user sees it, plain and with mutual TLS", shippedSection},
	{"journal", "records made durable per second", journalSection},
	{"records", "a long journal: size, start, questions, compacting", recordsSection},
	{"policies", "policies and rollouts in a unit of 10,000 nodes", policiesSection},
	{"desired", "what should run where: 1,000 nodes × 200 items × 50 subjects", desiredSection},
	{"agent", "the node agent's size, memory and time", agentSection},
	{"idle", "wake-ups and bytes on the wire of an idle agent", idleSection},
	{"sampling", "what measuring the node costs", samplingSection},
	{"slots", "two hundred workloads on one node", slotsSection},
}

// session is one run of the program.
type session struct {
	options
	report report
	built  bool // the product's programs are, in dir
}

func bench(args []string) error {
	flags := flag.NewFlagSet("tandem-bench", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "Usage: tandem-bench [flags] [section…]\n\nMeasures the product against its "+
			"floor and prints a table. Sections (default: all):\n")
		for _, s := range sections {
			fmt.Fprintf(flags.Output(), "  %-8s %s\n", s.name, s.about)
		}
		fmt.Fprintf(flags.Output(), "\nFlags:\n")
		flags.PrintDefaults()
	}
	sizes := flags.String("sizes", "1000,10000", "numbers of nodes in apply, etcd, peers and tls")
	transport := flags.String("transport", "tcp,pipe", "how the nodes reach the broker in apply: tcp (the broker in "+
		"a process of its own), pipe (all in one process)")
	b := &session{}
	flags.IntVar(&b.large, "large", 10_000, "nodes in storm, restart, refill, viewers, memory and shipped")
	flags.IntVar(&b.scale, "scale", 45_000, "nodes in scale")
	holds := flags.String("holds", "1000,3000,10000,20000", "numbers of nodes in holds, until a bound is not kept to")
	procs := flags.String("procs", "2,4", "numbers of processors in holds, as far as the machine has them")
	flags.IntVar(&b.records, "records", 1_000_000, "records in the journal of records")
	flags.DurationVar(&b.idle, "idle", 2*time.Minute, "how long the controller is left alone in shipped")
	flags.DurationVar(&b.watch, "watch", 3*time.Minute, "how long the agent is watched in idle")
	flags.IntVar(&b.pairs, "pairs", 15, "times that floor and product are measured in turn")
	flags.StringVar(&b.profile, "profile", "", "directory for profiles of the product in apply, tls, storm and memory")
	flags.StringVar(&b.etcd, "etcd", "", "program to measure in etcd (default: one as new as the client here is built)")
	flags.StringVar(&b.root, "root", ".", "the source tree")
	path := flags.String("json", "", "file to write the figures to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for s := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 2 {
			return fmt.Errorf("--sizes: %q is not a number of nodes", s)
		}
		b.sizes = append(b.sizes, n)
	}
	var err error
	if b.holds, err = numbers("holds", *holds, 2); err != nil {
		return err
	}
	if b.procs, err = numbers("procs", *procs, 1); err != nil {
		return err
	}
	for t := range strings.SplitSeq(*transport, ",") {
		if t != "tcp" && t != "pipe" {
			return fmt.Errorf("--transport: %q is neither tcp nor pipe", t)
		}
		b.transport = append(b.transport, t)
	}
	wanted := flags.Args()
	for _, w := range wanted {
		if !slices.ContainsFunc(sections, func(s struct {
			name, about string
			run         func(*session) error
		}) bool {
			return s.name == w
		}) {
			return fmt.Errorf("no section %q; see --help", w)
		}
	}
	if b.dir, err = os.MkdirTemp("", "tandem-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	b.report = report{Started: time.Now().UTC(), Go: runtime.Version(), CPUs: runtime.NumCPU(), Arch: runtime.GOARCH}
	var failures []error
	for _, s := range sections {
		if len(wanted) > 0 && !slices.Contains(wanted, s.name) {
			continue
		}
		fmt.Printf("\n%s: %s\n", s.name, s.about)
		if err := s.run(b); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", s.name, err))
			fmt.Println("  failed:", err)
		}
		runtime.GC()
	}
	b.report.summary(os.Stdout)
	if *path != "" {
		raw, err := json.MarshalIndent(&b.report, "", "  ")
		if err == nil {
			err = os.WriteFile(*path, append(raw, '\n'), 0o644)
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// folder makes a directory for one host's files.
func (b *session) folder() (string, error) { return os.MkdirTemp(b.dir, "host-") }
