package jointoken

import (
	"errors"
	"strings"
	"testing"

	"tandem.internal/shared/wire"
)

func code(err error) wire.Code {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e.Code
	}
	return ""
}

func TestDecodeJoin(t *testing.T) {
	secret := strings.Repeat("0a", 16)
	for _, c := range []struct {
		name, body string
		want       wire.Code // "": good
	}{
		{"good", `{"node":"n1","secret":"` + secret + `","csr":"AAAA"}`, ""},
		{"no object", `[]`, wire.CodeBadValue},
		{"null", `null`, wire.CodeBadValue},
		{"nothing", ``, wire.CodeMalformed},
		{"cut off", `{"node":"n1"`, wire.CodeMalformed},
		{"two values", `{"node":"n1","secret":"` + secret + `","csr":"AAAA"}{}`, wire.CodeMalformed},
		{"unknown field", `{"node":"n1","secret":"` + secret + `","csr":"AAAA","role":"controller"}`,
			wire.CodeUnknownField},
		{"other case", `{"Node":"n1","secret":"` + secret + `","csr":"AAAA"}`, wire.CodeUnknownField},
		{"twice", `{"node":"n1","node":"n2","secret":"` + secret + `","csr":"AAAA"}`, wire.CodeDuplicate},
		{"bad node", `{"node":"n/1","secret":"` + secret + `","csr":"AAAA"}`, wire.CodeBadValue},
		{"no node", `{"secret":"` + secret + `","csr":"AAAA"}`, wire.CodeBadValue},
		{"short secret", `{"node":"n1","secret":"0a","csr":"AAAA"}`, wire.CodeBadValue},
		{"long secret", `{"node":"n1","secret":"` + secret + `00","csr":"AAAA"}`, wire.CodeBadValue},
		{"no hex", `{"node":"n1","secret":"` + strings.Repeat("zz", 16) + `","csr":"AAAA"}`, wire.CodeBadValue},
		{"no csr", `{"node":"n1","secret":"` + secret + `"}`, wire.CodeMissing},
		{"csr of another type", `{"node":"n1","secret":"` + secret + `","csr":17}`, wire.CodeBadValue},
		{"huge", `{"node":"n1","secret":"` + secret + `","csr":"` + strings.Repeat("A", MaxRequest) + `"}`,
			wire.CodeTooLarge},
		{"deep", strings.Repeat(`{"a":`, 3000), wire.CodeUnknownField},
	} {
		_, err := DecodeJoin([]byte(c.body))
		if got := code(err); got != c.want {
			t.Errorf("%s: %v, want code %q", c.name, err, c.want)
		}
		if err != nil && (strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "zz")) {
			t.Errorf("%s: the error repeats the input: %v", c.name, err)
		}
	}
}

func TestDecodeRenew(t *testing.T) {
	for body, want := range map[string]wire.Code{
		`{"csr":"AAAA"}`:            "",
		`{}`:                        wire.CodeMissing,
		`{"csr":"AAAA","node":"n"}`: wire.CodeUnknownField,
		`"csr"`:                     wire.CodeBadValue,
	} {
		if _, err := DecodeRenew([]byte(body)); code(err) != want {
			t.Errorf("%s: %v, want code %q", body, err, want)
		}
	}
}

func admission() Admission {
	return Admission{Unit: "u1", Node: "n1", Certificate: []byte{1}, CA: []byte{2},
		UnitKeys: []wire.Key{{ID: "k1", Ed25519: make([]byte, 32)}},
		Brokers:  []Broker{{URL: "tls://10.0.0.1:8883", Name: ServerName}}}
}

