package app

import (
	"fmt"
	"io"
	"os"
	"os/exec"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/monitor"
	"tandem.internal/shared/bundle"
	"tandem.internal/shared/settings"
)

// Brought are the settings that this very program has brought (package bundle).
type Brought struct {
	layer  settings.Layer
	built  string // the version that the program has without them
	broken error  // they are not to be known
	unread error  // the program's file cannot be read
}

// ReadBrought reads what this program has brought, and makes the version that stands there the program's. It is called
// once, before anything asks for that.
func ReadBrought() Brought {
	f, err := os.Open("/proc/self/exe") // what runs, also where another file has taken its place
	if err != nil {
		var path string
		if path, err = exec.LookPath(os.Args[0]); err == nil {
			f, err = os.Open(path)
		}
	}
	if err != nil {
		return Brought{unread: err}
	}
	b := readBrought(f)
	if err := f.Close(); err != nil {
		b.unread = err
	}
	return b
}

func readBrought(f *os.File) Brought {
	info, err := f.Stat()
	if err != nil {
		return Brought{unread: err}
	}
	b, err := bundle.Read(f, info.Size())
	switch {
	case err != nil:
		return Brought{broken: fmt.Errorf("the program is damaged: %w", err)}
	case b.Version == "":
		return Brought{}
	}
	built := settings.Version
	settings.Version = b.Version
	return Brought{layer: b.Layer(), built: built}
}

// Load fills c as settings.Load does, and what nothing says otherwise with what the program has brought. That has to be
// valid by itself: else no agent of this version starts anywhere, nor says its version, which a staging asks for.
func (b Brought) Load(c *Config, args []string, lookupEnv func(string) (string, bool), out io.Writer) (rest []string,
	err error) {
	if b.broken != nil {
		return nil, b.broken
	}
	if c.brought, err = check(b.layer); err != nil {
		return nil, fmt.Errorf("what comes with version %s of the agent: %w", settings.Version, err)
	}
	c.built, c.unread = b.built, b.unread
	return settings.LoadOver(b.layer, "tandem-node", c, args, lookupEnv, out)
}

// check judges a layer without any other, and returns which settings stand in it.
func check(l settings.Layer) (names []string, err error) {
	if l.Text == nil {
		return nil, nil
	}
	var alone Config
	nothing := func(string) (string, bool) { return "", false }
	if _, err = settings.LoadOver(l, "tandem-node", &alone, nil, nothing, io.Discard); err != nil {
		return nil, err
	}
	if _, _, err := settings.Logger(alone.LogLevel, false); err != nil {
		return nil, err
	}
	for _, check := range []func() error{alone.checkLimits, alone.completeTimes, alone.completeWorkloads} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	if _, err := monitor.New(monitor.Config{Period: alone.SamplePeriod, Interfaces: alone.Interfaces}); err != nil {
		return nil, err
	}
	return l.Names()
}

// tellBrought says in the log what has been brought.
func (a *Agent) tellBrought() {
	if err := a.cfg.unread; err != nil {
		a.log.Warn("what this version has brought is not known, and does not count", zap.Error(err))
	}
	if len(a.cfg.brought) > 0 {
		a.log.Info("settings that this version has brought", zap.Strings("settings", a.cfg.brought),
			zap.String("version", settings.Version), zap.String("program", a.cfg.built))
	}
}
