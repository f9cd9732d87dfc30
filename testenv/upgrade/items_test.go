package upgrade

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tandem.internal/testenv/proc"
)

// line is a unit of real programs that items and subjects steer, with the node n1, which has joined and has the
// component app, a directory.
type line struct {
	*proc.Unit
	t   *testing.T
	app string // the component's directory

	group, runtime string // the node's --workload-group and --container-runtime
}

func newLine(t *testing.T) *line {
	t.Helper()
	return openLine(&line{t: t, runtime: "none"})
}

func openLine(l *line) *line {
	t := l.t
	t.Helper()
	l.Unit, l.app = proc.NewUnit(t), filepath.Join(t.TempDir(), "app")
	l.StartController("--listen", "", "--listen-tls", "127.0.0.1:"+strconv.Itoa(l.Port), "--advertise", "127.0.0.1",
		"--steering", "desired", "--report-jitter", "100ms")
	var e struct{ Token, Controller string }
	o := l.Tandem("node", "enroll", "n1", "--json")
	if err := json.Unmarshal([]byte(o.Out), &e, json.MatchCaseInsensitiveNames(true)); err != nil || e.Token == "" {
		t.Fatalf("enroll: %+v %v", o, err)
	}
	token := l.file("token", e.Token+"\n")
	has(t, proc.Run(t, l.Dir, nil, "sh", "-c", proc.Binary(t, "tandem-node")+
		` join --controller "$0" --token - --state-dir "$1" <"$2"`, e.Controller, l.StateDir("n1"), token), 0, "", "")
	l.startNode()
	t.Cleanup(func() {
		proc.Run(t, l.Dir, nil, proc.Binary(t, "tandem-node"), "keep", "--dir",
			filepath.Join(l.StateDir("n1"), "keeper"), "--quit")
	})
	has(t, l.Tandem("health", "set", "--node", "n1", "--test", "30s", "--watchdog", "10s"), 0, "set for n1", "")
	return l
}

// startNode starts the node and waits until it is online.
func (l *line) startNode() {
	l.t.Helper()
	l.Nodes["n1"] = proc.Start(l.t, "n1", nil, proc.Binary(l.t, "tandem-node"), "--type", "press", "--state-dir",
		l.StateDir("n1"), "--sample-period", "2s", "--dmips", "1000", "--workload-write", l.t.TempDir(), "--component",
		"app="+filepath.Join(proc.Root(l.t), "deploy", "components", "directory")+" "+l.app,
		"--workload-group", l.group, "--container-runtime", l.runtime)
	l.AwaitOnline("n1", true)
}

// file writes a file, with the directories that it needs, and returns its path.
func (l *line) file(name, text string) string {
	l.t.Helper()
	path := filepath.Join(l.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		l.t.Fatal(err)
	}
	return path
}

// until waits until the table of what runs has a line with these words, in this order.
func (l *line) until(words ...string) {
	l.t.Helper()
	proc.Until(l.t, "desired show says "+strings.Join(words, " "), func() string {
		o := l.Tandem("desired", "show")
		for row := range strings.Lines(o.Out) {
			rest, all := row, true
			for _, w := range words {
				_, after, found := strings.Cut(rest, w)
				rest, all = after, all && found
			}
			if all {
				return ""
			}
		}
		return o.Out + o.Errors
	})
}

