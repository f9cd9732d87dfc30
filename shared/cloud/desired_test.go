package cloud_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"tandem.internal/shared/cloud"
	"tandem.internal/shared/wire"
)

const wish = `{
 "messageType": "desiredStatus", "correlationId": "7",
 "nodes": [{"item": {"codename": "b"}, "state": "paused"}, {"item": {"codename": "a"}, "state": "provisioned"}],
 "unitConfig": {"version": "2.0.0", "formatVersion": "7", "nodes": []},
 "items": [
  {"item": {"id": "i-1", "type": "service"}, "version": "1.0.0", "owner": {"id": "o"}},
  {"item": {"codename": "base", "type": "component"}, "version": "7.0.0", "indexDigest":
   "sha256:1f0d3c5b7a9e8d6c4b2a1f0e9d8c7b6a5f4e3d2c1b0a9f8e7d6c5b4a3f2e1d0c"}],
 "instances": [
  {"item": {"id": "i-1"}, "subject": {"codename": "hall"}, "priority": 0, "numInstances": 2, "labels": ["x", "y"]},
  {"item": {"codename": "base", "type": "component"}, "subject": {"codename": "press"}}],
 "subjects": [{"identity": {"codename": "press"}, "type": "nodeType"},
  {"identity": {"codename": "hall"}, "type": "group", "isReportedFromUnit": true}],
 "certificates": [{"any": 1}], "certificateChains": null
}`

// reordered is the same wish, with lists and members in another order, and with what says nothing.
const reordered = `{
 "subjects": [{"type": "group", "isReportedFromUnit": true, "identity": {"codename": "hall", "title": "The hall"}},
  {"identity": {"codename": "press", "urn": "urn:x"}, "type": "nodeType"}],
 "instances": [
  {"item": {"codename": "base", "type": "component", "title": "Base"}, "subject": {"codename": "press"}, "labels": []},
  {"subject": {"codename": "hall", "title": "H"},
   "item": {"id": "i-1"}, "priority": 0, "labels": ["y", "x"], "numInstances": 2}],
 "items": [
  {"item": {"codename": "base", "type": "component"}, "version": "7.0.0", "indexDigest":
   "sha256:1f0d3c5b7a9e8d6c4b2a1f0e9d8c7b6a5f4e3d2c1b0a9f8e7d6c5b4a3f2e1d0c"},
  {"item": {"id": "i-1", "type": "service", "title": "Web"}, "version": "1.0.0", "owner": {"id": "other"}}],
 "unitConfig": {"formatVersion": "7", "nodes": [], "version": "2.0.0"},
 "nodes": [{"item": {"codename": "a", "urn": "u"}, "state": "provisioned"},
  {"item": {"codename": "b"}, "state": "paused"}],
 "correlationId": "8"
}`

