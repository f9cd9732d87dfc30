package proc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// grant is what tandem token create --json prints.
type grant struct{ Name, Token, URL, CA string }

// env is what the printed line sets.
func (g grant) env() []string {
	return []string{"TANDEM_URL=" + g.URL, "TANDEM_TOKEN=" + g.Token, "TANDEM_CA=" + g.CA}
}

// newToken makes a token.
func newToken(t *testing.T, u *Unit, name, role string) (g grant) {
	t.Helper()
	o := u.Tandem("token", "create", name, "--role", role, "--json")
	has(t, o, 0, "", "")
	if err := json.Unmarshal([]byte(o.Out), &g); err != nil || g.Token == "" {
		t.Fatalf("%v in %s", err, o.Out)
	}
	return g
}

// The TCP door speaks TLS, opens to who shows a token, and to nobody else; a token that is revoked ends
// at once, in a command that follows as well, and stays so.
func TestTokens(t *testing.T) {
	t.Parallel()
	u := NewUnit(t)
	addr := "127.0.0.1:" + strconv.Itoa(Port(t))
	u.StartController("--http", "https://"+addr)
	ann, eve := newToken(t, u, "ann", "operate"), newToken(t, u, "eve", "view")
	if ann.URL != "https://"+addr || !strings.HasPrefix(ann.CA, "sha256:") {
		t.Fatalf("%s %s", ann.URL, ann.CA)
	}
	pem, err := os.ReadFile(filepath.Join(u.StateDir("controller"), "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		t.Fatal("no certificate in ca.pem")
	}
	client := http.Client{Timeout: Patience, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: roots}}}
	status := func(path, auth string) int {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, "https://"+addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if auth != "" {
			r.Header.Set("Authorization", auth)
		}
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
		return res.StatusCode
	}
	for auth, want := range map[string]int{
		"": 401, "Bearer ": 401, "Basic " + ann.Token: 401, ann.Token: 401, "Bearer " +
			ann.Token[:len(ann.Token)-1]: 401,
		"Bearer " + ann.Token + "x": 401, "Bearer " + ann.Token: 200, "Bearer " + eve.Token: 200,
	} {
		if got := status("/v1/nodes", auth); got != want {
			t.Errorf("authorization %q: status %d, want %d", auth, got, want)
		}
	}
	if got := status("/healthz", ""); got != 200 {
		t.Errorf("healthz: %d", got)
	}
	tandem := func(env []string, args ...string) Output {
		return Run(t, u.Dir, env, append([]string{Binary(t, "tandem")}, args...)...)
	}
	has(t, tandem(ann.env(), "nodes"), 0, "", "")
	has(t, tandem(ann.env()[:2], "nodes"), 3, "", "--ca")
	has(t, tandem([]string{"TANDEM_URL=" + ann.URL, "TANDEM_CA=" + ann.CA}, "nodes"), 1, "", "token")
	has(t, tandem(append(ann.env()[:2:2], "TANDEM_CA=sha256:"+strings.Repeat("0", 64)), "nodes"), 3, "",
		"nothing was sent")
	has(t, tandem(eve.env(), "token", "list"), 1, "", "admin")

	document := filepath.Join(u.Dir, "unit.json")
	if err := os.WriteFile(document, Document("1.0.0", 1), 0o600); err != nil {
		t.Fatal(err)
	}
	has(t, tandem(eve.env(), "config", "apply", document), 1, "", "the role view")
	has(t, tandem(ann.env(), "config", "apply", document), 0, "accepted", "")
	has(t, u.Tandem("config", "history"), 0, "token/ann", "")

	// A command that follows ends with its token.
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	follower := exec.CommandContext(ctx, Binary(t, "tandem"), "events", "--follow")
	follower.Env = ann.env()
	out, err := follower.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaint strings.Builder
	follower.Stderr = &complaint
	if err := follower.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // it follows
		t.Fatal(err)
	}
	has(t, u.Tandem("token", "revoke", "ann"), 0, "", "")
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Error(err)
	}
	if err := follower.Wait(); err == nil || !strings.Contains(complaint.String(), "revoked") {
		t.Errorf("the follower ended with %v: %s", err, complaint.String())
	}
	has(t, tandem(ann.env(), "nodes"), 1, "", "revoked")
	u.Controller.Kill()
	u.StartController("--http", "https://"+addr)
	has(t, tandem(ann.env(), "nodes"), 1, "", "revoked")
	has(t, tandem(eve.env(), "nodes"), 0, "", "")
	for _, g := range []grant{ann, eve} {
		if strings.Contains(u.Controller.Log(), g.Token) {
			t.Error("a token is in the log")
		}
	}
}
