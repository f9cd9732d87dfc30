package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// program is a server of somebody else, in a process of its own.
type program struct {
	cmd *exec.Cmd
	log *os.File
}

// startProgram runs a server with its files and its log in dir.
func startProgram(dir, path string, args ...string) (*program, error) {
	log, err := os.Create(filepath.Join(dir, filepath.Base(path)+".log"))
	if err != nil {
		return nil, err
	}
	p := &program{cmd: exec.Command(path, args...), log: log}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, log, log
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return p, nil
}

// answers waits until somebody listens at an address.
func (p *program) answers(at string) error {
	ctx, cancel := patient()
	defer cancel()
	for {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", at)
		if err == nil {
			return c.Close()
		}
		if !pause(ctx, viewEvery) {
			said, rerr := os.ReadFile(p.log.Name())
			return errors.Join(fmt.Errorf("%s does not listen: %w\n%.2000s", p.cmd.Path, err, said), rerr)
		}
	}
}

// processor is the processor time that it has used.
func (p *program) processor() (time.Duration, error) {
	return processorTime(strconv.Itoa(p.cmd.Process.Pid))
}

// kill ends it; its files are of no use to anybody.
func (p *program) kill() error {
	err := p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it says that it was killed
	return errors.Join(err, p.log.Close())
}

// freeAddress is one on loopback that is free now, and hopefully still in a moment.
func freeAddress() (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

var versionNumber = regexp.MustCompile(`[0-9]+\.[0-9]+\.[0-9]+[-+.0-9A-Za-z]*`)

// versionIn is the first version in a text, "" if there is none.
func versionIn(text string) string { return versionNumber.FindString(text) }

// versionOf is the version that a program prints of itself when it is started so. Some do with exit status 1.
func versionOf(path string, args ...string) (string, error) {
	out, err := exec.Command(path, args...).CombinedOutput()
	if v := versionIn(string(out)); v != "" {
		return v, nil
	}
	return "", errors.Join(fmt.Errorf("%s %s prints no version: %.200q", path, strings.Join(args, " "), out), err)
}

// dependency is the version of a module in this program.
func dependency(path string) (string, error) {
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version, nil
			}
		}
	}
	return "", fmt.Errorf("this program does not know its version of %s", path)
}

// natsServer builds nats-server of the version that testenv's go.mod names.
func (b *session) natsServer() (string, error) {
	path := filepath.Join(b.dir, "nats-server")
	return path, b.build("go", "build", "-o", path, "github.com/nats-io/nats-server/v2")
}

// programs builds the product's programs as they are shipped and returns their directory.
func (b *session) programs() (string, error) {
	dir := filepath.Join(b.dir, "bin")
	if b.built {
		return dir, nil
	}
	err := b.build("make", "-s", "build", "BIN="+dir)
	b.built = err == nil
	return dir, err
}

// build runs a command that builds, at the top of the source tree.
func (b *session) build(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = b.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%.2000s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// findMosquitto is where Debian has it, too, which is not on everybody's path.
func findMosquitto() (string, error) {
	if path, err := exec.LookPath("mosquitto"); err == nil {
		return path, nil
	}
	path, err := exec.LookPath("/usr/sbin/mosquitto")
	if err != nil {
		return "", errors.New("no mosquitto here: apt-get install mosquitto")
	}
	return path, nil
}

const (
	etcdServer = "go.etcd.io/etcd/server/v3"
	etcdClient = "go.etcd.io/etcd/client/v3"
)

// currentEtcd builds etcd's server of the same version as the client here, which go.mod names, in a module of its own:
// its dependencies shall not choose those of the product. What was built is kept for the next run.
func currentEtcd(ctx context.Context) (path string, err error) {
	version, err := dependency(etcdClient)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "tandem-bench", "etcd-"+version)
	path = filepath.Join(dir, "etcd")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	made, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(made)) }()
	mod := filepath.Join(made, "go.mod")
	if err := os.WriteFile(mod, []byte("module bench.invalid/etcd\n\ngo 1.26.0\n"), 0o600); err != nil {
		return "", err
	}
	for _, args := range [][]string{{"get", etcdServer + "@" + version}, {"build", "-o", "etcd", etcdServer}} {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = made
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("building etcd %s: go %s: %w\n%.600s", version, args[0], err, out)
		}
	}
	return path, os.Rename(filepath.Join(made, "etcd"), path)
}

// findEtcd is the etcd that was asked for, or a current one, or an older one that is installed; the version says which.
func (b *session) findEtcd() (path, version string, err error) {
	if path = b.etcd; path == "" {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		if path, err = currentEtcd(ctx); err != nil {
			old, lerr := exec.LookPath("etcd")
			if lerr != nil {
				return "", "", errors.Join(err, lerr)
			}
			fmt.Println("  NOT A CURRENT etcd:", err)
			path = old
		}
	}
	version, err = versionOf(path, "--version")
	return path, version, err
}
