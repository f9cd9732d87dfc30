package api_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
)

// shapes are the types that examples of the document are read by.
var shapes = map[string]func() any{
	"Rollback":       func() any { return new(op.Rollback) },
	"Result":         func() any { return new(view.Result) },
	"ConfigStatus":   func() any { return new(view.ConfigStatus) },
	"History":        func() any { return new(op.History) },
	"Resolved":       func() any { return new(view.Resolved) },
	"Explanation":    func() any { return new(view.Explanation) },
	"Certification":  func() any { return new(view.Certification) },
	"Certificate":    func() any { return new(view.Certificate) },
	"Disown":         func() any { return new(op.Disown) },
	"Enroll":         func() any { return new(op.Enroll) },
	"Enrolment":      func() any { return new(view.Enrolment) },
	"Revoke":         func() any { return new(op.Revoke) },
	"Nodes":          func() any { return new(op.Nodes) },
	"Verification":   func() any { return new(op.Verification) },
	"UnitStatus":     func() any { return new(view.UnitStatus) },
	"NewToken":       func() any { return new(op.NewToken) },
	"Grant":          func() any { return new(view.Grant) },
	"Tokens":         func() any { return new(op.Tokens) },
	"Token":          func() any { return new(view.Token) },
	"Keys":           func() any { return new(view.Keys) },
	"RotateKey":      func() any { return new(op.RotateKey) },
	"RetireKey":      func() any { return new(op.RetireKey) },
	"NodeHealth":     func() any { return new(view.NodeHealth) },
	"SetHealth":      func() any { return new(op.SetHealth) },
	"Scope":          func() any { return new(view.Scope) },
	"SettingsChange": func() any { return new(view.SettingsChange) },
	"HealthSettings": func() any { return new(view.HealthSettings) },
	"NodeSettings":   func() any { return new(view.NodeSettings) },
	"Reboot":         func() any { return new(op.Reboot) },
	"Try":            func() any { return new(op.Try) },
	"Approve":        func() any { return new(op.Approve) },
	"Ordered":        func() any { return new(view.Ordered) },
	"Maintain":       func() any { return new(op.Maintain) },
	"Maintenance":    func() any { return new(op.Maintenance) },
	"WorkloadStatus": func() any { return new(view.WorkloadStatus) },
	"Slots":          func() any { return new(op.Slots) },
	"Logs":           func() any { return new(view.Logs) },
	"Problem":        func() any { return new(op.Problem) },
	"Entry":          func() any { return new(view.Entry) },
	"NodeChange":     func() any { return new(op.NodeChange) },
}

// TestDocument: shared/docs/http.md names every route and no other, and its examples are what the
// types read.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../../shared/docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{} // the role for each route
	var shown []string
	var block []string
	kind := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "```") && kind == "":
			kind, block = strings.TrimPrefix(line, "```"), nil
		case line == "```":
			format, shape, _ := strings.Cut(kind, " ")
			kind = ""
			shown = append(shown, shape)
			if shapes[shape] == nil {
				t.Errorf("an example of %q, which is no shape of the API", shape)
				continue
			}
			if format == "json" {
				block = []string{strings.Join(block, "\n")}
			}
			for _, example := range block {
				if example == "" {
					continue // a keep-alive
				}
				v := shapes[shape]()
				if err := json.Unmarshal([]byte(example), v, json.RejectUnknownMembers(true)); err != nil {
					t.Errorf("%s: %v\n%s", shape, err, example)
				}
			}
		case kind != "":
			block = append(block, line)
		case strings.HasPrefix(line, "| `"):
			role := strings.TrimSpace(strings.Split(line, "|")[2])
			documented[strings.Split(line, "`")[1]] = strings.ReplaceAll(role, "anybody", "")
		}
	}
	for shape := range shapes {
		if !slices.Contains(shown, shape) {
			t.Errorf("there is no example of %s", shape)
		}
	}
	routes := api.New(apitest.New(apitest.State{}), api.Config{}).Routes()
	for r, role := range routes {
		if got, ok := documented[r]; !ok {
			t.Errorf("%s is not documented", r)
		} else if got != role {
			t.Errorf("%s is documented for the role %q, and needs %q", r, got, role)
		}
	}
	for r := range documented {
		if _, ok := routes[r]; !ok {
			t.Errorf("%s is documented, but does not exist", r)
		}
	}
}
