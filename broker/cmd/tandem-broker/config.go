package main

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"tandem.internal/broker/acl"
	"tandem.internal/broker/server"
	"tandem.internal/shared/topic"
)

// config is the broker's configuration; package settings reads it.
type config struct {
	Unit       string            `name:"unit" default:"unit"`
	Listen     []string          `name:"listen"`
	ListenTLS  []string          `name:"listen-tls"`
	TLSCert    string            `name:"tls-cert"`
	TLSKey     string            `name:"tls-key"`
	TLSCA      string            `name:"tls-ca"`
	Insecure   bool              `name:"insecure-listen"`
	Passwords  map[string]string `name:"passwords" secret:"true"`
	MaxClients int               `name:"max-clients" default:"50000"`
	LogLevel   string            `name:"log-level" default:"info"`

	MetricsListen string `name:"metrics-listen"`
	MetricsToken  string `name:"metrics-token" secret:"true"`
}

// Help describes the settings.
func (*config) Help() map[string]string {
	return map[string]string{
		"unit":   "name of the unit: letters, digits, and . _ - after the first, at most 63",
		"listen": "address to serve on without TLS; 127.0.0.1:1883 if --listen-tls is not given either",
		"listen-tls": "address to serve on with TLS 1.3, for other machines: who connects shows a certificate of " +
			"--tls-ca, and is whom it names",
		"tls-cert": "certificate of --listen-tls, in PEM, as tandem identity certify broker/NAME prints it; read " +
			"again when it changes",
		"tls-key": "key of --tls-cert, in PEM; read again when it changes",
		"tls-ca":  "the unit's CA, in PEM: ca.pem of the controller",
		"insecure-listen": "let --listen be addresses that other machines reach although the traffic is not " +
			"encrypted; whoever is on that network can then pose as a node",
		"passwords": "passwords by user name: controller, cloud/NAME and operator/NAME need one, node/ID may " +
			"have one; better given in the file, or as TANDEM_PASSWORDS, than on the command line",
		"max-clients": "connections that may be open at a time; each needs a file descriptor",
		"metrics-listen": "address on which Prometheus may scrape GET /metrics, such as 127.0.0.1:8886; over TLS " +
			"with --tls-cert and --tls-key (empty: nowhere)",
		"metrics-token": "what Prometheus has to show there as bearer token, at least 20 characters; better given in " +
			"the file, or as TANDEM_METRICS_TOKEN, than on the command line",
		"log-level": "debug, info, warn or error; debug tells of every client that comes and goes",
	}
}

// Usage is the beginning of --help.
func (*config) Usage() string {
	return `Usage: tandem-broker [flags]
       tandem-broker acl mosquitto|nats --unit UNIT [flags]

The MQTT 3.1.1 broker of one unit, with its access rules, in memory only: after a restart the
controller fills it again. tandem-controller has the same broker inside; this one is for sites
where the two shall restart apart. tandem-broker acl prints the access rules for mosquitto or NATS
(see tandem-broker acl --help).

Examples:
  TANDEM_PASSWORDS=controller=secret tandem-broker --unit line4 --listen 127.0.0.1:1883
  tandem-broker --unit line4 --listen-tls :8883 --tls-cert b1.pem --tls-key b1.key --tls-ca ca.pem
`
}

// complete sets the default of --listen.
func (c *config) complete() {
	if len(c.Listen)+len(c.ListenTLS) == 0 {
		c.Listen = []string{"127.0.0.1:1883"}
	}
}

// check returns an error that names the setting and says what is wrong with it.
func (c *config) check() error {
	switch {
	case !topic.ValidName(c.Unit):
		return fmt.Errorf("--unit: %q is no unit name: letters, digits, and . _ - after the first, at most 63", c.Unit)
	case len(c.Listen)+len(c.ListenTLS) == 0:
		return errors.New("--listen, --listen-tls: an address is needed")
	case len(c.ListenTLS) > 0 && (c.TLSCert == "" || c.TLSKey == "" || c.TLSCA == ""):
		return errors.New("--listen-tls: needs --tls-cert, --tls-key and --tls-ca")
	case len(c.ListenTLS) == 0 && (c.TLSCA != "" || c.MetricsListen == "" && (c.TLSCert != "" || c.TLSKey != "")):
		return errors.New("--tls-cert, --tls-key, --tls-ca: are for --listen-tls")
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return errors.New("--tls-cert and --tls-key go together")
	case c.MaxClients < 1:
		return errors.New("--max-clients: at least 1")
	}
	for name, password := range c.Passwords {
		if _, err := acl.IdentityOf(name, name); err != nil {
			return fmt.Errorf("--passwords: %w", err)
		}
		if password == server.SamplePassword {
			return fmt.Errorf("--passwords: that of %s is still the sample's, which everybody knows", name)
		}
	}
	for _, addr := range c.Listen {
		if err := checkListen(addr, c.Insecure); err != nil {
			return fmt.Errorf("--listen: %w", err)
		}
	}
	return c.checkMetrics()
}

// checkListen refuses an address that other machines can reach, unless insecure is set.
func checkListen(addr string, insecure bool) error {
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); insecure || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("%s can be reached from other machines and the traffic is not encrypted; use a loopback "+
		"address, or --insecure-listen if the network is trusted", addr)
}

// insecureAddresses returns a warning for each address that other machines reach without TLS.
func (c *config) insecureAddresses() (all []string) {
	for _, addr := range c.Listen {
		if checkListen(addr, false) != nil {
			all = append(all, addr+" is served WITHOUT TLS (--insecure-listen): anybody on that network can read "+
				"everything and pose as any node that has no password; nodes on other machines need "+
				"--listen-tls")
		}
	}
	return all
}

// limits are the broker's limits: those for a controller that connects over a socket.
func (c *config) limits() server.Limits {
	l := server.Collectors()
	l.MaxClients = c.MaxClients
	return l
}

// explainListen turns the error of opening a listener into one that says the likely reason and what to do.
func explainListen(addr string, err error) error {
	_, port, splitErr := net.SplitHostPort(addr)
	if splitErr != nil {
		port = addr
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("--listen: %s is taken: by another tandem-broker, a tandem-controller (it has a broker of "+
			"its own), or mosquitto. "+
			"`ss -ltnp 'sport = :%s'` shows which; stop it, or choose another address: %w", addr, port, err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("--listen: %s needs more rights than this user has (ports below 1024 do); choose "+
			"another port: %w", addr, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("--listen: %s is not an address of this machine (`ip addr` lists them): %w", addr, err)
	}
	return fmt.Errorf("--listen: %w", err)
}
