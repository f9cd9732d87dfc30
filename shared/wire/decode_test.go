package wire

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
	"time"
)

const someHash = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// samples is one whole, valid message of each type.
var samples = map[string]string{
	"desired": `{"v":1,"unit":"u1","node":"n1","kind":"config","epoch":3,"rev":42,"version":"2.0.0","hash":"` +
		someHash + `","issued":"2026-11-20T10:00:00Z","mode":"try","confirmWithin":"PT2M","body":{"a":[1]},` +
		`"sig":{"kid":"k","ed25519":"AAAA","path":"AAAA"}}`,
	"byref": `{"v":1,"unit":"u1","node":"n1","kind":"config","epoch":3,"rev":42,"version":"2.0.0","hash":"` +
		someHash + `","issued":"2026-11-20T10:00:00Z","mode":"apply","ref":{"url":"https://h/x","hash":"` + someHash +
		`","size":70000}}`,
	"reported": `{"v":1,"node":"n1","kind":"config","boot":"b","seq":7,"running":{"epoch":3,"rev":41,` +
		`"version":"1.9.0","hash":"` + someHash + `"},"last":{"epoch":3,"rev":42,"version":"2.0.0",` +
		`"hash":"` + someHash + `","state":"failed","error":{"code":"bad-value","path":"/a","message":"m"},` +
		`"attempt":1,"at":"2026-11-20T10:00:00Z"},"detail":{"x":1}}`,
	"live": `{"v":1,"node":"n1","boot":"b","session":1,"up":true,"seqs":{"config":7},"events":12}`,
	"event": `{"v":1,"node":"n1","boot":"b","seq":1,"at":"2026-11-20T10:00:00Z","type":"alert","lost":2,` +
		`"error":{"code":"timeout","message":"m"},"detail":[]}`,
	"request": `{"v":1,"unit":"u1","node":"n1","id":"i","method":"check","params":{"kind":"config"},` +
		`"notAfter":"2026-11-20T10:00:00Z","sig":{"kid":"k","ed25519":"AAAA"}}`,
	"reply": `{"v":1,"node":"n1","id":"i","result":{"ok":true}}`,
	"replyerr": `{"v":1,"node":"n1","id":"i","error":{"code":"not-supported","message":"m","node":"n1","line":1,` +
		`"column":2}}`,
	"beacon": `{"v":1,"unit":"u1","epoch":3,"up":true,"time":"2026-11-20T10:00:00Z","keys":[{"kid":"k",` +
		`"ed25519":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}],"jitter":"PT30S","sig":{"kid":"k",` +
		`"ed25519":"AAAA"}}`,
	"submit": `{"v":1,"id":"i","from":"cloud","mode":"try","confirmWithin":"PT2M","document":{"version":"1"}}`,
	"status": `{"v":1,"state":"failed","version":"1","error":{"code":"hash-mismatch","message":"m"},` +
		`"trial":{"version":"2","rev":3,"deadline":"2026-11-20T10:00:00Z"},"at":"2026-11-20T10:00:00Z","epoch":1,` +
		`"rev":4,"time":"2026-11-20T10:00:00Z"}`,
	"answer":  `{"v":1,"id":"i","version":"1","state":"refused","error":{"code":"already-exists","message":"m"}}`,
	"check":   `{"kind":"config","version":"1","body":{}}`,
	"result":  `{"ok":false,"errors":[{"code":"bad-value","message":"m"}]}`,
	"events":  `{"after":4}`,
	"newest":  `{"mark":"a1","stamps":{"config":{"epoch":1,"rev":2}}}`,
	"confirm": `{"kind":"config","epoch":1,"rev":2}`,
	"info": `{"type":"t","os":"linux","arch":"arm64","cpus":4,"ram":1,"partitions":[{"name":"p","path":"/p",` +
		`"size":1}],"attributes":{"a":"b"},"agentVersion":"1","error":{"code":"storage","message":"m"},"cpu":1000,` +
		`"runtimes":[{"id":"r","type":"t","architecture":"arm64","variant":"v8","os":"linux","osFeatures":["f"],` +
		`"cpu":0,"ram":5,"maxInstances":8}],"resources":[{"name":"i2c","shared":2}],"devices":[{"name":"can0"}],` +
		`"subjects":["s"]}`,
}

