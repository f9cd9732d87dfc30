package workload

import (
	"strings"
	"testing"
)

// A resource that is unpacked is read strictly, and is what can be one: it has a checksum of SHA256, is static, and no
// hook. It reaches the node as it was written, also from a filler.
func TestUnpack(t *testing.T) {
	const sha = `"checksum":"SHA256:` + "abababababababababababababababababababababababababababababababab" + `"`
	digest := "sha256:" + strings.Repeat("cd", 32)
	const at = "/0/resources/tree/unpack"
	good := `{"diffId":"` + digest + `","size":1000}`
	hook := func(path string) string { return `{"diffId":"` + digest + `","size":1000,"path":"` + path + `"}` }
	for _, row := range []struct{ name, class, verification, unpack, path, message string }{
		{"tree", "Resource", sha, good, "", ""},
		{"tree", "Resource", sha, `{"diffId":"` + digest + `"}`, at + "/size", "missing"},
		{"tree", "Resource", sha, `{"size":1}`, at + "/diffId", "missing"},
		{"tree", "Resource", sha, `{"diffId":"sha256:AB","size":1}`, at + "/diffId", "64 lower-case"},
		{"tree", "Resource", sha, `{"diffId":"` + digest + `","size":0}`, at + "/size", "1 to"},
		{"tree", "Resource", sha, `{"diffId":"` + digest + `","size":4294967297}`, at + "/size", "1 to"},
		{"tree", "Resource", sha, `{"diffId":"` + digest + `","size":1,"x":1}`, at + "/x", "field"},
		{"tree", "Resource", `"checksum":"MD5:` + strings.Repeat("ab", 16) + `"`, good, "/0/resources", "SHA256"},
		{"tree", "DynamicResource", sha, good, "/0/resources", "a dynamic resource is a file"},
		{"iss_hook_notify", "Resource", sha, good, "/0/resources", "a hook is a file"},
		{"iss_hook_notify", "Resource", sha, hook("iss_hook_notify"), "", ""},
		{"iss_hook_notify", "Resource", sha, hook("a/b"), "/0/resources/iss_hook_notify/unpack/path", "at the top"},
		{"iss_hook_notify", "Resource", sha, hook(".."), "/0/resources/iss_hook_notify/unpack/path", "at the top"},
		{"tree", "Resource", sha, hook("x"), "/0/resources", "only a hook has a path"},
	} {
		resource := func(name, class, verification, more string) string {
			return `"` + name + `":{"@class":"` + class + `","uuid":"` + name + `","urls":["http://x/s"],"size":1,` +
				`"verification":{` + verification + `}` + more + `}`
		}
		resources := `"resources":{` + resource("iss_hook_start", "Resource", sha, "") + "," +
			resource(row.name, row.class, row.verification, `,"unpack":`+row.unpack) + "}"
		written := `[{"@class":"Instance","slot":"web@n1",` + resources + "}]"
		filled := `[{"@class":"TopologicalInstance","slot":"web@n1","properties":{"a":"b"}},` +
			`{"@class":"InstanceFiller","name":"f","instance":{"@class":"Instance",` +
			`"properties":{"a":"b"},` + resources + "}}]"
		for _, document := range []string{written, filled} {
			set, problems := Parse([]byte(document))
			var all *Filled
			if problems == nil {
				all, problems = Fill(set)
			}
			if row.path == "" {
				body, err := EncodeDocument(ForNode(all.Configs, "n1"))
				if problems != nil || err != nil {
					t.Fatalf("%v %v", problems, err)
				}
				configs, errs := ParseDocument(body, "n1")
				want := Unpack{DiffID: digest, Size: 1000}
				if row.name != "tree" {
					want.Path = row.name
				}
				if errs != nil || *configs[0].Resources[row.name].Unpack != want {
					t.Errorf("the node gets %+v, %v", configs, errs)
				}
				continue
			}
			found := false
			for _, p := range problems {
				found = found || strings.Contains(p.Message, row.message) && (document != written || p.Path == row.path)
			}
			if !found {
				t.Errorf("%s %s %s: %v", row.name, row.class, row.unpack, problems)
			}
		}
	}
}

// Two fillers that unpack one resource differently disagree.
func TestUnpackIsPartOfAResource(t *testing.T) {
	a, b := &Unpack{DiffID: "x", Size: 1}, &Unpack{DiffID: "x", Size: 2}
	for _, row := range []struct {
		a, b *Unpack
		same bool
	}{{nil, nil, true}, {a, nil, false}, {nil, a, false}, {a, b, false}, {a, &Unpack{DiffID: "x", Size: 1}, true}} {
		x, y := piece{artifact: &Artifact{Unpack: row.a}}, piece{artifact: &Artifact{Unpack: row.b}}
		if got := x.equal(y); got != row.same {
			t.Errorf("%v and %v: %v", row.a, row.b, got)
		}
	}
}
