package workload

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tandem.internal/shared/lenientjson"
	"tandem.internal/shared/wire"
)

// meant reads a text as a lenient reader does; nil: it cannot be read so.
func meant(in []byte) *Set {
	repaired, _ := lenientjson.Repair(in)
	set, ps := parse(repaired, &parser{lenient: true, filler: (*parser).readFiller})
	if ps != nil {
		return nil
	}
	return set
}

// said is a set with the lines of its places only, and with what is empty as if it were not there: both are the same.
func said(s *Set) *Set {
	for _, places := range s.places {
		for i := range places {
			places[i].Column = 0
		}
	}
	for i := range s.Fillers {
		f := &s.Fillers[i].Fill
		if len(f.Properties) == 0 {
			f.Properties = nil
		}
		if len(f.Resources) == 0 {
			f.Resources = nil
		}
	}
	return s
}

// checkStrict checks what Strict makes of a text. It returns that, and nil if the text cannot be read.
func checkStrict(t interface {
	Helper()
	Fatalf(string, ...any)
}, in []byte) []byte {
	t.Helper()
	before := bytes.Clone(in)
	strict, ws, ps := Strict(in)
	set := meant(in)
	switch {
	case !bytes.Equal(in, before):
		t.Fatalf("the text was changed")
	case set == nil && ps == nil:
		t.Fatalf("what cannot be read became\n%s", strict)
	case ps != nil && (strict != nil || set != nil && ps[0].Code != wire.CodeTooLarge):
		t.Fatalf("%v\n%s", ps, in)
	case ps != nil:
		return nil
	}
	if _, ps := Parse(in); ps == nil && (!bytes.Equal(strict, in) || len(ws) > 0) {
		t.Fatalf("a strict text became, with %v,\n%s", ws, strict)
	} else if ps != nil && len(ws) == 0 {
		t.Fatalf("no warning of %v", ps)
	}
	again, ps := Parse(strict)
	if ps != nil {
		t.Fatalf("not strict: %v\n%s\nof\n%s", ps, strict, in)
	}
	if !reflect.DeepEqual(said(again), said(set)) {
		t.Fatalf("another meaning:\n%.2000s\nof\n%.2000s", strict, in)
	}
	return strict
}

// TestStrict: each mistake that is read as meant, and what it becomes.
func TestStrict(t *testing.T) {
	const nothing = `"verification":{"checksum":"EMPTY:","checkPeriod":"0d0h0m"}`
	resource := func(members string) string {
		return `[{"@class":"Instance","slot":"a@n","resources":{"iss_hook_start":{"@class":"Resource",` +
			`"urls":["http://h/"],` + members + `}}}]`
	}
	sum := func(s, period string) string {
		return `"size":1,"uuid":"u","verification":{"checksum":"` + s + `"` + period + `}`
	}
	const md5 = "c8f1f9626698f46f88b6e70b2c6d132d"
	filling := func(instance string) string {
		return `[{"@class":"InstanceFiller","name":"f","instance":` + instance + `}]`
	}
	properties := func(members string) string {
		return `[{"@class":"TopologicalInstance","slot":"a@n","properties":{` + members + `}}]`
	}
	for _, c := range []struct{ in, want string }{
		{resource(`"uuid":"u",` + nothing), strings.Replace(resource(`"uuid":"u",`+nothing), `"@class":"Resource"`,
			`"size":0,"@class":"Resource"`, 1)},
		{resource(`"uuid":"u","size": null ,` + nothing), resource(`"uuid":"u","size": 0 ,` + nothing)},
		{resource(`"size":1,"verification":{"checksum":"MD5:` + md5 + `"}`),
			resource(`"size":1,"verification":{"checkPeriod":"0d0h0m","checksum":"MD5:` + md5 + `"}`)},
		{resource(`"size":1,"verification":{"checksum":"MD5:` + md5 + `","checkPeriod":null}`),
			resource(`"size":1,"verification":{"checksum":"MD5:` + md5 + `","checkPeriod":"0d0h0m"}`)},
		{resource(sum(md5, "")), resource(sum("MD5:"+md5, ""))},
		{resource(sum(`\u0063`+md5[1:], "")), resource(sum(`MD5:\u0063`+md5[1:], ""))},
		{filling(`{}`), filling(`{"properties":{},"resources":{} }`)},
		{filling(`{ "resources":{},}`), filling(`{"properties":{}, "resources":{} }`)},
		{filling("{\n\"resources\":null}"), filling("{\"properties\":{},\n\"resources\":{}}")},
		{filling(`{"properties":null,"resources":null}`), filling(`{"properties":{},"resources":{}}`)},
		{properties(`"a":"1","a":"2"`), properties(`"a":"1"        `)},
		{properties("\"a\":\"1\" , \"a\":\n[{\"a\":\"}\"},\"é\"],\"b\":\"3\""),
			properties("\"a\":\"1\" ,     \n                \"b\":\"3\"")},
		{properties(`"a":null,"a":"2","a":"3"`), properties(`"a":null                `)},
		{`[] // nothing`, `[]           `},
		{`[ // all` + "\n" + resource(`"uuid":"u",` + nothing)[1:len(resource(`"uuid":"u",`+nothing))-2],
			"[       \n" + strings.Replace(resource(`"uuid":"u",`+nothing), `"@class":"Resource"`,
				`"size":0,"@class":"Resource"`, 1)[1:]},
	} {
		if got := checkStrict(t, []byte(c.in)); string(got) != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.in, got, c.want)
		}
	}
	for _, n := range []string{"seed-applicable.txt", "seed-result.txt", "seed-filler.txt"} {
		if got := checkStrict(t, file(t, n)); bytes.Count(got, []byte("\n")) != bytes.Count(file(t, n), []byte("\n")) {
			t.Errorf("%s became\n%s", n, got)
		}
	}
}

