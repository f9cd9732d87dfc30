package proc

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const token = "correct-horse-battery-staple"

// The TCP door opens to who shows a token, and to nobody else.
func TestTokens(t *testing.T) {
	t.Parallel()
	u := NewUnit(t)
	tokens := filepath.Join(u.Dir, "tokens")
	if err := os.WriteFile(tokens, []byte(token+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	addr := "127.0.0.1:" + strconv.Itoa(Port(t))
	flags := []string{"--http", addr, "--http-token-file", tokens}
	has(t, Run(t, u.Dir, nil, u.ControllerArgs(flags...)...), 1, "", "chmod")
	if err := os.Chmod(tokens, 0o600); err != nil {
		t.Fatal(err)
	}
	u.StartController(flags...)
	status := func(path, auth string) int {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, "http://"+addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if auth != "" {
			r.Header.Set("Authorization", auth)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
		return res.StatusCode
	}
	for auth, want := range map[string]int{
		"": 401, "Bearer ": 401, "Bearer wrong-horse-battery-staple": 401, "Basic " + token: 401, token: 401,
		"Bearer " + token[:len(token)-1]: 401, "Bearer " + token + "x": 401, "Bearer " + token: 200,
	} {
		if got := status("/v1/nodes", auth); got != want {
			t.Errorf("authorization %q: status %d, want %d", auth, got, want)
		}
	}
	if got := status("/healthz", ""); got != 200 {
		t.Errorf("healthz: %d", got)
	}
	tandem := func(env ...string) Output {
		return Run(t, u.Dir, env, Binary(t, "tandem"), "--url", "http://"+addr, "nodes")
	}
	has(t, tandem(), 1, "", "")
	has(t, tandem("TANDEM_TOKEN="+token), 0, "", "")
	has(t, Run(t, u.Dir, nil, Binary(t, "tandem"), "--url", "http://"+addr, "--token-file", tokens, "nodes"), 0, "", "")
	if strings.Contains(u.Controller.Log(), token) {
		t.Error("the token is in the log")
	}
}
