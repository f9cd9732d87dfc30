package cli

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/shared/workload"
)

const samples = "../../../deploy/samples/workloads/"

// sloppy lacks a comma and a size, and has a comma too many.
const sloppy = `[
  {
    "@class": "Instance"
    "slot": "web@node-1",
    "resources": {
      "iss_hook_start": {"@class": "Resource", "uuid": "w", "urls": ["http://127.0.0.1/w"], "verification": {}},
    }
  }
]
`

// more disagrees with a filler of the samples.
const more = `[
  {"@class": "InstanceFiller", "name": "more",
   "filter": "instance[slot/node = 'node-2']", "instance": {"properties": {}, "resources": {
    "iss_hook_start": {"@class": "Resource", "uuid": "more", "urls": ["http://127.0.0.1/more"],
       "size": 0, "verification": {}}}}}
]
`

// TestHello: the sample that can be run names the file that ships with it.
func TestHello(t *testing.T) {
	data, err := os.ReadFile(samples + "hello.json")
	if err != nil {
		t.Fatal(err)
	}
	set, problems := workload.Parse(data)
	if problems != nil {
		t.Fatal(problems)
	}
	filled, problems := workload.Fill(set)
	if problems != nil || len(filled.Configs) != 1 {
		t.Fatal(filled, problems)
	}
	r := filled.Configs[0].Resources["iss_hook_start"]
	file, err := os.ReadFile(samples + "files/" + path.Base(r.URLs[0]))
	if err != nil {
		t.Fatal(err)
	}
	if sum := fmt.Sprintf("SHA256:%x", sha256.Sum256(file)); sum != r.Verification.Checksum ||
		int64(r.Size) != int64(len(file)) {
		t.Errorf("%s, %d bytes; the sample says %s, %d", sum, len(file), r.Verification.Checksum, r.Size)
	}
}

// TestWorkloadFill runs the command as a person does, for people and as JSON.
func TestWorkloadFill(t *testing.T) {
	for _, c := range []struct{ name, args string }{
		{"workload-fill", "TOPOLOGY FILLERS"},
		{"workload-fill-explain", "TOPOLOGY FILLERS --explain"},
		{"workload-fill-applicable", "APPLICABLE"},
		{"workload-fill-slot", "TOPOLOGY FILLERS --explain --slot camera@node-2"},
		{"workload-fill-slot-misspelt", "TOPOLOGY FILLERS --slot camra@node-2"},
		{"workload-fill-slot-malformed", "TOPOLOGY FILLERS --slot camera"},
		{"workload-fill-no-filler", "TOPOLOGY"},
		{"workload-fill-fillers-alone", "FILLERS"},
		{"workload-fill-sloppy", "SLOPPY"},
		{"workload-fill-lenient", "SLOPPY --lenient"},
		{"workload-fill-twice", "TOPOLOGY TOPOLOGY FILLERS"},
		{"workload-fill-disagree", "TOPOLOGY FILLERS MORE"},
		{"workload-fill-no-file", "DIR/none.json"},
		{"workload-fill-nothing", ""},
	} {
		for _, suffix := range []string{"", "-json"} {
			t.Run(c.name+suffix, func(t *testing.T) {
				b := newBench(t, apitest.StartSample(t))
				b.env["TANDEM_SOCKET"] = b.dir + "/none" // no controller is asked
				copied := func(name string) string {
					data, err := os.ReadFile(samples + name)
					if err != nil {
						t.Fatal(err)
					}
					return b.write(name, string(data))
				}
				files := strings.NewReplacer("TOPOLOGY", copied("topology.json"), "FILLERS", copied("fillers.json"),
					"APPLICABLE", copied("applicable.json"), "SLOPPY", b.write("sloppy.json", sloppy), "MORE",
					b.write("more.json", more), "DIR", b.dir)
				args := append([]string{"workload", "fill"}, strings.Fields(files.Replace(c.args))...)
				b.golden(t, c.name, suffix, args)
			})
		}
	}
}

// TestWorkloadFillOutputIsInput: what --json prints can be read and filled again, to the same.
func TestWorkloadFillOutputIsInput(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	first, stderr, exit := b.run("", "workload", "fill", samples+"topology.json", samples+"fillers.json", "--json")
	if exit != 0 || stderr != "" {
		t.Fatalf("%d %s", exit, stderr)
	}
	if set, ps := workload.Parse([]byte(first)); ps != nil || len(set.Configs) != 3 {
		t.Fatalf("%v", ps)
	}
	again, stderr, exit := b.run(first, "workload", "fill", "-", "--json")
	if exit != 0 || again != first {
		t.Errorf("%d %s\n%s\n%s", exit, stderr, first, again)
	}
}
