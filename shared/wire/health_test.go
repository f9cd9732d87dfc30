package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"
)

const settingsSample = `{"formatVersion":"1","reset":"P7D","fallback":"PT5M","test":"PT10M","deadline":"PT30M",` +
	`"contact":"PT2M30S","watchdog":"PT1M",` +
	`"approval":false,"reboot":true,"checks":{"cpu":{"max":0.98,"for":"PT5M"},"ram":{"max":0.98,"for":"PT1M"},` +
	`"disk":{"max":0.9},"network":{"max":12500000,"for":"PT1M"}}}`

func init() {
	samples["health"] = `{"indicator":4,"text":"in contact with the controller","contact":{"in":true,` +
		`"since":"2026-11-20T10:00:00Z","result":"success","last":"2026-11-20T10:09:00Z",` +
		`"document":"2026-11-20T10:00:01Z"},"slots":[{"id":"a","state":"active","version":"1.4.0","verified":true},` +
		`{"id":"b","state":"inprogress","version":"1.5.0","verified":true,` +
		`"hash":"sha256:` + strings.Repeat("b", 64) + `"}],` +
		`"current":"b","components":[{"name":"os","state":"updating","version":"6","next":"7","running":"6",` +
		`"hash":"sha256:` + strings.Repeat("7", 64) + `","text":"staged"}],` +
		`"quarantine":[{"component":"os","version":"5","hash":"sha256:` + strings.Repeat("5", 64) + `",` +
		`"text":"no contact","at":"2026-11-19T10:00:00Z"}],` +
		`"trial":{"slot":"b","version":"1.5.0","since":"2026-11-20T10:00:00Z",` +
		`"remaining":"PT1M","deadline":"PT21M","offline":true,"approval":"needed",` +
		`"waitsFor":[{"code":"check","name":"disk","text":"98 % full"}]},"restart":{"reason":"reboot-command",` +
		`"detail":"new kernel","at":"2026-11-20T10:10:00Z"},` +
		`"boot":{"reason":"update","detail":"1.5.0","restarts":12,"at":"2026-11-20T10:00:00Z"},` +
		`"checks":[{"name":"disk","ok":false,"message":"98 % full","since":"2026-11-20T10:05:00Z"}],` +
		`"maintenance":"2026-11-20T12:00:00Z","settings":` + settingsSample + `}`
	samples["settings"] = settingsSample
	samples["reboot"] = `{"reason":"new kernel"}`
	samples["tryslot"] = `{"version":"1.5.0","force":true}`
	samples["approve"] = `{"version":"1.5.0"}`
	samples["maintenance"] = strings.Replace(samples["beacon"], `}}`, `},"maintenance":"2026-11-20T12:00:00Z"}`, 1)
	decoders["health"], decoders["settings"], decoders["reboot"] = again[Health], again[HealthSettings],
		again[RebootParams]
	decoders["tryslot"], decoders["approve"], decoders["maintenance"] = again[TryParams], again[ApproveParams],
		again[Beacon]
}

func FuzzHealth(f *testing.F)         { fuzz(f, none[Health], "health") }
func FuzzHealthSettings(f *testing.F) { fuzz(f, none[HealthSettings], "settings") }
func FuzzRebootParams(f *testing.F)   { fuzz(f, none[RebootParams], "reboot") }
func FuzzTryParams(f *testing.F)      { fuzz(f, none[TryParams], "tryslot") }
func FuzzApproveParams(f *testing.F)  { fuzz(f, none[ApproveParams], "approve") }

