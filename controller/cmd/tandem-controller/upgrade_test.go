package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.etcd.io/bbolt"

	"tandem.internal/controller/internal/ca"
	"tandem.internal/controller/internal/journal"
)

// upgradeRun runs "tandem-controller upgrade ARGS".
func upgradeRun(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), append([]string{"upgrade"}, args...), &out, &errs)
	return status, out.String(), errs.String()
}

// formatOf has a journal that nobody has open say another format.
func formatOf(t *testing.T, path string, version int) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("version"), []byte(strconv.Itoa(version)))
	})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestUpgradeCheck(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(in(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	unit := func(name string) string { // one whose controller was stopped
		t.Helper()
		if err := os.Mkdir(in(name), 0o700); err != nil {
			t.Fatal(err)
		}
		stoppedUnit(t, in(name))
		return in(name)
	}
	running := unit("running")
	j, err := journal.Open(filepath.Join(running, "journal.db"), journal.Options{MapSize: 1 << 24})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}()
	before, now := strconv.Itoa(journal.Version-1), strconv.Itoa(journal.Version)
	formatOf(t, filepath.Join(unit("older"), "journal.db"), journal.Version-1)
	formatOf(t, filepath.Join(unit("newer"), "journal.db"), journal.Version+1)
	unit("moved")
	write("moved/moved.txt", "elsewhere")
	if _, err := ca.Open(ca.Config{Unit: "u1", Dir: unit("mine")}); err != nil {
		t.Fatal(err)
	}
	unit("half")
	write("half/restoring.txt", "")
	unit("origin")
	write("origin/restored.json", "{")
	unit("text")
	write("text/journal.db", strings.Repeat("text\n", 2000))
	unit("odd")
	if err := os.Mkdir(in("odd/tokens.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("file", "")
	write("good.yaml", "unit: u1\nstate-dir: "+running+"\n")
	write("unknown.yaml", "unit: u1\nadvertize: [a]\nstate-dir: "+in("newer")+"\n")
	write("wrong.yaml", "unit: u1\ncheck-timeout: soon\nstate-dir: "+running+"\n")
	write("broken.yaml", "unit: [\n")
	const settingsAreGood, may = "ok       settings: this program understands them\n", "can take over\n"
	for _, c := range []struct {
		args   string
		status int
		want   []string
	}{
		{"check --config " + in("good.yaml"), 0, []string{settingsAreGood, "ok       journal: it has format " + now,
			"ok       state-dir: " + running, "ok       space: ", may}},
		{"check --unit u1 --state-dir " + in("none"), 0, []string{"a new unit begins", may}},
		{"check --unit u1 --state-dir " + in("older"), 0, []string{"it has format " + before + ", and is upgraded to " +
			now, in("older/journal.db.v" + before + ".bak"), "with the copy of the journal", may}},
		{"check --unit u1 --state-dir " + in("newer"), 1, []string{settingsAreGood, "OBSTACLE journal: ",
			"written by a newer Tandem", "upgrade this program", "ok       space", "cannot take over\n"}},
		{"check --config " + in("unknown.yaml"), 1, []string{"OBSTACLE settings: " + in("unknown.yaml") +
			":2: advertize: ",
			`did you mean advertise?`, "OBSTACLE journal: "}},
		{"check --config " + in("wrong.yaml"), 1, []string{"OBSTACLE settings: " + in("wrong.yaml") +
			":2: check-timeout: ",
			"ok       journal: "}},
		{"check --config " + in("broken.yaml"), 1, []string{"OBSTACLE settings: " + in("broken.yaml")}},
		{"check --config " + in("none.yaml"), 1, []string{"OBSTACLE settings: " + in("none.yaml")}},
		{"check --unit a/b --state-dir " + running, 1, []string{`OBSTACLE settings: --unit: "a/b" is no unit name`}},
		{"check --unit u1 --state-dir " + in("moved"), 1, []string{"OBSTACLE state-dir: this unit was moved",
			"remove that"}},
		{"check --unit u2 --state-dir " + in("mine"), 1, []string{settingsAreGood, "OBSTACLE state-dir: unit CA: " +
			in("mine/ca-key.pem") + ` is of "tandem CA u1", not of unit "u2"; start with --unit and --state-dir of`}},
		{"check --unit u1 --state-dir " + in("mine"), 0, []string{"ok       state-dir: " + in("mine")}},
		{"check --unit u1 --state-dir " + in("half"), 1, []string{"OBSTACLE state-dir: a restore into",
			"backup restore"}},
		{"check --unit u1 --state-dir " + in("origin"), 1, []string{"OBSTACLE state-dir: ", "restored.json"}},
		{"check --unit u1 --state-dir " + in("text"), 1, []string{"OBSTACLE journal: ", "is not a Tandem journal"}},
		{"check --unit u1 --state-dir " + in("odd"), 1, []string{"OBSTACLE state-dir: ",
			"tokens.json is not a regular file"}},
		{"check --unit u1 --state-dir " + in("file"), 1, []string{"OBSTACLE state-dir: "}},
		{"check --help", 0, []string{"tandem-controller upgrade check [flags]", "--json"}},
		{"", 0, []string{"tandem-controller upgrade check [flags]"}},
		{"chek", 2, []string{"did you mean check?"}},
		{"check now", 2, []string{"unexpected argument"}},
		{"check --jsn", 2, []string{"did you mean --json?"}},
	} {
		files := contents(t, dir)
		status, stdout, stderr := upgradeRun(t, strings.Fields(c.args)...)
		said := stdout
		if c.status == 2 {
			said = stderr
		}
		if status != c.status || status == 1 && stderr != "" {
			t.Errorf("%s: status %d, want %d\n%s%s", c.args, status, c.status, stdout, stderr)
		}
		for _, want := range c.want {
			if !strings.Contains(said, want) {
				t.Errorf("%s: no %q\n%s", c.args, want, said)
			}
		}
		if contents(t, dir) != files {
			t.Errorf("%s: it has changed files", c.args)
		}
	}
	for args, ok := range map[string]bool{in("good.yaml"): true, in("unknown.yaml"): false} {
		_, stdout, _ := upgradeRun(t, "check", "--json", "--config", args)
		var c check
		if err := json.Unmarshal([]byte(stdout), &c, json.RejectUnknownMembers(true)); err != nil || c.OK != ok ||
			len(c.Findings) != 4 || c.Findings[0].Obstacle == ok {
			t.Errorf("%s: %v\n%s", args, err, stdout)
		}
	}
}

// contents are the names, sizes and times of all files.
func contents(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			fmt.Fprintln(&b, path, info.Mode(), info.Size(), info.ModTime())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
