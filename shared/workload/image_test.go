package workload

import (
	"reflect"
	"strings"
	"testing"
)

var diffID = "sha256:" + strings.Repeat("cd", 32)

// An image is read as it was written, and strictly.
func TestImage(t *testing.T) {
	whole := Image{Layers: []string{diffID}, Args: []string{"/bin/sensor", ""}, Env: []string{"A=b=c", "B="},
		Variables: []string{"LEVEL_1"},
		Dir:       "/srv", UID: 1000, GID: 50, StopSignal: "SIGQUIT"}
	least := Image{Layers: []string{diffID}, Args: []string{"sensor"}}
	for _, i := range []Image{whole, least} {
		if got, problems := ParseImage(i.Encode()); problems != nil || !reflect.DeepEqual(*got, i) {
			t.Errorf("%+v %v", got, problems)
		}
	}
	good := string(whole.Encode())
	for _, dir := range []string{"/proc/self/fd/7", "/dev/fd/7", "/dev"} {
		if _, problems := ParseImage([]byte(strings.Replace(good, "/srv", dir, 1))); problems == nil {
			t.Errorf("%s: taken", dir)
		}
	}
	for more, taken := range []bool{true, false} {
		long := Image{Layers: []string{diffID}, Args: []string{"a", strings.Repeat("x", 128<<10-7+more)},
			Env: []string{"A=b"}}
		if _, problems := ParseImage(long.Encode()); (problems == nil) != taken {
			t.Errorf("%d more: %v", more, problems)
		}
	}
	for old, row := range map[string][3]string{
		diffID:               {"sha256:x", "/layers/0", "no digest"},
		`["` + diffID + `"]`: {`[]`, "/layers", "1 at least"},
		`"/bin/sensor"`:      {`""`, "", "no name"},
		`"A=b=c"`:            {`"=b"`, "/env/0", "NAME=VALUE"},
		`"B="`:               {`"B=\u0000"`, "/env/1", "zero byte"},
		`"LEVEL_1"`:          {`"LEVEL-1"`, "/variables/0", "no name of a variable"},
		`["LEVEL_1"]`:        {`[""]`, "/variables/0", "no name of a variable"},
		`"/srv"`:             {`"srv"`, "/dir", "plain path"},
		`"uid":1000`:         {`"uid":2147483648`, "/uid", "2147483647"},
		`"gid":50`:           {`"gid":50,"group":50`, "/group", "unknown field"},
		`"SIGQUIT"`:          {`"QUIT"`, "/stopSignal", "none of SIGTERM"},
	} {
		text := strings.Replace(good, old, row[0], 1)
		_, problems := ParseImage([]byte(text))
		if problems == nil {
			t.Errorf("%s: taken", text)
			continue
		}
		if e := problems.First(); e.Path != row[1] || !strings.Contains(e.Message, row[2]) {
			t.Errorf("%s: %v", text, problems)
		}
	}
}

// A configuration that runs in a container reaches its node as it was written, also from a filler; what a container
// cannot be made of is refused.
func TestContained(t *testing.T) {
	const sha = `"checksum":"SHA256:` + "abababababababababababababababababababababababababababababababab" + `"`
	unpack := `,"unpack":{"diffId":"` + diffID + `","size":1000}`
	resource := func(name, verification, more string) string {
		return `"` + name + `":{"@class":"Resource","uuid":"` + name + `","urls":["http://x/s"],"size":1,` +
			`"verification":{` + verification + `}` + more + `}`
	}
	image := resource(HookStart, sha, "")
	const crun = `"runtime":"crun","network":"node"`
	for _, row := range []struct{ container, resources, message string }{
		{crun, image + "," + resource("layer", sha, unpack), ""},
		{`"runtime":"podman"`, image, "must be crun, runc"},
		{`"runtime":"crun","network":"lan"`, image, "must be node"},
		{`"network":"node"`, image, "names its runtime"},
		{crun, image + "," + resource("iss_hook_stop", sha, ""), "no hook but"},
		{crun, image + "," + resource("file", sha, ""), "not unpacked"},
		{crun, resource(HookStart, `"checksum":"EMPTY:"`, ""), "checksum of SHA256"},
		{crun, resource(HookStart, sha, strings.Replace(unpack, `1000`, `1000,"path":"x"`, 1)),
			"no file of an archive"},
	} {
		instance := `"container":{` + row.container + `},"resources":{` + row.resources + "}"
		for _, document := range []string{`[{"@class":"Instance","slot":"web@n1",` + instance + "}]",
			`[{"@class":"TopologicalInstance","slot":"web@n1","properties":{"a":"b"}},` +
				`{"@class":"InstanceFiller","name":"f","instance":{"@class":"Instance",` +
				`"properties":{"a":"b"},` + instance + "}}]"} {
			set, problems := Parse([]byte(document))
			var all *Filled
			if problems == nil {
				all, problems = Fill(set)
			}
			if row.message != "" {
				if problems == nil || !strings.Contains(problems.Error(), row.message) {
					t.Errorf("%s: %v, want %s", row.container, problems, row.message)
				}
				continue
			}
			if problems != nil {
				t.Fatal(problems)
			}
			body, err := EncodeDocument(ForNode(all.Configs, "n1"))
			if err != nil {
				t.Fatal(err)
			}
			configs, errs := ParseDocument(body, "n1")
			if errs != nil || !configs[0].Contained() || configs[0].Container.Runtime != "crun" ||
				configs[0].Container.Network != NodeNetwork {
				t.Errorf("the node gets %+v, %v", configs, errs)
			}
		}
	}
}
