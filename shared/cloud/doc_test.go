package cloud_test

import (
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tandem.internal/shared/cloud"
)

// TestDocumentedMessages: the examples of items.md are read as they stand there, and have every member that there is.
func TestDocumentedMessages(t *testing.T) {
	text, err := os.ReadFile("../docs/items.md")
	if err != nil {
		t.Fatal(err)
	}
	example := func(heading, fence string) []byte {
		t.Helper()
		_, part, _ := strings.Cut(string(text), "\n## "+heading+"\n")
		_, body, _ := strings.Cut(part, "```"+fence+"\n")
		body, _, ok := strings.Cut(body, "\n```")
		if !ok {
			t.Fatalf("%s has no example", heading)
		}
		return []byte(body)
	}
	d, werr := cloud.ParseDesired(example("A cloud side steers", "json DesiredStatus"))
	if werr != nil {
		t.Fatal(werr)
	}
	if len(d.Nodes)*len(d.Items)*len(d.Instances)*len(d.Subjects)*len(d.UnitConfig) == 0 ||
		d.Instances[0].Priority == nil || d.Items[0].IndexDigest == "" {
		t.Errorf("%s", d.Canonical())
	}
	var s cloud.UnitStatus
	if err := json.Unmarshal(example("Unit status", "json"), &s, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	if len(s.Nodes)*len(s.Items)*len(s.Instances)*len(s.Subjects)*len(s.UnitConfig) == 0 {
		t.Errorf("%s", s.Encode())
	}
}
