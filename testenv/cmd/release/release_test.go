package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"tandem.internal/shared/race"
	"tandem.internal/testenv/proc"
)

const (
	top  = "../../.."
	docs = top + "/shared/docs"

	version = "1.0.0-dev.7+abc"
)

// built is a folder with every program for this machine, and their system.
func built(t *testing.T) (dir, system string) {
	t.Helper()
	dir, system = t.TempDir(), runtime.GOOS+"_"+runtime.GOARCH
	for _, module := range []string{"controller", "broker", "nodeagent", "nodeagent/key", "nodeagent/bittorrent"} {
		build := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w -X "+
			"tandem.internal/shared/settings.Version="+version, "-o", filepath.Join(dir, system)+"/", "./cmd/...")
		build.Dir = filepath.Join(top, module)
		build.Env = append(os.Environ(), "CGO_ENABLED=0") // as the Makefile does
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", module, err, out)
		}
	}
	return dir, system
}

// The notice has the modules that the built programs name, those and no others.
func noticeIsOf(t *testing.T, programs []program) {
	t.Helper()
	linked := map[string]string{}
	for _, p := range programs {
		info, err := buildinfo.ReadFile(p.file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range others(info) {
			linked[m.Path] = m.Version
		}
	}
	listed, err := readNotice(filepath.Join(docs, "notice.md"))
	if err != nil {
		t.Fatal(err)
	}
	delete(listed, "github.com/inconshreveable/mousetrap") // of tandem for Windows
	if len(linked) < 40 {
		t.Errorf("the programs name only %v", linked)
	}
	for _, m := range slices.Sorted(maps.Keys(listed)) {
		if linked[m] != listed[m].version {
			t.Errorf("the notice has %s %s, the programs %q", m, listed[m].version, linked[m])
		}
	}
	for m, version := range linked {
		if _, ok := listed[m]; !ok {
			t.Errorf("the programs have %s %s, the notice has not", m, version)
		}
	}
}

// A release is made of what lies there, twice the same; what its bills say, the programs say; and it is verified as the
// documents have it.
func TestRelease(t *testing.T) {
	if race.Enabled { // under which it takes ten times as long to compress a program, which one goroutine does
		t.Skip("without the race detector")
	}
	programs, system := built(t)
	all, err := found(programs)
	if err != nil || len(all) != 6 {
		t.Fatalf("%v %v", all, err)
	}
	noticeIsOf(t, all)

	packages := filepath.Join(t.TempDir(), "packages")
	if err := errors.Join(os.Mkdir(packages, 0o755),
		os.WriteFile(filepath.Join(packages, "a.deb"), []byte("a"), 0o644)); err != nil {
		t.Fatal(err)
	}
	build := func(extra ...string) (string, error) {
		out := filepath.Join(t.TempDir(), "out")
		return out, run(append([]string{"-version", version, "-time", "1767225600", "-programs", programs,
			"-out", out, "-docs", docs, "-with", packages}, extra...), io.Discard)
	}
	one, err := build()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if err := os.Chtimes(p.file, time.Time{}, time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	two, err := build()
	if err != nil {
		t.Fatal(err)
	}
	had, have := tree(t, one), tree(t, two)
	if !maps.Equal(had, have) {
		t.Errorf("twice the same programs, and not the same release: %q %q", slices.Sorted(maps.Keys(had)),
			slices.Sorted(maps.Keys(have)))
	}
	stem := "_" + version + "_" + system
	for _, name := range []string{"tandem" + stem + ".tar.gz", "tandem-node" + stem, "tandem-node-full" + stem,
		"sbom/tandem-controller" + stem + ".cdx.json", "sbom/tandem-key" + stem + ".cdx.json", "packages/a.deb",
		"notes.md", "notice.md", "SHA256SUMS"} {
		if had[name] == "" {
			t.Errorf("there is no %s", name)
		}
	}
	if !strings.Contains(had["notes.md"], "# [1.0.0]") || strings.Count(had["SHA256SUMS"], "\n") != len(had)-1 {
		t.Errorf("notes %.200s\nsums %s", had["notes.md"], had["SHA256SUMS"])
	}
	archive(t, had["tandem"+stem+".tar.gz"], "tandem"+stem)
	bill(t, had["sbom/tandem"+stem+".cdx.json"])
	if _, err := build("-docs", old(t)); err == nil || !strings.Contains(err.Error(), "run make notice") {
		t.Errorf("a module that the notice has not: %v", err)
	}
	verified(t, filepath.Join(programs, system, "tandem"), one)
	offered(t, filepath.Join(programs, system), filepath.Join(one, "tandem-node"+stem))
}

// offered signs an agent of a release as deploy/ship/release does: it is put on offer as it lies there, and a node that
// demands the publisher's signature takes it, changed it does not.
func offered(t *testing.T, programs, agent string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "release-") // short: a socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	key, socket, node := filepath.Join(dir, "key"), filepath.Join(dir, "socket"), filepath.Join(dir, "node")
	program := func(name string) string { return filepath.Join(programs, name) }
	env := []string{"TANDEM_SOCKET=" + socket}
	tandem := func(want string, args ...string) {
		t.Helper()
		if o := proc.Run(t, dir, env, append([]string{program("tandem")}, args...)...); o.Status != 0 ||
			!strings.Contains(o.Out, want) {
			t.Fatalf("tandem %q: want %q, status %d\n%s%s", args, want, o.Status, o.Out, o.Errors)
		}
	}
	tandem("", "publisher", "create", key, "--no-password")
	tandem("", "publisher", "sign-file", agent, "--version", version, "--key", key)
	port := strconv.Itoa(proc.Port(t))
	controller := proc.Start(t, "controller", nil, program("tandem-controller"), "--unit", "u1", "--state-dir",
		filepath.Join(dir, "controller"), "--listen", "127.0.0.1:"+port, "--socket", socket)
	proc.Until(t, "the controller is ready", func() string {
		o := proc.Run(t, dir, env, program("tandem"), "unit", "status")
		return o.Errors
	})
	tandem(version, "agent", "release", agent)
	tandem(version+"  "+runtime.GOARCH+"  yes", "agent", "list")

	// An agent that was started with the key writes down that a signature is demanded.
	running := proc.Start(t, "node", nil, program("tandem-node"), "launch", "--", "--unit", "u1", "--node", "n1",
		"--type", "main", "--broker", "tcp://127.0.0.1:"+port, "--state-dir", node, "--publisher-key", key+".pub")
	proc.Until(t, "the node is there", func() string {
		return proc.Run(t, dir, env, program("tandem"), "node", "n1").Errors
	})
	stage := func() proc.Output {
		return proc.Run(t, dir, nil, program("tandem-node"), "slot", "stage", agent, "--state-dir", node)
	}
	if o := stage(); o.Status != 0 {
		t.Errorf("%s%s", o.Out, o.Errors)
	}
	f, err := os.OpenFile(agent, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(" "); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if o := stage(); o.Status == 0 || !strings.Contains(o.Errors, "bad-signature") {
		t.Errorf("changed, it is staged: %s%s", o.Out, o.Errors)
	}
	running.Stop()
	controller.Stop()
}

// tree has what the files below dir hold.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		all[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// archive checks that tandem's archive has the program, to be executed, and its licences.
func archive(t *testing.T, text, folder string) {
	t.Helper()
	packed, err := gzip.NewReader(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]int64{}
	for r := tar.NewReader(packed); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		modes[h.Name] = h.Mode
	}
	if want := map[string]int64{folder + "/tandem": 0o755, folder + "/notice.md": 0o644,
		folder + "/changelog.md": 0o644}; !maps.Equal(modes, want) {
		t.Errorf("the archive has %v, want %v", modes, want)
	}
}

// bill checks tandem's bill of materials.
func bill(t *testing.T, text string) {
	t.Helper()
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(strings.NewReader(text), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, c := range *bom.Components {
		names[c.Name] = (*c.Licenses)[0].Expression
	}
	if names["std"] != "BSD-3-Clause" || names["github.com/spf13/cobra"] != "Apache-2.0" ||
		names["go.etcd.io/bbolt"] != "" {
		t.Errorf("tandem is made of %v", names)
	}
	if len(*(*bom.Dependencies)[0].Dependencies) != len(names) || bom.Metadata.Timestamp != "2026-01-01T00:00:00Z" {
		t.Errorf("%+v", bom)
	}
}

// old is a folder with documents of before: its notice lacks what a program has.
func old(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(docs, "notice.md"))
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("| `github.com/spf13/cobra` | v"), []byte("| `github.com/spf13/cobra` | v0"), 1)
	if err := os.WriteFile(filepath.Join(dir, "notice.md"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// verified signs a release and follows the document that says how one is verified, before and after a file was changed.
func verified(t *testing.T, tandem, dir string) {
	t.Helper()
	if _, err := exec.LookPath("minisign"); err != nil {
		t.Log("SKIPPED: the recipe of releases.md was not followed: there is no minisign (apt-get install minisign)")
		return
	}
	key := filepath.Join(t.TempDir(), "key")
	for _, args := range [][]string{{"create", key, "--no-password"}, {"sign-file", filepath.Join(dir, "SHA256SUMS"),
		"--component", "tandem-release", "--version", version, "--key", key}} {
		if out, err := exec.Command(tandem, append([]string{"publisher"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	if err := os.Rename(key+".pub", filepath.Join(dir, "publisher.key.pub")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(docs, "releases.md"))
	if err != nil {
		t.Fatal(err)
	}
	recipe := regexp.MustCompile("(?s)\n```sh\n(.*?)```").FindSubmatch(text)
	if recipe == nil {
		t.Fatal("releases.md has no recipe")
	}
	follow := func() (string, error) {
		sh := exec.Command("sh", "-e", "-c", string(recipe[1]))
		sh.Dir = dir
		out, err := sh.CombinedOutput()
		return string(out), err
	}
	if out, err := follow(); err != nil || !strings.Contains(out, "tandem-release "+version) {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"notes.md", "SHA256SUMS"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), append(data, ' '), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := follow(); err == nil {
			t.Errorf("%s was changed, and nobody notices:\n%s", name, out)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
