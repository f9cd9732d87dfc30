package deliver

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tandem.internal/controller/internal/notify"
)

// Many a server repeats in a 404 what it was asked for. Path and query of a receiver are as good as a password.
func TestAnswersThatRepeatTheAddress(t *testing.T) {
	const asked = "/Services/T0-SEKRET1/a%20SEKRET2/x?key=SEKRET3&in=SEKRET%2B4+5"
	for _, answer := range []string{
		"Cannot POST " + asked, "no \"/services/t0-sekret1\"", "no a SEKRET2", "no SEKRET+4 5, no SEKRET%2b4+5",
		`{"path":"\/Services\/T0-SEKRET1\/a SEKRET2","q":"key=SEKRET3&amp;in=SEKRET+4 5"}`,
		strings.Repeat("x", shownAnswer-5) + "SEKRET3",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, answer, http.StatusNotFound)
		}))
		a := send(t, notify.Receiver{URL: s.URL + asked})
		s.Close()
		if text := strings.ToUpper(a.Text + a.Err); a.Status != 404 || strings.Contains(text, "SEKR") {
			t.Errorf("%s: shown is %+v", answer, a)
		}
	}
	for path, answer := range map[string]string{"/SEKR": "no SEKR", "/SEKR/SEKRET4": "no SEKRET4"} {
		c := sender{secret: secretParts(&notify.Receiver{URL: "https://h" + path})}
		if got := c.clean(answer); got != "no ***" {
			t.Errorf("%s: shown is %q", path, got)
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "in no way: /in", http.StatusBadRequest)
	}))
	defer s.Close()
	for _, url := range []string{s.URL, s.URL + "/", s.URL + "/in"} {
		if a := send(t, notify.Receiver{URL: url}); a.Text != "in no way: /in" {
			t.Errorf("%s: shown is %q", url, a.Text)
		}
	}
}
