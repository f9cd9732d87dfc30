package key

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tandem.internal/nodeagent/internal/peer"
	"tandem.internal/nodeagent/internal/signer"
	"tandem.internal/shared/wire"
)

// asWhat has the test binary play a process that asks the program.
const asWhat = "TANDEM_KEY_TEST_AS"

func TestMain(m *testing.M) {
	if how := os.Getenv(asWhat); how != "" {
		os.Exit(ask(how))
	}
	os.Exit(m.Run())
}

// ask writes "answered" or "hung up on": of itself, or, as long as how has words, of a child.
func ask(how string) int {
	word, more, deeper := strings.Cut(how, " ")
	if deeper {
		cmd := exec.Command("/proc/self/exe", os.Args[1])
		cmd.Env = []string{asWhat + "=" + more}
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if cmd.Run() != nil {
			return 1
		}
		return 0
	}
	c, err := signer.Open("unix:" + os.Args[1])
	if err == nil {
		_, _, err = c.Read(context.Background())
	}
	text := "answered"
	if !errors.Is(err, &wire.Error{Code: wire.CodeNotFound}) {
		text = "hung up on"
	}
	_, _ = io.WriteString(os.Stdout, word+" "+text)
	return 0
}

// TestOnlyTheAgent: the agent is answered; another user, root, and what the agent has started are not.
func TestOnlyTheAgent(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT TRIED: who is answered by the key program. Only root can play several users")
	}
	const agent, stranger = 64001, 64002
	own, err := peer.Group(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, how, group, want string
		uid                    uint32
	}{
		{"the agent", "it", "", "it answered", agent},
		{"another user", "it", "", "it hung up on", stranger},
		{"root", "it", "", "it hung up on", 0},
		{"what the agent has started", "agent it", "", "it hung up on", agent},
		{"what that has started", "agent hook it", "", "it hung up on", agent},
		{"in another group", "it", "/of-workloads", "it answered", agent},
		{"in the group of workloads", "it", own, "it hung up on", agent},
	} {
		if tc.group == own && own == "" && strings.Contains(tc.name, "group") {
			t.Logf("NOT TRIED: %s: there is no cgroup v2 here", tc.name)
			continue
		}
		cfg := config(t)
		cfg.Guard = AgentOnly(agent, tc.group)
		_, stop := serve(t, cfg)
		if err := os.Chmod(filepath.Dir(cfg.Socket), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/proc/self/exe", cfg.Socket)
		cmd.Env = []string{asWhat + "=" + tc.how}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: tc.uid, Gid: tc.uid}}
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != tc.want {
			t.Errorf("%s: %q, %v", tc.name, out, err)
		}
		stop()
	}
}

// TestSameUserAbove: a process below another one of its user is not answered, whoever that is.
func TestSameUserAbove(t *testing.T) {
	if parent, err := exec.Command("stat", "-c", "%u", "/proc/"+strconv.Itoa(os.Getppid())).Output(); err != nil ||
		strings.TrimSpace(string(parent)) != strconv.Itoa(os.Getuid()) {
		t.Skipf("NOT TRIED: the parent of this test is of user %s (%v)", parent, err)
	}
	cfg := config(t)
	cfg.Guard = AgentOnly(os.Getuid(), "")
	c, stop := serve(t, cfg)
	defer stop()
	if _, _, err := c.Read(t.Context()); err == nil || isCode(err, wire.CodeNotFound) {
		t.Errorf("%v", err)
	}
}
