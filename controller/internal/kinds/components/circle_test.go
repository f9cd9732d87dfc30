package components

import (
	"strings"
	"testing"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/shared/wire"
)

// Components that come after each other are refused: each would wait for the other for ever.
func TestCircle(t *testing.T) {
	one := func(name, after string) string {
		return `{"node":"n","name":"` + name + `","item":"` + name + `","version":"1","hash":"` + wire.Hash(nil) +
			`","size":1,"urls":["https://h.example/x"],"after":[` + after + `]}`
	}
	for want, entries := range map[string][]string{
		"":                  {one("a", `"b","x"`), one("b", `"c"`), one("c", "")},
		"itself":            {one("a", `"a"`)},
		"a → b → a":         {one("a", `"b"`), one("b", `"a"`)},
		"b → c → d → b":     {one("a", `"b"`), one("b", `"c"`), one("c", `"d"`), one("d", `"b"`)},
		"two nodes, others": {one("a", `"b"`), strings.Replace(one("b", `"a"`), `"node":"n"`, `"node":"m"`, 1)},
	} {
		r := kind.Reading{Document: []byte(`{"formatVersion":"1","components":[` + strings.Join(entries, ",") + `]}`)}
		p := parse(r)
		refused := len(p.Problems) == 1 && strings.HasSuffix(p.Problems[0].Message, want)
		if refused != strings.Contains(want, "→") || len(p.Problems) > 1 {
			t.Errorf("%s: %v", want, p.Problems)
		}
		r.Stored = true
		if p := parse(r); len(p.Problems) > 0 {
			t.Errorf("%s, accepted before: %v", want, p.Problems)
		}
	}
}
