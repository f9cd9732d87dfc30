package cli

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/shared/bundle"
)

// TestAgentBundle: program and settings become one file, which brings them, and is released as any other.
func TestAgentBundle(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	program := foreign(elf.EM_LOONGARCH, "1.5.0 reads "+bundle.Mark)
	file, settings := b.write("agent", program), b.write("settings.yaml", "beat: 45s\nevent-limit: 500\n")
	out := filepath.Join(b.dir, "agent-1.5.1")
	golden(t, "policy-bundle", b.transcript("", "agent", "bundle", file, "--settings", settings, "--version", "1.5.1",
		"--out", out))
	golden(t, "policy-bundle-release", b.transcript("", "agent", "release", out))
	golden(t, "policy-bundle-list", b.transcript("", "agent", "list"))
	data, err := os.ReadFile(out)
	if err != nil || !strings.HasPrefix(string(data), program) {
		t.Fatalf("%q %v", data, err)
	}
	got, err := bundle.Read(bytes.NewReader(data), int64(len(data)))
	if err != nil || got.Version != "1.5.1" || string(got.Settings) != "beat: 45s\nevent-limit: 500\n" {
		t.Errorf("%+v %v", got, err)
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v %v", info, err)
	}
}

// TestAgentBundleMistakes: what nodes would refuse is refused here, with the name and the reason, and leaves no file.
func TestAgentBundleMistakes(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	program := b.write("agent", foreign(elf.EM_LOONGARCH, bundle.Mark))
	old := b.write("old", foreign(elf.EM_LOONGARCH, "1.5.0"))
	tail, err := bundle.Bundle{Version: "1.5.0", Settings: []byte("beat: 1m\n")}.Tail()
	if err != nil {
		t.Fatal(err)
	}
	twice := b.write("twice", foreign(elf.EM_LOONGARCH, bundle.Mark)+string(tail))
	damaged := b.write("damaged", foreign(elf.EM_LOONGARCH, bundle.Mark)+"\n"+bundle.Mark+"1.5.0 77\n")
	good, out := b.write("good.yaml", "beat: 45s\n"), filepath.Join(b.dir, "out")
	rest := " --version 1.5.1 --out " + out
	for _, c := range []struct{ args, want string }{
		{program + rest, "needs --settings FILE"},
		{program + " --settings " + good + " --out " + out, "needs --version VERSION"},
		{program + " --settings " + good + " --version 1.5.1", "needs --out FILE"},
		{program + " --settings " + good + " --version 1.5 --out " + out, "is no semantic version"},
		{program + " --settings " + good + " --version 1.5.1 --out " + program, "already-exists"},
		{program + " --settings " + b.dir + "/none" + rest, "no such file"},
		{program + " --settings " + b.write("key.yaml", "beat: 45s\npublisher-key: [x]\n") + rest,
			"key.yaml:2: publisher-key: it is the node owner's alone, and does not come with a version; these may: "},
		{program + " --settings " + b.write("typo.yaml", "baet: 45s\n") + rest,
			"typo.yaml:1: baet: it is the node owner's alone"},
		{program + " --settings " + b.write("bad.yaml", "beat: [") + rest, "not YAML"},
		{program + " --settings " + b.write("empty.yaml", "# none\n") + rest, "names no setting"},
		{program + " --settings " + b.write("long.yaml", "beat: 45s #"+strings.Repeat("x", bundle.MaxSettings)) + rest,
			"longer than 16384 bytes"},
		{old + " --settings " + good + rest, "from before versions could bring settings"},
		{twice + " --settings " + good + rest, "brings settings already"},
		{damaged + " --settings " + good + rest, "does not fit the settings before it"},
		{good + " --settings " + good + rest, "is no program for Linux"},
	} {
		printed, errs, exit := b.run("", append([]string{"agent", "bundle"}, strings.Fields(c.args)...)...)
		if printed != "" || exit != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d, want %s\n%s%s", c.args, exit, c.want, printed, errs)
		}
		if _, err := os.Stat(out); !os.IsNotExist(err) {
			t.Fatalf("%s: %v", c.args, err)
		}
	}
	forged := b.write("forged", foreign(elf.EM_LOONGARCH, bundle.Mark)+"\nfloor: 1.0.0\n"+bundle.Mark+"1.5.0 13\n")
	for args, want := range map[string]string{
		damaged + " --version 1.5.0": "does not fit",
		forged:                       "floor: it is the node owner's alone",
		twice + " --version 1.5.1":   "is version 1.5.0 with the settings that it brings, not 1.5.1",
	} {
		printed, errs, exit := b.run("", append([]string{"agent", "release"}, strings.Fields(args)...)...)
		if printed != "" || exit != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: %d, want %s\n%s%s", args, exit, want, printed, errs)
		}
	}
}

// TestAgentBundleOfThisMachine: a program that can be asked says itself whether it takes what it brings.
func TestAgentBundleOfThisMachine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT TRIED: agents are programs for Linux")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, apitest.StartSample(t))
	settings := b.write("settings.yaml", "beat: 45s\n")
	for _, c := range []struct {
		says, version string
		exit          int
		want          string
	}{
		{"1.5.1", "1.5.1", 0, "wrote "},
		{"1.5.0", "1.5.1", exitUsage, filepath.Base(self) + " says that it is version 1.5.0, not 1.5.1"},
		{refusing, refusing, exitUsage, "does not say its version: tandem-node: --beat: below one second"},
	} {
		out := filepath.Join(b.dir, says+c.says)
		printed, errs, exit := b.run("", "agent", "bundle", self, "--settings", settings, "--version", c.version,
			"--out", out)
		if exit != c.exit || !strings.Contains(printed+errs, c.want) {
			t.Errorf("%+v: %d %s%s", c, exit, printed, errs)
		}
		if _, err := os.Stat(out); (err == nil) != (c.exit == 0) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
