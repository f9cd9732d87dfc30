package link

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/eclipse/paho.mqtt.golang/packets"
)

// address is the parsed URL of a broker.
type address struct {
	network string // tcp or unix
	target  string // HOST:PORT, or the path of the socket
	host    string // name to verify with TLS; empty for unix
	tls     bool
}

// CheckBroker returns what is wrong with the URL of a broker, or nil.
func CheckBroker(url string) error {
	_, err := parseBroker(url)
	return err
}

// parseBroker parses the URL of a broker; Config.Broker has its forms.
func parseBroker(s string) (address, error) {
	if strings.Contains(s, "@") && !strings.HasPrefix(s, "unix:") { // not shown: it may hold a password
		return address{}, errors.New("the broker URL carries credentials; they have their own settings")
	}
	u, err := url.Parse(s)
	if err != nil {
		return address{}, fmt.Errorf("broker URL: %w", err)
	}
	bad := func(format string, a ...any) (address, error) {
		return address{}, fmt.Errorf("broker URL %q: "+format, append([]any{s}, a...)...)
	}
	a := address{network: "tcp"}
	port := "1883"
	switch u.Scheme {
	case "tcp", "mqtt":
	case "tls", "mqtts", "ssl":
		port, a.tls = "8883", true
	case "unix":
		if u.Host != "" || u.Path == "" {
			return bad("a unix socket is written unix:///path")
		}
		return address{network: "unix", target: u.Path}, nil
	default:
		return bad("scheme %q is none of tcp, mqtt, tls, mqtts, ssl, unix", u.Scheme)
	}
	if a.host = u.Hostname(); a.host == "" {
		return bad("has no host")
	}
	if u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return bad("has something after the host and port")
	}
	if u.Port() != "" {
		port = u.Port()
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return bad("a port is a number from 1 to 65535")
	}
	a.target = net.JoinHostPort(a.host, port)
	return a, nil
}

// Host returns the host in the URL of a broker, as its certificate names it; "" for text that is not the URL of a
// broker, and for a unix socket.
func Host(broker string) string {
	a, err := parseBroker(broker)
	if err != nil {
		return ""
	}
	return a.host
}

// Exposed reports whether messages to the broker with this URL cross a network without TLS. It returns false for text
// that is not such a URL.
func Exposed(broker string) bool {
	a, err := parseBroker(broker)
	ip := net.ParseIP(a.host)
	return err == nil && a.network == "tcp" && !a.tls && a.host != "localhost" && (ip == nil || !ip.IsLoopback())
}

// open opens the connection below MQTT. Its errors say what is wrong in words for people.
func (d *Dialled) open(ctx context.Context) (net.Conn, error) {
	nc, err := d.openPlain(ctx)
	if err != nil {
		return nil, explainOpen(d.cfg.brokerName(), err)
	}
	if !d.addr.tls {
		return nc, nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS13}
	if d.cfg.TLS != nil {
		conf = d.cfg.TLS.Clone()
	}
	if conf.ServerName == "" {
		conf.ServerName = d.addr.host
	}
	tc := tls.Client(nc, conf)
	if err := tc.HandshakeContext(ctx); err != nil {
		if cerr := nc.Close(); cerr != nil && !errors.Is(cerr, net.ErrClosed) {
			err = errors.Join(err, cerr)
		}
		return nil, explainOpen(d.cfg.brokerName(), fmt.Errorf("TLS: %w", err))
	}
	return tc, nil
}

// openPlain opens the connection below TLS.
func (d *Dialled) openPlain(ctx context.Context) (net.Conn, error) {
	if d.cfg.OpenConn != nil {
		return d.cfg.OpenConn(ctx)
	}
	var nd net.Dialer
	return nd.DialContext(ctx, d.addr.network, d.addr.target)
}

// brokerName is the name of the broker in errors.
func (c *Config) brokerName() string {
	if c.Broker == "" {
		return "the broker"
	}
	return "the broker at " + c.Broker
}

// explainOpen returns err with the reason why no connection was opened, in words for people.
func explainOpen(broker string, err error) error {
	var dns *net.DNSError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var alert tls.AlertError
	var record tls.RecordHeaderError
	why := ""
	switch {
	case errors.As(err, &dns):
		why = "its host name cannot be looked up"
	case errors.Is(err, syscall.ECONNREFUSED):
		why = "nothing listens there (connection refused)"
	case errors.Is(err, os.ErrNotExist):
		why = "its socket does not exist"
	case errors.Is(err, os.ErrPermission):
		why = "permission denied"
	case errors.As(err, &unknown):
		why = "its certificate is not signed by a trusted authority"
	case errors.As(err, &host):
		why = "its certificate is for another host"
	case errors.As(err, &invalid):
		why = "its certificate is not valid"
	case errors.As(err, &alert):
		why = "it refuses the TLS handshake"
	case errors.As(err, &record):
		why = "it does not speak TLS on this port"
	case errors.Is(err, io.EOF):
		why = "it closed the connection (does it speak TLS on this port?)"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		why = "no answer in time"
	default:
		return fmt.Errorf("cannot reach %s: %w", broker, err)
	}
	return fmt.Errorf("cannot reach %s: %s: %w", broker, why, err)
}

// explainConnect returns the reason why the broker refused the MQTT CONNECT, in words for people. It wraps ErrRefused.
func (d *Dialled) explainConnect(tok *mqtt.ConnectToken) error {
	why := "no MQTT session could be opened"
	switch tok.ReturnCode() {
	case packets.ErrRefusedBadProtocolVersion:
		why = "it does not speak MQTT 3.1.1"
	case packets.ErrRefusedIDRejected:
		why = fmt.Sprintf("it refuses the client ID %q", d.cfg.ClientID)
	case packets.ErrRefusedServerUnavailable:
		return fmt.Errorf("%w by %s: it says that it is %w: %w", ErrRefused, d.cfg.brokerName(), ErrUnavailable,
			tok.Error())
	case packets.ErrRefusedBadUsernameOrPassword:
		why = fmt.Sprintf("it refuses the user name or password (user %q)", d.cfg.Username)
	case packets.ErrRefusedNotAuthorised:
		why = fmt.Sprintf("it does not authorise client %q (user %q)", d.cfg.ClientID, d.cfg.Username)
	}
	return fmt.Errorf("%w by %s: %s: %w", ErrRefused, d.cfg.brokerName(), why, tok.Error())
}

// unknownRefusal returns the reason why the broker refused the MQTT CONNECT with a code that MQTT 3.1.1 reserves
// (section 3.2.2.3), in words for people: every code but 0 is a refusal. It wraps ErrRefused. Some brokers say it with
// a code of MQTT 5 (section 3.2.2.2), whose name is added.
func unknownRefusal(broker string, code byte) error {
	name := map[byte]string{
		0x80: "unspecified error", 0x81: "malformed packet", 0x82: "protocol error",
		0x84: "unsupported protocol version", 0x85: "client identifier not valid", 0x86: "bad user name or password",
		0x87: "not authorized", 0x88: "server unavailable", 0x89: "server busy", 0x8a: "banned",
		0x97: "quota exceeded", 0x9f: "connection rate exceeded",
	}[code]
	if name != "" {
		name = fmt.Sprintf("; in MQTT 5 it is %q", name)
	}
	return fmt.Errorf("%w by %s: CONNACK code %d, which MQTT 3.1.1 does not have%s", ErrRefused, broker, code, name)
}
