package proc

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func has(t testing.TB, o Output, status int, out, errs string) {
	t.Helper()
	if o.Status != status || !strings.Contains(o.Out, out) || !strings.Contains(o.Errors, errs) {
		t.Errorf("status %d, want %d; wanted on standard output %q, on standard error %q\n--- output\n%s--- errors\n%s",
			o.Status, status, out, errs, o.Out, o.Errors)
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"tandem-controller", "tandem-node", "tandem-broker"} {
		run := func(args ...string) Output {
			return Run(t, t.TempDir(), nil, append([]string{Binary(t, name)}, args...)...)
		}
		has(t, run("--help"), 0, "Usage: "+name, "")
		has(t, run("--help"), 0, "\nExample", "")
		has(t, run("--version"), 0, name, "")
		has(t, run("--print-config", "--log-level", "warn"), 0, `log-level: "warn"`, "")
		has(t, run("--log-levle", "warn"), 2, "", "--log-level")
		has(t, run("--log-level", "loud", "--unit", "u1"), 2, "", "")
		has(t, run("what", "--unit", "u1"), 2, "", "what")
		has(t, run("--unit", "not a name"), 2, "", "--unit")
	}
	tandem := func(args ...string) Output {
		return Run(t, t.TempDir(), nil, append([]string{Binary(t, "tandem")}, args...)...)
	}
	has(t, tandem("--help"), 0, "Examples:", "")
	has(t, tandem("version"), 0, "tandem", "")
	has(t, tandem("noeds"), 2, "", "nodes")
	has(t, tandem("config", "aply", "x"), 2, "", "apply")
	has(t, tandem("nodes", "--wach"), 2, "", "--watch")
	has(t, tandem("config", "apply", "/nowhere/unit.json"), 2, "", "/nowhere/unit.json")
}

func TestPortClash(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	u := NewUnit(t)
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if u.Port, err = strconv.Atoi(port); err != nil {
		t.Fatal(err)
	}
	has(t, Run(t, u.Dir, nil, u.ControllerArgs()...), 1, "", "another controller or broker may be running")
	has(t, Run(t, u.Dir, nil, Binary(t, "tandem-broker"), "--unit", "u1", "--listen", l.Addr().String()), 1, "",
		"is taken")
	// What it had opened before is closed again and nothing lies in the way.
	u.Port = Port(t)
	u.StartController()
	u.Controller.Stop()
}

func TestOneControllerForAJournal(t *testing.T) {
	t.Parallel()
	u := NewUnit(t)
	u.StartController()
	second := *u
	second.Port = Port(t)
	o := Run(t, u.Dir, nil, append(second.ControllerArgs(), "--socket", filepath.Join(u.Dir, "second.sock"))...)
	has(t, o, 1, "", "PID "+strconv.Itoa(u.Controller.PID()))
	if strings.Count(strings.TrimSpace(o.Errors), "\n") > 1 {
		t.Errorf("not one message but\n%s", o.Errors)
	}
	// The same socket, another journal: the second must not take the first one's door away.
	third := NewUnit(t)
	third.Socket = u.Socket
	has(t, Run(t, u.Dir, nil, third.ControllerArgs()...), 1, "", "--socket")
	has(t, u.Tandem("unit", "status"), 0, "u1", "")
	// Neither may a second agent on a node's state.
	u.StartNode("n1", "main")
	u.AwaitOnline("n1", true)
	has(t, Run(t, u.Dir, nil, u.NodeArgs("n1", "main")...), 1, "", "")
	if !u.Nodes["n1"].Alive() {
		t.Error("the first agent has ended")
	}
}

// A controller that was killed leaves its socket's file behind; that must not keep the next from
// starting.
func TestStaleSocket(t *testing.T) {
	t.Parallel()
	u := NewUnit(t)
	u.StartController()
	u.Controller.Kill()
	if _, err := os.Stat(u.Socket); err != nil {
		t.Fatal(err)
	}
	has(t, u.Tandem("nodes"), 3, "", "start it again")
	u.StartController()
	has(t, u.Tandem("nodes"), 0, "", "")
	u.Controller.Stop()
	if _, err := os.Stat(u.Socket); err == nil {
		t.Error("the socket's file is still there after an orderly stop")
	}
}

// What is not open to this machine alone has to be asked for.
func TestNoDoorToOtherMachines(t *testing.T) {
	t.Parallel()
	u := NewUnit(t)
	has(t, Run(t, u.Dir, nil, append(u.ControllerArgs(), "--listen", "0.0.0.0:"+strconv.Itoa(u.Port))...), 2, "",
		"--insecure-listen")
	has(t, Run(t, u.Dir, nil, append(u.ControllerArgs(), "--http", "http://0.0.0.0:"+strconv.Itoa(u.Port))...), 2, "",
		"--insecure-listen")
	has(t, Run(t, u.Dir, nil, Binary(t, "tandem-broker"), "--listen", "0.0.0.0:"+strconv.Itoa(u.Port)), 2, "",
		"--insecure-listen")
}

func TestStandaloneBroker(t *testing.T) {
	t.Parallel()
	u := NewUnit(t)
	listen := "127.0.0.1:" + strconv.Itoa(u.Port)
	start := func() *Process {
		return Start(t, "broker", []string{"TANDEM_PASSWORDS=controller=open sesame"}, Binary(t, "tandem-broker"),
			"--unit", "u1", "--listen", listen)
	}
	broker := start()
	u.Controller = Start(t, "controller", []string{"TANDEM_BROKER_PASSWORD=open sesame"},
		u.ControllerArgs("--broker", "tcp://"+listen)...)
	u.AwaitReady()
	u.StartNode("n1", "main")
	u.AwaitOnline("n1", true)
	if res, err := u.Submit(Document("1.0.0", 1), ""); err != nil || res.State != "accepted" {
		t.Fatalf("%+v %v", res, err)
	}
	u.AwaitVersion("1.0.0", "n1")
	broker.Kill()
	broker = start()
	u.AwaitReady()
	// A node that was never there before finds its document: the controller has filled the broker.
	u.StartNode("n2", "second")
	u.AwaitVersion("1.0.0", "n1", "n2")
	for _, p := range []*Process{u.Nodes["n1"], u.Nodes["n2"], u.Controller, broker} {
		p.Stop()
	}
}
