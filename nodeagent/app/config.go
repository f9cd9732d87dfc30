// Package app is the node agent: it wires the inbox, the store, the reports and the appliers of one node together
// and runs them.
//
// One goroutine owns all state. Its inputs are messages of the link, results of appliers, and the time. It steps
// the state machine with each input, saves the new state, and then carries out the effects. Appliers, the sender
// and the link have a goroutine each; Run starts these and waits for them.
package app

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tandem.internal/nodeagent/internal/confine"
	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/nodeagent/internal/monitor"
	"tandem.internal/nodeagent/internal/update/disk"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/link"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// Config is the agent's configuration, as package settings reads it. New completes a Config that
// was not read by it: zero times and limits mean their defaults.
type Config struct {
	Unit       string `name:"unit"`
	Node       string `name:"node"`
	Type       string `name:"type"`
	Broker     string `name:"broker"`
	Password   string `name:"password" secret:"true"`
	Controller string `name:"controller"`
	Key        string `name:"key"`
	StateDir   string `name:"state-dir" default:"/var/lib/tandem-node"`

	OnApply        string        `name:"on-apply"`
	OnApplyTimeout time.Duration `name:"on-apply-timeout" default:"30s"`
	RepairDrift    bool          `name:"repair-drift" default:"true"`

	MaxPriority   int               `name:"max-priority" default:"-1"`
	AllowedLabels []string          `name:"allowed-label"`
	Partitions    map[string]string `name:"partition"`
	Components    map[string]string `name:"component"`
	Attributes    map[string]string `name:"attribute"`

	SamplePeriod  time.Duration `name:"sample-period" default:"10s"`
	Interfaces    []string      `name:"interface"`
	Textfile      string        `name:"textfile"`
	OnIndicator   string        `name:"on-indicator"`
	RebootCommand string        `name:"reboot-command"`
	WatchDir      string        `name:"watch-dir"`
	ResetTime     time.Duration `name:"reset-time"`
	FallbackTime  time.Duration `name:"fallback-time"`
	TestTime      time.Duration `name:"test-time"`
	DeadlineTime  time.Duration `name:"deadline-time"`
	ContactTime   time.Duration `name:"contact-time"`
	WatchdogTime  time.Duration `name:"watchdog-time"`
	NeedApproval  bool          `name:"need-approval"`

	Workloads         bool          `name:"workloads" default:"true"`
	WorkloadWindow    time.Duration `name:"workload-window" default:"30s"`
	WorkloadGrace     time.Duration `name:"workload-grace" default:"10s"`
	WorkloadStatus    time.Duration `name:"workload-status" default:"30s"`
	WorkloadReopen    time.Duration `name:"workload-reopen" default:"24h"`
	WorkloadLogBytes  int           `name:"workload-log-bytes" default:"1048576"`
	WorkloadLogFiles  int           `name:"workload-log-files" default:"4"`
	WorkloadGroup     string        `name:"workload-group"`
	WorkloadRead      []string      `name:"workload-read"`
	WorkloadWrite     []string      `name:"workload-write"`
	WorkloadUsers     string        `name:"workload-users"`
	WorkloadLoopback  string        `name:"workload-loopback"`
	ContainerRuntime  string        `name:"container-runtime" default:"auto"`
	Confine           string        `name:"confine" default:"none"`
	UnprovedResources bool          `name:"unproved-resources"`
	NodePolicy        string        `name:"node-policy"`
	FetchRate         int           `name:"fetch-rate"`
	FetchParallel     int           `name:"fetch-parallel" default:"2"`
	FetchKeep         int           `name:"fetch-keep-free" default:"67108864"`
	PeerListen        string        `name:"peer-listen"`
	Peers             []string      `name:"peer"`
	PeerAllow         []string      `name:"peer-allow"`
	PeerRate          int           `name:"peer-rate"`
	DecryptKey        string        `name:"decrypt-key"`

	PublisherSetting
	OfferSetting

	UnitKey      string        `name:"unit-key"`
	PinKeys      bool          `name:"pin-keys"`
	RootKeys     []string      `name:"root-key"`
	Beat         time.Duration `name:"beat" default:"60s"`
	EventLimit   int           `name:"event-limit" default:"1000"`
	SubscribeQoS int           `name:"subscribe-qos" default:"1"`
	LogLevel     string        `name:"log-level" default:"info"`

	brought []string // settings that the version has brought, whether they count or not
	built   string   // version of the program without them
	contain string   // the container runtime that was found; "": none
	unread  error    // why it is not known
}

