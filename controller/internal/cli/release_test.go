package cli

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/shared/publisher/publishertest"
)

// says begins the names of links to this very program by which it is an agent that says its version.
const says = "says-"

// refusing is a version that does not take the settings that it brings.
const refusing = "1.5.0-refusing"

// saysVersion is what such a program does.
func saysVersion(name string) bool {
	version, ok := strings.CutPrefix(filepath.Base(name), says)
	if version == refusing {
		_, _ = fmt.Fprintln(os.Stderr, "tandem-node: --beat: below one second") // nobody else to tell
		os.Exit(2)
	}
	if ok {
		_, _ = fmt.Println("tandem-node " + version + " linux") // nobody else to tell
	}
	return ok
}

// foreign is the beginning of a program for a machine that no test runs on, and what stands in it.
func foreign(machine elf.Machine, text string) string {
	head := make([]byte, 64)
	copy(head, elf.ELFMAG)
	head[elf.EI_CLASS], head[elf.EI_DATA] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB)
	head[elf.EI_VERSION] = byte(elf.EV_CURRENT)
	binary.LittleEndian.PutUint16(head[16:], uint16(elf.ET_EXEC))
	binary.LittleEndian.PutUint16(head[18:], uint16(machine))
	binary.LittleEndian.PutUint32(head[20:], uint32(elf.EV_CURRENT))
	return string(head) + text
}

// TestAgentRelease: a version goes into the store with its programs, is on offer, keeps them there, and releases them.
func TestAgentRelease(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	small := foreign(elf.EM_LOONGARCH, "version 1.5.0 of it")
	file := b.write("agent-loong", small)
	other := b.write("agent-riscv", foreign(elf.EM_RISCV, "1.5.0"))
	b.write("agent-riscv.minisig", publishertest.New(1).SignAs([]byte(small),
		"tandem-node 1.5.0 floor:1.4.0 expires:2031-01-01T00:00:00Z"))
	peered := b.write("agent-s390x", foreign(elf.EM_S390, "1.6.0"))
	for _, c := range []struct{ name, args string }{
		{"policy-release", "agent release " + file + " " + other + " --url https://files.example/"},
		{"policy-release-bittorrent", "agent release " + peered + " --version 1.6.0 --bittorrent"},
		{"policy-release-again", "agent release " + file + " --version 1.5.0"},
		{"policy-release-list", "agent list"},
		{"policy-release-list-json", "agent list --json"},
		{"policy-release-artefacts", "artefact list"},
		{"policy-release-events", "events --type settings --limit 1"},
	} {
		golden(t, c.name, b.transcript("", strings.Fields(c.args)...))
	}
	v, err := b.unit.Artefacts().List(t.Context())
	if err != nil || len(v.Artefacts) != 3 {
		t.Fatalf("%+v %v", v, err)
	}
	for _, x := range v.Artefacts {
		_, errs, exit := b.run("", "artefact", "remove", x.Digest)
		if exit == 0 || !strings.Contains(errs, " of the agent, which is on offer") {
			t.Errorf("%d %s", exit, errs)
		}
	}
	for _, args := range []string{"agent withdraw 1.5.0", "agent withdraw 1.6.0",
		"artefact remove " + v.Artefacts[0].Digest} {
		if out, errs, exit := b.run("", strings.Fields(args)...); exit != 0 {
			t.Errorf("%s: %d %s%s", args, exit, out, errs)
		}
	}
}

// TestAgentReleaseOfThisMachine: a program that can be asked says which version it is.
func TestAgentReleaseOfThisMachine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT TRIED: agents are programs for Linux")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, apitest.StartSample(t))
	link := filepath.Join(b.dir, says+"1.5.0-known-to-be-in-it")
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	out, errs, exit := b.run("", "agent", "release", link, "--version", "1.5.0-known-to-be-in-it")
	if out != "" || exit != exitUnreachable || !strings.Contains(errs, "do not fit") { // so it was to be uploaded
		t.Errorf("%d %s%s", exit, out, errs)
	}
	out, errs, exit = b.run("", "agent", "release", link, "--version", "1.5.0-not-what-it-says")
	const want = "says that it is version 1.5.0-known-to-be-in-it, not 1.5.0-not"
	if exit != exitUsage || out != "" || !strings.Contains(errs, want) {
		t.Errorf("%d %s%s", exit, out, errs)
	}
}

// TestAgentReleaseMistakes: what is not what it is said to be is refused before a controller is asked.
func TestAgentReleaseMistakes(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	text := b.write("text", "1.5.0")
	plain := b.write("plain", foreign(elf.EM_LOONGARCH, strings.Repeat("-", 1<<20-64-3)+"1.5.0"))
	strange := b.write("strange", foreign(elf.EM_VAX, "1.5.0"))
	signed := func(name, comment string) string {
		b.write(name+".minisig", publishertest.New(1).SignAs(nil, comment))
		return b.write(name, foreign(elf.EM_LOONGARCH, "1.5.0"))
	}
	for args, want := range map[string]string{
		text + " --version 1.5.0":                       "is no program for Linux",
		strange + " --version 1.5.0":                    "EM_VAX, which agents do not run on",
		b.dir + " --version 1.5.0":                      "is no program for Linux",
		plain:                                           "needs --version VERSION",
		plain + " --version 1.5":                        "is not a semantic version",
		plain + " --version 1.5.1":                      "is not version 1.5.1: that stands nowhere in it",
		plain + " --version 1.5.0 --url files/":         "http, https, rbtorrent and magnet are",
		plain + " --version 1.5.0 --url rbtorrent:0123": "needs an info hash",

		plain + " " + plain + " --version 1.5.0 --url rbtorrent:0123": "a torrent is of one FILE",

		signed("s1", "tandem-node 1.4.0") + " --version 1.5.0": "but with tandem-node 1.4.0",
		signed("s2", "os 1.5.0") + " --version 1.5.0":          "but with os 1.5.0",
		signed("s3", "os 1.5.0"):                               "needs --version VERSION",
		signed("s4", "tandem-node 1.4.0"):                      "is not version 1.4.0",
		signed("s5", "tandem-node 1.5.0 floor:1.6.0"):          "the floor is above",
		// FILE* names the signature as well; alone it is no program.
		signed("s8", "tandem-node 1.4.0") + " " + filepath.Join(b.dir, "s8.minisig") + " --version 1.5.0": "but with " +
			"tandem-node 1.4.0",
		filepath.Join(b.dir, "s8.minisig") + " --version 1.4.0": "is no program for Linux",

		signed("s6", "tandem-node 1.5.0") + " " + signed("s7", "tandem-node 1.6.0"): "but with tandem-node 1.6.0",
	} {
		out, errs, exit := b.run("", append([]string{"agent", "release"}, strings.Fields(args)...)...)
		if out != "" || exit != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: %d, want %s\n%s%s", args, exit, want, out, errs)
		}
	}
	// The version stands across two reads; the store of the tests is too small for the file.
	_, errs, _ := b.run("", "agent", "release", plain, "--version", "1.5.0")
	if !strings.Contains(errs, "do not fit") {
		t.Error(errs)
	}
}
