package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/nodeagent/internal/update/disk"
	"tandem.internal/shared/publisher/publishertest"
)

var maker, thief = publishertest.New(1), publishertest.New(2)

// sign writes a signature of a file and returns its path.
func sign(t *testing.T, by publishertest.Signer, file, comment, to string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(to, []byte("untrusted comment: x\n"+by.SignAs(data, comment)+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// share is what the agent does at its start.
func (n node) share(keys ...publishertest.Signer) {
	n.t.Helper()
	text := ""
	for _, k := range keys {
		text += k.Public() + "\n"
	}
	if err := os.WriteFile(filepath.Join(n.dir, "publishers"), []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// refused runs tandem-node slot, which has to fail.
func (n node) refused(want string, args ...string) {
	n.t.Helper()
	if _, status, out, errs := n.tandem(args...); status != 1 || out != "" || !strings.Contains(errs, want) {
		n.t.Errorf("%v: status %d, %q %q, want %q", args, status, out, errs, want)
	}
}

// With the keys that the agent was started with, stage demands a signature beside the file, or the one that is named.
func TestStageDemandsASignature(t *testing.T) {
	n := newNode(t)
	n.must("tandem-node devel", "launch", "--", "version")
	n.share(maker)
	program := n.program("1.0", "")
	n.refused("unsigned: it is not signed", "slot", "stage", program)
	elsewhere := sign(t, thief, program, "tandem-node 1.0", filepath.Join(t.TempDir(), "s"))
	n.refused("unknown-key", "slot", "stage", program, "--signature", elsewhere)
	n.refused("the signature "+elsewhere+"x: refused: open", "slot", "stage", program, "--signature", elsewhere+"x")
	n.refused("three lines are wanted", "slot", "stage", program, "--signature", program)
	sign(t, maker, n.program("2.0", ""), "tandem-node 1.0", program+".minisig")
	n.refused("bad-signature: its signature does not count: it is a signature of another content", "slot", "stage",
		program)
	sign(t, maker, program, "tandem-node 1.1", program+".minisig")
	n.refused("does not begin with tandem-node 1.0, but with tandem-node 1.1", "slot", "stage", program)
	sign(t, maker, program, "tandem-node 1.0", program+".minisig")
	n.must("slot a holds version 1.0", "slot", "stage", program)
	n.must("slot a runs on trial", "slot", "try")
	n.must("slot a is given up", "slot", "rollback")
	if err := os.Remove(filepath.Join(n.dir, slot.Dir, "a", "tandem-node.minisig")); err != nil {
		t.Fatal(err)
	}
	n.refused("unsigned: ", "slot", "try", "a")
	if err := os.WriteFile(filepath.Join(n.dir, "publishers"), []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.refused("the publishers' keys of the agent's newest start: line 1 is no public key", "slot", "stage", program)
}

// So it is with a component, whose file does not say its version: the signature has to.
func TestStageOfComponentDemandsASignature(t *testing.T) {
	n := newNode(t)
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	store := disk.OpenStore(n.dir, "os", nil)
	agent := func(change func(r *update.Record)) {
		t.Helper()
		err := store.Make()
		if err == nil {
			err = store.Update(time.Now(), func(r update.Record) (update.Record, error) { change(&r); return r, nil })
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	agent(func(r *update.Record) { r.Has.Active = "6" })
	n.share(maker)
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, []byte("the image"), 0o600); err != nil {
		t.Fatal(err)
	}
	stage := []string{"slot", "stage", image, "--component", "os", "--version", "7"}
	n.refused("unsigned: ", stage...)
	sign(t, maker, image, "os 5", image+".minisig")
	n.refused("does not begin with os 7, but with os 5", stage...)
	sign(t, maker, n.program("x", ""), "os 7", image+".minisig")
	n.refused("it is a signature of another content", stage...)
	sign(t, maker, image, "os 7 expires:2001-01-01T00:00:00Z", image+".minisig") // the agent judges that
	n.must("version 7 (sha256:", stage...)
	agent(func(r *update.Record) { r.Phase, r.Signature = update.Staged, "" })
	n.refused("unsigned: ", "slot", "try", "--component", "os")
	n.share(thief)
	n.refused("unknown-key: ", stage...)
	if err := os.Remove(filepath.Join(n.dir, "publishers")); err != nil {
		t.Fatal(err)
	}
	n.must("as soon as it is installed", "slot", "try", "--component", "os")
}

// forge has a record of the slots say that slot a, in force, holds a file.
func forge(t *testing.T, path, file string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := record.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	r.A.Hash, r.A.Size, r.A.Version = "sha256:"+hex.EncodeToString(sum[:]), int64(len(content)), "1.0"
	if err := os.WriteFile(path, r.Encode(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The launcher goes by the agent's settings, whatever the state directory says: what no publisher has signed is not
// started, on trial or in force, and a damaged setting strands no node.
func TestLauncherVerifiesSignatures(t *testing.T) {
	n := newNode(t)
	config := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(config, []byte("of-a-newer-agent: [1]\npublisher-key:\n  - "+maker.Public()+"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	installed := func(why string, args ...string) {
		t.Helper()
		// The installed binary does not know the setting of a newer agent, and would not start.
		_, _, out, errs := n.tandem(append([]string{"launch", "--", "version"}, args...)...)
		if !strings.Contains(errs, why) || !strings.Contains(out, "tandem-node devel") {
			t.Errorf("%v: %q %q", args, out, errs)
		}
	}
	plain := n.program("1.0", "")
	n.must("tandem-node devel", "launch", "--", "version")
	n.must("slot a holds version 1.0", "slot", "stage", plain)
	n.must("slot a runs on trial", "slot", "try")
	installed("the trial of slot a is over: unsigned: it is not signed", "--newer", "--config", config)
	n.must("version 1.0 in slot a was given up: fallback: unsigned", "slot", "status")

	signed := n.program("2.0", "")
	sign(t, maker, signed, "tandem-node 2.0", signed+".minisig")
	n.must("holds version 2.0", "slot", "stage", signed)
	n.must("runs on trial", "slot", "try")
	n.launch("2.0 PID slot=a trial=1 tries=2 reason=update args=--config "+config, "--config", config)
	n.must("is in force", "slot", "commit")
	n.launch("2.0 PID slot=a trial=0 tries=0 reason=fatal args=--publisher-key "+maker.Public(), "--publisher-key",
		maker.Public())
	installed("slot factory stands in; slot a: unknown-key", "--publisher-key="+thief.Public())
	errs := n.launch("2.0 PID slot=a trial=0 tries=0 reason=fatal args=--publisher-key x", "--publisher-key", "x")
	if !strings.Contains(errs, "neither a public key of minisign (56 letters of base64) nor a file") ||
		!strings.Contains(errs, "no slot is tried") {
		t.Errorf("%q", errs)
	}
	// Whoever can only write in the state directory puts a program in force.
	file := filepath.Join(n.dir, slot.Dir, "a", "tandem-node")
	data, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"record.0", "record.1"} {
		forge(t, filepath.Join(n.dir, slot.Dir, name), file)
	}
	installed("slot factory stands in; slot a: bad-signature", "--config", config)
	n.launch("1.0 PID slot=a trial=0 tries=0 reason=fatal args=") // nobody demands anything
}