// NewConfig returns a Config with the defaults, for callers that do not read settings.
func NewConfig(unit, node, nodeType, stateDir string) Config {
	return Config{Unit: unit, Node: node, Type: nodeType, StateDir: stateDir, MaxPriority: -1, SubscribeQoS: 1,
		RepairDrift: true, Workloads: true}
}

// Usage is the beginning of the help of tandem-node.
func (*Config) Usage() string {
	return `Usage: tandem-node join --controller URL --token -
       tandem-node --type TYPE [flags]
       tandem-node launch -- [flags]
       tandem-node slot stage|try|status|approve|commit|rollback
       tandem-node alerts sample
       tandem-node trust [--reset]
       tandem-node keep --quit
       tandem-node version

Keeps this node on the configuration that the unit's controller wants: receives it over MQTT,
checks it, writes it to config.json, runs the on-apply command, and reports what runs. Works on
with the last good configuration for as long as no controller can be reached. Sends alerts, tells
how the node is, and restarts it if nobody hears it.

"launch" starts the agent from the slot that is to run, so that it can be updated ("slot");
"alerts" records what alert rules would see; "trust" shows whom the node believes;
"keep --quit" ends its workloads. Each has --help of its own.

A node that has joined its unit ("tandem-node join --help") knows by that what the unit is, who
the node is and where the broker is; what it hears and says goes over TLS. Without, --unit says
which one, and the broker has to be on this machine, or its network trusted.

Example:
  tandem-node --type mainType --state-dir /var/lib/tandem-node \
      --partition services=/var/services --on-apply "/usr/bin/systemctl reload services"
`
}

// UsageError is a mistake in the configuration: exit status 2.
type UsageError struct{ Setting, Message string }

func (e *UsageError) Error() string { return "--" + e.Setting + ": " + e.Message }

