package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/nodeagent/internal/update/disk"
	"tandem.internal/shared/bundle"
	"tandem.internal/shared/wire"
)

// bundled writes this very program, as a version that brings settings.
func (n node) bundled(version, settings string) string {
	n.t.Helper()
	self, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		n.t.Fatal(err)
	}
	tail, err := bundle.Bundle{Version: version, Settings: []byte(settings)}.Tail()
	if err != nil {
		n.t.Fatal(err)
	}
	file := filepath.Join(n.t.TempDir(), "tandem-node-"+version)
	if err := os.WriteFile(file, slices.Concat(data, tail), 0o700); err != nil {
		n.t.Fatal(err)
	}
	return file
}

// launched starts the agent through the launcher, which has to run as a version with these settings, each as
// --print-config shows it.
func (n node) launched(version string, flags []string, want ...string) {
	n.t.Helper()
	args := append([]string{"launch", "--"}, flags...)
	_, status, out, errs := n.tandem(append(args, "--unit", "u", "--type", "t", "--print-config")...)
	if first, _, _ := strings.Cut(out, "\n"); status != 0 || !strings.HasPrefix(first, "# tandem-node "+version) {
		n.t.Errorf("status %d, %q, want version %s; stderr %q", status, first, version, errs)
	}
	for _, line := range want {
		name, _, _ := strings.Cut(line, ":")
		_, rest, _ := strings.Cut(out, "\n"+name)
		if got, _, _ := strings.Cut(rest, "\n"); name+got != line {
			n.t.Errorf("version %s: %q, want %q", version, name+got, line)
		}
	}
}

const byDefault = "beat: 1m0s  # default"

