package proc

import (
	"bytes"
	"net"
	"net/http"
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