// complete fills in defaults and checks what can be checked without the disk. The error is a *UsageError.
func (c *Config) complete() error {
	for _, check := range []func() error{c.completeNames, c.checkLimits, c.completeTimes, c.completeWorkloads,
		c.checkOffers} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// nameRule describes the names that topic.ValidName accepts.
const nameRule = "letters, digits, '.', '_' and '-', a letter or digit first, at most 63"

func bad(setting, format string, a ...any) error {
	return &UsageError{setting, fmt.Sprintf(format, a...)}
}

// completeNames checks the unit, the node ID (default: the host name), the type and the state directory.
func (c *Config) completeNames() error {
	if c.Unit == "" {
		return bad("unit", "required: the unit that this node belongs to; or join one: tandem-node join. "+
			"No node has joined in %s (--state-dir)", c.StateDir)
	}
	if !topic.ValidName(c.Unit) {
		return bad("unit", "%.80q is not a unit name: %s", c.Unit, nameRule)
	}
	if c.Type == "" {
		return bad("type", "required: the node type, nodeGroupSubject.codename in unit configurations")
	}
	if c.Node == "" {
		host, err := os.Hostname()
		if err != nil || !topic.ValidName(host) {
			return bad("node", "required, because the host name %.80q cannot be a node ID: %s", host, nameRule)
		}
		c.Node = host
	}
	if !topic.ValidName(c.Node) {
		return bad("node", "%.80q is not a node ID: %s", c.Node, nameRule)
	}
	if c.StateDir == "" {
		return bad("state-dir", "required")
	}
	return nil
}

// checkLimits checks the settings that limit what the node takes, components, and counts.
func (c *Config) checkLimits() error {
	if c.MaxPriority < -1 || int64(c.MaxPriority) > math.MaxUint32 {
		return bad("max-priority", "%d is neither -1 nor a priority", c.MaxPriority)
	}
	for name, path := range c.Partitions {
		if !filepath.IsAbs(path) {
			return bad("partition", "the path of %s=%s is not absolute", name, path)
		}
	}
	if slices.Contains(c.AllowedLabels, "") {
		return bad("allowed-label", "a label is not empty")
	}
	if len(c.Components) > disk.Most {
		return bad("component", "more than %d", disk.Most)
	}
	for name, command := range c.Components {
		if !topic.ValidName(name) {
			return bad("component", "%.80q is not a name: %s", name, nameRule)
		}
		if len(strings.Fields(command)) == 0 {
			return bad("component", "%s= has no command", name)
		}
	}
	if c.SubscribeQoS != 0 && c.SubscribeQoS != 1 {
		return bad("subscribe-qos", "%d is neither 0 nor 1", c.SubscribeQoS)
	}
	if c.EventLimit == 0 {
		c.EventLimit = 1000
	}
	if c.EventLimit < 1 {
		return bad("event-limit", "below 1")
	}
	return nil
}

// completeTimes checks times; those that are 0 get their defaults.
func (c *Config) completeTimes() error {
	if c.OnApplyTimeout == 0 {
		c.OnApplyTimeout = 30 * time.Second
	}
	if c.Beat == 0 {
		c.Beat = time.Minute
	}
	if c.SamplePeriod == 0 {
		c.SamplePeriod = monitor.DefaultPeriod
	}
	for _, t := range []struct {
		name  string
		value time.Duration
	}{{"reset-time", c.ResetTime}, {"fallback-time", c.FallbackTime}, {"test-time", c.TestTime},
		{"deadline-time", c.DeadlineTime}, {"contact-time", c.ContactTime}, {"watchdog-time", c.WatchdogTime}} {
		if t.value < 0 || t.value%time.Second != 0 {
			return bad(t.name, "%v is no time in whole seconds", t.value)
		}
	}
	if err := c.health().Check(); err != nil {
		return bad(strings.TrimPrefix(err.Path, "/")+"-time", "%s", err.Message)
	}
	if c.OnApplyTimeout < 0 {
		return bad("on-apply-timeout", "negative")
	}
	if c.Beat < time.Second {
		return bad("beat", "below one second")
	}
	return nil
}

// completeWorkloads checks the settings of workloads and downloads; times that are 0 get their defaults.
func (c *Config) completeWorkloads() error {
	for _, t := range []struct {
		name  string
		value *time.Duration
		usual time.Duration
	}{{"workload-window", &c.WorkloadWindow, 30 * time.Second}, {"workload-grace", &c.WorkloadGrace, 10 * time.Second},
		{"workload-status", &c.WorkloadStatus, 30 * time.Second},
		{"workload-reopen", &c.WorkloadReopen, 24 * time.Hour}} {
		if *t.value == 0 {
			*t.value = t.usual
		}
		if *t.value < 100*time.Millisecond {
			return bad(t.name, "%v is below 100ms", *t.value)
		}
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"workload-log-bytes", c.WorkloadLogBytes}, {"workload-log-files", c.WorkloadLogFiles},
		{"fetch-rate", c.FetchRate}, {"fetch-parallel", c.FetchParallel},
		{"fetch-keep-free", c.FetchKeep}, {"peer-rate", c.PeerRate}} {
		if n.value < 0 {
			return bad(n.name, "below 0")
		}
	}
	if g := c.WorkloadGroup; g != "" && g[0] != '/' {
		return bad("workload-group", "%q does not name a control group as /proc/PID/cgroup does", g)
	}
	for name, paths := range map[string][]string{"workload-read": c.WorkloadRead, "workload-write": c.WorkloadWrite} {
		for _, path := range paths {
			if !filepath.IsAbs(path) {
				return bad(name, "%q is not absolute", path)
			}
		}
	}
	if r := c.ContainerRuntime; r != "" && r != autoRuntime && r != noRuntime && !filepath.IsAbs(r) {
		return bad("container-runtime", "%q is neither %s nor %s, and not absolute", r, autoRuntime, noRuntime)
	}
	if err := confine.Level(c.Confine).Check(); err != nil {
		return bad("confine", "%v", err)
	}
	users, err := keep.ParseUsers(c.WorkloadUsers)
	if err != nil {
		return bad("workload-users", "%v", err)
	}
	if _, _, err := keep.Loopback(c.WorkloadLoopback).Ports(); err != nil {
		return bad("workload-loopback", "%v", err)
	}
	if c.WorkloadLoopback != "" && users.None() {
		return bad("workload-loopback", "it needs users for slots (--workload-users)")
	}
	if l := confine.Level(c.Confine); users.None() && (l.Has(confine.User) || l.Has(confine.Net)) {
		return bad("confine", "%s needs users for slots (--workload-users)", l)
	}
	return nil
}

