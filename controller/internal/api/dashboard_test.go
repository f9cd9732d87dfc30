package api_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"tandem.internal/controller/internal/dashboard"
)

// TestDashboardIsServed: to whoever asks, with a policy that lets nothing in but its own files, compressed to who takes
// that, and not again to who has it.
func TestDashboardIsServed(t *testing.T) {
	_, h := sample(t)
	for _, f := range dashboard.Files() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", f.Path, nil))
		if w.Code != 200 || w.Header().Get("Content-Type") != f.Type || w.Body.String() != string(f.Body) {
			t.Errorf("%s: %d %s, %d bytes", f.Path, w.Code, w.Header().Get("Content-Type"), w.Body.Len())
		}
		head := w.Header()
		if head.Get("Content-Length") != fmt.Sprint(len(f.Body)) || head.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: %q", f.Path, head)
		}
		checkPolicy(t, f.Path, w.Header().Get("Content-Security-Policy"))
		tag := w.Header().Get("ETag")

		r := httptest.NewRequest("GET", f.Path, nil)
		r.Header.Set("Accept-Encoding", "gzip")
		w = httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if (w.Header().Get("Content-Encoding") == "gzip") != (f.Gzip != nil) {
			t.Errorf("%s: encoding %q", f.Path, w.Header().Get("Content-Encoding"))
		} else if f.Gzip != nil {
			z, err := gzip.NewReader(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(z); err != nil || string(body) != string(f.Body) {
				t.Errorf("%s: in gzip it is another file: %v", f.Path, err)
			}
		}

		for known, want := range map[string]int{tag: 304, `"other", ` + tag: 304, `"other"`: 200} {
			r = httptest.NewRequest("GET", f.Path, nil)
			r.Header.Set("If-None-Match", known)
			w = httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != want || (w.Body.Len() == 0) != (want == 304) || tag == "" {
				t.Errorf("%s: %d with the tag %s", f.Path, w.Code, known)
			}
		}
		w = httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("HEAD", f.Path, nil))
		if w.Code != 200 || w.Body.Len() != 0 {
			t.Errorf("HEAD %s: %d", f.Path, w.Code)
		}
	}
}

func checkPolicy(t *testing.T, path, text string) {
	t.Helper()
	policy := map[string]string{}
	for rule := range strings.SplitSeq(text, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(rule), " ")
		policy[name] = value
	}
	for name, value := range map[string]string{"default-src": "'none'", "script-src": "'self'", "style-src": "'self'",
		"img-src": "'self'", "connect-src": "'self'", "base-uri": "'none'", "form-action": "'none'",
		"frame-ancestors": "'none'", "require-trusted-types-for": "'script'", "trusted-types": "'none'"} {
		if policy[name] != value {
			t.Errorf("%s: %s is %q", path, name, policy[name])
		}
	}
}

// TestDashboardAsksForWhatThereIs: each path that the page asks for is a route that the role view may use, or one of
// those that orders need.
func TestDashboardAsksForWhatThereIs(t *testing.T) {
	_, a := sample(t)
	known := map[string]bool{}
	for route := range a.Routes() {
		_, path, _ := strings.Cut(route, " ")
		known[path] = true
	}
	asked := regexp.MustCompile("[\"`](/v1/[^\"`?]*?)([\"`?]|[$]\\{query)")
	found := 0
	for _, f := range dashboard.Files() {
		if !strings.HasPrefix(f.Path, "/app/") {
			continue
		}
		for _, m := range asked.FindAllStringSubmatch(string(f.Body), -1) {
			found++
			for _, kind := range []string{"config", "workloads", "components"} {
				path := strings.ReplaceAll(m[1], "${kind}", kind)
				if !known[path] {
					t.Errorf("%s asks for %s, and there is no %s", f.Path, m[1], path)
				}
			}
		}
	}
	if found < 25 {
		t.Errorf("%d paths", found)
	}
}
