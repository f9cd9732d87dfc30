package unitconfig

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"tandem.internal/shared/wire"
)

func TestExplain(t *testing.T) {
	uc := parsed(t, "fleet.json")
	for _, tt := range []struct {
		node, typ, ptr   string
		value, from, why string
	}{
		{"cam-8", "camera", "/alertRules/ram/maxThreshold", `0.75`, "/nodes/1/alertRules/ram/maxThreshold",
			`node type "camera"`},
		{"cam-8", "camera", "/alertRules/ram/minTimeout", `"PT0S"`, "/nodes/1/alertRules/ram", "zero or none"},
		{"cam-8", "camera", "/alertRules/partitions/1/name", `"a/b~c"`, "/nodes/1/alertRules/partitions/1/name",
			"camera"},
		{"cam-8", "camera", "/alertRules/ram", `{"minTimeout":"PT0S","minThreshold":0.5,"maxThreshold":0.75}`,
			"/nodes/1/alertRules/ram", "camera"},
		{"cam-8", "camera", "/resourceRatios/cpu", `0`, "/nodes/1/resourceRatios/cpu", "camera"},
		{"cam-8", "camera", "/resourceRatios/ram", `50`, "", "resourceRatios without ram, which is then 50"},
		{"cam-8", "camera", "/priority", `0`, "", "no priority or 0"},
		{"cam-8", "camera", "/version", `"3.1.0-rc.1"`, "/version", "the unit configuration's own version"},
		{"cam-8", "camera", "/formatVersion", `"7"`, "/formatVersion", "own formatVersion"},
		{"cam-7", "camera", "/priority", `9`, "/nodes/0/priority", `the entry for node "cam-7"`},
		{"cam-7", "whatever", "/node/codename", `"cam-7"`, "/nodes/0/node/codename", "cam-7"},
		{"cam-7", "camera", "/labels/0", `"rear"`, "/nodes/0/labels/0", "cam-7"},
		{"lone", "none", "/node/codename", `"lone"`, "", `no entry names node "lone" or node type "none"`},
		{"lone", "none", "/priority", `0`, "", "default"},
		{"lone", "none", "/version", `"3.1.0-rc.1"`, "/version", "own"},
		{"gw", "", "", `{"formatVersion":"7","version":"3.1.0-rc.1","node":{"codename":"gw"},` +
			`"nodeGroupSubject":{"codename":"gateway"},"priority":0}`, "/nodes/3", "gw"},
	} {
		x, err := Explain(uc, tt.node, tt.typ, tt.ptr)
		if err != nil || string(x.Value) != tt.value || x.From != tt.from || x.Pointer != tt.ptr ||
			!strings.Contains(x.Why, tt.why) {
			t.Errorf("%s of %s: %+v (%s), %v; want %s from %s (%s)", tt.ptr, tt.node, x, x.Value, err, tt.value,
				tt.from, tt.why)
		}
	}
}

func TestExplainRefuses(t *testing.T) {
	uc := parsed(t, "fleet.json")
	for _, tt := range []struct {
		node, typ, ptr string
		code           wire.Code
		message        string
	}{
		{"cam-8", "camera", "/alertRules/ram/maxTreshold", wire.CodeNotFound, "did you mean " +
			"/alertRules/ram/maxThreshold?"},
		{"cam-8", "camera", "/alertrules/ram", wire.CodeNotFound, "did you mean /alertRules/ram?"},
		{"cam-8", "camera", "/alertRules/partitions/7", wire.CodeNotFound, "did you mean /alertRules/partitions"},
		{"cam-8", "camera", "/alertRules/ram/somethingElse", wire.CodeNotFound, "/alertRules/ram has maxThreshold, " +
			"minThreshold, minTimeout"},
		{"cam-8", "camera", "/x", wire.CodeNotFound, "the document has alertRules, formatVersion"},
		{"lone", "none", "/alertRules/ram/maxThreshold", wire.CodeNotFound, "gets the default"},
		{"cam-8", "camera", "alertRules", wire.CodeInvalidArgument, "not a JSON pointer"},
		{"cam-8", "camera", "/a~2", wire.CodeInvalidArgument, "not a JSON pointer"},
		{"cam-8", "camera", "/", wire.CodeNotFound, "the document has"},
		{"cam-8", "camera", strings.Repeat("/a", 1<<20), wire.CodeNotFound, "the document has"},
	} {
		_, err := Explain(uc, tt.node, tt.typ, tt.ptr)
		w, ok := errors.AsType[*wire.Error](err)
		if !ok || w.Code != tt.code || !strings.Contains(w.Message, tt.message) {
			t.Errorf("%.40s of %s: %v", tt.ptr, tt.node, err)
		}
	}
}

// Every value of every resolved document is explained, and what is said to be in the unit
// configuration is there, with that value.
func TestExplainEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		uc := configs().Draw(t, "uc")
		node, typ := drawTarget(t, uc)
		unit := valuesOf(Encode(uc))
		walk("", EncodeNode(first(Resolve(uc, node, typ))), func(ptr string, v jsontext.Value) {
			x, err := Explain(uc, node, typ, ptr)
			if err != nil {
				t.Fatalf("%s: %v", ptr, err)
			}
			if string(x.Value) != string(v) {
				t.Fatalf("%s is %s, explained as %s", ptr, v, x.Value)
			}
			if x.From == "" {
				return
			}
			there, ok := unit.at[x.From]
			if !ok {
				t.Fatalf("%s is said to come from %s, which does not exist", ptr, x.From)
			}
			if leaf(v) && strings.HasSuffix(x.From, ptr) && string(there) != string(v) {
				t.Fatalf("%s is %s, but %s is %s", ptr, v, x.From, there)
			}
		})
	})
}

func first[A, B any](a A, _ B) A { return a }
