package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/shared/publisher"
	"tandem.internal/shared/workload"
)

// TestPublisherSignsFiles: what comes out is what a node demands of a version, and what the program minisign takes.
func TestPublisherSignsFiles(t *testing.T) {
	b, set, program, key := publisherDesk(t)
	out, _, _ := b.run("", "publisher", "create", key, "--no-password", "--json")
	var made struct{ ID, Key string }
	if err := json.Unmarshal([]byte(out), &made, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	k, err := publisher.ParseKey(made.Key)
	if err != nil {
		t.Fatal(err)
	}
	h := publisher.NewHash()
	h.Write([]byte("#!/bin/sh\n"))
	until := b.io.Now().Add(48 * time.Hour).UTC().Truncate(time.Second)
	for _, c := range []struct {
		args string
		want publisher.Release
		end  time.Time
	}{
		{"--version 1.4.0", publisher.Release{Name: "tandem-node", Version: "1.4.0"}, time.Time{}},
		{"--version 7 --component os --replace --expires " + until.Format(time.RFC3339),
			publisher.Release{Name: "os", Version: "7"}, until},
		{"--version 8 --replace --expires " + until.Format(time.DateOnly),
			publisher.Release{Name: "tandem-node", Version: "8"}, until.Truncate(24 * time.Hour)},
		{"--version 8.0.0 --replace --floor 7.1.0",
			publisher.Release{Name: "tandem-node", Version: "8.0.0"}, time.Time{}},
	} {
		args := append([]string{"publisher", "sign-file", program, "--key", key}, strings.Fields(c.args)...)
		if out, errs, exit := b.run("", args...); exit != 0 || !strings.HasPrefix(out, "wrote "+program+".minisig") {
			t.Fatalf("%s: %d %s%s", c.args, exit, out, errs)
		}
		text, err := os.ReadFile(program + ".minisig")
		if err != nil {
			t.Fatal(err)
		}
		sig, err := publisher.Parse(string(text))
		if err != nil || !sig.Expires().Equal(c.end) || (sig.Floor() == "7.1.0") != strings.Contains(c.args, "7.1.0") {
			t.Errorf("%s: %v %s %v", c.args, sig.Expires(), sig.Floor(), err)
		}
		if err := (publisher.Keys{k}).JudgeRelease(c.want, string(text), h.Sum(nil)); err != nil {
			t.Errorf("%s: %v\n%s", c.args, err, text)
		}
		_, signature, _ := strings.Cut(string(text), "\n")
		minisignTakes(t, b.dir, made.Key, program, signature)
	}
	if out, errs, exit := b.run("", "publisher", "sign-file", program, "--key", key, "--component", "sensor",
		"--version", "1.4.0", "--container", "--out", filepath.Join(b.dir, "part.minisig")); exit != 0 {
		t.Fatalf("%d %s%s", exit, out, errs)
	}
	text, err := os.ReadFile(filepath.Join(b.dir, "part.minisig"))
	if err != nil {
		t.Fatal(err)
	}
	if sig, err := publisher.Parse(string(text)); err != nil || !sig.ForContainers() {
		t.Errorf("%v\n%s", err, text)
	}
	out, errs, exit := b.run("", "publisher", "sign", set, "--key", key, "--file", startAddress(t, set)+"="+program,
		"--expires", until.Format(time.RFC3339))
	signed, problems := workload.Parse([]byte(out))
	if exit != 0 || problems != nil {
		t.Fatalf("%d %s %v", exit, errs, problems)
	}
	sig, err := publisher.Parse(signed.Configs[0].Resources["data"].Verification.Minisign)
	if err != nil || !sig.Expires().Equal(until) {
		t.Errorf("%v %v", sig.Expires(), err)
	}
}

// TestPublisherRefusesFiles: no signature is replaced unasked, and none is made that would count for nothing.
func TestPublisherRefusesFiles(t *testing.T) {
	b, _, program, _ := publisherDesk(t)
	if err := os.WriteFile(program+".minisig", []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := " --key " + filepath.Join("testdata", "one.key")
	for _, c := range []struct{ args, want string }{
		{"--version 1" + good, "already-exists"},
		{"--version 1", "needs --key FILE"},
		{good, "needs --version VERSION"},
		{"--component a/b --version 1" + good, `"a/b" is not a name`},
		{"--version 1\u00a02" + good, "is not a version"},
		{"--version 1.0.0 --component os --floor 1.0.0" + good, "not of a component"},
		{"--version 1 --floor 1.0.0" + good, "is not a semantic version"},
		{"--version 1.0.0 --floor 1.0.1" + good, "1.0.1 is above the version itself, 1.0.0"},
		{"--version 1 --expires soon" + good, "is no time such as"},
		{"--version 1 --expires 2001-01-01" + good, "2001-01-01T00:00:00Z is over"},
		{"--version 1\x1b --out " + filepath.Join(b.dir, "new") + good, "control characters"},
		{"--version 1 --replace --key " + program, "it cannot be used as a key to sign with"},
		{"x --version 1 --replace" + good, "one argument"},
		{"--version 1 --replace --container" + good, "name that by --component"},
	} {
		args := append([]string{"publisher", "sign-file", program}, strings.FieldsFunc(c.args, func(r rune) bool {
			return r == ' '
		})...)
		out, errs, exit := b.run("", args...)
		if exit == 0 || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d, want %s\n%s%s", c.args, exit, c.want, out, errs)
		}
	}
	if text, err := os.ReadFile(program + ".minisig"); err != nil || string(text) != "mine" {
		t.Errorf("%q %v", text, err)
	}
}
