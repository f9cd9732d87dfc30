package duty

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"

	"tandem.internal/shared/wire"
	"tandem.internal/testenv/proc"
)

func TestMain(m *testing.M) { os.Exit(proc.Main(m)) }

// site is a unit with a server of resources.
type site struct {
	*proc.Unit
	t      *testing.T
	server *httptest.Server
	diary  string // a file in which scripts write what happens

	mu    sync.Mutex
	files map[string]string
	gets  map[string]int
}

func newSite(t *testing.T, flags ...string) *site {
	s := &site{Unit: proc.NewUnit(t), t: t, files: map[string]string{}, gets: map[string]int{}}
	s.diary = filepath.Join(s.Dir, "diary")
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		text, ok := s.files[r.URL.Path]
		s.gets[r.URL.Path]++
		s.mu.Unlock()
		if !ok {
			http.NotFound(w, r)
			return
		}
		if _, err := fmt.Fprint(w, text); err != nil {
			t.Log(err)
		}
	}))
	t.Cleanup(s.server.Close)
	t.Cleanup(func() {
		for _, pid := range s.left() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended meanwhile
		}
	})
	s.StartController(append([]string{"--report-jitter", "50ms"}, flags...)...)
	return s
}

// node starts a node with short times, whose workloads may write the diary.
func (s *site) node(name string) {
	s.t.Helper()
	s.strictNode(name, "--workload-write", s.Dir)
}

// strictNode starts one whose workloads may not.
func (s *site) strictNode(name string, flags ...string) {
	s.t.Helper()
	s.StartNode(name, "main", append([]string{"--workload-window", "2s", "--workload-grace", "1s", "--workload-status",
		"1s"}, flags...)...)
	s.AwaitOnline(name, true)
}

// left are the processes that belong to this unit's workloads: keepers, and what they run.
func (s *site) left() []int {
	s.t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		s.t.Fatal(err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, eerr := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		line, lerr := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if eerr != nil || lerr != nil {
			continue // it has ended
		}
		if strings.Contains(string(env), "TANDEM_DIR="+s.Dir+"/") || strings.Contains(string(line), "\x00keep\x00") &&
			strings.Contains(string(line), s.Dir+"/") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// runs are the processes of workloads alone.
func (s *site) runs() (pids []int) {
	for _, pid := range s.left() {
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil &&
			!strings.Contains(string(line), "\x00keep\x00") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// artifact serves a script and returns it as a resource of a configuration.
func (s *site) artifact(class, name, text string) string {
	path := "/" + name
	s.mu.Lock()
	s.files[path] = text
	s.mu.Unlock()
	sum := md5.Sum([]byte(text))
	return fmt.Sprintf(`{"@class":%q,"urls":[%q],"size":%d,`+
		`"verification":{"checksum":"MD5:%s","checkPeriod":"0d0h0m"}}`,
		class, s.server.URL+path, len(text), hex.EncodeToString(sum[:]))
}

// start is a script that stays, and says so in the diary under a name; a second one at the same
// time is told as DOUBLE.
func (s *site) start(name string) string {
	return fmt.Sprintf(`#!/bin/sh
# %[1]s
pid="%[3]s.$TANDEM_SERVICE"
[ -e "$pid" ] && [ -e "/proc/$(cat "$pid")" ] && echo "DOUBLE $TANDEM_SERVICE" >>%[2]s
echo $$ >"$pid.new" && mv "$pid.new" "$pid"
echo "start %[1]s $TANDEM_SLOT $$" >>%[2]s
echo "%[1]s is up, port $TANDEM_PROPERTY_port"
trap 'echo "term %[1]s" >>%[2]s; exit 0' TERM
while :; do sleep 0.2; done
`, name, s.diary, filepath.Join(s.Dir, "pid"))
}

// hook is a script that writes a line and ends with a status.
func (s *site) hook(name string, status int) string {
	return fmt.Sprintf("#!/bin/sh\necho \"%s $TANDEM_HOOK pid=${TANDEM_PID:-none}\" >>%s\necho \"%s says so\" "+
		">&2\nexit %d\n", name, s.diary, name, status)
}

// instance is a configuration in the file's format.
func instance(class, slot, properties string, resources ...string) string {
	return fmt.Sprintf(`{"@class":%q,"slot":%q,"properties":{%s},"resources":{%s}}`, class, slot, properties,
		strings.Join(resources, ","))
}

func named(name, artifact string) string { return strconv.Quote(name) + ":" + artifact }

// apply submits the unit's set.
func (s *site) apply(version string, configs ...string) {
	s.t.Helper()
	file := filepath.Join(s.Dir, "set-"+version+".json")
	if err := os.WriteFile(file, []byte("["+strings.Join(configs, ",\n")+"]"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if out := s.Tandem("workload", "apply", file, "--version", version); out.Status != 0 {
		s.t.Fatalf("apply %s: %d\n%s%s", version, out.Status, out.Out, out.Errors)
	}
}

// slot is what the controller shows of one.
type slot struct {
	Slot    string             `json:"slot"`
	Desired string             `json:"desired"`
	State   string             `json:"state"`
	Settled bool               `json:"settled"`
	Why     string             `json:"why"`
	Report  *wire.WorkloadSlot `json:"report"`
}

func (s *site) slots() map[string]slot {
	s.t.Helper()
	all, err := proc.Get[struct {
		Slots []slot `json:"slots"`
	}](s.Unit, "/v1/workloads/slots")
	if err != nil {
		s.t.Fatal(err)
	}
	m := map[string]slot{}
	for _, j := range all.Slots {
		m[j.Slot] = j
	}
	return m
}

// await waits until a slot is as it should be.
func (s *site) await(name, what string, is func(slot) bool) slot {
	s.t.Helper()
	var last slot
	proc.Until(s.t, name+" "+what, func() string {
		last = s.slots()[name]
		if is(last) {
			return ""
		}
		text, err := json.Marshal(last.Report)
		return fmt.Sprintf("%+v %s %v\n%s", last, text, err, s.read())
	})
	return last
}

func (s *site) awaitSettled(names ...string) {
	s.t.Helper()
	for _, n := range names {
		s.await(n, "settles", func(o slot) bool { return o.Settled && o.Desired != "" })
	}
}

// read is the diary.
func (s *site) read() string {
	data, err := os.ReadFile(s.diary)
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	if strings.Contains(string(data), "DOUBLE") {
		s.t.Errorf("something ran twice at a time:\n%s", data)
	}
	return string(data)
}

func (s *site) awaitDiary(what string) {
	s.t.Helper()
	proc.Until(s.t, "the diary has "+what, func() string {
		if text := s.read(); !strings.Contains(text, what) {
			return "it is: " + text
		}
		return ""
	})
}

// emptied takes everything away and checks that nothing is left.
func (s *site) emptied(nodes ...string) {
	s.t.Helper()
	s.apply("99.0.0")
	proc.Until(s.t, "nothing is left", func() string {
		if pids := s.runs(); len(pids) > 0 {
			return fmt.Sprint("processes ", pids, "\n", s.read())
		}
		for _, n := range nodes {
			for _, dir := range []string{"workloads/slots", "resources"} {
				entries, err := os.ReadDir(filepath.Join(s.StateDir(n), dir))
				if err != nil && !os.IsNotExist(err) {
					s.t.Fatal(err)
				}
				for _, e := range entries {
					if dir == "workloads/slots" || !e.IsDir() {
						return fmt.Sprint(n, " has ", dir, "/", e.Name())
					}
				}
			}
		}
		return ""
	})
}
