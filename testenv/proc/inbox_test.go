package proc

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/rawmqtt"
)

// submitByMQTT publishes a document in the cloud side's name; when it returns, the controller has taken
// the message, or discarded it.
func (u *Unit) submitByMQTT(what string, document []byte) {
	u.t.Helper()
	conn, err := new(net.Dialer).DialContext(u.t.Context(), "tcp", "127.0.0.1:"+strconv.Itoa(u.Port))
	if err != nil {
		u.t.Fatal(err)
	}
	c, err := rawmqtt.New(conn, rawmqtt.Hello{ClientID: "cloud/eu", User: "cloud/eu", Password: cloudPassword})
	if err != nil {
		u.t.Fatal(err)
	}
	defer c.Leave()
	m := wire.Submission{V: wire.Version, ID: "s-" + what, From: "cloud", Document: jsontext.Value(document)}
	if err := c.Publish(topic.ForInbox("u1", what), string(wire.Encode(&m)), false); err != nil {
		u.t.Fatal(err)
	}
}

const cloudPassword = "secret-of-eu"

// A submission over MQTT proves no sender: a controller does nothing with it unless it is started with
// --inbox.
func TestInboxIsOffUnlessAsked(t *testing.T) {
	workloads := []byte(`[{"@class":"Instance","configurationId":"a","slot":"web@n1",
		"resources":{"iss_hook_start":{"@class":"Resource","uuid":"s","urls":["http://127.0.0.1/x"],"size":0,
		"verification":{"checksum":"EMPTY:","checkPeriod":"0d0h0m"}}}}]`)
	env := []string{"TANDEM_PASSWORDS=cloud/eu=" + cloudPassword}
	u := NewUnit(t)
	verdicts := func() (all []string) {
		t.Helper()
		status, lines, err := u.request(http.MethodGet, "/v1/events?limit=1000", nil)
		if err != nil || status != http.StatusOK {
			t.Fatalf("status %d: %v", status, err)
		}
		for line := range bytes.Lines(lines) {
			var e controller.Entry
			if err := json.Unmarshal(line, &e); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if slices.Contains([]string{"accepted", "refused", "trouble"}, e.Type) {
				all = append(all, e.Type+" "+string(e.Data))
			}
		}
		return all
	}

	u.Controller = Start(t, "controller", env, u.ControllerArgs()...)
	u.AwaitReady()
	u.submitByMQTT("config", Document("1.0.0", 1))
	u.submitByMQTT("workloads", workloads)
	u.Controller.Stop() // it judges first what it has taken

	u.StartController()
	if all := verdicts(); len(all) > 0 {
		t.Fatalf("without --inbox, what came by MQTT is in the journal: %q", all)
	}
	u.Controller.Stop()

	u.Controller = Start(t, "controller", env, u.ControllerArgs("--inbox")...)
	u.AwaitReady()
	u.submitByMQTT("config", Document("1.0.0", 1))
	u.submitByMQTT("workloads", workloads)
	Until(t, "both submissions are accepted", func() string {
		all := verdicts()
		if len(all) != 2 || !strings.HasPrefix(all[0], "accepted") || !strings.HasPrefix(all[1], "accepted") {
			return "the journal has " + strings.Join(all, "\n")
		}
		return ""
	})
}

