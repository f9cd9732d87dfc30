package wire

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// fuzz checks what holds for any bytes at all: no panic, an *Error within its bounds, and what was
// accepted is accepted again after encoding, as the same message with the same raw bytes.
func fuzz[M Message](f *testing.F, raw func(*M) jsontext.Value, seeds ...string) {
	for _, name := range seeds {
		f.Add([]byte(samples[name]))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Decode[M](data)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || Meanings[e.Code] == "" || len(e.Path) > MaxPath || len(e.Message) > MaxMessage ||
				!utf8.ValidString(e.Message) {
				t.Fatalf("%#v", err)
			}
			return
		}
		if tooDeep(data) || len(data) > MaxPayload {
			t.Fatal("too deep or too large, and accepted")
		}
		if r := raw(m); len(r) > 0 && !bytes.Contains(data, r) {
			t.Fatalf("the raw field %q is not in %q", r, data)
		}
		once := Encode(m)
		n, err := Decode[M](once)
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, data, once)
		}
		if !bytes.Equal(raw(m), raw(n)) {
			t.Fatalf("raw field %q became %q", raw(m), raw(n))
		}
		if twice := Encode(n); !bytes.Equal(once, twice) {
			t.Fatalf("%s\n%s", once, twice)
		}
	})
}

func none[M any](*M) jsontext.Value { return nil }

func FuzzDesired(f *testing.F) {
	fuzz(f, func(m *Desired) jsontext.Value { return m.Body }, "desired", "byref")
}
func FuzzReported(f *testing.F) {
	fuzz(f, func(m *Reported) jsontext.Value { return m.Detail }, "reported")
}
func FuzzLive(f *testing.F)  { fuzz(f, none[Live], "live") }
func FuzzEvent(f *testing.F) { fuzz(f, func(m *Event) jsontext.Value { return m.Detail }, "event") }
func FuzzRequest(f *testing.F) {
	fuzz(f, func(m *Request) jsontext.Value { return m.Params }, "request")
}
func FuzzReply(f *testing.F) {
	fuzz(f, func(m *Reply) jsontext.Value { return m.Result }, "reply", "replyerr")
}
func FuzzBeacon(f *testing.F) { fuzz(f, none[Beacon], "beacon") }
func FuzzSubmission(f *testing.F) {
	fuzz(f, func(m *Submission) jsontext.Value { return m.Document }, "submit")
}
func FuzzAnswer(f *testing.F)     { fuzz(f, none[Answer], "answer") }
func FuzzUnitStatus(f *testing.F) { fuzz(f, none[UnitStatus], "status") }
func FuzzCheckParams(f *testing.F) {
	fuzz(f, func(m *CheckParams) jsontext.Value { return m.Body }, "check")
}
func FuzzCheckResult(f *testing.F) { fuzz(f, none[CheckResult], "result") }
func FuzzNodeInfo(f *testing.F)    { fuzz(f, none[NodeInfo], "info") }

// odd is JSON that any re-encoding would change.
const odd = ` { "b" : 1.0e+00 , "a":"\u0041\/\ud83d\ude00" ,` + "\n\t" + `"c":[ ] , "":{ }, "n":-0 } `

