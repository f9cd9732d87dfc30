package distribute

import (
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// TestContractUnitStatus: the example of shared/docs/wire.md is what outbox/status carries.
func TestContractUnitStatus(t *testing.T) {
	text, err := os.ReadFile("../../../shared/docs/wire.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "```json UnitStatus\n")
	example, _, end := strings.Cut(rest, "```")
	if !ok || !end {
		t.Fatal("there is no example")
	}
	var s unitStatus
	if err := json.Unmarshal([]byte(example), &s, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(&s)
	if err != nil {
		t.Fatal(err)
	}
	want := jsontext.Value(example)
	if err := want.Compact(); err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("written again it is\n%s\nthe contract has\n%s", got, want)
	}
}