// The example for a cloud side makes a key, submits with it, and believes only the controller.
func TestSubmitInPython(t *testing.T) {
	const python = "/usr/bin/python3"
	if out, err := exec.Command(python, "-c", "import paho.mqtt.client, cryptography").CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s", out)
		}
		fmt.Fprintf(os.Stderr, "SKIPPED: the example of a cloud side is NOT tested: %s\n", out)
		t.Skip("no paho-mqtt or cryptography")
	}
	u := NewUnit(t)
	file := func(name string, text []byte) string {
		path := filepath.Join(u.Dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	script := func(env []string, args ...string) Output {
		t.Helper()
		return Run(t, u.Dir, env, append([]string{python, "-B",
			filepath.Join(Root(t), "deploy", "cloud", "submit.py")}, args...)...)
	}
	key := filepath.Join(u.Dir, "fleet.pem")
	made := script(nil, "key", key, "--name", "fleet")
	if made.Status != 0 {
		t.Fatalf("%+v", made)
	}
	submitters := file("submitters", []byte(made.Out))
	u.Controller = Start(t, "controller", []string{"TANDEM_PASSWORDS=cloud/eu=" + cloudPassword},
		u.ControllerArgs("--inbox", "--submitters", submitters)...)
	u.AwaitReady()
	status, data, err := u.request(http.MethodGet, "/v1/keys", nil)
	var keys struct {
		Keys []struct {
			Ed25519 string `json:"ed25519"`
		} `json:"keys"`
	}
	if err != nil || status != http.StatusOK || json.Unmarshal(data, &keys) != nil || len(keys.Keys) == 0 {
		t.Fatalf("%s, %v", data, err)
	}
	submits := func(document, key, controllerKey string, more ...string) Output {
		t.Helper()
		return script([]string{"TANDEM_PASSWORD=" + cloudPassword}, append([]string{"submit", document, "--key", key,
			"--unit", "u1", "--broker", "tcp://127.0.0.1:" + strconv.Itoa(u.Port), "--user", "cloud/eu",
			"--controller-key", controllerKey}, more...)...)
	}
	shows := func(controllerKey string, more ...string) Output {
		t.Helper()
		return script([]string{"TANDEM_PASSWORD=" + cloudPassword}, append([]string{"status", "--unit", "u1",
			"--broker", "tcp://127.0.0.1:" + strconv.Itoa(u.Port), "--user", "cloud/eu",
			"--controller-key", controllerKey}, more...)...)
	}
	good := file("good.json", append(Document("1.0.0", 1), "\n\n"...))
	for _, c := range []struct {
		name   string
		out    Output
		status int
		text   string
	}{
		{"good", submits(good, key, keys.Keys[0].Ed25519), 0, `"accepted"`},
		{"the same again", submits(good, key, keys.Keys[0].Ed25519), 2, `"already-exists"`},
		{"another controller", submits(good, key, base64.StdEncoding.EncodeToString(make([]byte, 32)), "--wait",
			"2"), 3, "not signed"},
		{"a trial by force", submits(file("try.json", Document("2.0.0", 1)), key, keys.Keys[0].Ed25519, "--try", "PT1H",
			"--force"), 0, `"accepted"`},
		{"a policy", submits(file("all.json", []byte(`{"enabled":true}`)), key, keys.Keys[0].Ed25519, "--kind",
			"policies", "--name", "all"), 2, `every node`},
		{"a policy, confirmed", submits(file("all.json", []byte(`{"enabled":true}`)), key, keys.Keys[0].Ed25519,
			"--kind", "policies", "--name", "all", "--all-nodes"), 0, `"accepted"`},
		{"a stranger", submits(good, func() string {
			other := filepath.Join(u.Dir, "other.pem")
			if out := script(nil, "key", other); out.Status != 0 {
				t.Fatalf("%+v", out)
			}
			return other
		}(), keys.Keys[0].Ed25519), 2, `"unknown-key"`},
		{"no JSON", submits(file("bad.json", []byte("{")), key, keys.Keys[0].Ed25519), 2, "bad.json is no JSON: "},
		{"the status", shows(keys.Keys[0].Ed25519), 0, `"trial": {"version": "2.0.0"`},
		{"another controller's status", shows(base64.StdEncoding.EncodeToString(make([]byte, 32)), "--wait", "2"), 3,
			"not signed"},
	} {
		if c.out.Status != c.status || !strings.Contains(c.out.Out+c.out.Errors, c.text) {
			t.Errorf("%s: %+v", c.name, c.out)
		}
	}
}
