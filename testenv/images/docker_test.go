package images

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"go.yaml.in/yaml/v3"

	"tandem.internal/testenv/proc"
)

// compose is a compose file, as far as the one of deploy/images goes: what is not here is a mistake.
type compose struct {
	Name     string             `yaml:"name"`
	Least    map[string]any     `yaml:"x-least"`
	Services map[string]service `yaml:"services"`
	Volumes  map[string]any     `yaml:"volumes"`
}

type service struct {
	Image       string   `yaml:"image"`
	Command     []string `yaml:"command"`
	Volumes     []string `yaml:"volumes"`
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
	SecurityOpt []string `yaml:"security_opt"`
	DependsOn   []string `yaml:"depends_on"`
	Restart     string   `yaml:"restart"`
	Profiles    []string `yaml:"profiles"`
}

func readCompose(path string) (c compose, err error) {
	f, err := os.Open(path)
	if err != nil {
		return c, err
	}
	d := yaml.NewDecoder(f)
	d.KnownFields(true)
	err = errors.Join(d.Decode(&c), f.Close())
	for name, s := range c.Services {
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) ||
			!slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) {
			err = errors.Join(err, fmt.Errorf("%s: service %s may more than it has to", path, name))
		}
	}
	return c, err
}

// engine is what stands in for docker: it does with a compose file in the current directory what the document needs,
// by a container runtime, with all containers on one network.
type engine struct {
	dir string
	compose

	Runtime string
	Images  map[string]v1.Image // unpacked, in the directory roots
	Test    int                 // process: without it no container is started again
}

func openEngine(dir string) (*engine, error) {
	e := &engine{dir: dir}
	data, err := os.ReadFile(filepath.Join(dir, "engine.json"))
	if err == nil {
		err = json.Unmarshal(data, e)
	}
	if err == nil {
		e.compose, err = readCompose("compose.yaml")
	}
	return e, err
}

// docker is the command "docker compose" of a test's directory.
func docker(dir string, args []string) (status int, err error) {
	e, err := openEngine(dir)
	if err != nil {
		return 0, err
	}
	switch line := strings.Join(args, " "); {
	case strings.HasPrefix(line, "compose up -d"):
		return 0, e.up(args[3:])
	case strings.HasPrefix(line, "compose run --rm -T "):
		return e.run(args[4], args[5:])
	case strings.HasPrefix(line, "compose run --rm "):
		return e.run(args[3], args[4:])
	case line == "compose down":
		return 0, e.down()
	default:
		return 0, fmt.Errorf("nobody knows %q here", line)
	}
}

func (e *engine) at(names ...string) string {
	return filepath.Join(append([]string{e.dir}, names...)...)
}

// container is a service as a container; args are instead of its command.
func (e *engine) container(name string, args []string) (*container, error) {
	s, ok := e.Services[name]
	i, known := e.Images[s.Image]
	if !ok || !known {
		return nil, fmt.Errorf("there is no service %s with an image that is made here, %q", name, s.Image)
	}
	if args == nil {
		args = s.Command
	}
	c := &container{name: name, root: e.at("roots", s.Image), image: i, args: args,
		mounts: map[string]string{"/etc/hosts": e.at("hosts")}}
	for _, v := range s.Volumes {
		volume, to, _ := strings.Cut(v, ":")
		if _, ok := e.Volumes[volume]; !ok {
			return nil, fmt.Errorf("service %s: there is no volume %s", name, volume)
		}
		// As engines do it, a new volume has the owner and the mode of the directory in the image.
		info, err := os.Stat(filepath.Join(c.root, to))
		if err != nil {
			return nil, err
		}
		c.mounts[to] = e.at("volumes", volume)
		if err := os.Mkdir(c.mounts[to], 0o700); errors.Is(err, fs.ErrExist) {
			continue
		}
		owner := info.Sys().(*syscall.Stat_t)
		if err := errors.Join(os.Chown(c.mounts[to], int(owner.Uid), int(owner.Gid)),
			os.Chmod(c.mounts[to], info.Mode())); err != nil {
			return nil, err
		}
	}
	if pid, err := os.ReadFile(e.at("controller", "pid")); err == nil {
		c.net = "/proc/" + strings.TrimSpace(string(pid)) + "/ns/net"
	}
	return c, nil
}

// command is the runtime's command line for a container, whose bundle is written.
func (e *engine) command(name, dir string, args []string) ([]string, error) {
	c, err := e.container(name, args)
	if err == nil {
		err = c.bundle(dir)
	}
	return command(e.Runtime, e.at("state"), "run", "--bundle", dir, "--pid-file", filepath.Join(dir, "pid"),
		e.id(dir)), err
}

// id is the name of a container for the runtime.
func (e *engine) id(dir string) string { return filepath.Base(e.dir) + "-" + filepath.Base(dir) }

func (e *engine) run(name string, args []string) (status int, err error) {
	dir, err := os.MkdirTemp(e.dir, "run-")
	if err != nil {
		return 0, err
	}
	argv, err := e.command(name, dir, args)
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); cmd.ProcessState == nil {
		return 0, err
	}
	return cmd.ProcessState.ExitCode(), os.RemoveAll(dir)
}

// keep runs a container, again and again where the file says so, until it is to stop; then its status is in a file.
const keep = `file=$0 test=$1 restart=$2
shift 2
while :; do
	status=0
	"$@" || status=$?
	if [ -e "$file.stop" ] || [ -z "$restart" ] || ! kill -0 "$test"; then break; fi
	sleep 1
done
echo $status >"$file.new"
mv "$file.new" "$file"`

// up starts services, all by default, and returns when their processes are there.
func (e *engine) up(names []string) error {
	if len(names) == 0 {
		for name, s := range e.Services {
			if len(s.Profiles) == 0 {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names) // the controller is first
	for _, name := range names {
		dir := e.at(name)
		if err := os.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
			continue // it runs
		}
		argv, err := e.command(name, dir, nil)
		if err != nil {
			return err
		}
		log, err := os.Create(filepath.Join(dir, "log"))
		if err != nil {
			return err
		}
		cmd := exec.Command("sh", append([]string{"-c", keep, filepath.Join(dir, "status"), strconv.Itoa(e.Test),
			e.Services[name].Restart}, argv...)...)
		cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, &syscall.SysProcAttr{Setsid: true}
		if err := errors.Join(cmd.Start(), log.Close()); err != nil {
			return err
		}
		if err := await(filepath.Join(dir, "pid"), filepath.Join(dir, "status")); err != nil {
			return err
		}
	}
	return nil
}

// down asks all to stop, the controller last, and waits for them.
func (e *engine) down() error {
	var all []error
	for _, name := range []string{"press-2", "press-1", "controller"} {
		if _, err := os.Stat(e.at(name)); err != nil {
			continue
		}
		if err := os.WriteFile(e.at(name, "status.stop"), nil, 0o600); err != nil {
			return err
		}
		argv := command(e.Runtime, e.at("state"), "kill", e.id(e.at(name)), "TERM")
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			all = append(all, fmt.Errorf("%s: %w: %s", name, err, out))
		}
		if err := await(e.at(name, "status")); err != nil {
			all = append(all, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(all...)
}

// await waits until one of these files is there and not empty.
func await(files ...string) error {
	tick, end := time.NewTicker(10*time.Millisecond), time.After(proc.Patience)
	defer tick.Stop()
	for {
		for _, file := range files {
			if info, err := os.Stat(file); err == nil && info.Size() > 0 {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-end:
			return fmt.Errorf("%q: none is there after %v", files, proc.Patience)
		}
	}
}
