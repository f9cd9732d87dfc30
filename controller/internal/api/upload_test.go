package api_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// artefact is a content of n bytes, with its digest.
func artefact(n int) (b []byte, digest string) {
	b = bytes.Repeat([]byte{byte(n), byte(n >> 8), 3}, n/3+1)[:n]
	sum := sha256.Sum256(b)
	return b, "sha256:" + hex.EncodeToString(sum[:])
}

// send makes a request and returns what came back.
func (s *served) send(method, path, header string, body io.Reader) (*http.Response, []byte) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://c"+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.SplitSeq(header, "\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			r.Header.Set(name, value)
		}
	}
	res, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res, b
}

const partial = "Content-Type: application/partial-upload\n"

// TestUploads: an artefact comes in pieces, and every answer says where the next one begins.
func TestUploads(t *testing.T) {
	s := serve(t, api.Config{})
	defer s.stop()
	b, digest := artefact(100_000)
	at := "/v1/artefacts/" + digest
	begin := fmt.Sprintf(`{"digest":%q,"size":%d,"name":"agent"}`, digest, len(b))
	step := func(what, method, path, header string, body io.Reader, status int, offset, complete string) []byte {
		t.Helper()
		res, answer := s.send(method, path, header, body)
		if res.StatusCode != status || res.Header.Get("Upload-Offset") != offset ||
			res.Header.Get("Upload-Complete") != complete {
			t.Errorf("%s: %d, at %q, complete %q: %s", what, res.StatusCode, res.Header.Get("Upload-Offset"),
				res.Header.Get("Upload-Complete"), answer)
		}
		return answer
	}
	up := at + "/upload"
	step("nothing began", "PATCH", up, partial+"Upload-Offset: 0", bytes.NewReader(b), 404, "", "")
	step("begun", "POST", "/v1/artefacts", "", strings.NewReader(begin), 200, "0", "?0")
	step("without an offset", "PATCH", up, partial, bytes.NewReader(b), 400, "", "")
	step("of another type", "PATCH", up, "Upload-Offset: 0", bytes.NewReader(b), 400, "", "")
	step("in chunks", "PATCH", up, partial+"Upload-Offset: 0", io.MultiReader(bytes.NewReader(b)), 411, "", "")
	step("a piece", "PATCH", up, partial+"Upload-Offset: 0", bytes.NewReader(b[:60_000]), 200, "60000", "?0")
	answer := step("at a wrong offset", "PATCH", up, partial+"Upload-Offset: 0", bytes.NewReader(b), 409, "60000", "?0")
	if code(t, answer) != wire.CodeWrongState {
		t.Errorf("%s", answer)
	}
	step("looked at", "HEAD", up, "", nil, 200, "60000", "?0")
	step("begun again", "POST", "/v1/artefacts", "", strings.NewReader(begin), 200, "60000", "?0")
	step("too early", "POST", at+"/complete", "", nil, 409, "", "")
	step("the rest", "PATCH", up, partial+"Upload-Offset: 60000", bytes.NewReader(b[60_000:]), 200, "100000", "?0")
	step("completed", "POST", at+"/complete", "", nil, 200, "100000", "?1")
	step("again", "POST", at+"/complete", "", nil, 200, "100000", "?1")
	step("added already", "POST", "/v1/artefacts", "", strings.NewReader(begin), 200, "100000", "?1")
	step("added already", "HEAD", up, "", nil, 200, "100000", "?1")

	var list op.Artefacts
	_, text := s.send("GET", "/v1/artefacts", "", nil)
	if err := json.Unmarshal(text, &list); err != nil || len(list.Artefacts) != 1 ||
		list.Artefacts[0].Name != "agent" || list.Reserved != 100_000 ||
		!strings.HasPrefix(list.Artefacts[0].Who, "uid:") {
		t.Errorf("%s %v", text, err)
	}
	other := fmt.Sprintf(`{"digest":%q,"size":%d}`, "sha256:"+strings.Repeat("0", 64), 1<<20)
	if _, answer := s.send("POST", "/v1/artefacts", "", strings.NewReader(other)); code(t,
		answer) != wire.CodeStorage || !strings.Contains(string(answer), "artefact remove "+digest) {
		t.Errorf("beyond the quota: %s", answer)
	}
	step("removed", "POST", at+"/remove", "", strings.NewReader(`{"reason":"old"}`), 200, "", "")
	step("no more", "GET", at, "", nil, 404, "", "")
	step("no digest", "GET", "/v1/artefacts/sha256:12", "", nil, 400, "", "")
	var types []string
	for _, e := range entries(t, s.unit, "artefact-leased", "artefact-added", "artefact-removed") {
		types = append(types, e.Type+" by "+strings.SplitN(e.Who, ":", 2)[0])
	}
	if got := strings.Join(types, ", "); got != "artefact-leased by uid, artefact-added by , artefact-removed by uid" {
		t.Errorf("the journal has: %s", got)
	}
}

