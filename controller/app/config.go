// Package app wires the controller: New builds everything, Run runs it until its context ends.
// What the parts do is described in their own packages.
package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"tandem.internal/shared/link"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// Config is the controller's configuration; package settings reads it.
type Config struct {
	Unit     string `name:"unit"`
	StateDir string `name:"state-dir" default:"/var/lib/tandem/controller"`

	ListenTLS  string   `name:"listen-tls"`
	JoinListen string   `name:"join-listen"`
	Advertise  []string `name:"advertise"`
	Listen     string   `name:"listen"`
	Insecure   bool     `name:"insecure-listen"`

	CertificateLife time.Duration `name:"certificate-life" default:"2160h"`
	NewKey          bool          `name:"new-key"`
	NewEpoch        bool          `name:"new-epoch"`
	NewCA           bool          `name:"new-ca"`

	Passwords map[string]string `name:"passwords" secret:"true"`

	Broker       string `name:"broker"`
	BrokerCA     string `name:"broker-ca"`
	BrokerUser   string `name:"broker-user" default:"controller"`
	BrokerClient string `name:"broker-client-id" default:"controller"`
	BrokerSecret string `name:"broker-password" secret:"true"`
	SubscribeQoS int    `name:"subscribe-qos" default:"1"`

	Inbox      bool   `name:"inbox"`
	Submitters string `name:"submitters"`
	Steering   string `name:"steering" default:"workload"`
	Rebalance  bool   `name:"rebalance"`

	Socket   string `name:"socket" default:"/run/tandem/control.sock"`
	HTTP     string `name:"http"`
	HTTPCert string `name:"http-cert"`
	HTTPKey  string `name:"http-key"`

	ConfigFile   string        `name:"config-copy"`
	CheckTimeout time.Duration `name:"check-timeout" default:"5s"`
	ReportGrace  time.Duration `name:"report-grace" default:"5s"`
	ReportJitter time.Duration `name:"report-jitter" default:"5s"`

	NodeReportRate  float64 `name:"node-report-rate" default:"2"`
	NodeReportBurst float64 `name:"node-report-burst" default:"200"`
	NodeEventRate   float64 `name:"node-event-rate" default:"1"`
	NodeEventBurst  float64 `name:"node-event-burst" default:"1000"`

	StopMaintenance time.Duration `name:"stop-maintenance" default:"0s"`

	BackupTo    []string      `name:"backup-to"`
	BackupEvery time.Duration `name:"backup-every" default:"24h"`

	ArtefactQuota uint64        `name:"artefact-quota" default:"4294967296"`
	ArtefactFree  uint64        `name:"artefact-keep-free" default:"268435456"`
	ArtefactKeep  time.Duration `name:"artefact-keep" default:"720h"`
	ArtefactRate  uint64        `name:"artefact-rate" default:"12500000"`

	Keep        map[string]string `name:"keep"`
	KeepRecords int               `name:"keep-records" default:"100000"`
	KeepExport  string            `name:"keep-export"`
	DiskLow     uint64            `name:"disk-low" default:"536870912"`
	LogLevel    string            `name:"log-level" default:"info"`
}

