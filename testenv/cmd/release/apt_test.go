package main

import (
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// debian skips a test loudly where a tool of Debian's is missing.
func debian(t *testing.T, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skipf("SKIPPED: %s is not installed, so the repository for apt was NOT tested", tool)
		}
	}
}

// deb makes a package in a folder.
func deb(t *testing.T, dir, name, arch string) {
	t.Helper()
	root := t.TempDir()
	control := filepath.Join(root, "DEBIAN")
	text := "Package: " + name + "\nVersion: 1.0.0~dev.7\nArchitecture: " + arch +
		"\nMaintainer: Ann <ann@example.org>\nDescription: " + name + "\n Line two.\n"
	if err := errors.Join(os.Chmod(root, 0o755), os.Mkdir(control, 0o755),
		os.WriteFile(filepath.Join(control, "control"), []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
	said(t, exec.Command("dpkg-deb", "--root-owner-group", "--build", root,
		filepath.Join(dir, name+"_1.0.0~dev.7_"+arch+".deb")))
}

// said runs a command that succeeds.
func said(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

// keys makes a key of OpenPGP with a password: the files with its two halves.
func keys(t *testing.T) (secret, public, password string) {
	t.Helper()
	home, err := os.MkdirTemp("", "gpg") // short: there is a socket in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run() // it ends without its directory, too
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	dir := t.TempDir()
	secret, public, password = filepath.Join(dir, "key"), filepath.Join(dir, "key.asc"), filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte("a password\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	gpg := func(args ...string) {
		t.Helper()
		said(t, exec.Command("gpg", append([]string{"--homedir", home, "--batch", "--no-tty", "--pinentry-mode",
			"loopback", "--passphrase-file", password}, args...)...))
	}
	gpg("--quick-generate-key", "Ann <ann@example.org>", "ed25519", "sign", "never")
	gpg("--armor", "--output", secret, "--export-secret-keys")
	gpg("--armor", "--output", public, "--export")
	return secret, public, password
}

// machine is apt with nothing of this machine.
type machine struct {
	t         *testing.T
	root      string
	downloads string
}

func newMachine(t *testing.T, source string) *machine {
	t.Helper()
	m := &machine{t, t.TempDir(), t.TempDir()}
	for _, dir := range []string{"etc/apt/apt.conf.d", "etc/apt/preferences.d", "etc/apt/trusted.gpg.d",
		"var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "var/lib/dpkg"} {
		if err := os.MkdirAll(filepath.Join(m.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"etc/apt/sources.list": source, "var/lib/dpkg/status": "",
		"apt.conf": `Dir "` + m.root + `"; Dir::State::status "` + m.root + `/var/lib/dpkg/status";
			APT::Architecture "amd64"; APT::Architectures "amd64"; APT::Sandbox::User "root";
			Acquire::Languages "none";`} {
		if err := os.WriteFile(filepath.Join(m.root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func (m *machine) apt(args ...string) (string, error) {
	cmd := exec.Command("apt-get", args...)
	cmd.Dir, cmd.Env = m.downloads, append(os.Environ(), "APT_CONFIG="+filepath.Join(m.root, "apt.conf"), "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A release's packages are a repository that apt believes by its key, for each architecture; what was changed in it is
// refused, and so is what nobody has signed.
func TestAptBelievesTheKey(t *testing.T) {
	debian(t, "dpkg-deb", "apt-get", "gpg")
	dir := filepath.Join(t.TempDir(), "packages")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	index := func() error { return run([]string{"apt", "-time", "1767225600", dir}, io.Discard) }
	if err := index(); err == nil || !strings.Contains(err.Error(), "no .deb files") {
		t.Errorf("of nothing: %v", err)
	}
	deb(t, dir, "tandem", "amd64")
	deb(t, dir, "tandem", "arm64")
	deb(t, dir, "tandem-node", "amd64")
	if err := index(); err != nil {
		t.Fatal(err)
	}
	had := tree(t, dir)
	if err := index(); err != nil || !maps.Equal(tree(t, dir), had) || len(had) != 6 ||
		!strings.Contains(had["Release"], "\nArchitectures: amd64 arm64\nDate: Thu, 01 Jan 2026 00:00:00 UTC\n") {
		t.Errorf("twice the same packages, and not the same repository: %v\n%s", err, had["Release"])
	}

	secret, public, password := keys(t)
	source := "deb [signed-by=" + public + "] file:" + dir + " ./\n"
	update := func(why, source, want string) *machine {
		t.Helper()
		m := newMachine(t, source)
		out, err := m.apt("update")
		if (err == nil) != (want == "") || !strings.Contains(out, want) {
			t.Errorf("%s: %v, want %q\n%s", why, err, want, out)
		}
		return m
	}
	update("nobody has signed", source, "is not signed")
	sign := filepath.Join(top, "deploy/ship/apt-sign")
	if out, err := exec.Command(sign, dir, secret).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "APT_PASSWORD_FILE") || len(tree(t, dir)) != len(had) {
		t.Errorf("without its password: %v\n%s", err, out)
	}
	said(t, exec.Command(sign, dir, secret, password))
	had = tree(t, dir)

	m := update("signed", source, "")
	if out, err := m.apt("download", "tandem", "tandem-node"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for name, data := range tree(t, m.downloads) {
		if data != had[name] || strings.Contains(name, "arm64") {
			t.Errorf("%s was downloaded", name)
		}
	}
	if n := len(tree(t, m.downloads)); n != 2 {
		t.Errorf("%d packages were downloaded", n)
	}
	_, stranger, _ := keys(t)
	update("signed by another", "deb [signed-by="+stranger+"] file:"+dir+" ./\n", "NO_PUBKEY")
	change := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	change("InRelease", strings.Replace(had["InRelease"], "Origin: Tandem", "Origin: Random", 1))
	update("InRelease was changed", source, "BADSIG")
	change("InRelease", had["InRelease"])
	change("Packages", strings.Replace(had["Packages"], "1.0.0", "1.0.1", 1))
	change("Packages.gz", had["Packages.gz"]+" ")
	update("Packages was changed", source, "Hash Sum mismatch")
	change("Packages", had["Packages"])
	change("Packages.gz", had["Packages.gz"])
	const name = "tandem_1.0.0~dev.7_amd64.deb"
	change(name, had[name]+" ")
	m = update("a package was changed", source, "")
	if out, err := m.apt("download", "tandem"); err == nil || !strings.Contains(out, "Hash Sum mismatch") {
		t.Errorf("a package was changed: %v\n%s", err, out)
	}
	change(name, had[name])
	update("all is as it was", source, "")
}
