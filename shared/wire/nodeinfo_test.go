package wire

import (
	"fmt"
	"strings"
	"testing"
)

// What a node tells for placement keeps the bounds of the format that placement reads, each thing once.
func TestNodeOffers(t *testing.T) {
	many := func(n int, each string) string {
		var all []string
		for i := range n {
			all = append(all, strings.ReplaceAll(each, "N", fmt.Sprint(i)))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	runtime := `{"id":"N","type":"t","architecture":"a"}`
	long := strings.Repeat("x", 129)
	for _, row := range [][2]string{
		{`"cpu":-1`, "/cpu"},
		{`"cpu":1073741825`, "/cpu"},
		{`"runtimes":` + many(65, runtime), "/runtimes"},
		{`"runtimes":[` + runtime + "," + runtime + "]", "/runtimes/1/id"},
		{`"runtimes":[{"id":"","type":"t","architecture":"a"}]`, "/runtimes/0/id"},
		{`"runtimes":[{"id":"i","type":"` + long + `","architecture":"a"}]`, "/runtimes/0/type"},
		{`"runtimes":[{"id":"i","type":"t","architecture":"a","osFeatures":[""]}]`, "/runtimes/0/osFeatures/0"},
		{`"runtimes":[{"id":"i","type":"t","architecture":"a","cpu":-1}]`, "/runtimes/0/cpu"},
		{`"runtimes":[{"id":"i","type":"t","architecture":"a","ram":1125899906842625}]`, "/runtimes/0/ram"},
		{`"runtimes":[{"id":"i","type":"t","architecture":"a","maxInstances":1000001}]`, "/runtimes/0/maxInstances"},
		{`"resources":` + many(257, `{"name":"N"}`), "/resources"},
		{`"resources":[{"name":"a"},{"name":"a"}]`, "/resources/1/name"},
		{`"devices":[{"name":"` + long + `"}]`, "/devices/0/name"},
		{`"devices":[{"name":"a","shared":-1}]`, "/devices/0/shared"},
		{`"partitions":[{"name":"a","path":"/a","size":1,"types":["storage"]},{"name":"b","path":"/b","size":1,` +
			`"types":["state","storage"]}]`, "/partitions/1/types/1"},
		{`"subjects":` + many(1025, `"sN"`), "/subjects"},
		{`"subjects":["a","a"]`, "/subjects/1"},
		{`"subjects":["a b"]`, "/subjects/0"},
		{`"runtimes":` + many(64, runtime) + `,"resources":` + many(256, `{"name":"N"}`) +
			`,"subjects":` + many(1024, `"sN"`), ""},
	} {
		_, err := Decode[NodeInfo]([]byte(`{"type":"t","os":"l","arch":"a","cpus":1,"ram":1,"agentVersion":"1",` +
			row[0] + "}"))
		path := ""
		if err != nil {
			path = AsError(err).Path
		}
		if (err == nil) != (row[1] == "") || path != row[1] {
			t.Errorf("%.80s: %v, want it at %q", row[0], err, row[1])
		}
	}
}
