package app

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/bundle"
	"tandem.internal/shared/settings"
	"tandem.internal/shared/wire"
)

// brings is what a program brings that has these settings at its end.
func brings(text string) Brought {
	return Brought{layer: bundle.Bundle{Version: "2.0.0", Settings: []byte(text)}.Layer()}
}

func noVariables(string) (string, bool) { return "", false }

// names lists the settings of a struct.
func names(t reflect.Type) (all []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			all = append(all, names(f.Type)...)
		} else if name := f.Tag.Get("name"); name != "" {
			all = append(all, name)
		}
	}
	return all
}

// What may come with a version is a closed list of settings that there are. Every other one is refused by name, each
// that is about trust, paths, addresses, commands, users and trials among them.
func TestWhatMayComeWithAVersion(t *testing.T) {
	all := names(reflect.TypeFor[Config]())
	for _, name := range bundle.May {
		if !slices.Contains(all, name) {
			t.Errorf("%s is no setting", name)
		}
	}
	owners := []string{"unit", "node", "type", "broker", "password", "controller", "key", "state-dir", "on-apply",
		"max-priority", "allowed-label", "partition", "component", "attribute", "on-indicator", "reboot-command",
		"watch-dir", "reset-time", "fallback-time", "test-time", "deadline-time", "contact-time", "watchdog-time",
		"need-approval", "workloads", "workload-group", "workload-read", "workload-write", "workload-users",
		"workload-loopback", "container-runtime", "confine", "unproved-resources", "node-policy", "peer-listen",
		"peer", "peer-allow", "publisher-key", "floor", "unit-key", "decrypt-key",
		"pin-keys", "root-key", "subscribe-qos", "dmips", "max-instances", "resource", "device", "subject",
		"storage-partition", "state-partition", "textfile"}
	for _, name := range owners {
		if !slices.Contains(all, name) {
			t.Errorf("%s is no setting", name)
		}
		_, err := brings("beat: 45s\n"+name+": x\n").Load(new(Config), nil, noVariables, io.Discard)
		want := "what comes with version devel of the agent: version 2.0.0:2: " + name + ": it is the node owner's " +
			"alone, and does not come with a version; these may: beat, event-limit, "
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, name := range all {
		if slices.Contains(owners, name) == slices.Contains(bundle.May, name) {
			t.Errorf("%s: nobody has decided whether it may come with a version", name)
		}
	}
	if n := len(strings.Join(bundle.May, " ")); n > 256 {
		t.Errorf("their names have %d bytes, more than an attribute", n)
	}
}

// A value that no agent takes is told by the program itself, whatever the node's own settings say.
func TestBroughtMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"beat: 10ms\n":                "--beat: below one second",
		"beat: 45\n":                  "version 2.0.0:1: beat: \"45\" is not a duration such as",
		"log-level: loud\n":           "loud is none of debug, info",
		"sample-period: 1ms\n":        "the sampling period 1ms is below 100ms",
		"interface: [\"[\"]\n":        "the interface pattern",
		"event-limit: -1\n":           "--event-limit: below 1",
		"fetch-rate: -1\n":            "--fetch-rate: below 0",
		"workload-window: 1ms\n":      "--workload-window: 1ms is below 100ms",
		"on-apply-timeout: -1s\n":     "--on-apply-timeout: negative",
		"beat: 45s\nbeat: 46s\n":      "already set in line 1",
		"beat: [\n":                   "not YAML",
		"config: /etc/tandem/x.yml\n": "config: it is the node owner's alone",
	} {
		for _, args := range [][]string{nil, {"--version"}, {"--beat", "50s", "--log-level", "info"}} {
			_, err := brings(text).Load(new(Config), args, noVariables, io.Discard)
			if err == nil || errors.Is(err, settings.ErrPrinted) || !strings.Contains(err.Error(), want) {
				t.Errorf("%q %q: %v, want %s", text, args, err, want)
			}
		}
	}
}

// Settings that a version has brought count below file, variables and flags, and the node tells which there are.
func TestBroughtSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(file, []byte("event-limit: 11\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var c Config
	b := brings("beat: 45s\nevent-limit: 22\nfetch-rate: 22\nworkload-log-files: 22\n")
	_, err := b.Load(&c, []string{"--config", file, "--fetch-rate", "33"}, func(name string) (string, bool) {
		return "44", name == "TANDEM_WORKLOAD_LOG_FILES"
	}, io.Discard)
	if err != nil || c.Beat != 45*time.Second || c.EventLimit != 11 || c.FetchRate != 33 || c.WorkloadLogFiles != 44 {
		t.Errorf("%+v %v", c, err)
	}
	a := &Agent{cfg: c}
	const want = "beat event-limit fetch-rate workload-log-files"
	if got := a.attributes()[wire.AttributeSettings]; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	var plain Config
	if _, err := new(Brought).Load(&plain, nil, noVariables, io.Discard); err != nil || plain.Beat != time.Minute {
		t.Errorf("%+v %v", plain, err)
	}
	if got, there := (&Agent{cfg: plain}).attributes()[wire.AttributeSettings]; there {
		t.Errorf("%q", got)
	}
}

// What stands at the end of a program is read from its file; what is damaged there stops the start, and what cannot be
// read does not.
func TestReadBrought(t *testing.T) {
	was := settings.Version
	t.Cleanup(func() { settings.Version = was })
	tail, err := bundle.Bundle{Version: "2.0.0", Settings: []byte("beat: 45s\n")}.Tail()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name, content, version, err string
		beat                        time.Duration
	}{
		{"plain", "program\n", "devel", "", time.Minute},
		{"bundle", "program" + string(tail), "2.0.0", "", 45 * time.Second},
		{"damaged", "program" + strings.Replace(string(tail), " 10\n", " 11\n", 1), "devel",
			"the program is damaged", 0},
	} {
		settings.Version = "devel"
		path := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(path, []byte(x.content), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var c Config
		b := readBrought(f)
		_, err = b.Load(&c, nil, noVariables, io.Discard)
		if (err == nil) != (x.err == "") || err != nil && !strings.Contains(err.Error(), x.err) || c.Beat != x.beat ||
			settings.Version != x.version || c.unread != nil {
			t.Errorf("%s: %v %v %s", x.name, c.Beat, err, settings.Version)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		c = Config{} // a file that cannot be read any more
		if _, err := readBrought(f).Load(&c, nil, noVariables, io.Discard); err != nil || c.unread == nil ||
			c.Beat != time.Minute {
			t.Errorf("%s: %v %v %v", x.name, c.Beat, err, c.unread)
		}
	}
}
