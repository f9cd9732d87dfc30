// Package site owns the brokers of a site, mosquitto and NATS server, as a unit's access rules and
// certificates are to be used there: each runs with exactly the settings that stand at the head of
// the exported file. It guarantees that they are ready when they are returned, and gone when the
// test ends. It must not repair the rules that it is given.
package site

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"tandem.internal/testenv/proc"
)

// patience is how long a server may take.
const patience = 20 * time.Second

// Config is what a server runs with.
type Config struct {
	Unit  string
	Dir   string   // has ca.pem, broker.pem and broker-key.pem; the server's files go there
	Rules []byte   // as exported
	Hands []string // identities that may do everything, as the broker itself may; Rules do not name them
	Port  int      // from proc.Port; 0: any
}

// Broker is a running server.
type Broker struct {
	Address string
	// AnyClientID: the server does not bind the client ID to the user.
	AnyClientID bool

	reload func(rules []byte) error
	wipe   func() error
}

// Wipe ends the server, and starts it again at the same address without anything that it had.
func (b *Broker) Wipe(t testing.TB) {
	t.Helper()
	if err := b.wipe(); err != nil {
		t.Fatal(err)
	}
	await(t, b.Address)
}

// Reload gives the server other rules; when it returns they are in force.
func (b *Broker) Reload(t testing.TB, rules []byte) {
	t.Helper()
	if err := b.reload(rules); err != nil {
		t.Fatal(err)
	}
}

// FindMosquitto is the program; without it the test is skipped, except where CI is true.
func FindMosquitto(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("mosquitto")
	if err == nil {
		return path
	}
	path = "/usr/sbin/mosquitto"
	if _, err = os.Stat(path); err != nil {
		const missing = "mosquitto is not installed (apt-get install mosquitto): the access rules are NOT tested on it"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		fmt.Fprintln(os.Stderr, "SKIPPED: "+missing)
		t.Skip(missing)
	}
	return path
}

// Mosquitto runs mosquitto.
func Mosquitto(t testing.TB, c Config) *Broker {
	t.Helper()
	path := FindMosquitto(t)
	rules := func(exported []byte) error {
		all := string(exported)
		for _, name := range c.Hands {
			all += "\nuser " + name + "\ntopic readwrite #\n"
		}
		return os.WriteFile(filepath.Join(c.Dir, "tandem.acl"), []byte(all), 0o600)
	}
	port := c.port(t)
	b := &Broker{Address: "127.0.0.1:" + strconv.Itoa(port)}
	conf := Settings(t, c.Rules)
	conf = strings.NewReplacer("THIS FILE", "tandem.acl", "listener 8883", "listener "+strconv.Itoa(port)+
		" 127.0.0.1").Replace(conf)
	user := ""
	if os.Getuid() == 0 {
		user = "user root\n" // else it takes one that may not read the directory
	}
	logName := filepath.Join(c.Dir, "mosquitto.log")
	if err := errors.Join(rules(c.Rules), os.WriteFile(filepath.Join(c.Dir, "mosquitto.conf"),
		[]byte(user+"log_dest stderr\nlog_type all\n"+conf), 0o600)); err != nil {
		t.Fatal(err)
	}
	var cmd *exec.Cmd
	start := func() error {
		log, err := os.Create(logName)
		if err != nil {
			return err
		}
		cmd = exec.Command(path, "-c", "mosquitto.conf")
		cmd.Dir, cmd.Stdout, cmd.Stderr = c.Dir, log, log
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		return errors.Join(cmd.Start(), log.Close())
	}
	if err := start(); err != nil {
		t.Fatal(err)
	}
	text := func() string {
		out, err := os.ReadFile(logName)
		if err != nil {
			return err.Error()
		}
		return string(out)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Errorf("mosquitto has ended by itself: %v", err)
		}
		_ = cmd.Wait() // it was killed
		if out := text(); t.Failed() {
			t.Logf("--- the end of mosquitto's log:\n%s", out[max(0, len(out)-3000):])
		}
	})
	reloads := 0
	b.reload = func(exported []byte) error {
		if err := errors.Join(rules(exported), cmd.Process.Signal(syscall.SIGHUP)); err != nil {
			return err
		}
		reloads++
		return until(func() bool { return strings.Count(text(), "Reloading config.") >= reloads })
	}
	b.wipe = func() error { // it keeps nothing on the disk
		if err := cmd.Process.Kill(); err != nil {
			return err
		}
		_ = cmd.Wait() // it was killed
		reloads = 0
		return start()
	}
	await(t, b.Address)
	return b
}

