package app

import (
	"context"
	"math/rand/v2"
	"net"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/boot"
	"tandem.internal/nodeagent/internal/configfile"
	"tandem.internal/nodeagent/internal/container"
	"tandem.internal/nodeagent/internal/fetch"
	"tandem.internal/nodeagent/internal/kind"
	kindworkloads "tandem.internal/nodeagent/internal/kinds/workloads"
	"tandem.internal/nodeagent/internal/monitor"
	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/store"
	"tandem.internal/nodeagent/internal/workloads"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/link"
	"tandem.internal/shared/runlog"
	"tandem.internal/shared/wire"
)

// Point is a moment around a commit of the agent's store: "before" or "after".
type Point = store.Point

// What tests of the node's health hold in their hands.
type (
	Sources  = monitor.Sources
	Times    = monitor.Times
	Counters = monitor.Counters
	Usage    = monitor.Usage
	Evidence = boot.Evidence
)

// Deps is what the agent takes from the world. Production sets Log; tests set what they want to
// hold in their hands.
type Deps struct {
	// Now is the wall clock; nil means time.Now. It may jump. Timers do not use it.
	Now func() time.Time
	// Rand is the chance in back-off and jitter; only the agent uses it. Nil means a random seed.
	Rand *rand.Rand
	// Log is where the agent logs; nil means nowhere.
	Log *zap.Logger
	// Level is what Log logs, which the controller may change for a while; nil means one that Log does not obey.
	Level *runlog.Level
	// NewLink makes the link to the broker; nil means link.Dial.
	NewLink func(cfg link.Config, h link.Handler) (link.Link, error)
	// OpenConn opens the connection below MQTT; nil means to dial the broker.
	OpenConn func(ctx context.Context) (net.Conn, error)
	// Dial opens connections to the controller's join door; nil means the network.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Steps is a fault seam around each step of writing config.json and the identity; nil means none.
	Steps durable.Steps
	// SlotSteps is one around each step of writing the records of the slots and of components; nil means none.
	SlotSteps durable.Steps
	// StoreFaults is a fault seam around each commit of the store; nil means none.
	StoreFaults func(Point) error
	// RunCommand runs the on-apply command with these variables added to the environment; nil
	// means to execute it and to kill its process group when ctx ends.
	RunCommand func(ctx context.Context, env, argv []string) error
	// Capacity fills in CPUs, RAM and the partitions' sizes of the node; nil means to ask the
	// operating system.
	Capacity func(*wire.NodeInfo) error
	// Sources are where the monitor's figures come from; what is nil asks the operating system.
	Sources Sources
	// Machine shows what is to be known of the machine at a start; nil means to ask Linux.
	Machine func() Evidence
	// Address says whether the node has a network address by which the broker may be reached; nil
	// means to ask the operating system.
	Address func(broker string) bool
	// LookupEnv and PID are for the service manager's watchdog, and LookupEnv tells whether systemd and the
	// launcher have started this; nil and 0 mean that there is none.
	LookupEnv func(string) (string, bool)
	PID       int
	// Keeper, Resources and Groups are what workloads are run with; nil means the keeper's process, the
	// store of resources, and the kernel's control groups.
	Keeper    func(context.Context) (workloads.Keeper, error)
	Resources workloads.Resources
	Groups    kindworkloads.Groups
	// Probe looks for a container runtime; nil means that this agent makes no containers.
	Probe func(context.Context, container.Probing) (container.Runtime, error)
	// Torrents makes BitTorrent, for the stores of resources and of releases; nil means that there is none.
	Torrents fetch.NewTorrents
	// Decrypter makes what opens files that age has encrypted, of the keys in a file; nil means that there is none.
	Decrypter fetch.NewDecrypt
	// Die ends the process at once when the watchdog finds that the agent hangs; nil means to exit.
	Die func()
	// Kinds make kinds beside the agent's own; nil: there are no others.
	Kinds []func(kind.Host) kind.Kind
	// Follow draws when to renew with a new CA of the unit; nil: see identity.RenewerConfig.
	Follow func() time.Time
	// OnState is told what is reported about each kind whenever it changes, on the agent's
	// goroutine; nil means nobody. It must not block.
	OnState func(kind wire.Kind, running *wire.DocRef, last *wire.Attempt)
}

func (d Deps) withDefaults() Deps {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Rand == nil {
		d.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	if d.Log == nil {
		d.Log = zap.NewNop()
	}
	if d.Level == nil {
		d.Level = runlog.NewLevel(zap.InfoLevel, d.Now)
	}
	if d.NewLink == nil {
		d.NewLink = func(cfg link.Config, h link.Handler) (link.Link, error) { return link.Dial(cfg, h) }
	}
	if d.RunCommand == nil {
		d.RunCommand = configfile.Exec
	}
	if d.Machine == nil {
		d.Machine = slot.Machine
	}
	if d.Address == nil {
		d.Address = address
	}
	if d.LookupEnv == nil {
		d.LookupEnv = func(string) (string, bool) { return "", false }
	}
	if d.Capacity == nil {
		d.Capacity = capacity
	}
	return d
}
