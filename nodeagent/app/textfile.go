package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/monitor"
	"tandem.internal/shared/settings"
	"tandem.internal/shared/wire"
)

// textfile is the file of --textfile.
type textfile struct {
	busy bool   // it is being written; what is measured meanwhile is left out
	err  string // why that has failed last; "": it has not
}

// writeTextfile puts what was measured where the textfile collector of node_exporter finds it.
func (a *Agent) writeTextfile(s monitor.Sample) {
	if a.cfg.Textfile == "" || a.textfile.busy {
		return
	}
	a.textfile.busy = true
	text := exposition(s, &a.node.report)
	a.runInBackground(func() func() {
		err := replaceFile(a.cfg.Textfile, text)
		return func() { a.wroteTextfile(err) }
	})
}

func (a *Agent) wroteTextfile(err error) {
	why := ""
	if err != nil {
		why = err.Error()
	}
	if why != "" && why != a.textfile.err {
		a.log.Warn("the textfile of metrics cannot be written; it is tried again", zap.Error(err))
	}
	a.textfile = textfile{err: why}
}

// replaceFile puts a file in the place of the one before by renaming it. It is not synced: after a power failure there
// is a new one within a period. The directory may be that of others, too: what is written to is always made anew.
func replaceFile(path, text string) error {
	next := path + ".new" // node_exporter reads *.prom only
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil { // whatever the umask
		return err
	}
	return os.Rename(next, path)
}

// families are the metrics that are of a parameter, by the beginning of its name; behind a colon is a partition's.
var families = [...]struct{ parameter, name, help string }{
	{"cpu", "cpu_ratio", "Share of the processors in use."},
	{"ram", "ram_ratio", "Share of the memory that no program could get."},
	{"download", "download_bytes_per_second", "Traffic that was received."},
	{"upload", "upload_bytes_per_second", "Traffic that was sent."},
	{"partition:", "partition_ratio", "Share of a partition in use."},
	{"inodes:", "partition_inodes_ratio", "Share of the inodes of a partition in use."},
}

// exposition is a sample, and how the node is, in the text format of Prometheus. What is not known is left out.
func exposition(s monitor.Sample, h *wire.Health) string {
	var b strings.Builder
	head := func(name, help string) {
		fmt.Fprintf(&b, "# HELP tandem_node_%s %s\n# TYPE tandem_node_%[1]s gauge\n", name, help)
	}
	line := func(name, label, of string, value float64) {
		if b.WriteString("tandem_node_" + name); label != "" {
			b.WriteString("{" + label + `="` + escaped.Replace(of) + `"}`)
		}
		b.WriteString(" " + strconv.FormatFloat(value, 'g', -1, 64) + "\n")
	}
	head("build_info", "1, with the version of the agent.")
	line("build_info", "version", settings.Version, 1)
	head("sampled_timestamp_seconds", "Unix time at which the node was measured, by its own clock.")
	line("sampled_timestamp_seconds", "", "", float64(s.Wall.UnixMilli())/1000)
	for _, f := range families {
		begun := false
		for _, r := range s.Readings {
			of, is := strings.CutPrefix(string(r.Parameter), f.parameter)
			label := ""
			if strings.HasSuffix(f.parameter, ":") {
				label = "partition"
			} else if of != "" {
				is = false
			}
			if !is || r.Err != nil {
				continue
			}
			if !begun {
				head(f.name, f.help)
				begun = true
			}
			line(f.name, label, of, r.Value)
		}
	}
	head("contact", "1 while the node is in contact with the controller.")
	line("contact", "", "", number(h.Contact.In))
	if len(h.Checks) > 0 {
		head("check_ok", "1 while a check of the node's health passes.")
	}
	for _, c := range h.Checks {
		line("check_ok", "check", c.Name, number(c.OK))
	}
	return b.String()
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// escaped makes a text fit for the value of a label.
var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
