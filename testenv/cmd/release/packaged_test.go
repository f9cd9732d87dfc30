package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/testenv/proc"
)

// What is released is vouched for: only packages of this version go in, with the programs that were just built.
func TestOnlyOwnPackagesAreReleased(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("SKIPPED: dpkg-deb is not installed, so this was NOT tested")
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("programs/linux_amd64/tandem", "the program")
	write("root/DEBIAN/control",
		"Package: tandem\nVersion: 1.0.0\nArchitecture: amd64\nMaintainer: a <a@b>\nDescription: x\n")
	packages := filepath.Join(dir, "packages")
	for name, c := range map[string]struct{ program, want string }{
		"tandem_1.0.0_amd64.deb":        {"the program", ""},
		"tandem_0.9.0_amd64.deb":        {"the program", "is not of version 1.0.0"},
		"evil_1.0.0_amd64.deb":          {"the program", "of another program"},
		"tandem_1.0.0_1.0.0_amd64.deb":  {"the program", "is not of version 1.0.0"},
		"tandem_1.0.0_sparc.deb":        {"the program", "of another machine"},
		"tandem-node_1.0.0_amd64.deb":   {"the program", "of another machine"}, // was not built
		"tandem_1.0.0_amd64.deb.sha256": {"the program", "is no package"},
		"./tandem_1.0.0_amd64.deb":      {"another one", "has another program"},
	} {
		write("root/usr/bin/tandem", c.program)
		if err := os.RemoveAll(packages); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(packages, 0o755); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(packages, name)
		build := exec.Command("dpkg-deb", "--build", filepath.Join(dir, "root"), file)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		o := proc.Run(t, top, nil, "deploy/ship/packaged", packages, "1.0.0", filepath.Join(dir, "programs"))
		if (o.Status == 0) != (c.want == "") || !strings.Contains(o.Out+o.Errors, c.want) {
			t.Errorf("%s: status %d, %s%s", name, o.Status, o.Out, o.Errors)
		}
	}
}
