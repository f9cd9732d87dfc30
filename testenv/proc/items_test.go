package proc

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// released is what the test reads of an item.
type released struct {
	Items []struct {
		Type     string `json:"type"`
		Codename string `json:"codename"`
		URN      string `json:"urn"`
		Versions []struct {
			Version string `json:"version"`
			State   string `json:"state"`
			Digest  string `json:"digest"`
		} `json:"versions"`
	} `json:"items"`
}

// TestSampleUnitIsLoaded: the commands of the document bring the sample of a unit into a controller, once and again;
// after a kill everything is there, and what was released is still in the store.
func TestSampleUnitIsLoaded(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(Root(t), "shared/docs/items.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```sh\ncd deploy/samples/unit\n")
	block, _, ok := strings.Cut(block, "```")
	if !ok {
		t.Fatal("the document does not say how the sample is loaded")
	}
	u := NewUnit(t)
	u.StartController()
	env := []string{"TANDEM_SOCKET=" + u.Socket,
		"PATH=" + filepath.Dir(Binary(t, "tandem")) + ":" + os.Getenv("PATH")}
	shell := func(script string) Output {
		t.Helper()
		return Run(t, filepath.Join(Root(t), "deploy/samples/unit"), env, "/bin/sh", "-e", "-c", script)
	}
	if o := shell(block); o.Status != 0 {
		t.Fatalf("status %d\n%s%s", o.Status, o.Out, o.Errors)
	}
	list := func() (v released, text string) {
		t.Helper()
		o := u.Tandem("item", "list", "--json")
		if err := json.Unmarshal([]byte(o.Out), &v); err != nil || o.Status != 0 {
			t.Fatalf("%v: %s%s", err, o.Out, o.Errors)
		}
		return v, o.Out
	}
	v, before := list()
	var got []string
	for _, it := range v.Items {
		line := it.Type + "/" + it.Codename
		for _, of := range it.Versions {
			line += " " + of.Version + " " + of.State
		}
		got = append(got, line)
		if !strings.HasPrefix(it.URN, "urn:uuid:") || len(it.URN) != len("urn:uuid:")+36 {
			t.Errorf("the URN of %s is %q", it.Codename, it.URN)
		}
	}
	const want = "component/firmware 2.1.0 ready, layer/python 3.12.4 ready 3.13.1 ready, " +
		"service/sensor 1.4.0 ready 2.0.0-rc.1 ready, service/sensor-default 1.0.0 ready"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("%s\nwant %s", text, want)
	}

	u.Controller.Kill()
	u.StartController()
	if _, after := list(); after != before {
		t.Errorf("after a kill\n%s\nbefore\n%s", after, before)
	}
	if o := u.Tandem("subject", "list"); strings.Count(o.Out, "\n") != 4 {
		t.Errorf("%s%s", o.Out, o.Errors)
	}
	_, releases, _ := strings.Cut(block, "done\n") // the items are there
	if o := shell(releases); o.Status != 0 || !strings.Contains(o.Out, "is there already, just so") {
		t.Errorf("again: status %d\n%s%s", o.Status, o.Out, o.Errors)
	}
	status, answer, err := u.request(http.MethodGet, "/v1/artefacts", nil)
	if err != nil || status != http.StatusOK || !strings.Contains(string(answer), `"service sensor 1.4.0"`) {
		t.Errorf("%d %v %s", status, err, answer)
	}
}
