package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/workload"
)

const unsignedSet = `[
  {"@class": "Instance", "slot": "web@node-1", "resources": {
    "iss_hook_start": {"@class": "Resource", "urls": ["HERE/start?v=1", "https://other/"], "size": 1,
      "verification": {"checksum": "MD5:00112233445566778899aabbccddeeff", "checkPeriod": "0d1h0m"}},
    "data": {"@class": "Resource", "uuid": "d", "urls": ["HERE/data"], "size": 7,
      "verification": {"checksum": "SUM"}}}},
  {"@class": "InstanceFiller", "name": "f", "filter": "instance[slot]", "instance": {"properties": {},
    "resources": {
    "more": {"verification": {"minisign": "OLD", "checksum": "SUM"}, "size": 7, "uuid": "d", "urls": ["HERE/data"],
      "@class": "Resource"}}}}
]
`

// publisherDesk is a publisher with a key, a program of its own, and a server of data.
func publisherDesk(t *testing.T) (b *bench, set, program, key string) {
	b = newBench(t, apitest.StartSample(t))
	data := []byte("content")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/data" {
			http.NotFound(w, r)
			return
		}
		if _, err := w.Write(data); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	sum := sha256.Sum256(data)
	old, err := os.ReadFile(filepath.Join("testdata", "program.one.minisig"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("HERE", server.URL, "SUM", "SHA256:"+strings.ToUpper(hex.EncodeToString(sum[:])),
		"OLD", strings.ReplaceAll(string(old), "\n", `\n`)).Replace(unsignedSet)
	set, program, key = filepath.Join(b.dir, "set.json"), filepath.Join(b.dir, "start"), filepath.Join(b.dir, "p.key")
	for path, text := range map[string]string{set: text, program: "#!/bin/sh\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return b, set, program, key
}

// start is the address that stands for a file of the publisher's machine.
func startAddress(t *testing.T, set string) string {
	t.Helper()
	text, err := os.ReadFile(set)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), `"urls": ["`)
	address, _, _ := strings.Cut(rest, `"`)
	return address
}

