package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/apitoken"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/controller/internal/view"
)

// TestMistakes: what people mistype, and what they are told.
func TestMistakes(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	good := b.write("good.json", string(apitest.Document("2.1.0")))
	b.write("empty.json", "")
	b.write("cut.json", `{"formatVersion": "7", "version": "2.1.0", "nodes": [{"node": `)
	b.write("long.json", `{"formatVersion":"7","version":"2.1.0",`+strings.Repeat(" ", 300)+`"nodes":{},`+
		strings.Repeat(" ", 300)+`"x":1}`)
	var many strings.Builder
	many.WriteString(`{"formatVersion":"7","version":"2.1.0","nodes":[]`)
	for i := range 30 {
		many.WriteString(",\n\"unknown" + string(rune('a'+i%26)) + strings.Repeat("x", i) + "\": 1")
	}
	b.write("many.json", many.String()+"}")
	var all strings.Builder
	for _, args := range []string{
		"", "confg", "config", "config aply x", "config x", "nods", "node", "node a/b", "node node-1 node-2",
		"nodes --wacth", "nodes -x", "nodes --watch --behind", "nodes --name [",
		"config apply", "config apply DIR/none.json", "config apply DIR", "config apply DIR/empty.json",
		"config apply DIR/cut.json",
		"config apply DIR/long.json", "config check --offline DIR/many.json", "config apply DIR/good.json --wait 10s",
		"config apply DIR/good.json DIR/good.json",
		"config apply DIR/good.json --try soon", "config apply DIR/good.json --try -2m",
		"config apply DIR/good.json --try P1M", "config apply DIR/good.json --wait=0s",
		"config apply DIR/good.json --try",
		"config show --node", "config show --node x/y",
		"config show --version not-a-version",
		"config resolve DIR/good.json", "config resolve --node node-1", "config explain /version",
		"config explain --node node-1", "config explain --node node-1 version",
		"config diff 1.9.0", "config diff - -", "config diff v1.9.0 2.0.0", "config history --limit -1",
		"config history --limit many",
		"config rollback 1.9.0 --as two", "events --limit 0", "events --node x/y", "events --after x", "unit",
		"unit stat", "journal", "journal verfy",
		"journal backup", "journal backup DIR/good.json", "journal backup DIR/none/x.db",
		"journal export -o DIR/good.json",
		"journal verify --file DIR/j.db", "journal backup DIR/x.db --file DIR/good.json",
		"backup", "backup crate", "backup create", "backup create DIR/x.age", "backup create DIR/good.json",
		"backup create DIR/x.age --to age1 --passphrase", "backup create DIR/x.age --passphrase",
		"backup create DIR/x.age --passphrase-file DIR/none", "backup create DIR/x.age --keep 2",
		"backup create --dir DIR --replace", "backup create --dir DIR DIR/x.age", "backup create --dir DIR/none",
		"backup verify DIR/x.age", "backup restore DIR/x.age --identity DIR/key",
		"journal compact", "journal compact --file DIR/j.db", "journal verify DIR/j.db",
		"journal export --file DIR/j.db",
		"--socket DIR/control.sock --url TCP nodes", "--socket DIR/none.sock nodes", "--socket DIR/good.json nodes",
		"--url ftp://x nodes", "--url http://127.0.0.1:1 nodes", "--url TCP nodes", "--token-file DIR/good.json nodes",
		"--url TCP --token-file DIR/none nodes",
		"--url TCP --token-file DIR/empty.json nodes", "--url TCP --token-file DIR/good.json nodes", "version x",
		"--timeout 0s nodes",
		"--ca DIR/good.json nodes", "--url https://127.0.0.1:1 --ca sha256:12 nodes",
		"--url https://127.0.0.1:1 --ca DIR/none.pem nodes",
		"--url https://127.0.0.1:1 --ca DIR/good.json nodes",
		"--url TCP --ca sha256:" + strings.Repeat("0", 64) + " nodes",
		"token", "token creat ann", "token create", "token create ann", "token create ann --role viewer",
		"token create ann --role x", "token create a/b --role view",
		"token create ann --role view --expires soon", "token create ann --role view --expires 1s",
		"token create view --role view", "token list all", "token revoke",
		"token revoke veiw", "token revoke nobody", "token revoke " + apitoken.Secret{}.Text(), "token revoke a/b",
		"--socket " + strings.Repeat("long", 40) + " nodes",
	} {
		run := strings.Fields(strings.NewReplacer("DIR", b.dir, "TCP", b.tcp).Replace(args))
		all.WriteString(b.transcript("", run...) + "\n")
	}
	golden(t, "mistakes", all.String())
	if _, err := os.Stat(good); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(b.dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestStandardInput(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	golden(t, "stdin", b.transcript(string(apitest.Document("2.1.0")), "config", "apply", "-")+
		b.transcript(malformed, "config", "apply", "-")+
		b.transcript(string(apitest.Document("3.0.0")), "config", "diff", "2.0.0", "-"))
}

func TestDoors(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	token := b.tokens[tokens.View]
	file := b.write("token", "# mine\n\n"+token+"\n")
	shared := b.write("shared", token)
	for name, mode := range map[string]os.FileMode{file: 0o600, shared: 0o640} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		env  map[string]string
		args []string
		exit int
	}{
		{"a token file that others may read", map[string]string{}, []string{"--url", b.tcp, "--token-file", shared},
			exitUsage},
		{"url and token file", map[string]string{}, []string{"--url", b.tcp + "/", "--token-file", file}, 0},
		{"url and token from the environment", map[string]string{"TANDEM_URL": b.tcp, "TANDEM_TOKEN": token}, nil, 0},
		{"wrong token", map[string]string{"TANDEM_URL": b.tcp, "TANDEM_TOKEN": apitoken.New().Text()},
			nil, exitRefused},
		{"half a token", map[string]string{"TANDEM_URL": b.tcp, "TANDEM_TOKEN": token[:30]}, nil, exitUsage},
		{"a mistyped token", map[string]string{"TANDEM_URL": b.tcp, "TANDEM_TOKEN": swapped(token)}, nil, exitUsage},
		{"flag above environment", map[string]string{"TANDEM_URL": "http://127.0.0.1:1"},
			[]string{"--socket", b.socket}, 0},
		{"two doors in the environment", map[string]string{"TANDEM_URL": b.tcp, "TANDEM_SOCKET": b.socket}, nil,
			exitUsage},
	} {
		b.env = c.env
		stdout, stderr, exit := b.run("", append([]string{"nodes"}, c.args...)...)
		if strings.Contains(stderr, "WARNING") {
			t.Errorf("%s: %s", c.name, stderr)
		}
		if exit != c.exit || (exit == 0) != strings.Contains(stdout, "node-1") {
			t.Errorf("%s: status %d\n%s%s", c.name, exit, stdout, stderr)
		}
		if strings.Contains(stdout+stderr, token) {
			t.Errorf("%s shows the token", c.name)
		}
	}
	b.env = map[string]string{"TANDEM_SOCKET": b.socket}
	if _, stderr, exit := b.run("", "config", "rollback", "1.9.0", "--as", "2.0.1"); exit != 0 {
		t.Fatal(stderr)
	}
	all, err := b.unit.Entries(t.Context(), view.EntryFilter{Reverse: true, Limit: 1, Types: []string{"accepted"}})
	if err != nil || !strings.HasPrefix(all[0].Who, "uid:") || !strings.Contains(all[0].Who, " for alice") {
		t.Errorf("the journal has %+v, %v", all, err)
	}
}

// swapped is a token with one character that is another one.
func swapped(token string) string {
	c := "A"
	if token[30] == 'A' {
		c = "B"
	}
	return token[:30] + c + token[31:]
}

// TestWarnsOfClearText: a token that crosses a network as it is.
func TestWarnsOfClearText(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	b.env = map[string]string{"TANDEM_TOKEN": b.tokens[tokens.View]}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // nobody is asked
	b.ctx = ctx
	_, stderr, _ := b.run("", "--url", "http://192.0.2.1:1", "nodes")
	if !strings.Contains(stderr, "WARNING: the token goes to http://192.0.2.1:1 without TLS") {
		t.Errorf("%s", stderr)
	}
}

func TestNobodyListens(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	b.stop()
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: b.socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	golden(t, "nobody-listens", b.transcript("", "nodes"))
}

// TestStuckController: a controller that takes the connection and says nothing costs --timeout.
func TestStuckController(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	b.stop()
	l, err := net.Listen("unix", b.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	golden(t, "stuck", b.transcript("", "nodes", "--timeout", "20ms")+b.transcript("", "nodes", "--watch", "--timeout",
		"20ms")+b.transcript("", "config", "restore", "--timeout", "20ms"))
	ctx, cancel := context.WithCancel(context.Background())
	b.ctx = ctx
	cancel()
	golden(t, "interrupted", b.transcript("", "nodes"))
}

// TestStrangers: what answers is not a controller.
func TestStrangers(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	b.stop()
	for name, answer := range map[string]string{
		"html":     "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
		"404":      "HTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\n<html>",
		"redirect": "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
		"cut":      "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
		"smtp":     "220 mail ready\r\n",
	} {
		for _, args := range [][]string{{"nodes"}, {"events"}, {"config", "confirm"}, {"journal", "export"}} {
			if name == "html" && args[0] == "journal" {
				continue // an export is passed on as it is
			}
			l, err := net.Listen("unix", b.socket)
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() {
				c, err := l.Accept()
				if err != nil {
					ended <- err
					return
				}
				_, err = c.Read(make([]byte, 4096))
				if err == nil {
					_, err = c.Write([]byte(answer))
				}
				ended <- errors.Join(err, c.Close())
			}()
			_, stderr, exit := b.run("", args...)
			if exit != exitUnreachable || !strings.HasPrefix(stderr, "tandem: unavailable: ") {
				t.Errorf("%s, %v: status %d, %s", name, args, exit, stderr)
			}
			if err := errors.Join(<-ended, l.Close()); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestOutputThatCannotBeWritten is an error, not a success.
func TestOutputThatCannotBeWritten(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	var errs bytes.Buffer
	io := b.io
	io.In, io.Out, io.Err = strings.NewReader(""), full{}, &errs
	io.Env = func(k string) (string, bool) { v, ok := b.env[k]; return v, ok }
	for _, args := range [][]string{{"nodes"}, {"config", "show"}, {"journal", "export"}, {"version"},
		{"events", "--json"}, {"nodes", "--watch"}} {
		errs.Reset()
		if exit := Run(context.Background(), args, io); exit != exitRefused ||
			!strings.Contains(errs.String(), "no space") {
			t.Errorf("%v: status %d, %s", args, exit, errs.String())
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// TestDownloadsThatFail leave no file.
func TestDownloadsThatFail(t *testing.T) {
	fail := func(_ context.Context, w io.Writer) error {
		_, err := w.Write(make([]byte, 4096))
		return errors.Join(err, errors.New("disk"))
	}
	b := answered(api.File(op.BackupJournal, "journal.db", fail), api.File(op.ExportJournal, "", fail)).bench(t)
	for _, args := range [][]string{{"journal", "backup", b.dir + "/b.db"},
		{"journal", "export", "-o", b.dir + "/b.db"}} {
		if _, stderr, exit := b.run("", args...); exit != exitUnreachable || !strings.Contains(stderr, "cut off") {
			t.Errorf("%v: status %d, %s", args, exit, stderr)
		}
		if left, err := filepath.Glob(b.dir + "/*b.db*"); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v %v", left, err)
		}
	}
}
