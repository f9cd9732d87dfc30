// Package app is the node agent: it wires the inbox, the store, the reports and the appliers of
// one node together and runs them.
//
// One goroutine owns all state: what comes in on the link, what appliers answer, and time passing
// are events to it; each is stepped, saved, and only then acted upon. Appliers, the sender and the
// link have a goroutine each, which Run starts and waits for.
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

	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/nodeagent/internal/monitor"
	"tandem.internal/nodeagent/internal/update/disk"
	"tandem.internal/shared/link"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// Config is the agent's configuration, as package settings reads it. New completes a Config that
// was not read by it: zero times and limits mean their defaults.
type Config struct {
	Unit       string `name:"unit" help:"unit that this node belongs to (required, unless it has joined one)"`
	Node       string `name:"node" help:"ID of this node; empty: the one that it has joined as, or the host name"`
	Type       string `name:"type" help:"node type, nodeGroupSubject.codename in unit configurations (required)"`
	Broker     string `name:"broker" help:"MQTT broker: tcp://, tls:// or unix:// URL; empty: the one that the controller named when this node joined, else tcp://127.0.0.1:1883"`
	Password   string `name:"password" secret:"true" help:"password at the broker; the user name is node/ID"`
	Controller string `name:"controller" help:"the controller's join door, https://HOST:PORT, if it is not where this node has joined any more: certificates are renewed there"`
	StateDir   string `name:"state-dir" default:"/var/lib/tandem-node" help:"directory for config.json and the agent's own state; made if missing"`

	OnApply        string        `name:"on-apply" help:"command to run when config.json has changed: words separated by white space, no shell and no quoting. It finds TANDEM_MODE (apply, try, rollback, repair), TANDEM_CONFIG_FILE, TANDEM_VERSION and TANDEM_PREVIOUS_VERSION in its environment, and succeeds with exit status 0"`
	OnApplyTimeout time.Duration `name:"on-apply-timeout" default:"30s" help:"time limit of the on-apply command; past it the command's process group is killed"`

	MaxPriority   int               `name:"max-priority" default:"-1" help:"highest priority that this node takes; -1: any"`
	AllowedLabels []string          `name:"allowed-label" help:"label that this node takes; none: any"`
	Partitions    map[string]string `name:"partition" help:"partition that alert rules may name, as name=path; none: not checked"`
	Components    map[string]string `name:"component" help:"part of the node that a program updates on trial (slots.md, Other components), as name=command: words separated by white space"`
	Attributes    map[string]string `name:"attribute" help:"attribute to report with the node's information"`

	SamplePeriod  time.Duration `name:"sample-period" default:"10s" help:"how often CPU, RAM, partitions and traffic are measured, for alerts and for the node's health"`
	Interfaces    []string      `name:"interface" help:"network interface whose traffic counts, or a pattern such as eth*; none: all but the loopback"`
	OnIndicator   string        `name:"on-indicator" help:"command that shows the link indicator, to drive a light: words separated by white space. It finds TANDEM_INDICATOR (1 no address, 2 no broker, 3 no controller, 4 in contact, from 10 errors) and TANDEM_INDICATOR_TEXT in its environment"`
	RebootCommand string        `name:"reboot-command" help:"command that restarts the machine, such as systemctl reboot; it finds TANDEM_REASON and TANDEM_DETAIL in its environment. None: the agent never does"`
	WatchDir      string        `name:"watch-dir" help:"directory in which other programs ask to be watched: NAME.touch, a file that they touch every 25 seconds, and NAME.pid, the number of a process that is to live; none: nobody is"`
	ResetTime     time.Duration `name:"reset-time" help:"without a word from the controller for so long, restart the machine (0s: 168h; the controller's setting comes first)"`
	FallbackTime  time.Duration `name:"fallback-time" help:"on trial: without a word from the controller for so long, go back to the slot before (0s: 5m; likewise)"`
	TestTime      time.Duration `name:"test-time" help:"on trial: keep the slot after so long in good health (0s: 10m; likewise)"`
	DeadlineTime  time.Duration `name:"deadline-time" help:"on trial: go back to the slot before, if it is not kept after running for so long (0s: twice test and fallback time, at least 24h where an approval is needed; likewise)"`
	ContactTime   time.Duration `name:"contact-time" help:"for how long a word from the controller counts as contact (0s: 2m30s; likewise)"`
	WatchdogTime  time.Duration `name:"watchdog-time" help:"a loop of the agent, or a watched program, that stands still for so long hangs (0s: 1m; likewise, from the next start on)"`
	NeedApproval  bool          `name:"need-approval" help:"a slot on trial is kept only after somebody has approved of it, whatever the controller's settings say"`

	Workloads        bool          `name:"workloads" default:"true" help:"run the workloads that the controller places on this node"`
	WorkloadWindow   time.Duration `name:"workload-window" default:"30s" help:"a new version of an instance has to stay up for so long, or the one before comes back"`
	WorkloadGrace    time.Duration `name:"workload-grace" default:"10s" help:"how long a process has to end after SIGTERM, before SIGKILL"`
	WorkloadStatus   time.Duration `name:"workload-status" default:"30s" help:"how often iss_hook_status is run"`
	WorkloadReopen   time.Duration `name:"workload-reopen" default:"24h" help:"how often iss_hook_reopenlogs is run"`
	WorkloadLogBytes int           `name:"workload-log-bytes" default:"1048576" help:"size of one file of the output of a slot's process"`
	WorkloadLogFiles int           `name:"workload-log-files" default:"4" help:"such files kept"`
	WorkloadGroup    string        `name:"workload-group" help:"control group in which workloads get theirs, as /proc/PID/cgroup names groups (processes.md, Constraints); empty: the agent's own"`
	FetchRate        int           `name:"fetch-rate" help:"bytes a second of all downloads of resources together; 0: no limit"`
	FetchParallel    int           `name:"fetch-parallel" default:"2" help:"downloads at a time"`
	FetchKeep        int           `name:"fetch-keep-free" default:"67108864" help:"bytes that resources leave free on the file system"`
	PeerListen       string        `name:"peer-listen" help:"HOST:PORT where other nodes may fetch by BitTorrent what this node holds (only in the full agent); none: nobody may"`
	Peers            []string      `name:"peer" help:"HOST:PORT of a node to fetch from by BitTorrent"`
	PeerAllow        []string      `name:"peer-allow" help:"address, or prefix such as 10.0.0.0/8, that may connect beside those of --peer"`
	PeerRate         int           `name:"peer-rate" help:"bytes a second given to other nodes; 0: no limit"`

	UnitKey      string        `name:"unit-key" help:"the unit's public key (Ed25519, base64), or a file that holds it; empty: trust the first controller heard"`
	PinKeys      bool          `name:"pin-keys" help:"learn another signing key only from a key that is believed already, or by hand, and never by asking the controller at its join door: a node that missed a rotation, and every node when the key is lost, then needs hands"`
	Beat         time.Duration `name:"beat" default:"60s" help:"how often to say that the node is alive, within a fifth at random"`
	EventLimit   int           `name:"event-limit" default:"1000" help:"events kept until the controller has them; the oldest go first"`
	SubscribeQoS int           `name:"subscribe-qos" default:"1" help:"MQTT QoS of subscriptions, 0 or 1; 0 suits NATS"`
	LogLevel     string        `name:"log-level" default:"info" help:"debug, info, warn or error"`
}