// decoders decode and encode again.
var decoders = map[string]func([]byte) ([]byte, error){
	"desired": again[Desired], "byref": again[Desired], "reported": again[Reported], "live": again[Live],
	"event":   again[Event],
	"request": again[Request], "reply": again[Reply], "replyerr": again[Reply], "beacon": again[Beacon],
	"submit": again[Submission],
	"answer": again[Answer], "status": again[UnitStatus],
	"check": again[CheckParams], "result": again[CheckResult], "events": again[EventsParams],
	"newest": again[NewestParams], "confirm": again[ConfirmParams], "info": again[NodeInfo],
}

func again[M Message](data []byte) ([]byte, error) {
	m, err := Decode[M](data)
	if err != nil {
		return nil, err
	}
	return Encode(m), nil
}

func TestSamplesAreValid(t *testing.T) {
	for name, sample := range samples {
		out, err := decoders[name]([]byte(sample))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if twice, err := decoders[name](out); err != nil || string(twice) != string(out) || len(out) != len(sample) {
			t.Errorf("%s: not the same again: %v\n%s\n%s\n%s", name, err, sample, out, twice)
		}
	}
}

// Every rule of the contract, broken once: the part of the sample that changes, and the code and
// path of the refusal.
func TestEveryRule(t *testing.T) {
	long, tooDeep := strings.Repeat("x", 257), strings.Repeat("[", 129)+strings.Repeat("]", 129)
	for _, test := range []struct{ message, old, new, code, path string }{
		{"desired", `"v":1`, `"v":2`, "wrong-version", "/v"},
		{"desired", `"v":1`, `"v":0`, "missing", "/v"},
		{"desired", `"v":1`, `"v":1.0`, "bad-value", "/v"},
		{"desired", `"v":1`, `"V":1`, "unknown-field", "/V"},
		{"desired", `"v":1`, `"v":1,"v":1`, "duplicate", "/v"},
		{"desired", `"v":1`, `"v":"1"`, "bad-value", "/v"},
		{"desired", `"v":1`, `"v":1,`, "malformed", ""},
		{"desired", `"unit":"u1"`, `"unit":""`, "missing", "/unit"},
		{"desired", `"unit":"u1"`, `"unit":"u/1"`, "bad-value", "/unit"},
		{"desired", `"node":"n1"`, `"node":null`, "missing", "/node"},
		{"desired", `"node":"n1"`, `"node":"n\n1"`, "bad-value", "/node"},
		{"desired", `"node":"n1"`, `"node":"` + strings.Repeat("n", 64) + `"`, "bad-value", "/node"},
		{"desired", `"kind":"config"`, `"kind":"+"`, "bad-value", "/kind"},
		{"desired", `"epoch":3`, `"epoch":0`, "missing", "/epoch"},
		{"desired", `"epoch":3`, `"epoch":-1`, "bad-value", "/epoch"},
		{"desired", `"epoch":3`, `"epoch":18446744073709551616`, "bad-value", "/epoch"},
		{"desired", `"rev":42`, `"rev":0`, "missing", "/rev"},
		{"desired", `"2.0.0"`, `""`, "missing", "/version"},
		{"desired", `"2.0.0"`, `"2\n"`, "bad-value", "/version"},
		{"desired", `"2.0.0"`, `"2\u0000"`, "bad-value", "/version"},
		{"desired", `"2.0.0"`, `"2\u0085"`, "bad-value", "/version"},
		{"desired", `"2.0.0"`, "\"2\xff\"", "malformed", "/version"},
		{"desired", `"2.0.0"`, `"` + long + `"`, "too-large", "/version"},
		{"desired", `"hash":"sha256:e`, `"hash":"sha256:E`, "bad-value", "/hash"},
		{"desired", `"hash":"sha256:e`, `"hash":"sha256:`, "bad-value", "/hash"},
		{"desired", `"hash":"sha256:e`, `"hash":"sha512:e`, "bad-value", "/hash"},
		{"desired", `"hash":"` + someHash + `"`, `"hash":""`, "missing", "/hash"},
		{"desired", `"2026-11-20T10:00:00Z"`, `"0001-01-01T00:00:00Z"`, "missing", "/issued"},
		{"desired", `"2026-11-20T10:00:00Z"`, `"9999-12-31T23:59:59-01:00"`, "bad-value", "/issued"},
		{"desired", `"2026-11-20T10:00:00Z"`, `"yesterday"`, "bad-value", "/issued"},
		{"desired", `"mode":"try"`, `"mode":"force"`, "bad-value", "/mode"},
		{"desired", `"mode":"try"`, `"mode":"apply"`, "bad-value", "/confirmWithin"},
		{"desired", `"confirmWithin":"PT2M",`, ``, "bad-value", "/confirmWithin"},
		{"desired", `PT2M`, `2m`, "bad-value", "/confirmWithin"},
		{"desired", `PT2M`, `PT`, "bad-value", "/confirmWithin"},
		{"desired", `"body":{"a":[1]},`, ``, "missing", "/body"},
		{"desired", `{"a":[1]}`, `null`, "missing", "/body"},
		{"desired", `{"a":[1]}`, `{"a":1,"a":2}`, "duplicate", "/body/a"},
		{"desired", `{"a":[1]}`, `{"a":tru}`, "malformed", "/body/a"},
		{"desired", `{"a":[1]}`, `"` + strings.Repeat("x", MaxBody-1) + `"`, "too-large", "/body"},
		{"desired", `{"a":[1]}`, tooDeep, "malformed", ""},
		{"desired", `"kid":"k"`, `"kid":"k\u001b"`, "bad-value", "/sig/kid"},
		{"desired", `"kid":"k"`, `"key":"k"`, "unknown-field", "/sig/key"},
		{"desired", `"ed25519":"AAAA"`, `"ed25519":"AAA"`, "bad-value", "/sig/ed25519"},
		{"byref", `"mode":"apply"`, `"mode":"apply","body":1`, "missing", "/body"},
		{"byref", `"ref":{"url":"https://h/x","hash":"sha256:e`, `"ref":{"url":"https://h/x","hash":"sha256:f`,
			"hash-mismatch", "/ref/hash"},
		{"byref", `https://h/x`, ``, "missing", "/ref/url"},
		{"byref", `https://h/x`, strings.Repeat("u", 2049), "too-large", "/ref/url"},
		{"byref", `70000`, `-1`, "bad-value", "/ref/size"},
		{"reported", `"v":1`, `"v":9`, "wrong-version", "/v"},
		{"reported", `"node":"n1"`, `"node":"-n"`, "bad-value", "/node"},
		{"reported", `"kind":"config"`, `"kind":""`, "missing", "/kind"},
		{"reported", `"boot":"b"`, `"boot":""`, "missing", "/boot"},
		{"reported", `"boot":"b"`, `"boot":"` + long + `"`, "too-large", "/boot"},
		{"reported", `"seq":7`, `"seq":0`, "missing", "/seq"},
		{"reported", `"rev":41`, `"rev":0`, "missing", "/running/rev"},
		{"reported", `{"epoch":3,"rev":41`, `{"rev":41`, "missing", "/running/epoch"},
		{"reported", `"1.9.0"`, `"` + long + `"`, "too-large", "/running/version"},
		{"reported", `"version":"1.9.0","hash":"sha256:e`, `"version":"1.9.0","hash":"sha256:g`, "bad-value",
			"/running/hash"},
		{"reported", `"version":"1.9.0"`, `"vision":"1.9.0"`, "unknown-field", "/running/vision"},
		{"reported", `"rev":42`, `"rev":0`, "missing", "/last/rev"},
		{"reported", `{"epoch":3,"rev":42`, `{"rev":42`, "missing", "/last/epoch"},
		{"reported", `"2.0.0"`, `"\t"`, "bad-value", "/last/version"},
		{"reported", `"version":"2.0.0","hash":"sha256:e`, `"version":"2.0.0","hash":"`, "bad-value", "/last/hash"},
		{"reported", `"failed"`, `"broken"`, "bad-value", "/last/state"},
		{"reported", `"attempt":1`, `"attempt":-1`, "bad-value", "/last/attempt"},
		{"reported", `"at":"2026-11-20T10:00:00Z"`, `"at":null`, "missing", "/last/at"},
		{"reported", `"message":"m"`, `"message":"` + strings.Repeat("m", MaxMessage+1) + `"`, "too-large",
			"/last/error"},
		{"reported", `"path":"/a"`, `"path":"` + strings.Repeat("m", MaxPath+1) + `"`, "too-large", "/last/error"},
		{"reported", `"code":"bad-value"`, `"code":""`, "missing", "/last/error/code"},
		{"reported", `"code":"bad-value"`, `"code":"` + strings.Repeat("m", 65) + `"`, "too-large", "/last/error"},
		{"live", `"v":1,`, ``, "missing", "/v"},
		{"live", `"n1"`, `" "`, "bad-value", "/node"},
		{"live", `"boot":"b",`, ``, "missing", "/boot"},
		{"live", `"session":1,`, ``, "missing", "/session"},
		{"live", `"config"`, `"con fig"`, "bad-value", "/seqs"},
		{"live", `"config":7`, manyKinds(65), "too-large", "/seqs"},
		{"event", `"node":"n1"`, `"node":1`, "bad-value", "/node"},
		{"event", `"boot":"b",`, ``, "missing", "/boot"},
		{"event", `"seq":1`, `"seq":0`, "missing", "/seq"},
		{"event", `"type":"alert",`, ``, "missing", "/type"},
		{"event", `"at":"2026-11-20T10:00:00Z",`, ``, "missing", "/at"},
		{"event", `"message":"m"`, `"massage":"m"`, "unknown-field", "/error/massage"},
		{"request", `"unit":"u1"`, `"unit":"u\n"`, "bad-value", "/unit"},
		{"request", `"n1"`, `"n1\n"`, "bad-value", "/node"},
		{"request", `"id":"i"`, `"id":"i\nx"`, "bad-value", "/id"},
		{"request", `"id":"i",`, ``, "missing", "/id"},
		{"request", `"method":"check"`, `"method":"a b"`, "bad-value", "/method"},
		{"request", `"notAfter":"2026-11-20T10:00:00Z"`, `"notAfter":null`, "missing", "/notAfter"},
		{"reply", `"id":"i"`, `"id":""`, "missing", "/id"},
		{"reply", `"result":`, `"error":{"code":"x","message":""},"result":`, "bad-value", "/result"},
		{"replyerr", `"node":"n1","line"`, `"node":"` + strings.Repeat("n", 64) + `","line"`, "too-large", "/error"},
		{"beacon", `"unit":"u1"`, `"unit":".u"`, "bad-value", "/unit"},
		{"beacon", `"epoch":3,`, ``, "missing", "/epoch"},
		{"beacon", `"time":"2026-11-20T10:00:00Z",`, ``, "missing", "/time"},
		{"beacon", `"PT30S"`, `"30s"`, "bad-value", "/jitter"},
		{"beacon", `"ed25519":"AAAAAAAA`, `"ed25519":"AAAA`, "bad-value", "/keys/0/ed25519"},
		{"beacon", `"jitter"`, `"keysRev":-1,"jitter"`, "bad-value", "/keysRev"},
		{"beacon", `[{"kid":"k"`, `[{"kid":"k\n"`, "bad-value", "/keys/0/kid"},
		{"beacon", `"sig":{"kid":"k"`, `"sig":{"kid":"` + long + `"`, "too-large", "/sig/kid"},
		{"submit", `"from":"cloud",`, ``, "missing", "/from"},
		{"submit", `"id":"i"`, `"id":"\u001b"`, "bad-value", "/id"},
		{"submit", `"mode":"try"`, `"mode":"retry"`, "bad-value", "/mode"},
		{"submit", `"mode":"try",`, ``, "bad-value", "/confirmWithin"},
		{"submit", `"document":{"version":"1"}`, `"document":null`, "missing", "/document"},
		{"answer", `"state":"refused",`, ``, "missing", "/state"},
		{"status", `"state":"failed",`, ``, "missing", "/state"},
		{"answer", `"refused"`, `"maybe"`, "bad-value", "/state"},
		{"check", `"kind":"config",`, ``, "missing", "/kind"},
		{"check", `"version":"1",`, ``, "missing", "/version"},
		{"check", `,"body":{}`, ``, "missing", "/body"},
		{"result", `[{`, `[null,{`, "bad-value", "/errors/0"},
		{"result", `"code":"bad-value"`, `"code":""`, "missing", "/errors/0/code"},
		{"result", `[{"code":"bad-value","message":"m"}]`,
			`[` + strings.Repeat(`{"code":"x","message":""},`, 256) + `{"code":"x","message":""}]`, "too-large",
			"/errors"},
		{"events", `4`, `-4`, "bad-value", "/after"},
		{"events", `{"after":4}`, `null`, "bad-value", ""},
		{"events", `{"after":4}`, `[]`, "bad-value", ""},
		{"events", `{"after":4}`, ``, "malformed", ""},
		{"events", `{"after":4}`, `{"after":4}{}`, "malformed", ""},
		{"confirm", `"epoch":1`, `"epoch":0`, "missing", "/epoch"},
		{"confirm", `"rev":2`, `"rev":0`, "missing", "/rev"},
		{"confirm", `"config"`, `"/"`, "bad-value", "/kind"},
		{"info", `"os":"linux"`, `"os":"li\u0007nux"`, "bad-value", "/os"},
		{"info", `"name":"p"`, `"nam":"p"`, "unknown-field", "/partitions/0/nam"},
		{"info", `"code":"storage"`, `"code":""`, "missing", "/error/code"},
	} {
		sample := samples[test.message]
		if strings.Count(sample, test.old) == 0 {
			t.Errorf("%s has no %s", test.message, test.old)
			continue
		}
		_, err := decoders[test.message]([]byte(strings.Replace(sample, test.old, test.new, 1)))
		e, ok := err.(*Error)
		if !ok || string(e.Code) != test.code || e.Path != test.path || e.Message == "" {
			t.Errorf("%s with %.60s: %v, want %s at %q", test.message, test.new, err, test.code, test.path)
		}
	}
}