func TestRawFieldsKeepTheirBytes(t *testing.T) {
	body := jsontext.Value(strings.TrimSpace(odd))
	now := time.Date(2026, 11, 20, 10, 0, 0, 5, time.FixedZone("x", 3600))
	same := func(name string, got jsontext.Value, err error) {
		t.Helper()
		if err != nil || string(got) != string(body) {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
	d, err := Decode[Desired](Encode(&Desired{V: 1, Unit: "u", Node: "n", Kind: "k", Epoch: 1, Rev: 1, Version: "1",
		Hash: Hash(body), Issued: now, Mode: ModeApply, Body: body}))
	if err != nil || !d.Issued.Equal(now) || Hash(d.Body) != d.Hash {
		t.Fatalf("%+v %v", d, err)
	}
	same("desired", d.Body, err)
	r, err := Decode[Reported](Encode(&Reported{V: 1, Node: "n", Kind: "k", Boot: "b", Seq: 1, Detail: body}))
	same("reported", r.Detail, err)
	e, err := Decode[Event](Encode(&Event{V: 1, Node: "n", Boot: "b", Seq: 1, At: now, Type: "t", Detail: body}))
	same("event", e.Detail, err)
	q, err := Decode[Request](Encode(&Request{V: 1, Unit: "u", Node: "n", ID: "i", Method: "m", NotAfter: now,
		Params: body}))
	same("request", q.Params, err)
	p, err := Decode[Reply](Encode(&Reply{V: 1, Node: "n", ID: "i", Result: body}))
	same("reply", p.Result, err)
	s, err := Decode[Submission](Encode(&Submission{V: 1, ID: "i", From: "f", Document: body}))
	same("submission", s.Document, err)
	c, err := Decode[CheckParams](Encode(&CheckParams{Kind: "k", Version: "1", Body: body}))
	same("check", c.Body, err)
	for _, empty := range []string{"{}", "[]", `""`, "null"} {
		q, err := Decode[Request](Encode(&Request{V: 1, Unit: "u", Node: "n", ID: "i", Method: "m", NotAfter: now,
			Params: jsontext.Value(empty)}))
		if err != nil || string(q.Params) != empty {
			t.Errorf("%s became %q %v", empty, q.Params, err)
		}
	}
}

func TestRawFieldsAreTheirOwn(t *testing.T) {
	data := []byte(samples["desired"])
	d, err := Decode[Desired](data)
	if err != nil {
		t.Fatal(err)
	}
	clear(data)
	if string(d.Body) != `{"a":[1]}` || d.Unit != "u1" {
		t.Error("the message shares memory with its input")
	}
}

func TestEncodeRepairsAndRefuses(t *testing.T) {
	r, err := Decode[Reply](Encode(&Reply{V: 1, Node: "n", ID: "i", Error: &Error{Code: "x", Message: "a\xffb\x00"}}))
	if err != nil || r.Error.Message != "a\uFFFDb\x00" {
		t.Errorf("%+v %v", r, err)
	}
	d := Desired{V: 1, Unit: "u", Node: "n", Kind: "k", Epoch: 1, Rev: 1, Version: "a\xff\xfe\"", Hash: someHash,
		Issued: time.Unix(1, 0), Mode: ModeApply, Body: jsontext.Value("1")}
	if got, err := Decode[Desired](d.Append(nil)); err != nil || !strings.HasPrefix(got.Version, "a\uFFFD") {
		t.Errorf("%+v %v", got, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a raw field that is not JSON was written")
		}
	}()
	Encode(&Reply{V: 1, Node: "n", ID: "i", Result: jsontext.Value("{")})
}

// Append must say what the JSON library would say.
func TestAppendEqualsTheLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Desired{V: 1, Unit: rapid.String().Draw(t, "unit"), Node: rapid.String().Draw(t, "node"),
			Kind:  Kind(rapid.String().Draw(t, "kind")),
			Epoch: rapid.Uint64().Draw(t, "epoch"), Rev: rapid.Uint64().Draw(t, "rev"),
			Version: rapid.String().Draw(t, "version"), Hash: rapid.String().Draw(t, "hash"),
			Issued: time.Unix(rapid.Int64Range(-62135596799, 253402300799).Draw(t, "issued"),
				rapid.Int64Range(0, 999999999).Draw(t, "ns")).UTC(),
			Mode: Mode(rapid.String().Draw(t, "mode")), ConfirmWithin: rapid.String().Draw(t, "within"),
			Body: jsontext.Value(`{"a":1}`)}
		if rapid.Bool().Draw(t, "ref") {
			d.Body, d.Ref = nil, &Ref{URL: rapid.String().Draw(t, "url"), Hash: d.Hash,
				Size: rapid.Int64Range(0, 1<<40).Draw(t, "size")}
		}
		if rapid.Bool().Draw(t, "sig") {
			d.Sig = &Signature{KeyID: rapid.String().Draw(t, "kid"), Ed25519: rapid.SliceOf(rapid.Byte()).Draw(t,
				"sig"), Path: rapid.SliceOf(rapid.Byte()).Draw(t, "path")}
		}
		if got, want := string(d.Append(nil)), string(marshal(&d)); got != want {
			t.Fatalf("\n%s\n%s", got, want)
		}
	})
}

func TestNewKeepsTheBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.StringN(0, 2000, -1).Draw(t, "in") + string(rapid.SliceOfN(rapid.Byte(), 0, 1200).Draw(t, "bytes"))
		e := New(CodeInternal, in, in)
		if len(e.Message) > MaxMessage || len(e.Path) > MaxPath || !utf8.ValidString(e.Message) ||
			!utf8.ValidString(e.Path) {
			t.Fatalf("%q", e)
		}
		if whole := strings.ToValidUTF8(in, "\uFFFD"); len(whole) <= MaxMessage && e.Message != whole ||
			len(whole) > MaxMessage && (!strings.HasPrefix(whole, strings.TrimSuffix(e.Message, "…")) ||
				len(e.Message) < MaxMessage-8) {
			t.Fatalf("%q became %q", in, e.Message)
		}
		if _, err := Decode[Reply](Encode(&Reply{V: 1, Node: "n", ID: "i", Error: e})); err != nil {
			t.Fatal(err)
		}
	})
}

// What comes from elsewhere is made fit for a field that must be plain.
func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"":                                            "",
		"a\nb\x7f\u0085c\u2028":                       "a b  c\u2028",
		"a\xff\xfe\x00b":                              "a� b",
		"gnp\u202e.exe\u2066\u200f!":                  "gnp .exe  !",
		strings.Repeat("ж", MaxText/2):                strings.Repeat("ж", MaxText/2),
		strings.Repeat("\u0085", MaxText):             strings.Repeat(" ", MaxText),
		strings.Repeat("ж", MaxText/2) + "x":          strings.Repeat("ж", MaxText/2-2) + "…",
		"x" + strings.Repeat("ж", MaxText/2):          "x" + strings.Repeat("ж", MaxText/2-2) + "…",
		strings.Repeat("\U0001F600", MaxText/4) + ".": strings.Repeat("\U0001F600", MaxText/4-1) + "…",
	} {
		if got := Plain(in, MaxText); got != want {
			t.Errorf("%q became %q, not %q", in, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.StringN(0, 600, -1).Draw(t, "in") + string(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes"))
		most := rapid.IntRange(10, 600).Draw(t, "most")
		out := Plain(in, most)
		if len(out) > most || !utf8.ValidString(out) || strings.ContainsFunc(out, Misleads) ||
			Plain(out, most) != out {
			t.Fatalf("%q became %q", in, out)
		}
		if len(in) <= most && utf8.ValidString(in) && !strings.ContainsFunc(in, Misleads) && out != in {
			t.Fatalf("%q became %q", in, out)
		}
		if len(out) <= MaxText && plain("/x", out) != nil {
			t.Fatalf("%q is not plain", out)
		}
	})
}