// Every rule of the messages of health, broken once.
func TestEveryRuleOfHealth(t *testing.T) {
	long := strings.Repeat("x", 257)
	for _, test := range []struct{ message, old, new, code, path string }{
		{"health", `"indicator":4`, `"indicator":0`, "missing", "/indicator"},
		{"health", `"indicator":4`, `"indicator":-1`, "missing", "/indicator"},
		{"health", `"indicator":4`, `"indicator":4,"load":{"cpu":1.5,"ram":0}`, "bad-value", "/load"},
		{"health", `"indicator":4`, `"indicator":4,"load":{"cpu":0,"ram":-0.1}`, "bad-value", "/load"},
		{"health", `"text":"in`, `"text":"\u0000in`, "bad-value", "/text"},
		{"health", `"since":"2026-11-20T10:00:00Z","result"`, `"since":"9999-12-31T23:59:59-01:00","result"`,
			"bad-value", "/contact/since"},
		{"health", `"last":"2026-11-20T10:09:00Z"`, `"last":"9999-12-31T23:59:59-01:00"`, "bad-value", "/contact/last"},
		{"health", `"document":"2026-11-20T10:00:01Z"`, `"document":"9999-12-31T23:59:59-01:00"`, "bad-value",
			"/contact/document"},
		{"health", `"success"`, `"maybe"`, "bad-value", "/contact/result"},
		{"health", `"id":"a"`, `"id":""`, "missing", "/slots/0/id"},
		{"health", `"id":"a"`, `"id":"/"`, "bad-value", "/slots/0/id"},
		{"health", `"version":"1.4.0"`, `"version":"` + long + `"`, "too-large", "/slots/0/version"},
		{"health", `"active"`, `"good"`, "bad-value", "/slots/0/state"},
		{"health", `"slots":[`, `"slots":[` + strings.Repeat(`{"id":"x","state":"unused"},`, 256), "too-large",
			"/slots"},
		{"health", `"current":"b"`, `"current":"` + long + `"`, "too-large", "/current"},
		{"health", `"name":"os"`, `"name":"an os"`, "bad-value", "/components/0/name"},
		{"health", `"name":"os"`, `"name":""`, "missing", "/components/0/name"},
		{"health", `"updating"`, `"good"`, "bad-value", "/components/0/state"},
		{"health", `"version":"6"`, `"version":"` + long + `"`, "too-large", "/components/0/version"},
		{"health", `"next":"7"`, `"next":"\n"`, "bad-value", "/components/0/next"},
		{"health", `"running":"6"`, `"running":"\n"`, "bad-value", "/components/0/running"},
		{"health", `"text":"staged"`, `"text":"` + long + `"`, "too-large", "/components/0/text"},
		{"health", `"components":[`, `"components":[` + strings.Repeat(`{"name":"x","state":"unused"},`, 256),
			"too-large", "/components"},
		{"health", `"hash":"sha256:b`, `"hash":"sha256:B`, "bad-value", "/slots/1/hash"},
		{"health", `"hash":"sha256:7`, `"hash":"sha256:`, "bad-value", "/components/0/hash"},
		{"health", `"component":"os","version":"5"`, `"component":"an os","version":"5"`, "bad-value",
			"/quarantine/0/component"},
		{"health", `"version":"5"`, `"version":"\n"`, "bad-value", "/quarantine/0/version"},
		{"health", `"hash":"sha256:5`, `"hash":"sha256:`, "bad-value", "/quarantine/0/hash"},
		{"health", `"text":"no contact"`, `"text":"` + long + `"`, "too-large", "/quarantine/0/text"},
		{"health", `"at":"2026-11-19T10:00:00Z"`, `"at":null`, "missing", "/quarantine/0/at"},
		{"health", `"quarantine":[`, `"quarantine":[` + strings.Repeat(`{"version":"5"},`, 16), "too-large",
			"/quarantine"},
		{"health", `"trial":{"slot":"b"`, `"trial":{"component":"an os","slot":"b"`, "bad-value", "/trial/component"},
		{"health", `"trial":{"slot":"b"`, `"trial":{"slot":""`, "missing", "/trial/slot"},
		{"health", `"slot":"b","version":"1.5.0"`, `"slot":"b","version":"\n"`, "bad-value", "/trial/version"},
		{"health", `"1.5.0","since":"2026-11-20T10:00:00Z"`, `"1.5.0","since":null`, "missing", "/trial/since"},
		{"health", `"remaining":"PT1M"`, `"remaining":"1m"`, "bad-value", "/trial/remaining"},
		{"health", `"deadline":"PT21M","offline"`, `"deadline":"PT0S","offline"`, "bad-value", "/trial/deadline"},
		{"health", `"approval":"needed"`, `"approval":"` + long + `"`, "too-large", "/trial/approval"},
		{"health", `"waitsFor":[`, `"waitsFor":[` + strings.Repeat(`{"code":"x","text":""},`, 256), "too-large",
			"/trial/waitsFor"},
		{"health", `"code":"check"`, `"code":""`, "missing", "/trial/waitsFor/0/code"},
		{"health", `"name":"disk","text"`, `"name":"` + long + `","text"`, "too-large", "/trial/waitsFor/0/name"},
		{"health", `"text":"98 % full"`, `"text":"\u001b"`, "bad-value", "/trial/waitsFor/0/text"},
		{"health", `"reason":"reboot-command"`, `"reason":""`, "missing", "/restart/reason"},
		{"health", `"detail":"new kernel"`, `"detail":"\n"`, "bad-value", "/restart/detail"},
		{"health", `"at":"2026-11-20T10:10:00Z"`, `"at":null`, "missing", "/restart/at"},
		{"health", `"reason":"update"`, `"reason":""`, "missing", "/boot/reason"},
		{"health", `"detail":"1.5.0"`, `"detail":"` + long + `"`, "too-large", "/boot/detail"},
		{"health", `"restarts":12`, `"restarts":-1`, "bad-value", "/boot/restarts"},
		{"health", `"restarts":12,"at":"2026-11-20T10:00:00Z"`, `"restarts":12`, "missing", "/boot/at"},
		{"health", `"checks":[{"name":"disk"`, `"checks":[{"name":""`, "missing", "/checks/0/name"},
		{"health", `"ok":false,"message":"98 % full"`, `"ok":false,"message":"\u0007"`, "bad-value",
			"/checks/0/message"},
		{"health", `"since":"2026-11-20T10:05:00Z"`, `"since":null`, "missing", "/checks/0/since"},
		{"health", `"checks":[`, `"checks":[` + strings.Repeat(`{"name":"x","ok":true,"since":"2026-11-20T10:00:00Z"},`,
			256), "too-large", "/checks"},
		{"health", `"maintenance":"2026-11-20T12:00:00Z"`, `"maintenance":"9999-12-31T23:59:59-01:00"`, "bad-value",
			"/maintenance"},
		{"health", `"formatVersion":"1",`, ``, "missing", "/settings/formatVersion"},
		{"health", `"boot":{`, `"boots":{`, "unknown-field", "/boots"},
		{"settings", `"formatVersion":"1",`, ``, "missing", "/formatVersion"},
		{"settings", `"formatVersion":"1"`, `"formatVersion":"2"`, "wrong-version", "/formatVersion"},
		{"settings", `"reset"`, `"Reset"`, "unknown-field", "/Reset"},
		{"settings", `"reset":"P7D"`, `"reset":604800`, "bad-value", "/reset"},
		{"settings", `"reset":"P7D"`, `"reset":"P1M"`, "bad-value", "/reset"},
		{"settings", `"reset":"P7D"`, `"reset":"PT600.5S"`, "bad-value", "/reset"},
		{"settings", `"reset":"P7D"`, `"reset":"PT0S"`, "bad-value", "/reset"},
		{"settings", `"reset":"P7D"`, `"reset":"PT119S"`, "bad-value", "/reset"},
		{"settings", `"reset":"P7D"`, `"reset":"PT4294967296S"`, "bad-value", "/reset"},
		{"settings", `"reset":"P7D"`, `"reset":"PT299S"`, "bad-value", "/reset"}, // below fallback
		{"settings", `"fallback":"PT5M"`, `"fallback":"PT59S"`, "bad-value", "/fallback"},
		{"settings", `"fallback":"PT5M"`, `"fallback":"PT2M29S"`, "bad-value", "/fallback"}, // below contact
		{"settings", `"test":"PT10M"`, `"test":"PT29S"`, "bad-value", "/test"},
		{"settings", `"test":"PT10M"`, `"test":"PT3601S"`, "bad-value", "/test"},
		{"settings", `"test":"PT10M"`, `"test":"PT1M"`, "bad-value", "/test"}, // not above watchdog
		{"settings", `"deadline":"PT30M"`, `"deadline":"PT14M59S"`, "bad-value", "/deadline"},
		{"settings", `"contact":"PT2M30S"`, `"contact":"PT74S"`, "bad-value", "/contact"},
		{"settings", `"contact":"PT2M30S"`, `"contact":"PT1H1S"`, "bad-value", "/contact"},
		{"settings", `"watchdog":"PT1M"`, `"watchdog":"PT9S"`, "bad-value", "/watchdog"},
		{"settings", `"watchdog":"PT1M"`, `"watchdog":"PT2H"`, "bad-value", "/watchdog"},
		{"settings", `"approval":false`, `"approval":"no"`, "bad-value", "/approval"},
		{"settings", `"cpu":{"max":0.98`, `"cpu":{"max":98`, "bad-value", "/checks/cpu/max"},
		{"settings", `"cpu":{"max":0.98`, `"cpu":{"max":0`, "bad-value", "/checks/cpu/max"},
		{"settings", `"ram":{"max":0.98`, `"ram":{"max":1.01`, "bad-value", "/checks/ram/max"},
		{"settings", `"disk":{"max":0.9`, `"disk":{"max":-1`, "bad-value", "/checks/disk/max"},
		{"settings", `"network":{"max":12500000`, `"network":{"max":0`, "bad-value", "/checks/network/max"},
		{"settings", `"disk"`, `"disc"`, "unknown-field", "/checks/disc"},
		{"reboot", `new kernel`, ``, "missing", "/reason"},
		{"reboot", `new kernel`, `new\nkernel`, "bad-value", "/reason"},
		{"tryslot", `{"version"`, `{"component":"an os","version"`, "bad-value", "/component"},
		{"tryslot", `1.5.0`, long, "too-large", "/version"},
		{"approve", `1.5.0`, ``, "missing", "/version"},
		{"maintenance", `"2026-11-20T12:00:00Z"`, `"9999-12-31T23:59:59-01:00"`, "bad-value", "/maintenance"},
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

// The bounds themselves are allowed, and so is what the contract says may be left out or grow.
func TestHealthToTheLimit(t *testing.T) {
	for _, text := range []string{
		`{"formatVersion":"1"}`,
		`{"formatVersion":"1","reset":"PT4294967295S"}`,
		`{"formatVersion":"1","reset":"PT2M","fallback":"PT2M","contact":"PT75S"}`,
		`{"formatVersion":"1","fallback":"PT4294967295S","reset":"PT4294967295S","deadline":"PT4294967295S",` +
			`"test":"PT2M"}`,
		`{"formatVersion":"1","fallback":"PT75S","contact":"PT75S"}`,
		`{"formatVersion":"1","test":"PT30S","watchdog":"PT29S"}`,
		`{"formatVersion":"1","test":"PT1H"}`,
		`{"formatVersion":"1","test":"PT10M","fallback":"PT5M","deadline":"PT15M"}`,
		`{"formatVersion":"1","checks":{"cpu":{"max":1}}}`,
		`{"formatVersion":"1","approval":true,"checks":null}`,
	} {
		m, err := Decode[HealthSettings]([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if c := m.Complete(); c.Check() != nil || c.Reset == 0 || c.Deadline < min(c.Test+c.Fallback, MaxSpan) ||
			c.Checks.Network != nil && c.Checks.Network.Max == 0 {
			t.Errorf("%s is complete as %+v: %v", text, c, c.Check())
		}
	}
	if _, err := Decode[Health](
		[]byte(strings.Replace(strings.Replace(samples["health"], `"code":"check"`, `"code":"of-tomorrow"`, 1),
			`"update"`, `"of-tomorrow"`, 1))); err != nil {
		t.Error(err)
	}
}

func TestHealthDefaults(t *testing.T) {
	c := HealthSettings{}.Complete()
	if got := string(Encode(&c)); got != `{"formatVersion":"1","reset":"P7D","fallback":"PT5M","test":"PT10M",`+
		`"deadline":"PT30M","contact":"PT2M30S","watchdog":"PT1M","approval":false,"reboot":true,`+
		`"checks":{"cpu":{"max":0.98,"for":"PT5M"},"ram":{"max":0.98,"for":"PT1M"},"disk":{"max":0.98,"for":"PT1M"}}}` {
		t.Error(got)
	}
	if c := (HealthSettings{Approval: new(true)}).Complete(); c.Deadline != ApprovalDeadline {
		t.Errorf("with approval the deadline is %v", c.Deadline)
	}
	own := HealthSettings{Checks: &HealthLimits{CPU: &HealthLimit{Max: 0.5}}}
	if c := own.Complete(); c.Checks.CPU.Max != 0.5 || c.Checks.Disk == nil || own.Checks.Disk != nil {
		t.Errorf("%+v changed %+v", c.Checks, own.Checks)
	}
}

// What Complete makes of any settings is either sound or refused for a field of the settings; it is
// complete, and completing it again changes nothing.
func TestHealthSettingsComplete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		any := func(name string, least, most Span) Span {
			if rapid.Bool().Draw(t, name+" given") {
				return Span(rapid.Int64Range(int64(least/second), int64(most/second)).Draw(t, name)) * second
			}
			return 0
		}
		h := HealthSettings{FormatVersion: HealthFormat, Reset: any("reset", 1, MaxReset),
			Fallback: any("fallback", MinFallback, MaxFallback),
			Test:     any("test", MinTest, MaxTest), Deadline: any("deadline", 0, MaxSpan),
			Contact: any("contact", MinContact, MaxContact)}
		c := h.Complete()
		one, two := c, c.Complete()
		if string(Encode(&one)) != string(Encode(&two)) {
			t.Fatalf("%+v became %+v", c, c.Complete())
		}
		if err := h.Check(); err == nil {
			if c.Contact > c.Fallback || c.Fallback > c.Reset || c.Watchdog >= c.Test ||
				c.Deadline < min(c.Test+c.Fallback, MaxSpan) {
				t.Fatalf("%+v was let through", c)
			}
		} else if err.Code != CodeBadValue || err.Path == "" {
			t.Fatalf("%+v: %v", h, err)
		}
	})
}

func TestSpans(t *testing.T) {
	for in, want := range map[string]string{
		"PT1S": "PT1S", "PT90S": "PT1M30S", "P1W": "P7D", "P1DT24H": "P2D", "PT4294967295S": "P49710DT6H28M15S",
		"P0DT1S": "PT1S", "PT0H1M": "PT1M",
		"": "", "P": "", "PT": "", "PT0S": "", "P1Y": "", "P1M": "", "PT1.5S": "", "PT1,5S": "", "-PT1S": "",
		"PT4294967296S": "", "P9999999999W": "", "P4294967295W": "",
		"PT99999999999999999999S": "", "pt1s": "", " PT1S": "",
	} {
		var s Span
		err := s.UnmarshalText([]byte(in))
		switch {
		case want == "" && err == nil:
			t.Errorf("%q is %v", in, s)
		case want != "" && (err != nil || s.String() != want):
			t.Errorf("%q is %v, want %s: %v", in, s, want, err)
		}
	}
	for d, want := range map[time.Duration]Span{0: 0, -time.Hour: 0, 1: second, time.Second: second, time.Second +
		1: 2 * second, 1<<63 - 1: MaxSpan} {
		if got := SpanOf(d); got != want {
			t.Errorf("%v is %v", d, got)
		}
	}
	if s := Span(0); s.String() != "PT0S" {
		t.Error(s)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := Span(rapid.Int64Range(1, int64(MaxSpan/second)).Draw(t, "seconds")) * second
		b, err := json.Marshal(s)
		var got Span
		if err == nil {
			err = json.Unmarshal(b, &got)
		}
		if err != nil || got != s {
			t.Fatalf("%v became %s became %v: %v", s, b, got, err)
		}
	})
}

func TestIndicators(t *testing.T) {
	for i, text := range IndicatorTexts {
		if i <= 0 || i > 4 && i < 10 || text == "" || len(text) > MaxText {
			t.Errorf("indicator %d: %q", i, text)
		}
	}
}
