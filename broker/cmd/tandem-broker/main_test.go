package main

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"tandem.internal/shared/topic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServeUntilStopped(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	serving := make(chan string, 1)
	log := zap.New(zapcore.RegisterHooks(core, func(e zapcore.Entry) error {
		if e.Message == "serving" {
			serving <- ""
		}
		return nil
	}))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	cfg := &config{Unit: "u1", Listen: []string{"127.0.0.1:0"}, Passwords: map[string]string{"controller": "secret"},
		MaxClients: 10}
	go func() { ended <- serve(ctx, cfg, log) }()
	<-serving
	addr := logs.FilterMessage("serving").All()[0].ContextMap()["address"].(string)

	connect := func(user, password string) (paho.Client, error) {
		c := paho.NewClient(paho.NewClientOptions().AddBroker("tcp://" + addr).SetClientID(user).SetUsername(
			user).SetPassword(password).
			SetProtocolVersion(4).SetConnectTimeout(5 * time.Second).SetAutoReconnect(false))
		token := c.Connect()
		token.Wait()
		return c, token.Error()
	}
	if _, err := connect("controller", "guess"); err == nil {
		t.Error("a controller got in with a wrong password")
	}
	controller, err := connect("controller", "secret")
	if err != nil {
		t.Fatal(err)
	}
	node, err := connect("node/n1", "")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	if token := node.Subscribe(topic.ForNode("u1", "n1").DesiredFilter(), 1,
		func(_ paho.Client, m paho.Message) { got <- string(m.Payload()) }); token.Wait() && token.Error() != nil {
		t.Fatal(token.Error())
	}
	if token := controller.Publish(topic.ForNode("u1", "n1").Desired("config"), 1, true, "doc"); token.Wait() &&
		token.Error() != nil {
		t.Fatal(token.Error())
	}
	if d := <-got; d != "doc" {
		t.Errorf("the node got %q", d)
	}
	controller.Disconnect(0)
	node.Disconnect(0)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if logs.FilterMessage("stopping").Len() != 1 {
		t.Error("the end was not logged")
	}
}

func TestPortClash(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	free := "127.0.0.1:0"
	var out, errs bytes.Buffer
	status := run(context.Background(), []string{"--unit", "u1", "--listen", free, "--listen", l.Addr().String()}, &out,
		&errs)
	if status != exitError {
		t.Errorf("status %d", status)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, want := range []string{l.Addr().String() + " is taken", "tandem-controller", "mosquitto", "sport = :" + port,
		"another address"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("%q does not say %q", errs.String(), want)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--unit", "a/b"}, "--unit"},
		{[]string{"--listen", "0.0.0.0:1883"}, "--insecure-listen"},
		{[]string{"--listen", ":1883"}, "--insecure-listen"},
		{[]string{"--listen", "192.0.2.1:1883"}, "--insecure-listen"},
		{[]string{"--listen", "nonsense"}, "--listen"},
		{[]string{"--listen", "127.0.0.1:65536"}, "--listen"},
		{[]string{"--passwords", "nobody/x=hunter2"}, "--passwords"},
		{[]string{"--passwords", "controller=change-me"}, "--passwords: that of controller is still the sample's"},
		{[]string{"--listen-tls", ":8883"}, "--tls-cert"},
		{[]string{"--tls-ca", "ca.pem"}, "--listen-tls"},
		{[]string{"--max-clients", "0"}, "--max-clients"},
		{[]string{"--log-level", "loud"}, "loud"},
		{[]string{"--nothing"}, "--nothing"},
		{[]string{"extra"}, "extra"},
	} {
		var out, errs bytes.Buffer
		if status := run(context.Background(), c.args, &out, &errs); status != exitUsage ||
			!strings.Contains(errs.String(), c.want) {
			t.Errorf("%v: status %d, %q", c.args, status, errs.String())
		}
	}
	for _, addr := range []string{"127.0.0.1:1883", "[::1]:1883", "localhost:1883"} {
		if err := checkListen(addr, false); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
	if err := checkListen("0.0.0.0:1883", true); err != nil {
		t.Error(err)
	}
}

func TestHelp(t *testing.T) {
	var out, errs bytes.Buffer
	if status := run(context.Background(), []string{"--help"}, &out, &errs); status != exitOK || errs.Len() != 0 {
		t.Errorf("status %d, %q", status, errs.String())
	}
	for _, want := range []string{"Examples:", "--unit", "--listen", "127.0.0.1:1883", "--insecure-listen",
		"--listen-tls", "--tls-cert", "--passwords", "--log-level", "--max-clients"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help lacks %q", want)
		}
	}
	out.Reset()
	if status := run(context.Background(), []string{"--passwords", "controller=hunter2", "--print-config"}, &out,
		&errs); status != exitOK || strings.Contains(out.String(), "hunter2") {
		t.Errorf("status %d: %s", status, out.String())
	}
}

// A door without TLS that other machines reach is shouted at, and no other.
func TestExposure(t *testing.T) {
	cfg := config{Unit: "u1", Listen: []string{"127.0.0.1:1883", ":1884", "localhost:1885", "192.0.2.1:1886",
		"[::1]:1887"}, Insecure: true, MaxClients: 1}
	if err := cfg.check(); err != nil {
		t.Fatal(err)
	}
	got := cfg.insecureAddresses()
	if len(got) != 2 || !strings.HasPrefix(got[0], ":1884 is served WITHOUT TLS") ||
		!strings.HasPrefix(got[1], "192.0.2.1:1886 ") {
		t.Errorf("%q", got)
	}
}