// TestItemsReachTheirNode: from files of an author to what runs on a node: a component, installed and tried, and a
// service; then another version of each, the service with a layer; and what may not be done beside it.
func TestItemsReachTheirNode(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	meta := func(kind, name, version, more string) string {
		return l.file("meta/"+name+"-"+version+".json", `{"codename":"`+name+`","type":"`+kind+`","version":"`+version+
			`"`+more+`}`)
	}
	release := func(kind, name, version, more, content string) {
		t.Helper()
		has(t, l.Tandem("item", "release", meta(kind, name, version, more), content, "--ready"), 0, version, "")
	}
	app, sensor := `,"runtimes":["app"]`, `,"runtimes":["process"],"env":{"LEVEL":"info"},"quotas":{"cpu":100}`
	has(t, l.Tandem("item", "create", meta("component", "panel", "1.0.0", app)), 0, "panel", "")
	has(t, l.Tandem("item", "create", meta("service", "sensor", "1.0.0", sensor)), 0, "sensor", "")
	page := func(version string) string {
		l.file("panel-"+version+"/page", "page "+version)
		return filepath.Join(l.Dir, "panel-"+version)
	}
	program := func(version string) string {
		return l.file("sensor-"+version, "#!/bin/sh\necho $TANDEM_PROPERTY_tandem_version $LEVEL\n"+
			"exec sleep 1000 # "+version+"\n")
	}
	release("component", "panel", "1.0.0", app, page("1.0.0"))
	release("service", "sensor", "1.0.0", sensor, program("1.0.0"))
	for _, s := range []string{
		`{"codename":"press","type":"nodeType","items":[{"type":"component","codename":"panel"}]}`,
		`{"codename":"hall","type":"group","items":[{"type":"service","codename":"sensor"}]}`,
	} {
		has(t, l.Tandem("subject", "apply", l.file("subject.json", s)), 0, "", "")
	}
	has(t, l.Tandem("desired", "plan"), 0, "instances: 2 start", "")
	has(t, l.Tandem("desired", "why", "n1", "sensor"), 0, "service sensor 1.0.0 of hall is on n1", "")
	has(t, l.Tandem("desired", "apply", "--wait"), 0, "", "")
	l.until("n1", "component panel", "1.0.0", "press", "app", "installed")
	l.until("n1", "service sensor", "1.0.0", "hall/0", "process", "running")
	has(t, l.Tandem("workload", "logs", "sensor.hall.0@n1"), 0, "1.0.0 info", "")
	if text, err := os.ReadFile(filepath.Join(l.app, "current", "page")); err != nil || string(text) != "page 1.0.0" {
		t.Errorf("%q %v", text, err)
	}
	has(t, l.Tandem("desired", "plan"), 0, "instances: 0 start, 0 update, 0 move, 0 stop, 2 stay", "")

	release("component", "panel", "1.1.0", app, page("1.1.0"))
	has(t, l.Tandem("item", "create", meta("layer", "words", "1.0.0", "")), 0, "words", "")
	l.file("words/greeting", "hello")
	release("layer", "words", "1.0.0", "", filepath.Join(l.Dir, "words"))
	l.file("sensor-1.1.0/more", "from a directory")
	l.file("sensor-1.1.0/iss_hook_start", "#!/bin/sh\necho $TANDEM_PROPERTY_tandem_version $LEVEL "+
		"$(cat $TANDEM_DIR/words/greeting $TANDEM_DIR/files/more)\nexec sleep 1000\n")
	release("service", "sensor", "1.1.0", sensor+`,"dependencies":[{"type":"layer","codename":"words"}]`,
		filepath.Join(l.Dir, "sensor-1.1.0"))
	has(t, l.Tandem("desired", "plan"), 0, "2 update, 0 move, 0 stop, 0 stay; layers: 1 come", "")
	has(t, l.Tandem("desired", "apply", "--wait"), 0, "", "")
	has(t, l.Tandem("desired", "show"), 0, "installed", "")
	l.until("n1", "service sensor", "1.1.0", "running")
	has(t, l.Tandem("workload", "logs", "sensor.hall.0@n1"), 0, "1.1.0 info hellofrom a directory", "")
	has(t, l.Tandem("desired", "plan"), 0, "0 update, 0 move, 0 stop, 2 stay; layers: 0 come, 0 go", "")
	if text, err := os.ReadFile(filepath.Join(l.app, "current", "page")); err != nil || string(text) != "page 1.1.0" {
		t.Errorf("%q %v", text, err)
	}

	has(t, l.Tandem("workload", "apply", l.file("none.json", "[]")), 1, "", "--steering desired")
	has(t, l.Tandem("workload", "rollback", "1.0.0", "--as", "1.0.2", "--wait"), 0, "", "")
	l.until("n1", "service sensor", "1.0.0", "running")
	has(t, l.Tandem("item", "deprecate", "sensor", "1.1.0"), 0, "", "")
	has(t, l.Tandem("desired", "plan"), 0, "instances: 0 start, 0 update", "")
}
