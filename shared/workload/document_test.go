package workload

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"tandem.internal/shared/wire"
)

func started(service, node string) Config {
	return Config{Class: Instance, Slot: Slot{service, node}, Properties: map[string]string{"port": service},
		Resources: map[string]Artifact{HookStart: {Class: Resource, UUID: "start",
			URLs: []string{"http://127.0.0.1/start"}, Size: 10,
			Verification: Verification{Checksum: "MD5:9c3f48a7610df11c9eaefaecd72591a3"}}}}
}

func TestDocument(t *testing.T) {
	for _, n := range []int{0, 1, 400} {
		var configs []Config
		for i := range n {
			c := started(fmt.Sprintf("s%03d", i), "n1")
			c.Stopped = i%3 == 1
			configs = append(configs, c)
		}
		body, werr := EncodeDocument(configs)
		if werr != nil {
			t.Fatal(werr)
		}
		if packed := bytes.Contains(body, []byte(`"packed"`)); packed != (n == 400) {
			t.Errorf("%d slots, %d bytes: packed %v", n, len(body), packed)
		}
		got, errs := ParseDocument(body, "n1")
		if errs != nil || len(got) != n {
			t.Fatalf("%d of %d: %v", len(got), n, errs)
		}
		for i, c := range got {
			if !reflect.DeepEqual(c, configs[i].Identified()) {
				t.Errorf("%+v, want %+v", c, configs[i].Identified())
			}
		}
		if again, _ := EncodeDocument(got); !bytes.Equal(again, body) {
			t.Errorf("%d slots: other bytes for the same content", n)
		}
	}
}

func TestDocumentTooLarge(t *testing.T) {
	var configs []Config
	for i := range 9000 {
		c := started(fmt.Sprintf("s%d", i), "n1")
		c.Properties["x"] = wire.Hash([]byte(c.Slot.Service)) // which does not compress
		configs = append(configs, c)
	}
	if _, err := EncodeDocument(configs); err == nil || err.Code != wire.CodeTooLarge {
		t.Errorf("%v", err)
	}
	// What compresses well is held to what a node unpacks.
	configs = nil
	for size := 0; size <= MaxDocument; size += MaxText {
		c := started(fmt.Sprintf("s%d", len(configs)), "n1")
		c.Properties["x"] = strings.Repeat("x", MaxText)
		configs = append(configs, c)
	}
	if body, err := EncodeDocument(configs); err == nil || err.Code != wire.CodeTooLarge {
		_, errs := ParseDocument(body, "n1")
		t.Errorf("%v; a node says %v", err, errs)
	}
	body, err := EncodeDocument(configs[:len(configs)/2])
	if _, errs := ParseDocument(body, "n1"); err != nil || errs != nil {
		t.Errorf("half of it: %v, %v", err, errs)
	}
}

func TestBadDocument(t *testing.T) {
	good := string(Encode([]Config{started("web", "n1").Identified()}))
	bomb := base64.StdEncoding.EncodeToString(pack(bytes.Repeat([]byte(" "), MaxDocument+1)))
	for _, c := range []struct{ body, want string }{
		{`{"formatVersion":"1","workloads":` + good + `}`, ""},
		{`{"formatVersion":"1"}`, "missing /workloads"},
		{`{"formatVersion":"1","workloads":[],"packed":"AA=="}`, "missing /workloads"},
		{`{"formatVersion":"2","workloads":[]}`, "wrong-version /formatVersion"},
		{`{"formatVersion":"1","workloads":[],"x":1}`, "unknown-field /x"},
		{`{"formatVersion":"1","packed":"AAAA"}`, "bad-value /packed"},
		{`{"formatVersion":"1","packed":"` + bomb + `"}`, "bad-value /packed"},
		{`{"formatVersion":"1","workloads":` + strings.ReplaceAll(good, "web@n1", "web@n2") + `}`,
			"wrong-target /slot"},
		{`{"formatVersion":"1","workloads":` + strings.ReplaceAll(good, `"configurationId"`, `"configurationID"`) + `}`,
			"unknown-field /configurationID"},
		{`{"formatVersion":"1","workloads":` + string(Encode([]Config{started("web", "n1")})) + `}`,
			"missing /configurationId"},
		{`{"formatVersion":"1","workloads":[{"@class":"TopologicalInstance","slot":"a@n1","properties":{}}]}`,
			"bad-value /workloads"},
		{`{"formatVersion":"1","workloads":[{"@class":"InstanceFiller","name":"f","instance":{"properties":{},` +
			`"resources":{}}}]}`, "bad-value /workloads"},
		{`{"formatVersion":"1","stopped":["web"],"workloads":` + strings.ReplaceAll(good, "web@", "map@") + `}`,
			"bad-value /stopped/0"},
		{`{"formatVersion":"1","stopped":["web","web"],"workloads":` + good + `}`, "bad-value /stopped/1"},
		{`[]`, "bad-value "},
	} {
		_, errs := ParseDocument([]byte(c.body), "n1")
		got := ""
		if len(errs) > 0 {
			got = string(errs[0].Code) + " " + errs[0].Path
		}
		if got != c.want {
			t.Errorf("%.80s: %q (%v), want %q", c.body, got, errs, c.want)
		}
		if about, _, _ := strings.Cut(c.want, "/workloads"); about == c.want && strings.Contains(c.body, "web@") &&
			c.want != "" && !strings.Contains(errs[0].Message, "slot web@n") {
			t.Errorf("%.80s: %v does not name the slot", c.body, errs[0])
		}
	}
}

func FuzzParseDocument(f *testing.F) {
	body, err := EncodeDocument([]Config{started("web", "n1")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add([]byte(`{"formatVersion":"1","packed":"` + base64.StdEncoding.EncodeToString(pack([]byte("[]"))) + `"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		configs, errs := ParseDocument(data, "n1")
		if errs != nil {
			return
		}
		body, werr := EncodeDocument(configs)
		if werr != nil {
			return
		}
		if again, errs := ParseDocument(body, "n1"); errs != nil || len(again) != len(configs) {
			t.Errorf("%q is read as %d configurations, and written as what is not read: %v", data, len(configs), errs)
		}
	})
}