// NewConfig returns a Config with the defaults, for callers that do not read settings.
func NewConfig(unit, node, nodeType, stateDir string) Config {
	return Config{Unit: unit, Node: node, Type: nodeType, StateDir: stateDir, MaxPriority: -1, SubscribeQoS: 1,
		Workloads: true}
}

// Usage opens the help of tandem-node.
func (*Config) Usage() string {
	return `Usage: tandem-node join --controller URL --token TOKEN
       tandem-node --type TYPE [flags]
       tandem-node launch [--state-dir DIR] -- [flags]
       tandem-node slot stage|try|status|approve|commit|rollback
       tandem-node alerts replay|sample
       tandem-node trust [--reset]
       tandem-node keep --quit
       tandem-node version

Keeps this node on the configuration that the unit's controller wants: receives it over MQTT,
checks it, writes it to config.json, runs the on-apply command, and reports what runs. Works on
with the last good configuration for as long as no controller can be reached. Sends alerts, tells
how the node is, and restarts it if nobody hears it.

"launch" starts the agent from the slot that is to run, so that it can be updated ("slot");
"alerts" tries alert rules on recorded samples; "trust" shows whom the node believes;
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

// complete fills in defaults and checks what can be checked without touching the disk.
func (c *Config) complete() error {
	for _, check := range []func() error{c.completeNames, c.checkLimits, c.completeTimes, c.completeWorkloads} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// nameRule says what topic.ValidName wants.
const nameRule = "letters, digits, '.', '_' and '-', a letter or digit first, at most 63"

func bad(setting, format string, a ...any) error {
	return &UsageError{setting, fmt.Sprintf(format, a...)}
}

func (c *Config) completeNames() error {
	if c.Unit == "" {
		return bad("unit", "required: the unit that this node belongs to; or join one: tandem-node join")
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

func (c *Config) checkLimits() error {
	if c.MaxPriority < -1 || int64(c.MaxPriority) > math.MaxUint32 {
		return bad("max-priority", "%d is neither -1 nor a priority", c.MaxPriority)
	}
	for name, path := range c.Partitions {
		if !filepath.IsAbs(path) {
			return bad("partition", "the path of %s=%s is not absolute", name, path)
		}
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
	return nil
}

// defaultBroker is on this machine.
const defaultBroker = "tcp://127.0.0.1:1883"

// unitKey reads the provisioned key, if there is one.
func (c Config) unitKey() (seal.Trust, error) {
	if c.UnitKey == "" {
		return nil, nil
	}
	text := c.UnitKey
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) != ed25519.PublicKeySize {
		data, ferr := os.ReadFile(c.UnitKey)
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

// rules are the node's own limits on config documents.
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

// qos is how the link subscribes.
func (c Config) qos() link.QoS {
	if c.SubscribeQoS == 0 {
		return link.AtMostOnce
	}
	return link.AtLeastOnce
}

// health are the node's own settings of health.
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
