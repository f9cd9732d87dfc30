package diag

import (
	"strings"
	"testing"
)

// What has the form or the name of a secret goes; what is about secrets stays.
func TestScrub(t *testing.T) {
	s := newScrubber([]string{"hooks.example.org"})
	for text, want := range map[string]string{
		"password=a b":                                     "password=*** b",
		`API_KEY: "a \" b", x`:                             `API_KEY: ***, x`,
		`{\"apiKey\":\"abc\",\"n\":1}`:                     `{\"apiKey\":\"***\",\"n\":1}`,
		"DB.PASSWD='a b' c":                                "DB.PASSWD=*** c",
		"run --auth-token abc -v":                          "run --auth-token *** -v",
		"Bearer abcdefgh":                                  "Bearer ***",
		"https://u:p@h:1/a?b=c d":                          "https://***@h:1/*** d",
		"https://h#once=abc":                               "https://h/***",
		"https://gateway:8885 is asked":                    "https://gateway:8885 is asked",
		"mqtts://h:8883/x":                                 "mqtts://h:8883/***",
		"HTTPS://h/abc and S3://b/c":                       "HTTPS://h/*** and S3://b/***",
		`{"url":"https:\/\/h\/abc"}`:                       `{"url":"https:\/\/h/***"}`,
		"unix:///run/control.sock":                         "unix:///run/control.sock",
		"Authorization: Digest abc, response=d":            "Authorization: ***",
		`{"Cookie":"a=b; c=d","n":1}`:                      `{"Cookie":***,"n":1}`,
		"DB_PASS=a bypass=b pwd=c":                         "DB_PASS=*** bypass=b pwd=***",
		"AWS_SECRET_ACCESS_KEY=a AccessKey: b":             "AWS_SECRET_ACCESS_KEY=*** AccessKey: ***",
		"with ghp_abcdefghijklmnop by AKIAABCDEFGHIJKL":    "with *** by ***",
		"dial Hooks.Example.org:443":                       "dial ***:443",
		"xhooks.example.org":                               "xhooks.example.org",
		"-----BEGIN EC PRIVATE KEY-----\nabc":              "***",
		"-----BEGIN CERTIFICATE-----\nabc\n-----E":         "-----BEGIN CERTIFICATE-----\nabc\n-----E",
		"token/ann, tdx1.ab-c_d.":                          "token/ann, ***.",
		"the token was revoked":                            "the token was revoked",
		"receiver of notices p was added: http://h, level": "receiver of notices p was added: ***, level",
	} {
		if got := s.text(text); got != want {
			t.Errorf("%s\nis  %s\nnot %s", text, got, want)
		}
	}
}

func TestScrubJSON(t *testing.T) {
	s := newScrubber(nil)
	doc, err := s.json([]byte(`{"Password":{"a":["deep"]},"n":[{"apiKeys":["x"],"token":"","secret":7},` +
		`"\u0074do1.abc"],"tdo1.name":"\u009b","hasToken":true,"tokens ok":1}`))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"Password":"***","n":[{"apiKeys":"***","token":"","secret":"***"},"***"],` +
		`"***":"\u009b","hasToken":true,"tokensok":1}`
	if got := strings.NewReplacer("\n", "", " ", "").Replace(string(doc)); got != want {
		t.Errorf("%s\n%s", got, want)
	}
	if s.found["named secret"] != 3 || s.found["token"] != 2 {
		t.Error(s.found)
	}
	for _, bad := range []string{`{"token":`, `{"a"`, `[1,`} {
		if _, err := s.json([]byte(bad)); err == nil {
			t.Errorf("%s is no JSON", bad)
		}
	}
}
