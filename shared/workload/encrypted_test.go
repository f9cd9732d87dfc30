package workload

import (
	"strings"
	"testing"

	"tandem.internal/shared/wire"
)

// A resource that comes encrypted is read strictly, has a checksum of what is in it, and no address of BitTorrent,
// where nodes would give each other what is in it. It reaches the node as it was written.
func TestEncrypted(t *testing.T) {
	sha := `"checksum":"SHA256:` + strings.Repeat("ab", 32) + `"`
	digest := "sha256:" + strings.Repeat("cd", 32)
	const at, web = "/0/resources/iss_hook_start/encrypted", `"http://x/s"`
	good := `{"digest":"` + digest + `","size":1000}`
	for _, row := range []struct{ urls, verification, encrypted, path, message string }{
		{web, sha, good, "", ""},
		{web, sha, `{"digest":"` + digest + `"}`, at + "/size", "missing"},
		{web, sha, `{"size":1}`, at + "/digest", "missing"},
		{web, sha, `{"digest":"sha256:AB","size":1}`, at + "/digest", "64 lower-case"},
		{web, sha, `{"digest":"` + digest + `","size":0}`, at + "/size", "1 to"},
		{web, sha, `{"digest":"` + digest + `","size":1,"x":1}`, at + "/x", "field"},
		{web, `"checksum":"MD5:` + strings.Repeat("ab", 16) + `"`, good, "/0/resources", "SHA256"},
		{web + `,"magnet:?xt=urn:btih:` + strings.Repeat("ab", 20) + `"`, sha, good, "/0/resources",
			"BitTorrent would"},
	} {
		document := `[{"@class":"Instance","slot":"web@n1","resources":{"iss_hook_start":{"@class":"Resource",` +
			`"uuid":"s","urls":[` + row.urls + `],"size":1,"verification":{` + row.verification + `},"encrypted":` +
			row.encrypted + `}}}]`
		set, problems := Parse([]byte(document))
		var all *Filled
		if problems == nil {
			all, problems = Fill(set)
		}
		if row.path != "" {
			if len(problems) != 1 || problems[0].Path != row.path ||
				!strings.Contains(problems[0].Message, row.message) {
				t.Errorf("%s: %v", document, problems)
			}
			continue
		}
		body, err := EncodeDocument(ForNode(all.Configs, "n1"))
		if problems != nil || err != nil {
			t.Fatalf("%v %v", problems, err)
		}
		configs, errs := ParseDocument(body, "n1")
		got := configs[0].Resources[HookStart].Encrypted
		if errs != nil || !got.Equal(&wire.Encrypted{Digest: digest, Size: 1000}) {
			t.Errorf("the node gets %+v, %v", got, errs)
		}
	}
}

// Two fillers that have one resource come otherwise disagree.
func TestEncryptedIsPartOfAResource(t *testing.T) {
	a, b := &wire.Encrypted{Digest: "x", Size: 1}, &wire.Encrypted{Digest: "x", Size: 2}
	for _, row := range []struct {
		a, b *wire.Encrypted
		same bool
	}{{nil, nil, true}, {a, nil, false}, {nil, a, false}, {a, b, false},
		{a, &wire.Encrypted{Digest: "x", Size: 1}, true}} {
		x, y := piece{artifact: &Artifact{Encrypted: row.a}}, piece{artifact: &Artifact{Encrypted: row.b}}
		if got := x.equal(y); got != row.same {
			t.Errorf("%v and %v: %v", row.a, row.b, got)
		}
	}
}