// TestPublisherSigns: what comes out is the set with signatures that a node takes, and else as it was.
func TestPublisherSigns(t *testing.T) {
	b, set, program, key := publisherDesk(t)
	out, _, exit := b.run("", "publisher", "create", key, "--no-password", "--json")
	var made struct{ ID, Key, SecretFile, PublicFile string }
	if err := json.Unmarshal([]byte(out), &made, json.MatchCaseInsensitiveNames(true)); err != nil || exit != 0 ||
		made.SecretFile != key || made.PublicFile != key+".pub" {
		t.Fatalf("%d %s: %v", exit, out, err)
	}
	pub, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := publisher.ParseKeys(string(pub))
	if k, perr := publisher.ParseKey(made.Key); err != nil || perr != nil || string(k.ID()) != made.ID ||
		keys[0].ID() != k.ID() {
		t.Fatalf("%v %v %s", err, perr, pub)
	}
	if info, err := os.Stat(key); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if info, err := os.Stat(key + ".pub"); err != nil || info.Mode() != 0o644 { // nodes' agents read it
		t.Errorf("%v %v", info.Mode(), err)
	}
	args := []string{"publisher", "sign", set, "--key", key, "--file", startAddress(t, set) + "=" + program}
	out, errs, exit := b.run("", args...)
	if exit != 0 {
		t.Fatalf("%d %s", exit, errs)
	}
	signed, problems := workload.Parse([]byte(out))
	if problems != nil {
		t.Fatalf("%v\n%s", problems, out)
	}
	own := signed.Configs[0].Resources
	for name, r := range map[string]workload.Artifact{"start": own["iss_hook_start"], "data": own["data"],
		"filler's": signed.Fillers[0].Fill.Resources["more"]} {
		content := map[bool]string{true: "#!/bin/sh\n", false: "content"}[name == "start"]
		sum := sha256.Sum256([]byte(content))
		h := publisher.NewHash()
		h.Write([]byte(content))
		if err := r.Published(keys, h.Sum(nil)); err != nil || r.Size != int64(len(content)) ||
			!strings.EqualFold(r.Verification.Checksum, "SHA256:"+hex.EncodeToString(sum[:])) {
			t.Errorf("%s: %v %+v", name, err, r)
		}
	}
	if got := own["iss_hook_start"].Verification.CheckPeriod.String(); got != "0d1h0m" ||
		!strings.Contains(out, "[\n  {\"@class\": \"Instance\", \"slot\": \"web@node-1\", \"resources\": {\n") {
		t.Errorf("not as it was: %s\n%s", got, out)
	}
	// again, over what is signed, into a file
	again := filepath.Join(b.dir, "signed.json")
	if err := os.WriteFile(set, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, exit := b.run("", append(args, "--out", again)...); exit != 0 {
		t.Fatalf("%d %s", exit, errs)
	}
	if text, err := os.ReadFile(again); err != nil || string(text) != out {
		t.Errorf("signed again it differs: %v\n%s\n%s", err, text, out)
	}
	minisignTakes(t, b.dir, made.Key, program, own["iss_hook_start"].Verification.Minisign)
}

// minisignTakes has the program minisign verify a signature that tandem made.
func minisignTakes(t *testing.T, dir, key, file, signature string) {
	t.Helper()
	minisign, err := exec.LookPath("minisign")
	if errors.Is(err, exec.ErrNotFound) {
		t.Log("NOT TRIED: minisign is not installed (apt-get install minisign)")
		return
	}
	path := filepath.Join(dir, "x.minisig")
	if err := os.WriteFile(path, []byte("untrusted comment: -\n"+signature), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(minisign, "-V", "-P", key, "-m", file, "-x", path).CombinedOutput(); err != nil {
		t.Errorf("minisign: %v\n%s", err, out)
	}
}

// TestPublisherTakesKeysOfMinisign: a key that minisign 0.11 has made signs, and is the one that it says.
func TestPublisherTakesKeysOfMinisign(t *testing.T) {
	b, set, program, _ := publisherDesk(t)
	out, errs, exit := b.run("", "publisher", "sign", set, "--key", filepath.Join("testdata", "one.key"), "--file",
		startAddress(t, set)+"="+program, "--comment", "web 1.4")
	if exit != 0 || strings.Count(out, `trusted comment: web 1.4\n`) != 3 {
		t.Fatalf("%d %s%s", exit, out, errs)
	}
	signed, _ := workload.Parse([]byte(out))
	if got := signed.Configs[0].Resources["data"].Signer(); got != "2008C64205E577C8" {
		t.Errorf("signed by %s", got)
	}
}

// TestPublisherSignsForContainers: what runs in a container is signed for containers alone, and a file that runs
// elsewhere, too, has another signature there.
func TestPublisherSignsForContainers(t *testing.T) {
	b, _, program, _ := publisherDesk(t)
	const entry = `{"@class": "Instance", "slot": "SLOT@n1", CONTAINER"resources": {
		"iss_hook_start": {"@class": "Resource", "uuid": "u", "urls": ["http://x/f"], "size": 1,
		"verification": {"checksum": "SHA256:` +
		`abababababababababababababababababababababababababababababababab"}}}}`
	entryOf := func(slot, container string) string {
		return strings.NewReplacer("SLOT", slot, "CONTAINER", container).Replace(entry)
	}
	b.write("set.json", "["+entryOf("a", `"container": {"runtime": "crun"}, `)+","+
		entryOf("b", `"container": {"constraints": {"cpu.shares": "9"}}, `)+","+entryOf("c", "")+"]")
	out, errs, exit := b.run("", "publisher", "sign", filepath.Join(b.dir, "set.json"), "--key",
		filepath.Join("testdata", "one.key"), "--file", "http://x/f="+program, "--comment", "sensor 1.4")
	set, problems := workload.Parse([]byte(out))
	if exit != 0 || problems != nil {
		t.Fatalf("%d %s%v\n%s", exit, errs, problems, out)
	}
	for _, c := range set.Configs {
		s, err := publisher.Parse(c.Resources[workload.HookStart].Verification.Minisign)
		if err != nil || s.ForContainers() != c.Contained() || s.ForContainers() != (c.Slot.Service == "a") {
			t.Errorf("%s: %v %v", c.Slot, s.ForContainers(), err)
		}
	}
}

// TestPublisherRefuses: a key is not overwritten, and nothing is signed that nobody has vouched for.
func TestPublisherRefuses(t *testing.T) {
	b, set, program, key := publisherDesk(t)
	if err := os.WriteFile(key, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := filepath.Join("testdata", "one.key")
	file := startAddress(t, set) + "=" + program
	for _, c := range []struct{ args, want string }{
		{"create " + key + " --no-password", "already-exists"},
		{"create " + filepath.Join(b.dir, "new.key"), "the key's password is needed: --password-file"},
		{"create " + filepath.Join(b.dir, "new.key") + " --password-file -", "its first line is empty"},
		{"sign " + set, "needs --key FILE"},
		{"sign " + set + " --key " + key, "it cannot be used as a key to sign with"},
		{"sign " + set + " --key " + good, "it has no checksum of SHA256, and no --file "},
		{"sign " + set + " --key " + good + " --file " + program, "is not URL=FILE"},
		{"sign " + set + " --key " + good + " --file " + file + "x", "no such file"},
		{"sign " + set + " --key " + good + " --comment \x1b --file " + file, "control characters"},
		{"sign " + program + " --key " + good, "malformed"},
	} {
		out, errs, exit := b.run("", append([]string{"publisher"}, strings.Split(c.args, " ")...)...)
		if exit == 0 || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d, want %s\n%s%s", c.args, exit, c.want, out, errs)
		}
	}
	for _, f := range []string{"new.key", "new.key.pub", "p.key.pub"} {
		if _, err := os.Lstat(filepath.Join(b.dir, f)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there: %v", f, err)
		}
	}
	wrong, err := os.ReadFile(set)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(wrong), "SHA256:ED", "SHA256:EE", 2) // of "content"
	if err := os.WriteFile(set, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, exit := b.run("", "publisher", "sign", set, "--key", good, "--file", file); exit != exitRefused ||
		!strings.Contains(errs, "/data has the checksum SHA256:ed7002b4") {
		t.Errorf("%d %s", exit, errs)
	}
}
