package keep

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/confine"
)

// A slot's processes that start others faster than they can be killed one by one, outside of its session and with
// nothing that marks them, end with it, also where there are no control groups. Other slots go on.
func TestBombOfASlot(t *testing.T) {
	for _, uid := range []int{agentUser, 0} {
		t.Run(fmt.Sprint("uid=", uid), func(t *testing.T) {
			u := newUserRig(t, uid, true)
			other := u.start(u.of("b", "other", "exec sleep 1000"))
			// At most 700 processes, as dash says it, or bash, and none once the directory is gone.
			const bound = "{ ulimit -p 700 2>/dev/null && [ $(ulimit -p) = 700 ] || ulimit -u 700; } || exit 1; "
			// A shell ends when it cannot fork, so that all of them may at once. Perl goes on, for two minutes at most.
			bomb := bound + fmt.Sprintf(`echo $$ >pid; exec /usr/bin/perl -e "while (-e q(pid) && time < %d) { fork }"`,
				time.Now().Add(2*time.Minute).Unix())
			run := u.of("a", "bomb", "(setsid env -i /bin/sh -c '"+bomb+"' 2>/dev/null &); exec sleep 1000")
			s := u.start(run)
			u.await(filepath.Join(run.Dir, "pid"))
			for end := time.Now().Add(patience); owners(t, s.UID) < 100; {
				if time.Now().After(end) {
					t.Fatal("it does not go off")
				}
			}
			u.as(func() { _, _ = u.c.Stop(u.ctx(), "bomb", 0) })
			if s := u.wait("bomb"); s.State != Exited || s.Left != 0 {
				t.Errorf("%+v", s)
			}
			if n := owners(t, s.UID); n != 0 {
				t.Errorf("%d processes are left", n)
			}
			if n := owners(t, other.UID); n != 1 {
				t.Errorf("%d processes of another slot are left", n)
			}
			u.as(func() { _, _ = u.c.Stop(u.ctx(), "other", 0) })
			u.wait("other")
		})
	}
}

// A thread that ends a slot's processes as its user cannot be ended by them: with it, the keeper would be.
func TestThreadThatActsIsOutOfReach(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TRIED: to act as another user takes root")
	}
	for _, other := range []int{0, agentUser} {
		slot := int(base) + 1
		acts, done := make(chan int), make(chan struct{})
		go confine.Apart(func() {
			defer close(acts)
			if err := actAs(uint32(slot), other); err != nil {
				t.Error(err)
				return
			}
			acts <- syscall.Gettid()
			<-done
		})
		tid, ok := <-acts
		if !ok {
			return
		}
		as := func(script string) error {
			c := exec.Command("/bin/sh", "-c", script)
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(slot), Gid: uint32(slot)}}
			return c.Run()
		}
		if err := as("kill -0 $$"); err != nil {
			t.Error(err)
		}
		if as(fmt.Sprint("kill -0 ", tid)) == nil { // which ends with the whole program, if it is no 0
			t.Errorf("beside %d: the thread can be signalled by what it is to end", other)
		}
		close(done)
	}
}
