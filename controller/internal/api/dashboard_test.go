package api_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"tandem.internal/controller/internal/tokens"
)

// TestDashboardIsServed: to whoever asks, with a policy that lets nothing in but its own files.
func TestDashboardIsServed(t *testing.T) {
	_, h := sample(t)
	for path, want := range map[string]string{
		"/": "text/html; charset=utf-8", "/dashboard.js": "text/javascript; charset=utf-8",
		"/dashboard.css": "text/css; charset=utf-8",
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != 200 || w.Header().Get("Content-Type") != want {
			t.Errorf("%s: %d %s", path, w.Code, w.Header().Get("Content-Type"))
		}
		policy := map[string]string{}
		for rule := range strings.SplitSeq(w.Header().Get("Content-Security-Policy"), ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(rule), " ")
			policy[name] = value
		}
		for name, value := range map[string]string{"default-src": "'none'", "script-src": "'self'",
			"style-src": "'self'", "connect-src": "'self'",
			"base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'",
			"require-trusted-types-for": "'script'"} {
			if policy[name] != value {
				t.Errorf("%s: %s is %q", path, name, policy[name])
			}
		}
		w = httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("HEAD", path, nil))
		if w.Code != 200 {
			t.Errorf("HEAD %s: %d", path, w.Code)
		}
	}
}

func static(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("static", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDashboardShowsText: whatever a node says stays text, and the token stays in memory.
func TestDashboardShowsText(t *testing.T) {
	page, program, looks := static(t, "index.html"), static(t, "dashboard.js"), static(t, "dashboard.css")
	for _, bad := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser",
		"setHTML", "createContextualFragment", "eval(", "Function(",
		"setAttribute", "localStorage", "sessionStorage", "indexedDB", "cookie", "postMessage", "importScripts",
		"console.", ".href", "window.open", "srcdoc"} {
		if strings.Contains(program, bad) {
			t.Errorf("the program has %s", bad)
		}
	}
	if strings.Contains(program, "setTimeout(\"") || strings.Contains(program, "setTimeout('") {
		t.Error("the program runs text")
	}
	for _, bad := range []string{`(?i)<script(?:>|\s+[^s])`, `(?i)<style`, `(?i)\son[a-z]+\s*=`, `(?i)javascript:`,
		`(?i)\sstyle\s*=`, `(?i)(src|href)="(https?:)?//`, `(?i)<(iframe|object|embed|base)`} {
		if m := regexp.MustCompile(bad).FindString(page); m != "" {
			t.Errorf("the page has %q", m)
		}
	}
	if regexp.MustCompile(`url\(|@import`).MatchString(looks) {
		t.Error("the looks come from elsewhere")
	}
	// A node that is offline, or out of step, is not green; and the token of a link is taken out of the address.
	for _, want := range []string{`look === "good" && !(n.inSync && n.online) ? "wait" : look`,
		`history.replaceState(null, "", location.pathname)`, `String(text ?? "").replace(turns, "\ufffd")`} {
		if !strings.Contains(program, want) {
			t.Errorf("the program lacks %s", want)
		}
	}
	// What turns the direction of text is not shown: all characters that Unicode has for it.
	list := regexp.MustCompile(`const turns = /\[([^]]*)\]/g;`).FindStringSubmatch(program)
	if list == nil {
		t.Fatal("the program does not say which characters turn text")
	}
	shown := regexp.MustCompile("[" + regexp.MustCompile(`\\u([0-9a-f]{4})`).ReplaceAllString(list[1], `\x{$1}`) + "]")
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if is := unicode.Is(unicode.Bidi_Control, r); is != shown.MatchString(string(r)) {
			t.Errorf("%U turns text: %v, and the program says the contrary", r, is)
		}
	}
	if n := strings.Count(program, ".textContent ="); n != 1+strings.Count(program, `at("live").textContent`)+
		strings.Count(program, `at("unit").textContent`) {
		t.Errorf("text is shown in %d places, some of them without make", n)
	}
	// Every element that the program looks for is on the page.
	ids := regexp.MustCompile(`at\("([^"]+)"\)`).FindAllStringSubmatch(program, -1)
	if len(ids) < 8 {
		t.Fatalf("%d elements", len(ids))
	}
	for _, m := range ids {
		if !strings.Contains(page, `id="`+m[1]+`"`) {
			t.Errorf("there is no element %s on the page", m[1])
		}
	}
	if n := strings.Count(page+program+looks, "\n"); n > 400 {
		t.Errorf("%d lines: small is what it is to be", n)
	}
}

// TestDashboardAsksForWhatThereIs: each request that the program makes is a route that the role view
// may use, and is answered; none changes anything.
func TestDashboardAsksForWhatThereIs(t *testing.T) {
	program := static(t, "dashboard.js")
	paths := regexp.MustCompile("[\"`](/v1/[^\"`]*)[\"`]").FindAllStringSubmatch(program, -1)
	if len(paths) != 5 || strings.Count(program, "/v1/") != len(paths) || strings.Count(program, "fetch(") != 1 ||
		regexp.MustCompile(`method\s*:`).MatchString(program) || strings.Count(program, `"POST"`) != 1 ||
		!strings.Contains(program, `get("/v1/tokens/redeem", signal, "POST")`) {
		t.Fatalf("%v", paths)
	}
	for _, m := range paths {
		path := regexp.MustCompile(`\$\{[a-z]+\}`).ReplaceAllString(m[1], "9")
		_, h := sample(t)
		if path == "/v1/tokens/redeem" {
			continue // TestLinkLogsInOnce
		}
		method := "GET"
		if strings.Contains(path, "follow=1") || strings.Contains(path, "watch=1") {
			method = "HEAD" // the beginning is enough
		}
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("Authorization", "Bearer "+bearers[tokens.View])
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 200 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
