package proc

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// demoTree is a tree with the programs that this test run has built.
func demoTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "deploy"), os.DirFS(filepath.Join(Root(t), "deploy"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(Binary(t, "tandem")), filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	for _, script := range []string{"up", "node"} { // CopyFS does not keep modes
		if err := os.Chmod(filepath.Join(dir, "deploy/demo", script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// suggestions are the commands that the demo prints, and what another terminal has to know first.
func suggestions(t *testing.T, text string) (before string, commands []string) {
	t.Helper()
	_, text, ok := strings.Cut(text, "Things to try")
	if !ok {
		t.Fatal("no suggestions are printed")
	}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "  ") {
			continue
		}
		if line = strings.TrimSpace(line); before == "" {
			before = line
		} else {
			commands = append(commands, line)
		}
	}
	return before, commands
}

var dashboard = regexp.MustCompile(`(http://127\.0\.0\.1:\d+)/#once=(tdo1\.\S+)`)

// ask makes a request with a token, and returns the status.
func ask(t *testing.T, method, url, token string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

// The demo comes up, does all that it suggests as printed, stops at Ctrl-C, goes on with its state,
// and explains what is in its way.
func TestDemo(t *testing.T) {
	t.Parallel()
	dir, run := demoTree(t), filepath.Join(t.TempDir(), "u")
	port := Port(t)
	env := []string{"TANDEM_UP_DIR=" + run, "TANDEM_UP_PORT=" + strconv.Itoa(port)}
	d := StartDemo(t, dir, run, env, "deploy/demo/up")
	log := d.Log()
	// how many lines of progress there are before it, depends on the machine
	_, after, _ := strings.Cut(log, "The unit runs.")
	if n := strings.Count(after, "\n"); !strings.Contains(log, "every node has it (3 nodes)") || n < 10 || n > 35 {
		t.Errorf("too little or too much:\n%s", log)
	}

	link := dashboard.FindStringSubmatch(log)
	if link == nil {
		t.Fatalf("no link to the dashboard:\n%s", log)
	}
	if status := ask(t, http.MethodGet, link[1]+"/", ""); status != http.StatusOK {
		t.Errorf("the dashboard: status %d", status)
	}
	for i, want := range []int{http.StatusOK, http.StatusUnauthorized} { // the link logs in once
		if status := ask(t, http.MethodPost, link[1]+"/v1/tokens/redeem", link[2]); status != want {
			t.Errorf("the link, time %d: status %d", i+1, status)
		}
	}

	before, commands := suggestions(t, d.Log())
	if len(commands) < 8 {
		t.Errorf("only %q are suggested", commands)
	}
	for _, c := range commands {
		o := d.Shell(before + "\n" + c)
		want := 0
		switch {
		case strings.Contains(c, "percent"):
			want = 2
		case strings.Contains(c, "refused"):
			want = 1
		}
		if o.Status != want {
			t.Errorf("%s: status %d, want %d\n%s%s", c, o.Status, want, o.Out, o.Errors)
		}
		if strings.HasPrefix(c, "kill") {
			Until(t, "node-3 has stopped", func() string {
				if _, err := os.Stat(filepath.Join(run, "node-3.pid")); err == nil {
					return "it is there"
				}
				return ""
			})
		}
	}
	Until(t, "node-3 has caught up", func() string {
		if o := d.Shell(before + "\nbin/tandem nodes"); !strings.Contains(o.Out, "3 online, 3 in step") {
			return o.Out
		}
		return ""
	})

	// A second one, meanwhile.
	second := Run(t, dir, env, "deploy/demo/up")
	has(t, second, 1, "", "TANDEM_UP_PORT=")
	second = Run(t, dir, append(slices.Clone(env), "TANDEM_UP_PORT="+strconv.Itoa(Port(t))), "deploy/demo/up")
	has(t, second, 1, "", "runs in "+run+" already")
	if o := d.Shell(before + "\nbin/tandem nodes"); !strings.Contains(o.Out, "3 online") {
		t.Errorf("a second one in the same directory has done this to the first:\n%s%s", o.Out, o.Errors)
	}
	again := Run(t, dir, env, "deploy/demo/node", "node-1")
	has(t, again, 1, "", "runs already")

	d.Interrupt()
	if status := d.Wait(Patience); status != 0 {
		t.Errorf("after Ctrl-C: status %d", status)
	}
	if !strings.Contains(d.Log(), "stopped; the state is kept") || strings.Contains(d.Log(), "Killed") {
		t.Errorf("after Ctrl-C:\n%s", d.Log())
	}
	d.CheckStopped()
	has(t, Run(t, dir, env, "deploy/demo/node", "node-1"), 1, "", "make up")

	// It goes on, and says so when the controller dies.
	d = StartDemo(t, dir, run, env, "deploy/demo/up")
	if !strings.Contains(d.Log(), "going on with the state") {
		t.Errorf("the second start:\n%s", d.Log())
	}
	if status := ask(t, http.MethodPost, link[1]+"/v1/tokens/redeem", link[2]); status != http.StatusUnauthorized {
		t.Errorf("the link of the demo before: status %d", status)
	}
	Until(t, "all are in step", func() string {
		if o := d.Shell(before + "\nbin/tandem nodes"); !strings.Contains(o.Out, "2.3.0") ||
			!strings.Contains(o.Out, "3 online, 3 in step") {
			return o.Out
		}
		return ""
	})
	text, err := os.ReadFile(filepath.Join(run, "controller.pid"))
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if status := d.Wait(Patience); status != 1 || !strings.Contains(d.Log(), "the controller has stopped") {
		t.Errorf("the controller died: status %d\n%s", status, d.Log())
	}
	d.CheckStopped()
}
