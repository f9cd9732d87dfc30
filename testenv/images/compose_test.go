package images

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
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

	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"tandem.internal/testenv/proc"
)

// What the compose file names is there: images, settings, places for volumes. No container is needed to see that.
func TestComposeNamesWhatIsThere(t *testing.T) {
	c, err := readCompose(filepath.Join(proc.Root(t), "deploy/images/compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	mounted := map[string]bool{}
	for name, s := range c.Services {
		o := proc.Run(t, t.TempDir(), nil, proc.Binary(t, s.Image), "--help")
		if o.Status != 0 {
			t.Errorf("service %s: %s", name, o.Errors)
		}
		for _, word := range s.Command {
			if strings.HasPrefix(word, "--") && word != "--" && !strings.Contains(o.Out, "\n  "+word+" ") {
				t.Errorf("service %s: %s has no %s", name, s.Image, word)
			}
		}
		for _, v := range s.Volumes {
			volume, to, _ := strings.Cut(v, ":")
			mounted[volume] = true
			if _, ok := c.Volumes[volume]; !ok || !slices.Contains([]string{"/state", "/run/tandem"}, to) {
				t.Errorf("service %s: volume %s", name, v)
			}
		}
		for _, on := range s.DependsOn {
			if _, ok := c.Services[on]; !ok {
				t.Errorf("service %s depends on %s", name, on)
			}
		}
	}
	if len(c.Services) != 4 || len(mounted) != len(c.Volumes) {
		t.Errorf("there are %d services and volumes %v, mounted %v", len(c.Services), c.Volumes, mounted)
	}
}

// recipe is the part of the document with commands, the one below a heading.
func recipe(t *testing.T, heading string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(proc.Root(t), "shared/docs/images.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## "+heading+"\n")
	block := regexp.MustCompile("(?s)\n```sh\n(.*?)```").FindStringSubmatch(section)
	if block == nil {
		t.Fatalf("images.md has no commands under %q", heading)
	}
	return block[1]
}

// place is a directory in which images are unpacked, and a docker of it.
type place struct {
	t   *testing.T
	dir string
	env []string
}

func newPlace(t *testing.T, path, layouts string) *place {
	t.Helper()
	dir, err := os.MkdirTemp("", "images-") // short: a socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	p := &place{t: t, dir: dir}
	t.Cleanup(p.end)
	for _, name := range []string{"roots", "volumes", "bin"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	known := map[string]v1.Image{}
	for _, name := range []string{"tandem", "tandem-controller", "tandem-node"} {
		known[name] = unpack(t, filepath.Join(layouts, name), runtime.GOARCH, filepath.Join(dir, "roots", name))
	}
	settings := map[string]any{"Runtime": path, "Images": known, "Test": os.Getpid()}
	if err := writeJSON(filepath.Join(dir, "engine.json"), settings); err != nil {
		t.Fatal(err)
	}
	const hosts = "127.0.0.1 localhost controller press-1 press-2\n"
	if err := os.WriteFile(filepath.Join(dir, "hosts"), []byte(hosts), 0o644); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "bin", "docker")); err != nil {
		t.Fatal(err)
	}
	p.env = append(os.Environ(), asDocker+"="+dir, "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	return p
}

// end leaves nothing that runs.
func (p *place) end() {
	for _, name := range []string{"controller", "press-1", "press-2"} {
		if pid := p.pid(name); pid != 0 {
			if p.t.Failed() {
				p.t.Logf("--- what %s printed:\n%s", name, p.file(name, "log"))
			}
			if p.file(name, "status") == "" { // else another process may have its number
				if err := os.WriteFile(filepath.Join(p.dir, name, "status.stop"), nil, 0o600); err != nil {
					p.t.Error(err)
				}
				if process, err := os.FindProcess(pid); err == nil {
					_ = process.Kill() // it may have ended
				}
				if err := await(filepath.Join(p.dir, name, "status")); err != nil {
					p.t.Error(err)
				}
			}
		}
	}
	if err := os.RemoveAll(p.dir); err != nil {
		p.t.Error(err)
	}
}

// file is what is in a service's file, "" if it is not there.
func (p *place) file(name, file string) string {
	data, err := os.ReadFile(filepath.Join(p.dir, name, file))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func (p *place) pid(name string) int {
	pid, err := strconv.Atoi(p.file(name, "pid"))
	if err != nil {
		return 0
	}
	return pid
}

// sh runs commands in the directory of the sources. The document's wait until something is there.
func (p *place) sh(script string) (string, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), 3*proc.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-e", "-c", script)
	cmd.Dir, cmd.Env, cmd.WaitDelay = proc.Root(p.t), p.env, time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// tandem runs the operator's program in its image.
func (p *place) tandem(args string) string {
	p.t.Helper()
	out, err := p.sh("cd deploy/images && docker compose run --rm tandem " + args)
	if err != nil {
		p.t.Errorf("tandem %s: %v\n%s", args, err, out)
	}
	return out
}

// The unit of the compose file comes up as the document has it, as containers that may nothing: nodes join and get
// their configuration, the agent says what it cannot do, and all stop when they are told to.
func unitOfImages(t *testing.T, path, layouts string) {
	p := newPlace(t, path, layouts)
	if out, err := p.sh(recipe(t, "Try it")); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"controller", "press-1", "press-2"} {
		pid := p.pid(name)
		if pid == 0 {
			t.Fatalf("%s does not run", name)
		}
		confined(t, pid)
	}

	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			socket := filepath.Join(p.dir, "volumes/socket/control.sock")
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}}
	res, err := client.Get("http://tandem/readyz")
	if err != nil || res.StatusCode != http.StatusOK || res.Body.Close() != nil {
		t.Errorf("%v %v", res, err)
	}
	for _, name := range []string{"journal.db", "unit-key.pem"} {
		if _, err := os.Stat(filepath.Join(p.dir, "volumes/unit", name)); err != nil {
			t.Error(err)
		}
	}

	proc.Until(t, "both nodes have their configuration", func() string {
		var nodes struct {
			Nodes []struct {
				Online, InSync bool
				Documents      map[string]struct{ Running struct{ Version string } }
			}
		}
		out := p.tandem("nodes --json")
		if err := json.Unmarshal([]byte(out), &nodes); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		n := 0
		for _, node := range nodes.Nodes {
			if node.Online && node.InSync && node.Documents["config"].Running.Version == "2.0.0" {
				n++
			}
		}
		if n != 2 {
			return out
		}
		return ""
	})
	about := p.tandem("node press-1")
	for _, want := range []string{"Attribute   image = it makes no containers; restarts no machine;",
		"Attribute   tandem.container = true", "Attribute   tandem.containers = none: none of crun, runc is installed",
		"Identity    joined "} {
		if !strings.Contains(about, want) {
			t.Errorf("the node does not say %q:\n%s", want, about)
		}
	}
	if health := p.tandem("health press-1"); !strings.Contains(health, "reboot no") ||
		!strings.Contains(health, "factory  active") {
		t.Errorf("its health:\n%s", health)
	}

	if *ship {
		p.triesAnother()
	}
	if out, err := p.sh("cd deploy/images && docker compose down"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, name := range []string{"controller", "press-1", "press-2"} {
		if status := p.file(name, "status"); status != "0" {
			t.Errorf("%s ended with status %q", name, status)
		}
	}
}

// triesAnother has an agent try another version of itself: it ends, and the engine starts it again. It takes a minute.
func (p *place) triesAnother() {
	p.t.Helper()
	out, err := p.sh("cd deploy/images && docker compose run --rm press-1 slot stage /tandem-node --state-dir /state")
	if err != nil {
		p.t.Fatalf("%v\n%s", err, out)
	}
	before := p.pid("press-1")
	p.tandem("node try press-1")
	trial := regexp.MustCompile(`(?m)^a .* yes +yes$`) // verified, and it runs
	proc.Until(p.t, "slot a runs, in another container", func() string {
		if health := p.tandem("health press-1"); !trial.MatchString(health) || p.pid("press-1") == before {
			return health
		}
		return ""
	})
}
