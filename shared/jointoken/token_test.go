package jointoken

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"
)

func sample(t testing.TB, node string) Token {
	t.Helper()
	tok, err := New(node, FingerprintOf([]byte("a CA")), rand.NewChaCha8([32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

var names = rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,62}`)

func TestParseUndoesText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Token{Node: names.Draw(t, "node")}
		if rapid.Bool().Draw(t, "of a batch") {
			want.Node, want.Batch = "", want.Node
		}
		copy(want.Secret[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "secret"))
		copy(want.CA[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "ca"))
		text := want.Text()
		if len(text) > MaxText || strings.ContainsAny(text, " \n\"'+/=") {
			t.Fatalf("%q cannot be copied as one word", text)
		}
		space := rapid.SampledFrom([]string{"", " ", "\n", "\r\n", "\t "})
		got, err := Parse(space.Draw(t, "before") + text + space.Draw(t, "after"))
		if err != nil || got != want {
			t.Fatalf("%+v came back as %+v, %v", want, got, err)
		}
	})
}

// What goes wrong when people copy.
func TestParseNoticesEveryMistake(t *testing.T) {
	text := sample(t, "node-1").Text()
	for i := range text {
		for what, bad := range map[string]string{
			"cut":     text[:i],
			"lost":    text[:i] + text[i+1:],
			"doubled": text[:i] + text[i:i+1] + text[i:],
			"changed": text[:i] + map[bool]string{true: "B", false: "A"}[text[i] == 'A'] + text[i+1:],
			"broken":  text[:i] + "\n" + text[i:],
		} {
			if bad == text || strings.TrimSpace(bad) == text {
				continue
			}
			if got, err := Parse(bad); err == nil {
				t.Fatalf("%s at %d: read as %v", what, i, got)
			} else if !errors.Is(err, ErrFormat) {
				t.Fatalf("%s at %d: %v is no ErrFormat", what, i, err)
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	text := sample(t, "node-1").Text()
	for _, c := range []struct{ text, why string }{
		{"", "it is empty"},
		{"  \n", "it is empty"},
		{"tdm2." + text[5:], "does not begin with tdm1."},
		{text + text, "too long"},
		{strings.Repeat("x", 1<<20), "does not begin"},
		{Prefix + strings.Repeat("A", 1<<20), "too long"},
		{Prefix, "a part of it is missing"},
		{Prefix + "Aw", "format 3 is newer"},
	} {
		if _, err := Parse(c.text); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%.40q: %v, want %q", c.text, err, c.why)
		}
	}
}

func TestNewRefusesBadNames(t *testing.T) {
	for _, name := range []string{"", "-x", "a b", "a/b", "+", strings.Repeat("n", 64)} {
		if tok, err := New(name, Fingerprint{}, rand.NewChaCha8([32]byte{})); err == nil {
			t.Errorf("%q: %v", name, tok)
		}
	}
	if _, err := New("n1", Fingerprint{}, io.LimitReader(rand.NewChaCha8([32]byte{}), 15)); err == nil {
		t.Error("a token was made though there was not enough chance")
	}
}

// No way of printing shows the secret.
func TestSecretsDoNotPrint(t *testing.T) {
	tok := sample(t, "node-1")
	secret := hex.EncodeToString(tok.Secret[:])
	asJSON, err := json.Marshal(tok)
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{tok.String(), tok.GoString(), tok.Secret.String(), string(asJSON)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o", "%b"} {
		texts = append(texts, fmt.Sprintf(verb, tok.Secret), fmt.Sprintf(verb, &tok.Secret),
			fmt.Sprintf(verb, []Secret{tok.Secret}))
		if strings.ContainsAny(verb, "vsq") {
			texts = append(texts, fmt.Sprintf(verb, tok), fmt.Sprintf(verb, &tok))
		}
	}
	raw := strings.Trim(fmt.Sprint(tok.Secret[:4]), "[]")
	for _, text := range texts {
		low := strings.ToLower(text)
		if strings.Contains(low, secret[:8]) || strings.Contains(text, tok.Text()) || strings.Contains(text, raw) {
			t.Errorf("shows the secret: %s", text)
		}
	}
	if _, err := Parse(tok.Text()[:30] + "!" + tok.Text()[31:]); err == nil ||
		strings.Contains(err.Error(), tok.Text()[10:20]) {
		t.Errorf("the error repeats the token: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(sample(f, "node-1").Text())
	f.Add("tdm1.")
	f.Add(" tdm1.AQ \n")
	f.Fuzz(func(t *testing.T, text string) {
		tok, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("%v is no ErrFormat", err)
			}
			return
		}
		if tok.Text() != strings.TrimSpace(text) {
			t.Fatalf("%q is read and written as %q", text, tok.Text())
		}
	})
}

func FuzzMessages(f *testing.F) {
	tok := sample(f, "node-1")
	req := NewJoinRequest(tok, []byte("a request"))
	b, err := Encode(&req)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"csr":"AAAA"}`))
	f.Add([]byte(`{"unit":"u","node":"n","certificate":"AA==","ca":"AA==","unitKeys":[{"kid":"k","ed25519":"` +
		strings.Repeat("A", 43) + `="}],"brokers":[{"url":"tls://h:1"}]}`))
	f.Add([]byte(`{"unit":"u","unitKeys":[{"kid":"k","ed25519":"` + strings.Repeat("A", 43) + `="}],"keysRev":7}`))
	f.Add([]byte(`{"unit":"u","node":"n","certificate":"AA==","ca":"AA==","keysRev":3,"floor":{"epoch":3,"rev":9,` +
		`"kinds":{"config":{"epoch":3,"rev":2}},"time":"2026-11-20T10:00:00Z"},"unitKeys":[{"kid":"k",` +
		`"ed25519":"` + strings.Repeat("A", 43) + `="}],"brokers":[{"url":"tls://h:1"}]}`))
	f.Add([]byte(`{"error":{"code":"expired","message":"m"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := DecodeJoin(data); err == nil {
			again, err := Encode(r)
			if err != nil {
				t.Fatal(err)
			}
			back, err := DecodeJoin(again)
			if err != nil || back.Node != r.Node || back.Secret != r.Secret || !bytes.Equal(back.CSR, r.CSR) {
				t.Fatalf("%s came back as %v, %v", again, back, err)
			}
		}
		if _, err := DecodeRenew(data); err != nil && err.Error() == "" {
			t.Fatal("an empty error")
		}
		if l, err := DecodeKeys(data); err == nil {
			again, err := Encode(l)
			if err != nil {
				t.Fatal(err)
			}
			if back, err := DecodeKeys(again); err != nil || back.KeysRev != l.KeysRev ||
				len(back.UnitKeys) != len(l.UnitKeys) {
				t.Fatalf("%s came back as %v, %v", again, back, err)
			}
		}
		if a, err := DecodeAdmission(data); err == nil {
			again, err := Encode(a)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := DecodeAdmission(again); err != nil && len(again) <= MaxAnswer {
				t.Fatal(err)
			}
		}
		DecodeRefusal(data)
	})
}
