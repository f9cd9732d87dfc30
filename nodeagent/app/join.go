package app

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"tandem.internal/nodeagent/internal/identity"
	"tandem.internal/nodeagent/internal/signer"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/event"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/rootlist"
	"tandem.internal/shared/settings"
	"tandem.internal/shared/wire"
)

// IdentityDir is the directory of the node's key and certificate in the state directory.
const IdentityDir = "identity"

// JoinConfig is the configuration of tandem-node join, as package settings reads it.
type JoinConfig struct {
	Controller string `name:"controller"`
	Token      string `name:"token" secret:"true" flag:"stdin"`
	Node       string `name:"node"`
	Unit       string `name:"unit"`
	Key        string `name:"key"`
	StateDir   string `name:"state-dir" default:"/var/lib/tandem-node"`
}

// Help describes the settings.
func (*JoinConfig) Help() map[string]string {
	return map[string]string{
		"controller": "the controller's join door, https://HOST:PORT, as tandem node enroll prints it (required)",
		"token":      "the token that tandem node enroll has made (required), on standard input: give - here",
		"node":       "this node's name, with the token of a batch; empty: the host name",
		"unit":       "unit that the controller has to be of; empty: any",
		"key":        keyHelp + ". The agent needs the same setting",
		"state-dir":  "state directory of the agent; made if missing",
	}
}

// Usage is the beginning of the help of tandem-node join.
func (*JoinConfig) Usage() string {
	return `Usage: tandem-node join --controller URL --token - [flags]

Makes this node part of a unit: makes a key, which never leaves the node, has it certified by the
controller of the token and by nobody else, and keeps key, certificate and the unit's keys in
identity/ in the state directory. May be repeated with the same token if it fails or is
interrupted. An agent that runs has to be restarted afterwards.

Example:
  tandem-node join --controller https://gateway:8884 --token - <token-file
`
}

// JoinDeps are the dependencies of Join; the zero value is for production, without an input.
type JoinDeps struct {
	In    io.Reader        // for a token of "-"
	Now   func() time.Time // nil: time.Now
	Dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	Steps durable.Steps
}

// Joined is the result of a join.
type Joined struct {
	Unit, Node string
	Expires    time.Time // of the certificate
	Dir        string    // the directory of key and certificate
}

// Join makes this node part of a unit. The error is a *UsageError for a mistake in cfg, and a
// *wire.Error when the controller refuses.
func Join(ctx context.Context, cfg JoinConfig, deps JoinDeps) (Joined, error) {
	if cfg.Controller == "" {
		return Joined{}, &UsageError{"controller", "required: the URL that tandem node enroll prints"}
	}
	if _, err := identity.Controller(cfg.Controller); err != nil {
		return Joined{}, &UsageError{"controller", err.Error()}
	}
	text := cfg.Token
	if text == settings.Stdin && deps.In != nil {
		line, err := bufio.NewReader(io.LimitReader(deps.In, 4096)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return Joined{}, &UsageError{"token", "standard input: " + err.Error()}
		}
		text = line
	}
	token, err := jointoken.Parse(text)
	if err != nil {
		return Joined{}, &UsageError{"token", err.Error()}
	}
	if token.Batch == "" {
		cfg.Node = cmp.Or(cfg.Node, token.Node)
	} else if cfg.Node == "" {
		if cfg.Node, err = os.Hostname(); err != nil {
			return Joined{}, err
		}
	}
	if token.Node = cmp.Or(token.Node, cfg.Node); token.Node != cfg.Node || !wire.ValidName(token.Node) {
		return Joined{}, bad("node", "%q is no node ID, or the token is of another node", cfg.Node)
	}
	dir, err := filepath.Abs(cfg.StateDir)
	if err != nil {
		return Joined{}, &UsageError{"state-dir", err.Error()}
	}
	dir = filepath.Join(dir, IdentityDir)
	program, err := keyProgram(cfg.Key)
	if err != nil {
		return Joined{}, err
	}
	id, err := identity.Join(ctx, identity.JoinConfig{
		Dir: dir, Controller: cfg.Controller, Token: token, Unit: cfg.Unit, Program: program,
		Now: deps.Now, Dial: deps.Dial, Steps: deps.Steps})
	if err != nil {
		return Joined{}, err
	}
	return Joined{Unit: id.Unit, Node: id.Node, Expires: id.Expires(), Dir: dir}, nil
}

// keyProgram reads the setting key; nil if it is empty. The error is a *UsageError.
func keyProgram(setting string) (*signer.Client, error) {
	if setting == "" {
		return nil, nil
	}
	c, err := signer.Open(setting)
	if err != nil {
		return nil, &UsageError{"key", err.Error()}
	}
	return c, nil
}

// identify completes the configuration of a node that has joined a unit: the names of unit and node, and the
// broker's URL. Another unit or node in the configuration is a *UsageError; another broker is not.
func (a *Agent) identify(dir string) error {
	dir = filepath.Join(dir, IdentityDir)
	program, err := keyProgram(a.cfg.Key)
	if err != nil {
		return err
	}
	given, err := readKeys("root-key", a.cfg.RootKeys, rootlist.MaxRoots)
	if err != nil {
		return err
	}
	roots := make([]string, 0, len(given))
	for _, k := range given {
		roots = append(roots, k.String())
	}
	k, err := identity.NewRenewer(identity.RenewerConfig{Dir: dir, Controller: a.cfg.Controller, Program: program,
		Now: a.deps.Now, Log: a.log, Dial: a.deps.Dial, Steps: a.deps.Steps,
		OnEvent: func(ev identity.Event) { ears{a}.tell(ev) },
		OnKeys:  func(k identity.Keys) { ears{a}.tell(k) },

		OnReportKey: func(k identity.ReportKey) { ears{a}.tell(k) },
		OnCAs:       func(c identity.CAsChanged) { ears{a}.tell(c) },
		OnRootKeys:  func(r identity.RootKeys) { ears{a}.tell(r) },

		Roots: roots,

		Stay: a.onTrial(), Follow: a.deps.Follow,

		Watch: func(loop string, period time.Duration) (beat, end func()) { return a.node.watch.Loop(loop, period) }})
	if errors.Is(err, identity.ErrNone) {
		if a.cfg.Broker == "" {
			a.cfg.Broker = defaultBroker
		}
		return nil
	} else if err != nil {
		return err
	}
	id := k.Current()
	for _, c := range []struct {
		name, is string
		set      *string
	}{{"unit", id.Unit, &a.cfg.Unit}, {"node", id.Node, &a.cfg.Node}} {
		if *c.set == "" {
			*c.set = c.is
		}
		if *c.set != c.is {
			return bad(c.name, "%q, but this node has joined as node %q of unit %q (%s)", *c.set, id.Node, id.Unit, dir)
		}
	}
	a.renewer = k
	a.prover.setKey(k.ReportKey())
	if a.cfg.Broker == "" {
		a.cfg.Broker = id.Brokers[0].URL
	}
	return nil
}

// expiry is the detail of an event about the certificate.
type expiry = event.CertificateDetail

// certificate reports an event about the certificate to the controller.
func (a *Agent) certificate(ev identity.Event) {
	a.emit(string(ev.Type), ev.Error, expiry{Expires: ev.Expires.UTC()})
}
