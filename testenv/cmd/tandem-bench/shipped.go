package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// shipped is the controller's program as "make build" makes it, with its settings as they are unless said.
type shipped struct {
	*program
	at   string // where nodes connect
	join string // URL of the join door, with mutual TLS
	api  *http.Client
}

// startShipped runs the controller on dir/state. Nodes are asked to be patient with, as in the other hosts.
func startShipped(bin, dir string, secure bool) (*shipped, error) {
	s := &shipped{}
	var err error
	if s.at, err = freeAddress(); err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "control.sock")
	args := []string{"--unit", unitName, "--state-dir", filepath.Join(dir, "state"), "--socket", socket,
		"--log-level", "error", "--check-timeout", time.Minute.String(), "--keep-records", strconv.Itoa(keepRecords)}
	if secure {
		door, err := freeAddress()
		if err != nil {
			return nil, err
		}
		s.join = "https://" + door
		args = append(args, "--listen-tls", s.at, "--join-listen", door, "--advertise", "127.0.0.1")
	} else {
		args = append(args, "--listen", s.at)
	}
	if s.program, err = startProgram(dir, filepath.Join(bin, "tandem-controller"), args...); err != nil {
		return nil, err
	}
	s.api = &http.Client{Transport: &http.Transport{DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}}
	ctx, cancel := patient()
	defer cancel()
	for {
		if _, err = s.call(http.MethodGet, "/readyz", nil); err == nil {
			return s, nil
		}
		if !pause(ctx, viewEvery) {
			said, rerr := os.ReadFile(s.log.Name())
			return nil, errors.Join(fmt.Errorf("%w\n%.2000s", err, said), rerr, s.kill())
		}
	}
}

func (s *shipped) pid() string { return strconv.Itoa(s.cmd.Process.Pid) }

// call asks the HTTP API on its socket and returns the answer's body.
func (s *shipped) call(method, path string, body []byte) (answer []byte, err error) {
	ctx, cancel := patient()
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://tandem"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := s.api.Do(r)
	if err != nil {
		return nil, err
	}
	answer, err = io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %.300s", method, path, res.Status, answer)
	}
	return answer, err
}

// until looks at the unit's status until it is as wanted.
func (s *shipped) until(ok func(*fleetView) bool) error {
	ctx, cancel := patient()
	defer cancel()
	for {
		raw, err := s.call(http.MethodGet, "/v1/unit/status", nil)
		if err != nil {
			return err
		}
		var u struct {
			Rev    uint64
			Config struct {
				Version  string
				Progress struct{ Nodes, Online, Installed int }
			}
		}
		if err := json.Unmarshal(raw, &u); err != nil {
			return err
		}
		p := u.Config.Progress
		v := fleetView{Nodes: p.Nodes, Online: p.Online, Installed: p.Installed, Version: u.Config.Version,
			Records: u.Rev}
		if ok(&v) {
			return nil
		}
		if !pause(ctx, viewEvery) {
			return fmt.Errorf("the controller's view is %+v after %v", v, patience)
		}
	}
}

// apply submits a version, nodes not asked first, and waits until n nodes run it.
func (s *shipped) apply(version string, n int) error {
	if _, err := s.call(http.MethodPost, "/v1/config?offline=1", document(version)); err != nil {
		return err
	}
	return s.until(func(v *fleetView) bool { return v.Version == version && v.Installed == n })
}

// token asks for a join token.
func (s *shipped) token(_ context.Context, node string) (string, error) {
	raw, err := s.call(http.MethodPost, "/v1/nodes/"+node+"/enroll", nil)
	if err != nil {
		return "", err
	}
	var e struct{ Token string }
	return e.Token, json.Unmarshal(raw, &e)
}

// close stops it in good order.
func (s *shipped) close() error {
	s.api.CloseIdleConnections()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return errors.Join(err, s.log.Close())
	}
	return errors.Join(s.cmd.Wait(), s.log.Close())
}

// crew starts n nodes for it, which have joined if it serves with mutual TLS, and connects them.
func (s *shipped) crew(dir string, n int) (nodes *host, err error) {
	cfg := hostConfig{Role: "nodes", Nodes: n, Connect: s.at}
	if s.join != "" {
		cfg.Certs = filepath.Join(dir, "certificates.json")
		ctx, cancel := patient()
		defer cancel()
		if err := enrol(ctx, enrolment{n, cfg.Certs, false}, s.join, s.token); err != nil {
			return nil, err
		}
	}
	if nodes, err = start(cfg); err != nil {
		return nil, err
	}
	err = errors.Join(nodes.do("start", 0, nil), nodes.do("online", n, nil))
	if err == nil {
		err = s.until(func(v *fleetView) bool { return v.Online == n })
	}
	if err != nil {
		return nil, errors.Join(err, nodes.close())
	}
	return nodes, nil
}

// How often the shipped controller is used in the section of that name.
const (
	shippedApplies  = 3
	shippedListings = 10
	shippedEmpty    = "before any node"
)

// shippedSection measures the memory of the controller's program as its user sees it, without a hand on its collector.
func shippedSection(b *session) error {
	bin, err := b.programs()
	if err != nil {
		return err
	}
	for _, secure := range []bool{false, true} {
		if err := b.shippedMemory(bin, secure); err != nil {
			return err
		}
	}
	return nil
}

func (b *session) shippedMemory(bin string, secure bool) (err error) {
	dir, err := b.folder()
	if err != nil {
		return err
	}
	s, err := startShipped(bin, dir, secure)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	how := "plain"
	if secure {
		how = "mutual TLS"
	}
	figures := func(when, field string, asked bool) error {
		n, err := memoryOf("/proc/"+s.pid()+"/status", field)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%s: %s, %d nodes, %s", field, when, b.large, how)
		b.add(figure{Section: "shipped", Name: name, Unit: "MB", Value: float64(n) / 1e6})
		if when == shippedEmpty {
			return nil
		}
		f := figure{Section: "shipped", Name: name, Unit: "KB/node", Value: float64(n) / 1e3 / float64(b.large)}
		if asked {
			f = f.most(45)
		}
		b.add(f)
		return nil
	}
	if err := figures(shippedEmpty, "VmRSS", false); err != nil {
		return err
	}
	nodes, err := s.crew(dir, b.large)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, nodes.close()) }()
	if err := figures("connected", "VmRSS", false); err != nil {
		return err
	}
	for i := range shippedApplies {
		if err := s.apply(fmt.Sprintf("1.0.%d", i), b.large); err != nil {
			return err
		}
	}
	if err := figures(fmt.Sprintf("after %d applies", shippedApplies), "VmRSS", false); err != nil {
		return err
	}
	var listed int
	for range shippedListings {
		answer, err := s.call(http.MethodGet, "/v1/nodes", nil)
		if err != nil {
			return err
		}
		listed = len(answer)
	}
	if err := figures(fmt.Sprintf("after %d listings of %.1f MB", shippedListings, float64(listed)/1e6), "VmRSS",
		false); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.idle)
	defer cancel()
	pause(ctx, b.idle)
	return errors.Join(figures(fmt.Sprintf("%v later", b.idle), "VmRSS", true), figures("the peak of it all", "VmHWM",
		false))
}
