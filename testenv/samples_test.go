package testenv

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tandem.internal/shared/policy"
	"tandem.internal/shared/workload"
)

// The set of workloads in the documents, pasted, is the sample, and the sample is about the file beside it.
func TestWorkloadsInTheDocuments(t *testing.T) {
	text, err := os.ReadFile("../shared/docs/workloads.md")
	if err != nil {
		t.Fatal(err)
	}
	_, pasted, _ := strings.Cut(string(text), "```json\n")
	pasted, _, ok := strings.Cut(pasted, "```")
	sample, err := os.ReadFile("../deploy/samples/workloads/hello.json")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	var sets [2]*workload.Set
	var plain [2]any
	for i, data := range []string{pasted, string(sample)} {
		set, problems := workload.Parse([]byte(data))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if err := json.Unmarshal([]byte(data), &plain[i]); err != nil {
			t.Fatal(err)
		}
		sets[i] = set
	}
	if !reflect.DeepEqual(plain[0], plain[1]) {
		t.Errorf("the documents have %v, the sample is %v", plain[0], plain[1])
	}
	program, err := os.ReadFile(filepath.Join("../deploy/samples/workloads/files", "hello"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(program)
	r := sets[0].Configs[0].Resources["iss_hook_start"]
	if want := "SHA256:" + hex.EncodeToString(sum[:]); r.Size != int64(len(program)) ||
		!strings.EqualFold(r.Verification.Checksum, want) {
		t.Errorf("the documents say %d bytes with %s; the file has %d with %s", r.Size, r.Verification.Checksum,
			len(program), want)
	}
}

// The samples of policies, nodes and properties are read by what the programs read them with.
func TestPoliciesInTheSamples(t *testing.T) {
	files, err := filepath.Glob("../deploy/samples/policies/*.json")
	if err != nil {
		t.Fatal(err)
	}
	policies, nodes := map[string]*policy.Policy{}, map[string]*policy.Node{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var problems policy.Problems
		switch name := strings.TrimSuffix(filepath.Base(file), ".json"); {
		case name == "properties":
			_, problems = policy.ParseProperties(data)
		case strings.HasPrefix(name, "node-"):
			nodes[name], problems = policy.ParseNode(data)
		default:
			policies[name], problems = policy.Parse(data, nil)
		}
		if problems != nil {
			t.Errorf("%s: %v", file, problems)
		}
	}
	hits := 0
	for name, p := range policies {
		for on, n := range nodes {
			if t.Failed() {
				return
			}
			if got, want := policy.Match(p, n).Hits, name == strings.TrimPrefix(on, "node-")+"s"; got != want {
				t.Errorf("%s hits %s: %v", name, on, got)
			} else if got {
				hits++
			}
		}
	}
	if hits != 2 {
		t.Errorf("%d hits of %d policies on %d nodes", hits, len(policies), len(nodes))
	}
}
