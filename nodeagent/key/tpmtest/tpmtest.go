// Package tpmtest emulates a TPM 2.0 for tests, by swtpm.
package tpmtest

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// patience bounds a wait that only a failing test waits out.
const patience = 20 * time.Second

// TPM is an emulated TPM that runs until the test ends.
type TPM struct {
	Setting string // how tandem-key is told where it is

	t     testing.TB
	dir   string
	cmd   *exec.Cmd
	words bytes.Buffer
}

// Start starts a TPM that nobody has used before. Where swtpm is not installed, the test is skipped.
func Start(t testing.TB) *TPM {
	t.Helper()
	if _, err := exec.LookPath("swtpm"); err != nil {
		t.Skip("NOT TRIED: keys in a TPM. swtpm is not installed: apt-get install swtpm")
	}
	dir, err := os.MkdirTemp("", "tpm-") // short: a socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // for programs of other users
		t.Fatal(err)
	}
	m := &TPM{Setting: "unix:" + filepath.Join(dir, "socket"), t: t, dir: dir}
	t.Cleanup(func() {
		m.Stop()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	m.Again()
	return m
}

// Stop ends it, as when the machine is switched off.
func (m *TPM) Stop() {
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait() // by that signal
	m.cmd = nil
}

// Again starts it, as when the machine is started: what it keeps is there, what was loaded is not.
func (m *TPM) Again() {
	m.t.Helper()
	m.Stop()
	socket := filepath.Join(m.dir, "socket")
	_ = os.Remove(socket)
	m.words.Reset()
	m.cmd = exec.Command("swtpm", "socket", "--tpm2", "--tpmstate", "dir="+m.dir, "--server",
		"type=unixio,path="+socket, "--flags", "not-need-init,startup-clear")
	m.cmd.Stdout, m.cmd.Stderr = &m.words, &m.words
	if err := m.cmd.Start(); err != nil {
		m.cmd = nil
		m.t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) { // nothing tells of a socket
		conn, err := net.Dial("unix", socket)
		if err == nil {
			_ = conn.Close()
			if err := os.Chmod(socket, 0o666); err != nil {
				m.t.Fatal(err)
			}
			return
		}
		if time.Now().After(end) {
			m.Stop()
			m.t.Fatalf("swtpm does not start: %v\n%s", err, m.words.String())
		}
	}
}
