package app

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/confine"
	"tandem.internal/nodeagent/internal/fetch"
	core "tandem.internal/nodeagent/internal/health"
	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/nodeagent/internal/kind"
	"tandem.internal/nodeagent/internal/kinds/components"
	"tandem.internal/nodeagent/internal/kinds/config"
	"tandem.internal/nodeagent/internal/kinds/health"
	"tandem.internal/nodeagent/internal/kinds/policies"
	"tandem.internal/nodeagent/internal/kinds/workloads"
	"tandem.internal/nodeagent/internal/supervise"
	"tandem.internal/shared/alert"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// kinds is the list of the kinds of documents that this agent knows.
func (a *Agent) kinds(dir string) ([]kind.Kind, error) {
	if err := a.openTorrents(); err != nil {
		return nil, err
	}
	conf, err := config.New(a.configKind(dir))
	if err != nil {
		return nil, err
	}
	work, err := workloads.New(a.workloadsKind(dir), host{a})
	if err != nil {
		return nil, err
	}
	if a.policies, err = policies.New(a.policiesKind(dir), host{a}); err != nil {
		return nil, err
	}
	a.components = components.New(a.componentsKind(dir), host{a})
	list := []kind.Kind{conf, health.New(a.healthKind()), a.components.Kind(), work, a.policies.Kind()}
	for _, more := range a.deps.Kinds {
		list = append(list, more(host{a}))
	}
	return list, nil
}

func (a *Agent) configKind(dir string) config.Config {
	return config.Config{
		Path: filepath.Join(dir, ConfigFile), ID: a.id, Rules: a.cfg.rules(), OnApply: a.cfg.OnApply,
		Timeout: a.cfg.OnApplyTimeout, Observe: !a.cfg.RepairDrift, Steps: a.deps.Steps, Run: a.deps.RunCommand,
		Alerts: func(rules []alert.Rule) {
			a.node.load.Rules(rules)
			a.node.alerts.Handle(alert.Configured{Now: a.now(), Rules: rules})
		},
	}
}

func (a *Agent) healthKind() health.Config {
	return health.Config{
		Local: a.cfg.health(),
		Settings: func(set wire.HealthSettings, err *wire.Error) {
			if err != nil { // a document was checked before; the node's own settings may be another release's
				a.log.Warn("the settings of health do not go together; the stricter ones are in force", zap.Error(err))
			}
			if a.node.settings = set; a.node.begun {
				a.healthEvent(core.Settings{Settings: set})
			}
		},
		Report: func() *wire.Health {
			if a.node.report.Indicator == 0 {
				return nil
			}
			h := a.node.report
			h.Quiet, h.Load = a.quietNow(), a.node.load.Reported()
			return &h
		},
		Order: func(o core.Order) {
			a.lookAtSlots() // what was done by hand a moment ago counts
			a.healthEvent(o)
		},
		Try: a.tryPart,
	}
}

func (a *Agent) workloadsKind(dir string) workloads.Config {
	_, service := a.deps.LookupEnv("INVOCATION_ID")
	users, _ := keep.ParseUsers(a.cfg.WorkloadUsers) // which was checked with the other settings
	return workloads.Config{
		Dir: dir, Node: a.id.Node, On: a.cfg.Workloads,
		Rules: supervise.Rules{Window: a.cfg.WorkloadWindow, Grace: a.cfg.WorkloadGrace, Status: a.cfg.WorkloadStatus,
			Reopen: a.cfg.WorkloadReopen},
		LogBytes: int64(a.cfg.WorkloadLogBytes), LogFiles: a.cfg.WorkloadLogFiles,
		Group: a.cfg.WorkloadGroup, Service: service,
		Confine: keep.Confine{Least: confine.Level(a.cfg.Confine),
			Room: confine.Room{Read: a.cfg.WorkloadRead, Write: a.cfg.WorkloadWrite}},
		Containers: a.containers(dir),
		Users:      users, Loopback: keep.Loopback(a.cfg.WorkloadLoopback), Unproved: a.cfg.UnprovedResources,
		Fetch: a.fetchConfig(a.cfg.FetchParallel),
		Store: a.store, Now: a.deps.Now, Log: a.kindLog(wire.KindWorkloads), Steps: a.deps.Steps,
		Watch: func(loop string, period time.Duration) (beat, end func()) {
			return a.node.watch.Loop(loop, period) // which is made later
		},
		Keeper: a.deps.Keeper, Resources: a.deps.Resources, Groups: a.deps.Groups,
	}
}

// kindLog is the log of what a kind does.
func (a *Agent) kindLog(kind wire.Kind) *zap.Logger {
	return a.log.With(zap.String("kind", string(kind)))
}

// openFiles opens a store of files of a kind that are fetched one at a time.
func (a *Agent) openFiles(of wire.Kind, dir, name string, torrents fetch.Torrents) (*fetch.Store, error) {
	f := a.fetchConfig(1)
	f.Dir, f.Now, f.Log, f.Steps, f.Torrents = dir, a.deps.Now, a.kindLog(of).Named(name), a.deps.Steps, torrents
	return fetch.Open(f)
}

// fetchConfig is what all stores of files have in common.
func (a *Agent) fetchConfig(parallel int) fetch.Config {
	return fetch.Config{Rate: int64(a.cfg.FetchRate), Limit: a.limit, Parallel: parallel,
		Keep: int64(a.cfg.FetchKeep), Controller: a.controllerClient(), Torrents: a.torrents,
		Publishers: a.publishers, Decrypt: a.decrypt}
}

// openTorrents makes the BitTorrent that the stores share.
func (a *Agent) openTorrents() (err error) {
	a.limit = fetch.NewLimiter(int64(a.cfg.FetchRate))
	peers := fetch.Peers{Listen: a.cfg.PeerListen, Addresses: a.cfg.Peers, Allow: a.cfg.PeerAllow,
		Upload: int64(a.cfg.PeerRate)}
	if a.deps.Torrents == nil {
		if peers.Listen != "" || len(peers.Addresses) > 0 {
			a.log.Warn("the settings name other nodes to exchange files with, and this agent is built without " +
				"BitTorrent: it asks none and serves none")
		}
		return nil
	}
	if a.torrents, err = a.deps.Torrents(fetch.TorrentsConfig{Peers: peers, Limit: a.limit}); err != nil {
		return fmt.Errorf("BitTorrent: %w", err)
	}
	return nil
}

// controllerClient fetches from the controller with the node's certificate; nil: the node has not joined.
func (a *Agent) controllerClient() *http.Client {
	if a.renewer == nil {
		return nil
	}
	return fetch.NewControllerClient(a.renewer.TLS(jointoken.ServerName), a.renewer.Door)
}

// attributes are those that were set, and what the kinds say of this node. Nothing is added to what would exceed the
// wire's bound.
func (a *Agent) attributes() map[string]string {
	all := map[string]string{}
	if a.renewer != nil {
		all[wire.AttributeCA] = strings.Join(a.renewer.CAs(), " ")
		if n := a.renewer.Root(); n > 0 {
			all[wire.AttributeRoot] = strconv.FormatUint(n, 10)
		}
	}
	if names := a.cfg.brought; len(names) > 0 {
		all[wire.AttributeSettings] = strings.Join(names, " ")
	}
	for _, d := range a.documents {
		maps.Copy(all, d.kind.Attributes())
	}
	if len(a.cfg.Attributes)+len(all) > wire.MaxAttributes {
		return a.cfg.Attributes
	}
	maps.Copy(all, a.cfg.Attributes)
	return all
}