func manyKinds(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":1`, i)
	}
	return b.String()[1:]
}

func TestToTheLimit(t *testing.T) {
	for _, test := range []struct{ message, old, new string }{
		{"desired", `"epoch":3`, `"epoch":18446744073709551615`},
		{"desired", `"n1"`, `"` + strings.Repeat("n", 63) + `"`},
		{"desired", `"2.0.0"`, `"` + strings.Repeat("x", 256) + `"`},
		{"desired", `"2.0.0"`, `"2 – ü\"\\"`},
		{"desired", `"config"`, `"a.kind-of_tomorrow"`},
		{"desired", `{"a":[1]}`, `"` + strings.Repeat("x", MaxBody-2) + `"`},
		{"desired", `{"a":[1]}`, strings.Repeat("[", 127) + strings.Repeat("]", 127)},
		{"desired", `{"a":[1]}`, `"` + strings.Repeat(`[\"{`, 500) + `"`},
		{"desired", `PT2M`, `P1Y2M3W4DT5H6M7,5S`},
		{"reported", `"message":"m"`, `"message":"` + strings.Repeat("m", MaxMessage) + `"`},
		{"reported", `"code":"bad-value"`, `"code":"of-tomorrow"`},
		{"reported", `"running":{`, `"running":null,"detail":{`},
		{"live", `"config":7`, manyKinds(64)},
		{"byref", `"ref":{`, `"body":null,"ref":{`},
		{"reply", `{"ok":true}`, `null,"error":{"code":"x","message":""}`},
	} {
		sample := strings.Replace(samples[test.message], test.old, test.new, 1)
		if test.old == `"running":{` {
			sample = strings.Replace(sample, `,"detail":{"x":1}`, ``, 1)
		}
		if _, err := decoders[test.message]([]byte(sample)); err != nil {
			t.Errorf("%s with %.60s: %v", test.message, test.new, err)
		}
	}
}

