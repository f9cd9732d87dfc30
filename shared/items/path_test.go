package items

import "testing"

// PATH is the node's: who set it would not find it.
func TestPathIsTheNodes(t *testing.T) {
	_, problems := Parse([]byte(`{"codename":"s","type":"service","env":{"PATH":"/opt/bin"}}`))
	if problems == nil || problems[0].Path != "/env/PATH" {
		t.Errorf("%v", problems)
	}
}