func parse(t *testing.T, text string) *cloud.DesiredStatus {
	t.Helper()
	d, err := cloud.ParseDesired([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return d
}

// TestSameWish: (scenario 27) a message that is sent again with its lists in another order, or packed, wants the same;
// a wish of which anything is another does not. What is kept of one can be read again, and is the same.
func TestSameWish(t *testing.T) {
	one := string(parse(t, wish).Canonical())
	for name, text := range map[string]string{"in another order": reordered, "packed": string(packed(wish)),
		"as it is kept": one} {
		if got := string(parse(t, text).Canonical()); got != one {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, one)
		}
	}
	parse(t, strings.ReplaceAll(wish, `"hall"`, `"`+strings.Repeat("x", 128)+`"`))
	for _, change := range [][2]string{{`"paused"`, `"provisioned"`}, {`2.0.0`, `2.0.1`}, {`7.0.0`, `7.0.1`},
		{`1f0d3c5b`, `2f0d3c5b`}, {`"numInstances": 2`, `"numInstances": 3`}, {`"priority": 0`, `"priority": null`},
		{`["x", "y"]`, `["x"]`}, {`"isReportedFromUnit": true`, `"isReportedFromUnit": false`},
		{`{"codename": "press"}}`, `{"codename": "hall"}}`}} {
		other := strings.Replace(wish, change[0], change[1], 1)
		if other == wish || string(parse(t, other).Canonical()) == one {
			t.Errorf("%s instead of %s is the same", change[1], change[0])
		}
	}
}

// TestWishRefusals: what has no meaning, or two, is refused with its place.
func TestWishRefusals(t *testing.T) {
	long := strings.Repeat("x", 129)
	for _, c := range []struct{ from, to, code, path string }{
		{`"desiredStatus"`, `"unitStatus"`, "bad-value", "/messageType"},
		{`"nodes": [{"item": {"codename": "b"}`, `"nodes": [{"item": {"codename": "a"}`, "duplicate", "/nodes/1"},
		{`"paused"`, `"error"`, "bad-value", "/nodes/0/state"},
		{`"type": "service"`, `"type": "image"`, "bad-value", "/items/0/item/type"},
		{`"version": "1.0.0"`, `"version": "1.0"`, "bad-value", "/items/0/version"},
		{`sha256:1f`, `sha256:1`, "bad-value", "/items/1/indexDigest"},
		{`"id": "i-1", "type": "service"`, `"type": "service"`, "bad-value", "/items/0/item"},
		{`"priority": 0`, `"priority": -1`, "bad-value", "/instances/0/priority"},
		{`"numInstances": 2`, `"numInstances": 1001`, "bad-value", "/instances/0/numInstances"},
		{`"numInstances": 2`, `"numInstance": 2`, "unknown-field", "/instances/0/numInstance"},
		{`"type": "group"`, `"type": "crowd"`, "bad-value", "/subjects/1/type"},
		{`"subject": {"codename": "hall"}`, `"subject": {}`, "bad-value", "/instances/0/subject"},
		{`"identity": {"codename": "press"}`, `"identity": {"codename": "press", "id": "s-1"}, "type": "user"},
			{"identity": {"codename": "desk", "id": "s-1"}`, "duplicate", "/subjects/1"},
		{`{"codename": "a"}`, `{}`, "bad-value", "/nodes/1/item"},
		{`{"codename": "press"}, "type"`, `{"title": "p"}, "type"`, "bad-value", "/subjects/0/identity"},
		{`{"codename": "a"}`, `{"codename": "` + long + `"}`, "too-large", "/nodes/1/item/codename"},
		{`{"id": "i-1", "type"`, `{"id": "` + long + `", "type"`, "too-large", "/items/0/item/id"},
		{`"version": "1.0.0"`, `"version": "1.0.0-` + long + `"`, "too-large", "/items/0/version"},
		{`{"codename": "hall"}, "type"`, `{"codename": "hall", "title": "` + strings.Repeat(long, 40) + `"}, "type"`,
			"too-large", "/subjects/1/identity/title"},
		{`"subject": {"codename": "hall"}`, `"subject": {"id": "` + long + `"}`, "too-large",
			"/instances/0/subject/id"},
		{`"priority": 0`, `"priority": 0, "version": "` + long + `"`, "too-large", "/instances/0/version"},
		{`["x", "y"]`, `["x", "` + long + `"]`, "too-large", "/instances/0/labels/1"},
		{`["x", "y"]`, `["x"` + strings.Repeat(`, "y"`, 64) + `]`, "too-large", "/instances/0/labels"},
	} {
		text := strings.Replace(wish, c.from, c.to, 1)
		_, err := cloud.ParseDesired([]byte(text))
		if text == wish || err == nil || string(err.Code) != c.code || err.Path != c.path {
			t.Errorf("%s: %v", c.to, err)
		}
	}
	text := packed(`{"correlationId":"` + strings.Repeat(" ", 8<<20) + `"}`)
	if _, err := cloud.ParseDesired(text); err == nil || err.Path != "/packed" || err.Code != wire.CodeTooLarge ||
		len(text) > wire.MaxPayload {
		t.Errorf("%d bytes of a bomb: %v", len(text), err)
	}
}

// packed is a message as it is packed.
func packed(text string) []byte {
	return []byte(`{"packed": "` + base64.StdEncoding.EncodeToString(cloud.Pack([]byte(text))) + `"}`)
}

// TestWishBounds: what is short and packed, and has more elements than a list may have, is nested too deep, or asks for
// more instances than a set of workloads can have, is refused before it has taken its memory. As much as is allowed is
// read.
func TestWishBounds(t *testing.T) {
	fill := func(start, unit, end string) string {
		return start + strings.Repeat(unit, (cloud.MaxDocument-len(start)-len(end))/len(unit)) + end
	}
	instances := func(n int) string {
		var all []string
		for i := range n / 1000 {
			all = append(all, fmt.Sprintf(`{"item":{"id":"%d"},"subject":{"id":"s"},"numInstances":1000}`, i))
		}
		return `{"instances":[` + strings.Join(all, ",") + `]}`
	}
	nodes := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"item":{"codename":"%d"},"state":"paused"}`, i))
		}
		return `{"unitConfig":[[],[]],"nodes":[` + strings.Join(all, ",") + `]}`
	}
	var members []string
	for i := range cloud.MaxItems + 1 {
		members = append(members, fmt.Sprintf(`"%d":0`, i))
	}
	for _, c := range []struct{ text, path string }{
		{`{"items":[],"unitConfig":{` + strings.Join(members, ",") + `}}`, "ok"},
		{fill(`{"nodes":[`, `{},`, `{}]}`), "/nodes"},
		{fill(`{"items":[`, `{},`, `{}]}`), "/items"},
		{fill(`{"instances":[`, `0,`, `0]}`), "/instances"},
		{fill(`{"items":[],"subjects":[`, `{},`, `{}]}`), "/subjects"},
		{instances(10_000), "ok"}, {instances(11_000), "/instances"},
		{nodes(cloud.MaxNodes), "ok"}, {nodes(cloud.MaxNodes + 1), "/nodes"},
		{`{"unitConfig":[` + strings.Repeat("0,", cloud.MaxRequests) + `0]}`, "ok"}, // another reader bounds that
		{`{"unitConfig":` + strings.Repeat("[", 127) + strings.Repeat("]", 127) + `}`, "ok"},
		{`{"unitConfig":` + strings.Repeat("[", 128) + strings.Repeat("]", 128) + `}`, ""},
	} {
		text := packed(c.text)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := cloud.ParseDesired(text)
		runtime.ReadMemStats(&after)
		ok, code := c.path == "ok", wire.CodeOf(err)
		if ok && err != nil || !ok && (code != wire.CodeTooLarge || err.Path != c.path) {
			t.Errorf("%.40s: %v", c.text, err)
		}
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 64 || len(text) > wire.MaxPayload {
			t.Errorf("%.40s: a message of %d bytes takes %d MiB", c.text, len(text), took)
		}
	}
}

// TestNumbersStay: the numbers of a unit configuration are kept as they were signed, and few bytes stay few.
func TestNumbersStay(t *testing.T) {
	for _, n := range []string{"9007199254740993", "18446744073709551615", "1e400", "1e20", "1.0", "-0"} {
		if got := string(parse(t, `{"unitConfig":{"n":`+n+`}}`).Canonical()); got != `{"unitConfig":{"n":`+n+`}}` {
			t.Errorf("%s became %s", n, got)
		}
	}
}

// TestWishesAreTold: entries whose names differ only in where a space is are two.
func TestWishesAreTold(t *testing.T) {
	parse(t, `{"items":[{"item":{"type":"service","id":"a","codename":"b c"},"version":"1.0.0"},
		{"item":{"type":"service","id":"a b","codename":"c"},"version":"1.0.0"}]}`)
}

// FuzzDesired: whatever is read can be kept, in as many bytes, and is the same when it is read again.
func FuzzDesired(f *testing.F) {
	f.Add([]byte(wish))
	f.Add([]byte(reordered))
	f.Add([]byte(`{"packed":"AAAA"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := cloud.ParseDesired(data)
		if err != nil {
			return
		}
		one := d.Canonical()
		again, err := cloud.ParseDesired(one)
		if err != nil || string(again.Canonical()) != string(one) {
			t.Fatalf("%v\n%s", err, one)
		}
		if !bytes.Contains(data, []byte("packed")) && len(one) > len(data) {
			t.Fatalf("%d bytes became %d: %s", len(data), len(one), one)
		}
	})
}
