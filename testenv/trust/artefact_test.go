package trust

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// sent is the body of an upload.
type sent struct{ io.Reader }

func (sent) Interrupt() {}

// add adds an artefact, and returns its digest.
func (r *Rig) add(b []byte) string {
	r.t.Helper()
	s, digest := r.App.Unit().Artefacts(), wire.Hash(b)
	ctx := controller.As(r.t.Context(), "ann")
	v, err := s.Begin(ctx, controller.NewArtefact{Digest: digest, Size: int64(len(b))})
	if err == nil {
		v, err = s.Write(ctx, digest, v.Offset, sent{bytes.NewReader(b)})
	}
	for err == nil && v.State != "added" {
		v, err = s.Complete(ctx, digest)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return digest
}

// TestArtefactReachesItsNode: with real certificates, at the real door, a node gets what its documents name; another
// node, and whoever has no certificate, gets nothing.
func TestArtefactReachesItsNode(t *testing.T) {
	r := Idle(t)
	r.Start(func(c *controller.Config) { c.ArtefactQuota = 64 << 20 })
	for _, name := range []string{"n1", "n2"} {
		r.Joined(name)
		r.Agent(name)
		r.Online(name, true)
	}
	program := bytes.Repeat([]byte("#!/bin/sh\nexec sleep 1000\n"), 100_000)
	digest := r.add(program)
	sum := strings.TrimPrefix(digest, wire.HashPrefix)
	set := fmt.Sprintf(`[{"@class":"Instance","configurationId":"w1","slot":"web@n1","resources":{"iss_hook_start":`+
		`{"@class":"Resource","urls":["https://%s%s%s"],"size":%d,"verification":{"checksum":"SHA256:%s",`+
		`"checkPeriod":"0d0h0m"}}}}]`, jointoken.ServerName, jointoken.ArtefactPath, digest, len(program), sum)
	res, err := r.App.Unit().Submit(t.Context(), controller.Submission{Kind: wire.KindWorkloads, Document: []byte(set),
		Who: "ann", Offline: true}) // these agents run no workloads, and would refuse it
	if err != nil || res.State != "accepted" || res.Issued != 1 {
		t.Fatalf("%+v %v", res, err)
	}
	for who, want := range map[string]int{"n1": 200, "n2": 404, "": 403} {
		tr := &http.Transport{DisableKeepAlives: true}
		_, pool := r.Credentials("n1")
		tr.TLSClientConfig = &tls.Config{RootCAs: pool, ServerName: jointoken.ServerName}
		if who != "" {
			cert, _ := r.Credentials(who)
			tr.TLSClientConfig.Certificates = []tls.Certificate{cert}
		}
		res, err := (&http.Client{Transport: tr}).Get(r.App.JoinURL() + jointoken.ArtefactPath + digest)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != want || want == 200 && !bytes.Equal(b, program) {
			t.Errorf("%q: %d, %d bytes, %v", who, res.StatusCode, len(b), err)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}
