package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/nodeagent/internal/fetch"
)

// token is one for node n1; its secret is all zeros.
const token = "tdm1.AQJuMQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAKcDcGs"

// The agent has the BitTorrent that its main gives it, and what opens what is encrypted.
func TestRunWithExtras(t *testing.T) {
	args := []string{"--unit", "u1", "--type", "t", "--node", "n1", "--peer", "gateway:1", "--state-dir", t.TempDir()}
	p := program{Extras{
		Torrents: func(c fetch.TorrentsConfig) (fetch.Torrents, error) {
			return nil, fmt.Errorf("asked for %q", c.Peers.Addresses)
		},
		Decrypter: func(keys []byte) (fetch.Decrypt, error) { return nil, fmt.Errorf("read %s", keys) },
	}}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	if status := p.run(ended, args, &stdout, &stderr); status != exitError ||
		!strings.Contains(stderr.String(), `BitTorrent: asked for ["gateway:1"]`) {
		t.Errorf("status %d, stderr %q", status, stderr.String())
	}
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	stderr.Reset()
	if status := p.run(ended, append(args, "--decrypt-key", key), &stdout, &stderr); status != exitUsage ||
		!strings.Contains(stderr.String(), "read a key") {
		t.Errorf("status %d, stderr %q", status, stderr.String())
	}
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		args   string
		status int
		out    string // part of stdout
		err    string // part of stderr
	}{
		{"version", 0, "tandem-node ", ""},
		{"--help", 0, "Example:", ""},
		{"--unit u1 --type t --node n1 --print-config", 0, "state-dir:", ""},
		{"help", 0, "Example:", ""},
		{"joyn --controller gateway:1 --token x", 2, "", "did you mean join?"},
		{"lunch", 2, "", `unexpected argument "lunch"; did you mean launch?`},
		{"--unit u1", 2, "", "--type: required"},
		{"--type t", 2, "", "--unit: required"},
		{"--nonsense", 2, "", "no such flag"},
		{"--unit u1 --type t extra", 2, "", `unexpected argument "extra"`},
		{"--unit u1 --type t --log-level loud", 2, "", "loud"},
		{"--unit u1 --type t --node n1 --broker ftp://x --state-dir " + dir, 2, "", "--broker: "},
		{"--unit u1 --type t --node n1 --state-dir " + file, 1, "", "state directory: "},
		{"--unit u1 --type t --node n1 --log-level error --broker tcp://127.0.0.1:1 --state-dir " + dir, 0, "", ""},
		{"join", 2, "", "--controller: required"},
		{"join --help", 0, "--token", ""},
		{"join --controller gateway:1 --token " + token, 2, "", "every user of this machine can read an argument"},
		{"join --controller http://gateway TANDEM_TOKEN=" + token, 2, "", "https://HOST:PORT"},
		{"join --controller gateway:1 TANDEM_TOKEN=secret", 2, "", "not a whole join token"},
		{"join --controller gateway:1 TANDEM_TOKEN=" + token[:30], 2, "", "not a whole join token"},
		{"join --controller gateway:1 " + token, 2, "", "no argument"},
		{"join --controller 127.0.0.1:1 --state-dir " + file + " TANDEM_TOKEN=" + token, 1, "", "identity: "},
		{"join --controller 127.0.0.1:1 --state-dir " + dir + " TANDEM_TOKEN=" + token, 1, "",
			"cannot reach the controller"},
		{"trust --help", 0, "--reset", ""},
		{"trust extra", 2, "", `unexpected argument "extra"`},
		{"trust --state-dir " + file, 1, "", "state file: "},
		{"trust --state-dir " + dir, 0, "believes no key yet", ""},
		{"trust --reset --state-dir " + dir, 0, "forgotten", ""},
		{"--unit u1 --type t --node n2 --state-dir " + dir, 1, "", `belongs to node "n1"`},
	} {
		t.Run(c.args, func(t *testing.T) {
			args, tok, given := strings.Cut(c.args, " TANDEM_TOKEN=")
			if given {
				t.Setenv("TANDEM_TOKEN", tok)
			}
			var stdout, stderr bytes.Buffer
			status := new(program).run(ended, strings.Fields(args), &stdout, &stderr)
			if status != c.status || !strings.Contains(stdout.String(), c.out) ||
				!strings.Contains(stderr.String(), c.err) {
				t.Errorf("status %d, stdout %q, stderr %q", status, stdout.String(), stderr.String())
			}
			if strings.Contains(stderr.String(), token[10:25]) {
				t.Errorf("stderr %q repeats the token", stderr.String())
			}
			if status != 0 && (!strings.HasPrefix(stderr.String(), "tandem-node: ") ||
				strings.Count(stderr.String(), "\n") != 1) {
				t.Errorf("stderr %q is not one line", stderr.String())
			}
		})
	}
}
