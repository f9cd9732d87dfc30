package proc

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"filippo.io/age"
)

// TestMachineIsDeleted: a controller is killed and all that it had is deleted. From one backup, made while it ran, its
// unit is back on another machine: the node that it had is in step again and takes what is submitted, the artefact and
// the operators' tokens are there; the settings are at hand, secrets included.
func TestMachineIsDeleted(t *testing.T) {
	t.Parallel()
	u := started(t)
	in := func(name string) string { return filepath.Join(u.Dir, name) }
	write := func(name, text string) string {
		t.Helper()
		if err := os.WriteFile(in(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return in(name)
	}
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	keys, program := write("backup.key", id.String()+"\n"), write("program", strings.Repeat("a program", 200_000))
	has(t, u.Tandem("token", "create", "ann", "--role", "view"), 0, "ann", "")
	has(t, u.Tandem("artefact", "add", program), 0, "", "")
	has(t, u.Tandem("backup", "create", in("b.age"), "--to", id.Recipient().String()), 0, "wrote", "")
	has(t, u.Tandem("backup", "create", in("b.age"), "--to", id.Recipient().String()), 2, "", "already-exists")
	has(t, u.Tandem("events", "--type", "note"), 0, "a backup of the unit, with its keys, was made for age1", "")
	offline := func(args ...string) Output {
		t.Helper()
		return Run(t, u.Dir, nil, append([]string{Binary(t, "tandem-controller"), "backup"}, args...)...)
	}
	has(t, offline("verify", in("b.age"), "--identity", keys), 0, "1 of them artefacts", "")
	u.accept("1.1.0", 2)
	u.AwaitVersion("1.1.0", "n1")

	u.Controller.Kill()
	if err := os.RemoveAll(u.StateDir("controller")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(u.StateDir("controller"), 0o700); err != nil { // root is told to
		t.Fatal(err)
	}
	has(t, offline("restore", in("b.age"), "--identity", keys, "--state-dir", u.StateDir("controller")), 0,
		"lost is what happened after", "")
	settings, err := os.ReadFile(filepath.Join(u.StateDir("controller"), "restored-settings", "controller.yaml"))
	if err != nil || !strings.Contains(string(settings), "unit: \"u1\"\n") {
		t.Errorf("%s %v", settings, err)
	}
	u.StartController("--report-jitter", "100ms")
	u.AwaitVersion("1.0.0", "n1")
	has(t, u.Tandem("events", "--type", "note"), 0, "the unit was restored from the backup of", "")
	has(t, u.Tandem("token", "list"), 0, "ann", "")
	has(t, u.Tandem("artefact", "list"), 0, "program", "")
	u.accept("1.1.0", 2)
	u.AwaitVersion("1.1.0", "n1")
	has(t, offline("restore", in("b.age"), "--identity", keys, "--state-dir", u.StateDir("controller")), 1, "",
		"is not empty")

	// It moves: nothing is lost, and the controller that it leaves does not start any more.
	move := append(u.ControllerArgs()[1:], "--to", id.Recipient().String(), "--final")
	has(t, offline(append([]string{"create", in("final.age")}, move...)...), 1, "", "is in use by")
	u.Controller.Stop()
	has(t, offline(append([]string{"create", in("final.age")}, move...)...), 0, "no controller starts on", "")
	has(t, Run(t, u.Dir, nil, u.ControllerArgs()...), 1, "", "was moved to another machine")
	if err := os.Rename(u.StateDir("controller"), in("left")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(u.StateDir("controller"), 0o700); err != nil {
		t.Fatal(err)
	}
	has(t, offline("restore", in("final.age"), "--identity", keys, "--state-dir", u.StateDir("controller")), 0,
		"nothing was lost", "")
	u.StartController("--report-jitter", "100ms")
	u.AwaitVersion("1.1.0", "n1")
	u.accept("1.2.0", 3)
	u.AwaitVersion("1.2.0", "n1")
}

// TestBackupOverTheNetwork: a token of the role admin gets a backup for whom the controller's settings name, and for
// nobody of its own choice; other roles get none.
func TestBackupOverTheNetwork(t *testing.T) {
	t.Parallel()
	u := NewUnit(t)
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	u.StartController("--http", "https://127.0.0.1:"+strconv.Itoa(Port(t)), "--backup-to", id.Recipient().String())
	root, ann := newToken(t, u, "root", "admin"), newToken(t, u, "ann", "operate")
	create := func(g grant, args ...string) Output {
		t.Helper()
		return Run(t, u.Dir, g.env(), append([]string{Binary(t, "tandem"), "backup", "create"}, args...)...)
	}
	has(t, create(ann, filepath.Join(u.Dir, "a.age")), 1, "", "admin")
	pass := filepath.Join(u.Dir, "pass")
	if err := os.WriteFile(pass, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, args := range [][]string{{"--to", id.Recipient().String()}, {"--passphrase-file", pass}} {
		file := filepath.Join(u.Dir, strconv.Itoa(i)+".age")
		has(t, create(root, append([]string{file}, args...)...), 1, "", "on the controller's machine only")
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%q wrote a file", args)
		}
	}
	has(t, create(root, filepath.Join(u.Dir, "b.age")), 0, "wrote", "")
	has(t, u.Tandem("events", "--type", "note"), 0, "made for "+id.Recipient().String(), "")
	keys := filepath.Join(u.Dir, "key")
	if err := os.WriteFile(keys, []byte(id.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	has(t, Run(t, u.Dir, nil, Binary(t, "tandem-controller"), "backup", "verify", filepath.Join(u.Dir, "b.age"),
		"--identity", keys), 0, "backup of the unit u1", "")
}