// What is too large or too deep is refused before anything is built: fast, in little memory.
func TestHostileInputIsCheap(t *testing.T) {
	deepest := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for name, data := range map[string]string{
		"10 MiB":             strings.Replace(samples["reported"], `{"x":1}`, `"`+strings.Repeat("x", 10<<20)+`"`, 1),
		"100,000 deep":       strings.Replace(samples["reported"], `{"x":1}`, deepest(100_000), 1),
		"100,000 open":       strings.Repeat("[", 100_000),
		"100,000 open names": strings.Repeat(`{"a":`, 50_000),
	} {
		input := []byte(data)
		var err error
		start := time.Now()
		allocs := testing.AllocsPerRun(10, func() { _, err = Decode[Reported](input) })
		if took := time.Since(start) / 11; took > 20*time.Millisecond || allocs > 20 {
			t.Errorf("%s: %v and %v allocations each", name, took, allocs)
		}
		if e, ok := err.(*Error); !ok || e.Code != CodeTooLarge && e.Code != CodeMalformed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// deep must agree with a reader that builds everything.
func TestDeepCountsOnlyStructure(t *testing.T) {
	for data, want := range map[string]bool{
		strings.Repeat("[", 128) + strings.Repeat("]", 128):                    false,
		strings.Repeat("[", 129) + strings.Repeat("]", 129):                    true,
		strings.Repeat(`{"a":`, 129):                                           true,
		"[" + strings.Repeat("{},", 500) + "{}]":                               false,
		`"` + strings.Repeat(`[`, 500) + `"`:                                   false,
		`"\\"` + strings.Repeat(`[`, 129):                                      true,
		`"\"` + strings.Repeat(`[`, 129) + `"`:                                 false,
		`"` + strings.Repeat(`\"`, 100) + strings.Repeat(`[`, 200) + `"`:       false,
		strings.Repeat(`{"]":[`, 60) + strings.Repeat(`]}`, 60) + `[[[[[[[[[[`: false,
	} {
		if got := tooDeep([]byte(data)); got != want {
			t.Errorf("%.40s…: %v", data, got)
		}
	}
}

func TestErrors(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	codes := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); ok && id.Name == "Code" {
			for _, v := range spec.Values {
				code, err := strconv.Unquote(v.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				codes++
				if m := Meanings[Code(code)]; !strings.HasSuffix(m, ".") || len(code) > 64 || !ValidName(code) {
					t.Errorf("%s means %q", code, m)
				}
			}
		}
		return true
	})
	if codes != len(Meanings) || codes == 0 {
		t.Errorf("%d codes, %d meanings", codes, len(Meanings))
	}
	e := &Error{Code: CodeStale, Path: "/rev", Message: "old", Node: "n1"}
	if got := e.Error(); got != "stale: old (at /rev) [node n1]" {
		t.Error(got)
	}
	if !e.Is(&Error{Code: CodeStale}) || e.Is(&Error{Code: CodeFork}) || e.Is(fmt.Errorf("x")) {
		t.Error("Is")
	}
}

// Times may have a t and z in lower case, as RFC 3339 allows; what is wrong stays wrong.
func TestTimesInLowerCase(t *testing.T) {
	const upper = `{"v":1,"node":"n1","boot":"b","seq":1,"type":"toy","at":"2024-01-01T00:00:00.5Z"}`
	want, err := Decode[Event]([]byte(upper))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"2024-01-01t00:00:00.5z", "2024-01-01T00:00:00.5z", "2024-01-01t01:00:00.5+01:00"} {
		got, err := Decode[Event]([]byte(strings.Replace(upper, "2024-01-01T00:00:00.5Z", at, 1)))
		if err != nil || !got.At.Equal(want.At) || got.Node != "n1" {
			t.Errorf("%s: %+v %v", at, got, err)
		}
	}
	for _, at := range []string{"2024-01-01 00:00:00z", "2024-13-01t00:00:00z", "", "z"} {
		_, err := Decode[Event]([]byte(strings.Replace(upper, "2024-01-01T00:00:00.5Z", at, 1)))
		if e := AsError(err); err == nil || e.Path != "/at" || e.Code != CodeBadValue {
			t.Errorf("%q: %v", at, err)
		}
	}
}