// TestStrictIsBounded: as much as can be left out is put in, and what has no room for it is refused.
func TestStrictIsBounded(t *testing.T) {
	one := func(i int) string {
		return fmt.Sprintf(`{"@class":"InstanceFiller","name":"%d","instance":{}}`, i)
	}
	all := []string{}
	for i := range MaxEntries {
		all = append(all, one(i))
	}
	text := "[" + strings.Join(all, ",") + "]"
	if checkStrict(t, []byte(text)) == nil {
		t.Error("refused")
	}
	text += strings.Repeat(" ", MaxDocument-len(text))
	_, _, ps := Strict([]byte(text))
	if len(ps) != 1 || ps[0].Code != wire.CodeTooLarge || !strings.Contains(ps[0].Message, "with what is left out") {
		t.Errorf("%v", ps)
	}
	if _, _, ps := Strict([]byte(text + " ")); len(ps) != 1 || ps[0].Code != wire.CodeTooLarge {
		t.Errorf("%v", ps)
	}
}

// sloppily draws a text that a person could have meant as this one: each part of it may be one of its slips.
func sloppily(t *rapid.T) string {
	one := func(label string, from ...string) string { return rapid.SampledFrom(from).Draw(t, label) }
	blank := func() string { return one("blank", "", "", " ", "\n", " // é\n", "/* , */") }
	comma := func() string { return blank() + one("comma", ",", ",", ",", ",,", "\n", "") + blank() }
	object := func(members ...string) string {
		list := ""
		for i, m := range rapid.Permutation(members).Draw(t, "order") {
			switch {
			case m == "":
				continue
			case i > 0 && list != "":
				list += comma()
			}
			list += m
		}
		return "{" + blank() + list + one("last", "", "", ",") + blank() + one("close", "}", "}", "}", "}", "}}")
	}
	digits := one("digits", "c8f1f9626698f46f88b6e70b2c6d132d", "MD5:C8f1f9626698f46f88b6e70b2c6d132d", "EMPTY:", "")
	resource := func() string {
		verification := object(one("sum", ``, `"checksum":"`+digits+`"`),
			one("period", ``, `"checkPeriod":null`, `"checkPeriod":"1d0h0m"`))
		return `"iss_hook_start":` + object(`"@class":"Resource"`, one("uuid", ``, `"uuid":"u"`),
			`"urls":["http://h/"]`, one("size", ``, `"size":null`, `"size":7`), `"verification":`+verification)
	}
	properties := func() string {
		one := func() string {
			return one("property", ``, `"p":"1"`, `"p":"2"`, `"q":"@{prop(\"p\")}"`, `"p":null`, `"p": [1, {}]`)
		}
		return `"properties":` + object(one(), one(), one())
	}
	entries := []string{object(`"@class":"TopologicalInstance"`, `"slot":"t@n"`, properties()),
		object(`"@class":"Instance"`, `"slot":"i@n"`, `"resources":`+object(resource()), one("more", ``, properties())),
		object(`"@class":"InstanceFiller"`, `"name":"f"`,
			one("parents", ``, `"parentFillers":[]`, `"parentFillers":"g"`),
			`"instance":`+object(one("own", ``, `"properties":null`, properties()),
				one("files", ``, `"resources":null`, `"resources":`+object(resource()))))}
	return blank() + "[" + strings.Join(entries[:rapid.IntRange(0, 3).Draw(t, "entries")], comma()) + blank() +
		one("end", "", "]", "]", ",]") + blank()
}

// TestStrictMeansTheSame: the strict document of any text that can be read as meant says the same, on the same lines.
func TestStrictMeansTheSame(t *testing.T) {
	changed, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		in := sloppily(t)
		if out := checkStrict(t, []byte(in)); out == nil {
			refused++
		} else if string(out) != in {
			changed++
		}
	})
	if changed == 0 || refused == 0 {
		t.Errorf("%d were changed, %d refused", changed, refused)
	}
}

func FuzzStrict(f *testing.F) {
	for _, n := range []string{"seed-applicable.txt", "seed-topology.txt", "seed-filler.txt", "seed-result.txt"} {
		f.Add(file(f, n))
	}
	f.Add([]byte(`[{"@class":"InstanceFiller","name":"f","instance":{"properties":null,}} // open`))
	f.Add([]byte(`[{"@class":"TopologicalInstance","slot":"a@n","properties":{"a":"1","a":{"a":1}}]`))
	f.Fuzz(func(t *testing.T, in []byte) { checkStrict(t, in) })
}
