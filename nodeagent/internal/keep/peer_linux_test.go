package keep

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asIntruder asks the keeper of the first argument to end, and writes to the file of the second how that went. With
// more, it has another process do so: "child" of it, or "orphan", without the run's mark, session and parent.
func asIntruder() int {
	dir, file, how := os.Args[1], os.Args[2], os.Args[3]
	if how == "itself" {
		text := "answered"
		conn, err := dial(context.Background(), dir)
		if err == nil {
			var a answer
			data, _ := encodeMessage(request{Protocol: Protocol, Op: opQuit, Force: true})
			if _, err = conn.Write(data); err == nil {
				err = readMessage(bufio.NewReader(conn), &a)
			}
		}
		if err != nil {
			text = "hung up on"
		}
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			return 1
		}
		time.Sleep(patience) // the keeper ends it
		return 0
	}
	next := map[string]string{"child": "itself", "orphan": "parent", "parent": "itself"}[how]
	cmd := exec.Command("/proc/self/exe", dir, file, next)
	cmd.Env = []string{asWhat + "=intruder", raceEnv}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: how != "child"}
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	if how != "parent" {
		_ = cmd.Wait()
		time.Sleep(patience)
	}
	return 0
}

// TestRunsAreHungUpOn: a process of a run gets nothing from the keeper, however it was made; the agent does.
func TestRunsAreHungUpOn(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"itself", "child", "orphan"} {
		t.Run(how, func(t *testing.T) {
			r := newRig(t)
			answer := r.pipe("answer")
			r.start(Run{ID: how, Argv: []string{exe, r.dir, filepath.Join(r.work, "answer"), how}, Dir: r.work,
				Env: []string{asWhat + "=intruder", raceEnv}})
			if text := answer.line(); text != "hung up on" {
				t.Errorf("it was %q", text)
			}
			if s, err := r.c.Get(r.ctx(), how); err != nil || s.State != Running {
				t.Errorf("the agent is told %+v, %v", s, err)
			}
			said, _, err := ReadLog(filepath.Join(r.dir, "log"), Cursor{}, 1<<20)
			if err != nil || !strings.Contains(string(said), "of a run, asked for something") {
				t.Errorf("%s %v", said, err)
			}
		})
	}
}