// Help describes the settings.
func (*Config) Help() map[string]string {
	return map[string]string{
		"unit": "name of the unit (required): letters, digits, and . _ - after the first, at most 63",
		"state-dir": "directory of the journal, the unit's signing key and the readable copy of the unit " +
			"configuration; made with mode 0700 if it is missing",
		"listen-tls": "address on which the embedded broker serves nodes that have joined, over mutual TLS, " +
			"such as :8883; not used with --broker",
		"join-listen": "address of the door by which nodes join and renew their certificates, over TLS (empty: " +
			"with --listen-tls, the port after its port)",
		"advertise": "host name or address under which nodes reach this machine; the first one is what " +
			"tokens say (none: the host of --listen-tls, or this machine's name)",
		"listen": "address on which the embedded broker serves without TLS, for nodes on this machine " +
			"(empty: 127.0.0.1:1883, or none with --listen-tls)",
		"insecure-listen": "let --listen and --http be addresses that other machines reach although the traffic is " +
			"not encrypted (--http: unless it begins with https://); whoever is on that network can then pose as a " +
			"node, and read tokens",
		"certificate-life": "how long the certificate of a node counts; it is renewed after two thirds of that, so " +
			"a node may be away for a third of it at least",
		"new-epoch": "issue everything anew in a higher epoch: for a journal that was copied by hand, when nodes " +
			"know newer documents and cannot show them; give it for one start only",
		"new-key": "go on with another signing key although the one that signs is lost: one that is left " +
			"in the state directory, or else a new one. Nodes that have joined learn it at the join door, the others " +
			"need hands",
		"new-ca": "make a new CA although the unit's is lost, or take over another; every node has to " +
			"join again",
		"passwords": "passwords at the embedded broker by user name: cloud/NAME and operator/NAME need one, " +
			"node/ID may have one; better given in the file, or as TANDEM_PASSWORDS, than on the command line",
		"broker": "URL of a broker to use instead of the embedded one, such as tls://10.0.0.5:8883; there " +
			"the controller shows a certificate of the unit's CA, if it has one (--join-listen)",
		"broker-ca": "file with the certificates of the authorities that may vouch for a tls:// --broker, in " +
			"PEM (empty: the system's and the unit's own CA)",
		"broker-user":      "user name at --broker",
		"broker-client-id": "client ID at --broker; units that share a broker need one each",
		"broker-password":  "password at --broker; better given as TANDEM_BROKER_PASSWORD than on the command line",
		"subscribe-qos":    "QoS of subscriptions at --broker: 1, or 0 for NATS, where a QoS 1 subscription is dear",
		"inbox":            "take submissions over MQTT; with --broker they have to be signed, see --submitters",
		"submitters": "file of those who may submit over MQTT, a line each: NAME KEY (Ed25519, base64) and, to " +
			"limit it, KIND,KIND; then what comes there has to be signed. Read again for each submission",
		"steering": "what says which workloads run: workload (tandem workload apply), desired (items and subjects, " +
			"by tandem desired apply) or cloud (the desired status on inbox/desired); the others are refused",
		"rebalance": "with --steering desired: services leave nodes that are overloaded by the alert rules of the " +
			"unit configuration (items.md, Relief)",
		"socket": "unix socket of the HTTP API; whoever may open it may do everything (mode 0660)",
		"http": "TCP address of the HTTP API and the dashboard, in addition to the socket, such as " +
			":8885; over TLS, but on loopback plain unless it begins with https://; callers need a token: tandem " +
			"token create",
		"http-cert": "file with the certificate of --http and those up to its CA, in PEM; read again when it " +
			"changes (empty: one of the unit's CA, for the names of --advertise)",
		"http-key":      "file with the key of --http-cert, in PEM; mode 0600 or 0640",
		"config-copy":   "readable copy of the unit configuration (empty: unit-config.json in --state-dir)",
		"check-timeout": "how long the online nodes have to judge a submission; silence is no refusal",
		"report-grace":  "how long a node's report may take before the controller asks for it",
		"report-jitter": "nodes spread the reports that a new epoch makes them repeat over this long",
		"node-report-rate": "reports and presence messages a second of one node that the journal takes, each KiB " +
			"counting as one; beyond that the newest of each waits, and nothing is lost",
		"node-report-burst": "how many of those it takes at once from a node that was quiet",
		"node-event-rate": "events a second of one node that the journal takes, each KiB counting as one; beyond " +
			"that they wait in the node's own queue",
		"node-event-burst": "how many events it takes at once from a node that was quiet; a node keeps 1000 while " +
			"it is cut off",
		"stop-maintenance": "a stop in good order tells the nodes that the controller is away on purpose for this " +
			"long, at most 24h: they do not reboot or roll back for want of contact meanwhile",
		"backup-to": "public keys of age, age1…, for whom backups of the unit are encrypted (tandem backup create) " +
			"if none is named, and always if the backup is asked for over the network",
		"backup-every": "how often --backup-to wants one; the unit status tells when three are missing; 0: never",
		"artefact-quota": "bytes of all artefacts, those included that are being uploaded; 0: there is no store of " +
			"artefacts",
		"artefact-keep-free": "bytes that artefacts leave free on the disk",
		"artefact-keep": "an artefact that no document of a node has named for this long is removed; 0: none is, " +
			"unless an operator does",
		"artefact-rate": "bytes a second that nodes get of artefacts, all together; 0: no limit",
		"keep":          keepHelp(),
		"keep-records":  "newest journal records that are kept whatever --keep says; 0: the default",
		"keep-export": "directory, which has to be there, for what goes of the journal: it is written there before, " +
			"and when that fails nothing goes (empty: it is not)",
		"disk-low": "operators are told when the disk of --state-dir has fewer bytes left, and again at a quarter of " +
			"that; 0: they are not",
		"log-level": "debug, info, warn or error",
	}
}

