package deliver

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/notify"
)

var pythonBlock = regexp.MustCompile("(?s)```python\n(.*?)```")

// pythonReceiver runs the receiver of shared/docs/notices.md for as long as the test takes; lines are what it prints.
func pythonReceiver(t *testing.T) (to notify.Receiver, lines *bufio.Scanner) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	page, err := os.ReadFile("../../../../shared/docs/notices.md")
	if err != nil {
		t.Fatal(err)
	}
	program := pythonBlock.FindSubmatch(page)
	if program == nil {
		t.Fatal("the page has no receiver")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	to = notify.Receiver{Name: "r", URL: "http://" + address + "/", Secret: notify.Secret{7, 8, 9}}
	cmd := exec.Command(python, "-c", string(program[1]), port)
	cmd.Env = append(os.Environ(), "TANDEM_SECRET="+to.Secret.Text())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it says that it was killed
	})
	return to, bufio.NewScanner(out)
}

// TestReceiverOfTheDocuments: it takes what is signed, once, and refuses what was altered, is old, or is signed with
// another secret.
func TestReceiverOfTheDocuments(t *testing.T) {
	to, lines := pythonReceiver(t)
	s, err := NewSender(to)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	now := time.Now()
	first := notify.Test("u1", "first", now, &to)
	for begun := now; ; { // it takes a moment to listen
		a := s.Send(t.Context(), first, now)
		if a.Err == "" {
			break
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("it never answers: %+v", a)
		}
	}
	if a := s.Send(t.Context(), first, now); a.Status != 204 {
		t.Errorf("the same again: %+v", a)
	}
	altered := first
	altered.Body = []byte(strings.Replace(string(first.Body), "test", "tost", 1))
	old := notify.Message{ID: "test-other", Body: altered.Body}
	if a := s.Send(t.Context(), old, now.Add(-time.Hour)); a.Status != 401 {
		t.Errorf("an old one: %+v", a)
	}
	other := to
	other.Secret[0]++
	forger, err := NewSender(other)
	if err != nil {
		t.Fatal(err)
	}
	defer forger.Close()
	if a := forger.Send(t.Context(), altered, now); a.Status != 401 {
		t.Errorf("with another secret: %+v", a)
	}
	if a := s.Send(t.Context(), notify.Test("u1", "last", now, &to), now); a.Status != 204 {
		t.Errorf("%+v", a)
	}
	for _, want := range []string{"test-first tandem.notice.test info", "test-last tandem.notice.test info"} {
		if !lines.Scan() || lines.Text() != want {
			t.Errorf("it has taken %q, want %q", lines.Text(), want)
		}
	}
}