// Settings that a version brings are in force when it is, below the node's own, and go back with it: from a trial, by
// hand, and when they are damaged.
func TestVersionBringsSettings(t *testing.T) {
	const brings = "beat: 45s\nevent-limit: 77\nfetch-rate: 77\npeer-rate: 77\n"
	t.Setenv(asNode, "1")
	n := newNode(t)
	n.launched("devel", nil, byDefault)
	n.must("slot a holds version 7.0.0", "slot", "stage", n.bundled("7.0.0", brings))
	n.must("slot a runs on trial", "slot", "try")
	n.must("version 7.0.0 in slot a brings settings: beat, event-limit, fetch-rate, peer-rate\n", "slot", "status")
	if out := n.must(`"brings": {`, "slot", "status", "--json"); !strings.Contains(out, `"event-limit"`) {
		t.Error(out)
	}
	n.launched("7.0.0", nil, "beat: 45s  # version 7.0.0:1", "event-limit: 77  # version 7.0.0:2")
	n.must("is in force", "slot", "commit")

	own := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(own, []byte("event-limit: 11\nfetch-rate: 11\npeer-rate: 11\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TANDEM_FETCH_RATE", "22")
	n.launched("7.0.0", []string{"--config", own, "--peer-rate", "33"}, "beat: 45s  # version 7.0.0:1",
		"event-limit: 11  # file "+own+":1", "fetch-rate: 22  # env TANDEM_FETCH_RATE",
		"peer-rate: 33  # flag --peer-rate")
	t.Setenv("TANDEM_FETCH_RATE", "")

	// the same program with other settings is another version, which is not kept
	next := n.bundled("7.1.0", "beat: 46s\n")
	n.must("slot b holds version 7.1.0", "slot", "stage", next)
	n.must("slot b runs on trial", "slot", "try", "--tries", "1")
	n.launched("7.1.0", nil, "beat: 46s  # version 7.1.0:1")
	n.launched("7.0.0", nil, "beat: 45s  # version 7.0.0:1", "event-limit: 77  # version 7.0.0:2")

	// only that file is in quarantine, and neither the program nor the settings
	n.failed()
	n.refused("version 7.1.0 failed here before", "slot", "stage", next)
	n.must("slot b holds version 7.1.1", "slot", "stage", n.bundled("7.1.1", "beat: 47s\n"))
	n.must("slot b runs on trial", "slot", "try")
	n.launched("7.1.1", nil, "beat: 47s  # version 7.1.1:1")
	n.must("slot b is in force; the one before is slot a", "slot", "commit")
	n.must("slot b is given up; slot a runs", "slot", "rollback")
	n.launched("7.0.0", nil, "beat: 45s  # version 7.0.0:1")

	// damaged settings are a damaged program
	file := filepath.Join(n.dir, slot.Dir, "a", "tandem-node")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(data, []byte("45s"))
	data[at] = '9'
	if err := os.WriteFile(file, data, 0o700); err != nil {
		t.Fatal(err)
	}
	n.launched("devel", nil, byDefault)
	n.must("slot a: broken: its file has been altered", "slot", "status")
}

// failed plays the agent, which has written down that the newest trial has failed.
func (n node) failed() {
	n.t.Helper()
	st, err := slot.Open(slot.Config{Dir: filepath.Join(n.dir, slot.Dir)}).Status()
	if err == nil {
		err = disk.Own(n.dir, nil).Update(time.Now(), func(update.Record) (update.Record, error) {
			return update.Record{Number: 1, Quarantine: []wire.HealthFailed{{Hash: st.Last.Hash,
				Version: st.Last.Version, Text: "it has", At: time.Unix(0, 0)}}}, nil
		})
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

// Settings that may not come with a version, or that no agent takes, are refused by the program itself, wherever it is
// staged. The slots stay as they were.
func TestBroughtSettingsAreRefused(t *testing.T) {
	t.Setenv(asNode, "1")
	n := newNode(t)
	n.launched("devel", nil, byDefault)
	for settings, want := range map[string]string{
		"publisher-key: [x]\n":         "version 7.0.0:1: publisher-key: it is the node owner's alone",
		"beat: 45s\nbroker: tcp://x\n": "version 7.0.0:2: broker: it is the node owner's alone",
		"beat: 1ms\n":                  "--beat: below one second",
	} {
		n.refused("refused: it fails its self-test: exit status 2: tandem-node: what comes with version 7.0.0 of the "+
			"agent: "+want, "slot", "stage", n.bundled("7.0.0", settings))
	}
	n.refused("and it should be 7.0.1", "slot", "stage", n.bundled("7.0.0", "beat: 45s\n"), "--version", "7.0.1")
	if out := n.must("factory  active", "slot", "status"); strings.Contains(out, "7.0.0") {
		t.Error(out)
	}
}

// Where a publisher has to sign, it signs program and settings: nobody else changes these, takes them away or adds any.
func TestBroughtSettingsAreSigned(t *testing.T) {
	t.Setenv(asNode, "1")
	n := newNode(t)
	n.launched("devel", nil, byDefault)
	n.share(maker)
	key := []string{"--publisher-key", maker.Public()}
	file := n.bundled("7.0.0", "beat: 45s\n")
	other, plain := n.bundled("7.0.0", "beat: 46s\n"), n.program("7.0.0", "")
	for _, unsigned := range []struct{ signed, staged string }{{file, other}, {plain, file}, {file, plain}} {
		sig := sign(t, maker, unsigned.signed, "tandem-node 7.0.0", filepath.Join(t.TempDir(), "s"))
		n.refused("it is a signature of another content", "slot", "stage", unsigned.staged, "--signature", sig)
	}
	sign(t, maker, file, "tandem-node 7.0.0", file+".minisig")
	n.must("slot a holds version 7.0.0", "slot", "stage", file)
	n.must("slot a runs on trial", "slot", "try")
	n.launched("7.0.0", key, "beat: 45s  # version 7.0.0:1")
	n.must("is in force", "slot", "commit")

	// who alters the file, and the record with it, has nothing started
	data, err := os.ReadFile(other)
	if err == nil {
		err = os.WriteFile(filepath.Join(n.dir, slot.Dir, "a", "tandem-node"), data, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"record.0", "record.1"} {
		forge(t, filepath.Join(n.dir, slot.Dir, name), other)
	}
	n.launched("7.0.0", nil, "beat: 46s  # version 7.0.0:1")
	n.launched("devel", key, byDefault)
}