// Usage is the beginning of --help.
func (*Config) Usage() string {
	return `Usage: tandem-controller [flags]
       tandem-controller journal verify|compact|export FILE
       tandem-controller journal backup FILE COPY
       tandem-controller backup verify|restore|create FILE
       tandem-controller upgrade check

Keeps every node of one unit on the configuration it should have. Runs on the gateway node; by
default with a broker of its own inside. Operate it with the command tandem. "journal" and "backup" work
on files while no controller runs on them; "upgrade check" says whether this program can take over from one
that may be running. Each verb has --help.

Example:
  tandem-controller --unit line4 --state-dir ./state --socket ./state/control.sock --listen-tls :8883

Then, for each node: tandem node enroll NODE

`
}

// The values of --steering.
const (
	steeringWorkload = "workload"
	steeringDesired  = "desired"
	steeringCloud    = "cloud"
)

// UsageError is a mistake in the configuration: exit status 2.
type UsageError struct{ err error }

func (e *UsageError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.err }

// defaultListen is the address without TLS of the embedded broker if neither --listen nor --listen-tls is given.
const defaultListen = "127.0.0.1:1883"

// check returns a *UsageError that names the first setting that cannot work, or nil.
func (c *Config) check() error {
	if err := c.mistake(); err != nil {
		return &UsageError{err}
	}
	return nil
}

// mistake returns what is wrong with the first setting that cannot work, or nil.
func (c *Config) mistake() error {
	switch {
	case c.Unit == "":
		return errors.New("--unit: required: the name of the unit that this controller keeps")
	case !topic.ValidName(c.Unit):
		return fmt.Errorf("--unit: %q is no unit name: letters, digits, and . _ - after the first, at most 63", c.Unit)
	case c.StateDir == "":
		return errors.New("--state-dir: a directory is needed")
	case c.StopMaintenance < 0 || c.StopMaintenance > wire.MaxMaintenance:
		return fmt.Errorf("--stop-maintenance: from 0 to %v", wire.MaxMaintenance)
	case c.SubscribeQoS != 0 && c.SubscribeQoS != 1:
		return errors.New("--subscribe-qos: 0 or 1")
	case (c.HTTPCert == "") != (c.HTTPKey == ""):
		return errors.New("--http-cert and --http-key go together")
	case c.Submitters != "" && !c.Inbox:
		return errors.New("--submitters: nothing is taken over MQTT without --inbox")
	case c.Inbox && c.Broker != "" && c.Submitters == "":
		return errors.New("--inbox: whoever is the broker could run programs on every node; with --broker name a " +
			"file of those who sign what they submit: --submitters")
	case !slices.Contains([]string{"", steeringWorkload, steeringDesired, steeringCloud}, c.Steering):
		return fmt.Errorf("--steering: %.40q is none of %s, %s and %s", c.Steering, steeringWorkload, steeringDesired,
			steeringCloud)
	case c.Steering == steeringCloud && !c.Inbox:
		return errors.New("--steering cloud: nothing is taken over MQTT without --inbox")
	case c.Rebalance && c.Steering != steeringDesired:
		return errors.New("--rebalance: it is for --steering desired")
	case c.HTTPCert != "" && c.HTTP == "":
		return errors.New("--http-cert: there is no --http to use it at")
	}
	if _, _, err := c.httpDoor(); err != nil {
		return err
	}
	for _, check := range []func() error{c.limits, c.times, c.places, c.artefactLimits, c.keepLimits,
		c.backupKeys} {
		if err := check(); err != nil {
			return err
		}
	}
	if at := c.plainListen(); c.Broker == "" && !c.Insecure && at != "" {
		if err := loopback(at); err != nil {
			return fmt.Errorf("--listen: %w", err)
		}
	}
	if c.ListenTLS != "" && c.Broker != "" {
		return errors.New("--listen-tls: the embedded broker is not used with --broker")
	}
	if c.CertificateLife != 0 && c.CertificateLife < 10*time.Minute {
		return errors.New("--certificate-life: at least ten minutes")
	}
	_, err := c.joinAt()
	return err
}

