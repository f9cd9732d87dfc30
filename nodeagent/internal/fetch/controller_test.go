package fetch

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/shared/workload"
)

const artefacts = "https://controller.tandem.internal"

// plainly has a client of the test's site serve an https address.
type plainly struct{ http.RoundTripper }

func (p plainly) RoundTrip(r *http.Request) (*http.Response, error) {
	asked := r
	r = r.Clone(r.Context())
	r.URL.Scheme = "http"
	resp, err := p.RoundTripper.RoundTrip(r)
	if resp != nil {
		resp.Request = asked
	}
	return resp, err
}

// TestControllerSaysWhenToComeBack: a node keeps its part, waits as long as it was told and no longer than an hour, and
// says that it waits for the controller. From others the same answer is a failure like any.
func TestControllerSaysWhenToComeBack(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newSite(t)
		data := content(5, 200_000)
		busy := func(after string) http.HandlerFunc {
			return func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Retry-After", after)
				rw.WriteHeader(http.StatusServiceUnavailable)
			}
		}
		s := &turns{handlers: []http.HandlerFunc{breaks(70_000, serves(data, `"a"`)), busy("600"), busy("86400"),
			busy("600"), serves(data, `"a"`)}}
		w.put("/f", s.ServeHTTP)
		ours := w.client()
		ours.Transport = plainly{ours.Transport}
		n := start(t, Config{Dir: dir, Client: w.client(), Controller: ours})
		a := artifact(sha(data), len(data), artefacts+"/f")
		begun := time.Now()
		n.Want([]workload.Artifact{a})
		st := n.fails(a, "waiting for the controller")
		if wait := time.Until(st.Next); wait != 10*time.Minute || st.Done != 70_000 || !st.Turn {
			t.Errorf("waits %v, with %d bytes", wait, st.Done)
		}
		n.ready(a, data)
		took := time.Since(begun)
		if least := 80 * time.Minute; took < least || took > least+10*time.Second {
			t.Errorf("took %v", took)
		}
		if got := strings.Join(s.ranges[1:], ","); strings.Count(got, `/f bytes=70000- "a"`) != 4 {
			t.Errorf("%s", got)
		}
		n.stop()
	})
}

// TestOnlyTheControllerIsObeyed: another server's Retry-After changes nothing, and a node that has not joined has no
// controller to ask.
func TestOnlyTheControllerIsObeyed(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newSite(t)
		data := content(6, 1000)
		s := &turns{handlers: []http.HandlerFunc{func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Retry-After", "3600")
			rw.WriteHeader(http.StatusServiceUnavailable)
		}, serves(data, `"a"`)}}
		there := w.put("/f", s.ServeHTTP)
		n := start(t, Config{Dir: dir, Client: w.client()})
		a, b := artifact(sha(data), 1000, there), artifact(sha(content(7, 1000)), 1000, artefacts+"/f")
		begun := time.Now()
		n.Want([]workload.Artifact{a, b})
		n.ready(a, data)
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("took %v", took)
		}
		n.fails(b, "only a node that has joined")
		n.stop()
	})
}
