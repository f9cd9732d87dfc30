package apitoken

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

func TestParse(t *testing.T) {
	good := New()
	text := good.Text()
	join := "tdm1.AQZub2RlLTUAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABYrhcY"
	for _, c := range []struct{ text, want string }{
		{text, ""},
		{"  " + text + "\r\n", ""},
		{"", "empty"},
		{" \n", "empty"},
		{text[:len(text)-1], "missing"},
		{text[:5], "missing"},
		{text + "A", "twice"},
		{text + text, "twice"},
		{text[5:], "begin with tdo1."},
		{strings.ToUpper(text), "begin with"},
		{join, "node joins"},
		{text[:20] + "=" + text[21:], "character"},
		{text[:20] + "\n" + text[21:], "character"},
		{text[:20] + "\x00" + text[21:], "character"},
	} {
		s, err := Parse(c.text)
		if c.want == "" && (err != nil || s != good) {
			t.Errorf("%q: %v", c.text, err)
		}
		if c.want != "" && (!errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
		if err != nil && len(c.text) > 8 && strings.Contains(err.Error(), strings.TrimSpace(c.text)) {
			t.Errorf("the error repeats the text: %v", err)
		}
	}
}

// TestOneWrongCharacterIsNoticed: whichever it is.
func TestOneWrongCharacterIsNoticed(t *testing.T) {
	text := New().Text()
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for i := len(Prefix); i < len(text); i++ {
		for _, c := range alphabet {
			if other := text[:i] + string(c) + text[i+1:]; other != text {
				if _, err := Parse(other); err == nil {
					t.Fatalf("character %d may be %c", i, c)
				}
			}
		}
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	s := New()
	j, err := json.Marshal(struct{ S Secret }{s})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{s.String(), fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %x %q %s", s, s, s, s, s, s),
		fmt.Sprintf("%v", []Secret{s}), string(j)} {
		if !strings.Contains(text, "(secret)") || strings.Contains(text, s.Text()[5:20]) ||
			strings.Contains(text, fmt.Sprintf("%x", s[:4])) {
			t.Errorf("%s", text)
		}
	}
	if other := New(); other == s {
		t.Error("two secrets are one")
	}
}

func FuzzParse(f *testing.F) {
	good := New().Text()
	for _, s := range []string{good, good[:20], " " + good + "\n", Prefix, "", "tdm1.AAAA", good + good, Prefix +
		strings.Repeat("A", 48), Prefix + strings.Repeat("\n", 48)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("%v", err)
			}
			return
		}
		if s.Text() != strings.TrimSpace(text) {
			t.Fatalf("%q is read, but written differently", text) // one secret, one text
		}
	})
}