// Rules is what "tandem-broker acl" prints for a format, mosquitto or nats.
func Rules(t testing.TB, format string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(proc.Binary(t, "tandem-broker"), append([]string{"acl", format}, args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v, %s", cmd.Args, err, errs.String())
	}
	return out
}

// Settings takes the settings out of the head of an exported file: what is indented there.
func Settings(t testing.TB, exported []byte) string {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(string(exported)) {
		if rest, ok := strings.CutPrefix(line, "#   "); ok {
			b.WriteString(rest)
		}
	}
	if b.Len() == 0 {
		t.Fatal("no settings in the head of the file")
	}
	return b.String()
}

// NATS runs a nats-server inside this process.
func NATS(t testing.TB, c Config) *Broker {
	t.Helper()
	rules := func(exported []byte) error {
		all := "users = [\n"
		for _, name := range c.Hands {
			all += fmt.Sprintf("    { user: \"tandem://%s/%s\", allowed_connection_types: [\"MQTT\"] }\n", c.Unit, name)
		}
		return os.WriteFile(filepath.Join(c.Dir, "users.conf"),
			[]byte(strings.Replace(string(exported), "users = [\n", all, 1)), 0o600)
	}
	port := c.port(t)
	b := &Broker{Address: "127.0.0.1:" + strconv.Itoa(port), AnyClientID: true}
	quoted := func(name string) string { return "'" + filepath.Join(c.Dir, name) + "'" }
	conf := Settings(t, c.Rules)
	conf = strings.NewReplacer("NAME", "test", "DIR", quoted("jetstream"), "always", "2m", "0.0.0.0:8883", b.Address,
		"ca.pem", quoted("ca.pem"), "broker.pem", quoted("broker.pem"), "broker-key.pem",
		quoted("broker-key.pem")).Replace(conf)
	path := filepath.Join(c.Dir, "nats.conf")
	if err := errors.Join(rules(c.Rules), os.WriteFile(path, []byte(conf+fmt.Sprintf("listen: 127.0.0.1:%d\ninclude "+
		"users.conf\n", port+1)), 0o600)); err != nil {
		t.Fatal(err)
	}
	var n *server.Server
	start := func() error {
		opts, err := server.ProcessConfigFile(path)
		if err != nil {
			return fmt.Errorf("%w\n%s", err, conf)
		}
		opts.NoSigs, opts.NoLog = true, true
		if n, err = server.NewServer(opts); err != nil {
			return err
		}
		n.Start()
		if !n.ReadyForConnections(patience) {
			return errors.New("nats-server is not ready")
		}
		return nil
	}
	stop := func() {
		if n != nil {
			n.Shutdown()
			n.WaitForShutdown()
		}
	}
	t.Cleanup(func() { stop() })
	if err := start(); err != nil {
		t.Fatal(err)
	}
	b.wipe = func() error {
		stop()
		if err := os.RemoveAll(filepath.Join(c.Dir, "jetstream")); err != nil {
			return err
		}
		return start()
	}
	b.reload = func(exported []byte) error {
		return errors.Join(rules(exported), n.Reload())
	}
	await(t, b.Address)
	return b
}

// port is where the server listens; the one after it is free as well.
func (c Config) port(t testing.TB) int {
	t.Helper()
	if c.Port != 0 {
		return c.Port
	}
	return proc.Port(t)
}

func await(t testing.TB, address string) {
	t.Helper()
	var failure error
	err := until(func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			err = c.Close()
		}
		failure = err
		return err == nil
	})
	if err != nil {
		t.Fatalf("%v: %v", err, failure)
	}
}

func until(ok func() bool) error {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			return fmt.Errorf("not within %v", patience)
		}
	}
	return nil
}