func TestDecodeAdmission(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Admission)
		want   wire.Code
	}{
		{"good", func(*Admission) {}, ""},
		{"no unit", func(a *Admission) { a.Unit = "" }, wire.CodeBadValue},
		{"bad node", func(a *Admission) { a.Node = "../n" }, wire.CodeBadValue},
		{"no certificate", func(a *Admission) { a.Certificate = nil }, wire.CodeMissing},
		{"no CA", func(a *Admission) { a.CA = nil }, wire.CodeMissing},
		{"no keys", func(a *Admission) { a.UnitKeys = nil }, wire.CodeBadValue},
		{"many keys", func(a *Admission) { a.UnitKeys = make([]wire.Key, 17) }, wire.CodeBadValue},
		{"short key", func(a *Admission) { a.UnitKeys[0].Ed25519 = []byte{1} }, wire.CodeBadValue},
		{"a floor", func(a *Admission) {
			a.Floor = Floor{Epoch: 3, Rev: 9, Kinds: map[wire.Kind]wire.Stamp{"config": {Epoch: 3, Rev: 2}}}
		}, ""},
		{"a floor of no kind", func(a *Admission) {
			a.Floor.Kinds = map[wire.Kind]wire.Stamp{"a/b": {Epoch: 3,
				Rev: 2}}
		}, wire.CodeBadValue},
		{"a floor of no stamp", func(a *Admission) { a.Floor.Kinds = map[wire.Kind]wire.Stamp{"config": {}} },
			wire.CodeBadValue},
		{"nameless key", func(a *Admission) { a.UnitKeys[0].ID = "" }, wire.CodeBadValue},
		{"no broker", func(a *Admission) { a.Brokers = nil }, wire.CodeBadValue},
		{"empty broker", func(a *Admission) { a.Brokers[0].URL = "" }, wire.CodeBadValue},
		{"long broker", func(a *Admission) { a.Brokers[0].URL = strings.Repeat("u", 513) }, wire.CodeBadValue},
		{"huge", func(a *Admission) { a.Certificate = make([]byte, MaxAnswer) }, wire.CodeTooLarge},
	} {
		a := admission()
		c.change(&a)
		b, err := Encode(&a)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeAdmission(b); code(err) != c.want {
			t.Errorf("%s: %v, want code %q", c.name, err, c.want)
		}
	}
}

func TestDecodeKeys(t *testing.T) {
	const key = `{"kid":"k","ed25519":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}`
	for body, want := range map[string]wire.Code{
		`{"unit":"u1","unitKeys":[` + key + `],"keysRev":7}`:                       "",
		`{"unit":"u1","unitKeys":[` + key + `]}`:                                   "",
		`{"unit":"u1","unitKeys":[]}`:                                              wire.CodeBadValue,
		`{"unit":"u1"}`:                                                            wire.CodeBadValue,
		`{"unit":"","unitKeys":[` + key + `]}`:                                     wire.CodeBadValue,
		`{"unit":"u1","unitKeys":[` + key + `],"keysRev":-1}`:                      wire.CodeBadValue,
		`{"unit":"u1","unitKeys":[` + key + `],"more":1}`:                          wire.CodeUnknownField,
		`{"unit":"u1","unitKeys":[` + strings.Repeat(key+",", 16) + key + `]}`:     wire.CodeBadValue,
		`{"unit":"u1","unitKeys":[` + strings.Replace(key, `"AAAA`, `"`, 1) + `]}`: wire.CodeBadValue,
		`[]`: wire.CodeBadValue,
		``:   wire.CodeMalformed,
	} {
		if _, err := DecodeKeys([]byte(body)); code(err) != want {
			t.Errorf("%.100s: %v, want code %q", body, err, want)
		}
	}
}

func TestDecodeRefusal(t *testing.T) {
	for body, want := range map[string]wire.Code{
		`{"error":{"code":"expired","message":"m"}}`:           "expired",
		`{"error":{"code":"expired","message":"m"},"extra":1}`: "expired", // a newer controller may say more
		`{"error":null}`: "", `{}`: "", `<html>`: "", ``: "", `{"error":{"message":"m"}}`: "",
		strings.Repeat(" ", MaxAnswer+1): "",
	} {
		got := wire.Code("")
		if e := DecodeRefusal([]byte(body)); e != nil {
			got = e.Code
		}
		if got != want {
			t.Errorf("%.60s: %q, want %q", body, got, want)
		}
	}
}

func TestIdentities(t *testing.T) {
	for _, s := range []string{"controller", "node/n1", "cloud/eu", "operator/ann"} {
		unit, subject, err := ParseIdentity(IdentityURI("u1", s))
		if err != nil || unit != "u1" || subject != s {
			t.Errorf("%s: %q %q %v", s, unit, subject, err)
		}
	}
	for _, s := range []string{"", "tandem:", "tandem://", "tandem://u1", "tandem://u1/", "tandem://u1/node",
		"tandem://u1/node/", "tandem://u1/node/a/b",
		"tandem://u1/node/+", "tandem://u1/admin/x", "tandem:///node/n1", "tandem://u 1/node/n1", "https://u1/node/n1",
		"TANDEM://u1/node/n1",
		"tandem://u1/node/n1?x", "tandem://u1/node/%6e1", "tandem://user@u1/node/n1", "tandem://u1:80/node/n1",
		"tandem://u1/controller/x"} {
		if unit, subject, err := ParseIdentity(s); err == nil {
			t.Errorf("%q is read as %q %q", s, unit, subject)
		}
	}
}