// defaultBroker is the broker of a node that has not joined.
const defaultBroker = "tcp://127.0.0.1:1883"

// unitKey returns the key of --unit-key, nil if the setting is empty. The error is a *UsageError.
func (c Config) unitKey() (seal.Trust, error) {
	if c.UnitKey == "" {
		return nil, nil
	}
	text := c.UnitKey
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) != ed25519.PublicKeySize {
		data, ferr := durable.ReadFile(c.UnitKey, 4096)
		if ferr != nil {
			return nil, &UsageError{"unit-key", fmt.Sprintf("neither 32 bytes in base64 nor a file: %v", ferr)}
		}
		text = strings.TrimSpace(string(data))
		if key, err = base64.StdEncoding.DecodeString(text); err != nil || len(key) != ed25519.PublicKeySize {
			return nil, &UsageError{"unit-key", fmt.Sprintf("file %s does not hold 32 bytes in base64", c.UnitKey)}
		}
	}
	pub := ed25519.PublicKey(key)
	return seal.Trust{seal.KeyID(pub): pub}, nil
}

// rules returns the limits that the node's settings put on config documents.
func (c Config) rules() unitconfig.LocalRules {
	var r unitconfig.LocalRules
	if c.MaxPriority >= 0 {
		p := uint32(c.MaxPriority)
		r.MaxPriority = &p
	}
	if len(c.AllowedLabels) > 0 {
		r.AllowedLabels = slices.Clone(c.AllowedLabels)
	}
	if len(c.Partitions) > 0 {
		r.Partitions = c.partitionNames()
	}
	return r
}

func (c Config) partitionNames() []string {
	names := make([]string, 0, len(c.Partitions))
	for name := range c.Partitions {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// qos is the QoS of the link's subscriptions.
func (c Config) qos() link.QoS {
	if c.SubscribeQoS == 0 {
		return link.AtMostOnce
	}
	return link.AtLeastOnce
}

// health returns the node's own settings of health; the controller's come first.
func (c Config) health() wire.HealthSettings {
	s := wire.HealthSettings{FormatVersion: wire.HealthFormat,
		Reset: wire.Span(c.ResetTime), Fallback: wire.Span(c.FallbackTime), Test: wire.Span(c.TestTime),
		Deadline: wire.Span(c.DeadlineTime), Contact: wire.Span(c.ContactTime), Watchdog: wire.Span(c.WatchdogTime)}
	if c.NeedApproval {
		s.Approval = &c.NeedApproval
	}
	if c.RebootCommand == "" {
		s.Reboot = new(bool)
	}
	return s
}

func (c Config) identity() inbox.Identity { return inbox.Identity{Unit: c.Unit, Node: c.Node} }