func entries(t *testing.T, core api.Core, types ...string) []view.Entry {
	t.Helper()
	all, err := core.Entries(t.Context(), view.EntryFilter{Types: types})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestSlowUploadsGoOn: whoever goes on sending is not cut off by the time that a request may take, what was sent before
// a connection broke counts, and a newer connection takes over.
func TestSlowUploadsGoOn(t *testing.T) {
	s := serve(t, api.Config{WriteTimeout: 1500 * time.Millisecond})
	defer s.stop()
	b, digest := artefact(50_000)
	if res, answer := s.send("POST", "/v1/artefacts", "",
		strings.NewReader(fmt.Sprintf(`{"digest":%q,"size":%d}`, digest, len(b)))); res.StatusCode != 200 {
		t.Fatalf("%s", answer)
	}
	c, err := (&net.Dialer{}).DialContext(context.Background(), "unix", s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, "PATCH /v1/artefacts/%s/upload HTTP/1.1\r\nHost: c\r\nContent-Length: %d\r\n"+
		"Content-Type: application/partial-upload\r\nUpload-Offset: 0\r\n\r\n", digest, len(b)); err != nil {
		t.Fatal(err)
	}
	pace := time.NewTicker(200 * time.Millisecond)
	defer pace.Stop()
	for i := range 10 { // for longer than a silent sender has
		<-pace.C
		if _, err := c.Write(b[i*1000 : i*1000+1000]); err != nil {
			t.Fatal(err)
		}
	}
	// It is silent now. The next one does not wait until it is cut off.
	path := "/v1/artefacts/" + digest + "/upload"
	res, answer := s.send("PATCH", path, partial+"Upload-Offset: 1", bytes.NewReader(b[1:]))
	if res.StatusCode != 409 || res.Header.Get("Upload-Offset") != "10000" {
		t.Fatalf("%d at %s: %s", res.StatusCode, res.Header.Get("Upload-Offset"), answer)
	}
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Contains(got, []byte("somebody else goes on")) {
		t.Errorf("the one before got %q %v", got, err)
	}
	res, answer = s.send("PATCH", path, partial+"Upload-Offset: 10000", bytes.NewReader(b[10_000:]))
	if res.StatusCode != 200 {
		t.Errorf("%s", answer)
	}
	if res, answer := s.send("POST", "/v1/artefacts/"+digest+"/complete", "", nil); res.StatusCode != 200 {
		t.Errorf("%s", answer)
	}
}

// TestTakingOverDoesNotWait: the next connection goes on at once, however long a silent sender may be.
func TestTakingOverDoesNotWait(t *testing.T) {
	s := serve(t, api.Config{WriteTimeout: 2 * time.Minute})
	defer s.stop()
	b, digest := artefact(5000)
	if res, answer := s.send("POST", "/v1/artefacts", "",
		strings.NewReader(fmt.Sprintf(`{"digest":%q,"size":%d}`, digest, len(b)))); res.StatusCode != 200 {
		t.Fatalf("%s", answer)
	}
	c, err := (&net.Dialer{}).DialContext(context.Background(), "unix", s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	path := "/v1/artefacts/" + digest + "/upload"
	if _, err := fmt.Fprintf(c, "PATCH %s HTTP/1.1\r\nHost: c\r\nContent-Length: %d\r\n"+
		"Content-Type: application/partial-upload\r\nUpload-Offset: 0\r\n\r\n%s", path, len(b), b[:1000]); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for sent := ""; sent != "1000"; { // until those have come
		if time.Since(begun) > time.Minute {
			t.Fatalf("only %s have come, or the first one is waited for", sent)
		}
		res, _ := s.send("HEAD", path, "", nil)
		sent = res.Header.Get("Upload-Offset")
	}
	res, answer := s.send("PATCH", path, partial+"Upload-Offset: 1000", bytes.NewReader(b[1000:]))
	if res.StatusCode != 200 || time.Since(begun) > time.Minute {
		t.Errorf("%d %s after %v", res.StatusCode, answer, time.Since(begun))
	}
}
