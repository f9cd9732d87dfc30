package join

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"tandem.internal/controller/internal/enrol"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// TestArtefactsAreForNodes: who asks is the node of the certificate, whatever it says; without one that counts there is
// nothing, and to ask often costs the attempts of the address.
func TestArtefactsAreForNodes(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Timeout = time.Second
		c.Artefact = func(w http.ResponseWriter, q *http.Request, node, digest string) error {
			switch {
			case node != "n1":
				return wire.New(wire.CodeNotFound, "", "not for you")
			case digest == "busy":
				w.Header().Set("Retry-After", "7")
				return wire.New(wire.CodeUnavailable, "", "come back")
			case digest == "cut":
				w.Header().Set("Content-Length", "10")
				_, err := io.WriteString(w, "half")
				if err == nil {
					err = http.NewResponseController(w).Flush()
				}
				if err != nil {
					t.Error(err)
				}
				panic(http.ErrAbortHandler)
			}
			_, err := fmt.Fprintf(w, "%s for %s by %s", digest, node, q.Method)
			return err
		}
	})
	certs := map[string]tls.Certificate{}
	for _, node := range []string{"n1", "n2"} {
		key := newKey(t)
		certs[node], _ = r.admitted(r.client(), jointoken.JoinPath, key, joinBody(t, r.token(node), csr(t, key, node)))
		r.core.pass(time.Minute)
	}
	get := func(path string, who ...tls.Certificate) (int, string, http.Header, error) {
		t.Helper()
		res, err := r.client(who...).Get("https://" + r.addr + jointoken.ArtefactPath + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		return res.StatusCode, string(b), res.Header, err
	}
	if status, text, _, err := get("sha256:1f", certs["n1"]); status != 200 || text != "sha256:1f for n1 by GET" {
		t.Errorf("%d %q %v", status, text, err)
	}
	if status, _, h, err := get("busy", certs["n1"]); status != 503 || h.Get("Retry-After") != "7" || err != nil {
		t.Errorf("%d %v %v", status, h, err)
	}
	if status, text, _, err := get("cut", certs["n1"]); status != 200 || text != "half" || err == nil {
		t.Errorf("cut off: %d %q %v", status, text, err)
	}
	if r.logs.FilterMessage("join door panicked").Len() != 0 {
		t.Error("a transfer that was cut off is told as a panic")
	}
	if status, _, _, _ := get("sha256:1f", certs["n2"]); status != 404 {
		t.Errorf("another node: %d", status)
	}
	if err := r.core.Enrolment(t.Context(), enrol.Revoke{Subject: "node/n1"}); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		who := []tls.Certificate{certs["n1"]} // revoked
		if i%2 == 0 {
			who = nil
		}
		want := 403
		if i >= 10 {
			want = 429
		}
		status, _, h, _ := get("sha256:1f", who...)
		if status != want || (h.Get("Retry-After") != "") != (want == 429) {
			t.Errorf("attempt %d: %d", i, status)
		}
	}
	if status, _, _, _ := get("sha256:1f", certs["n2"]); status != 404 {
		t.Errorf("a node is held up by strangers: %d", status)
	}
}

// TestTransferEndsWithTheCertificate: a node that is revoked gets no further byte of what it fetches.
func TestTransferEndsWithTheCertificate(t *testing.T) {
	var r *rig
	r = newRig(t, func(c *Config) {
		c.Artefact = func(w http.ResponseWriter, q *http.Request, _, _ string) error {
			w.Header().Set("Content-Length", "8")
			_, err := io.WriteString(w, "half")
			if err = errors.Join(err, http.NewResponseController(w).Flush()); err != nil {
				t.Error(err)
			}
			if err := r.core.Enrolment(q.Context(), enrol.Revoke{Subject: "node/n1"}); err != nil {
				t.Error(err)
			}
			if _, err := io.WriteString(w, "more"); err == nil {
				t.Error("it is sent on")
			}
			panic(http.ErrAbortHandler)
		}
	})
	key := newKey(t)
	cert, _ := r.admitted(r.client(), jointoken.JoinPath, key, joinBody(t, r.token("n1"), csr(t, key, "n1")))
	res, err := r.client(cert).Get("https://" + r.addr + jointoken.ArtefactPath + "sha256:1f")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); string(b) != "half" || err == nil {
		t.Errorf("%q, %v", b, err)
	}
}