// limits returns an error for a rate or burst so low that no message of a node passes. Zero is the default.
func (c *Config) limits() error {
	for _, l := range []struct {
		name         string
		value, least float64
	}{
		{"node-report-rate", c.NodeReportRate, 0.001}, {"node-report-burst", c.NodeReportBurst, 1},
		{"node-event-rate", c.NodeEventRate, 0.001}, {"node-event-burst", c.NodeEventBurst, 2},
	} {
		if l.value != 0 && l.value < l.least {
			return fmt.Errorf("--%s: %v would let nothing of a node through; at least %v", l.name, l.value, l.least)
		}
	}
	return nil
}

// times returns an error for a time or a number that is out of its range. Zero is the default of the times.
func (c *Config) times() error {
	for _, t := range []struct {
		name        string
		value, most time.Duration
	}{
		{"check-timeout", c.CheckTimeout, time.Hour}, {"report-grace", c.ReportGrace, 24 * time.Hour},
		{"report-jitter", c.ReportJitter, 24 * time.Hour}, {"backup-every", c.BackupEvery, 365 * 24 * time.Hour},
	} {
		if t.value < 0 || t.value > t.most {
			return fmt.Errorf("--%s: from 0 to %v, not %v", t.name, t.most, t.value)
		}
	}
	return nil
}

// hostName is what a certificate can name, besides an address.
var hostName = regexp.MustCompile(`^(\w([\w-]*\w)?\.)*\w([\w-]*\w)?\.?$`)

// places returns an error for an address, a host name or a file that cannot be one.
func (c *Config) places() error {
	for _, l := range []struct{ name, addr string }{
		{"listen-tls", c.ListenTLS}, {"join-listen", c.JoinListen}, {"listen", c.Listen},
	} {
		if l.addr == "" {
			continue
		}
		_, port, err := net.SplitHostPort(l.addr)
		if err == nil {
			_, err = net.LookupPort("tcp", port)
		}
		if err != nil {
			return fmt.Errorf("--%s: %w; for example :8883", l.name, err)
		}
	}
	for _, host := range c.Advertise {
		if ip := net.ParseIP(host); ip == nil && (len(host) > 253 || !hostName.MatchString(host)) {
			return fmt.Errorf("--advertise: %.80q is neither a host name nor an address, without a port", host)
		}
	}
	if c.Broker != "" {
		if err := link.CheckBroker(c.Broker); err != nil {
			return fmt.Errorf("--broker: %w", err)
		}
	}
	if info, err := os.Stat(c.ConfigFile); c.ConfigFile != "" && err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("--config-copy: %s is not a regular file", c.ConfigFile)
	}
	return nil
}

// loopback returns an error for an address (HOST:PORT) that other machines can reach.
func loopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("%s can be reached from other machines and the traffic is not encrypted; use --listen-tls, a "+
		"loopback address, or --insecure-listen if the network is trusted", addr)
}

// copyPath is the file of the readable copy of the unit configuration.
func (c *Config) copyPath() string {
	if c.ConfigFile != "" {
		return c.ConfigFile
	}
	return filepath.Join(c.StateDir, "unit-config.json")
}

// listen opens a TCP listener. Its error names the flag and says what to do.
func listen(flag, addr string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; another controller or broker may be running: see `ss -ltnp`, or choose "+
			"another address", flag, err)
	}
	return l, nil
}

// stateDir creates the state directory with mode 0700 if it is missing.
func stateDir(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("--state-dir: %w", err)
	}
	return nil
}
