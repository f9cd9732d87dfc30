package workload

import (
	"strings"
	"testing"
)

// TestHide: the values of secrets are hidden wherever they stand, and every other byte stays.
func TestHide(t *testing.T) {
	for in, want := range map[string]string{
		`[]`: `[]`,
		` [ {"a":"secret.x", "secret.a" : "p\"w" ,"secret":"b"} ] ` + "\n": ` [ {"a":"secret.x", ` +
			`"secret.a" : "(hidden)" ,"secret":"b"} ] ` + "\n",
		`{"secret.a":{"deep":["x"]},"b":[{"secret.c":"y"},"secret.d"]}`: `{"secret.a":"(hidden)","b":[{"secret.c":` +
			`"(hidden)"},"secret.d"]}`,
		`{"\u0073ecret.a":"x","secret.a":"y"}`: `{"\u0073ecret.a":"(hidden)","secret.a":"(hidden)"}`,
	} {
		if got, err := Hide([]byte(in)); err != nil || string(got) != want {
			t.Errorf("%s: %s %v", in, got, err)
		}
	}
	for _, bad := range []string{`{"secret.a"`, `{"secret.a":}`, `[`, `{"a":1]`} {
		if got, err := Hide([]byte(bad)); err == nil {
			t.Errorf("%s: %s", bad, got)
		}
	}
}

func FuzzHide(f *testing.F) {
	f.Add([]byte(`{"secret.a":"x","b":[1]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Hide(data)
		if err == nil && !strings.Contains(string(data), "ecret") && string(got) != string(data) {
			t.Errorf("%q became %q", data, got)
		}
		if again, aerr := Hide(got); err == nil && (aerr != nil || string(again) != string(got)) {
			t.Errorf("hidden twice: %q, %v", again, aerr)
		}
	})
}
