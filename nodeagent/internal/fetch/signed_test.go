package fetch

import (
	"bytes"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/shared/filetest"
	"tandem.internal/shared/publisher/publishertest"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

func signed(a workload.Artifact, text string) workload.Artifact {
	a.Verification.Minisign = text
	return a
}

// What no publisher has signed is fetched, and cannot be used: neither with no signature, nor with another's, nor with
// one of another content, whatever the checksum says. The same content beside it, signed, can.
func TestOnlyWhatIsSignedIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, thief := publishertest.New(1), publishertest.New(2)
		w := newSite(t)
		data, other := content(1, 5000), content(2, 5000)
		a := artifact(sha(data), 5000, w.file("/f", data))
		loose := artifact(md(other), 5000, w.file("/other", other))
		n := start(t, Config{Dir: filetest.MemoryDir(t), Client: w.client(), Publishers: own.Keys(t)})
		good := signed(a, own.Sign(data))
		bad := map[wire.Code]workload.Artifact{wire.CodeUnsigned: a, wire.CodeUnknownKey: signed(a, thief.Sign(data)),
			wire.CodeBadSignature: signed(a, own.Sign(other))}
		all := wants{good, signed(loose, own.Sign(other)), signed(a, thief.As(own).Sign(data))}
		for _, b := range bad {
			all = append(all, b)
		}
		n.Want(all)
		for code, b := range bad {
			st := n.await(b, "judged", func(st Status) bool { return st.State == Failed && st.Done == 5000 })
			if st.Unsigned == nil || st.Unsigned.Code != code || st.Err != st.Unsigned || st.Path != "" {
				t.Errorf("%s: %+v", code, st)
			}
		}
		for _, b := range []workload.Artifact{all[1], all[2]} {
			st := n.await(b, "judged", func(st Status) bool { return st.State == Failed && st.Done == 5000 })
			if st.Unsigned == nil || st.Unsigned.Code != wire.CodeBadSignature || st.Path != "" {
				t.Errorf("%+v", st)
			}
		}
		if st := n.ready(good, data); st.Unsigned != nil || w.requests("/f") != 1 {
			t.Errorf("%+v after %d requests", st, w.requests("/f"))
		}
	})
}

// Whether a content is signed is known while it is fetched again, and nothing is known of one that was never there.
func TestSignaturesStayKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := publishertest.New(1)
		w := newSite(t)
		data := content(1, 5000)
		a := signed(artifact(sha(data), 5000, w.file("/f", data)), own.Sign(data))
		a.Verification.CheckPeriod = workload.CheckPeriod(time.Hour)
		dir := filetest.MemoryDir(t)
		n := start(t, Config{Dir: dir, Client: w.client(), Publishers: own.Keys(t)})
		if st := n.Status(a); st.Unsigned == nil || st.Unsigned.Code != wire.CodeUnavailable {
			t.Errorf("before it was there: %+v", st)
		}
		n.Want(wants{a})
		st := n.ready(a, data)
		bad := bytes.Clone(data)
		bad[0] ^= 1
		overwrite(t, st.Path, bad)
		w.put("/f", func(rw http.ResponseWriter, r *http.Request) { rw.WriteHeader(503) })
		if st = n.await(a, "found damaged", func(st Status) bool { return st.Err != nil }); st.Unsigned != nil {
			t.Errorf("while it is fetched again: %+v", st)
		}
		w.file("/f", data)
		n.ready(a, data)
		n.Want(nil)
		if st := n.Status(a); st.Unsigned == nil {
			t.Errorf("when it is not wanted: %+v", st)
		}
	})
}

// A copy that came before anybody demanded signatures is read again before it is used, and not fetched; so is what was
// verified when nobody did.
func TestCopiesFromBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := publishertest.New(1)
		w := newSite(t)
		data := content(1, 5000)
		a := signed(artifact(sha(data), 5000, w.file("/f", data)), own.Sign(data))
		dir := filetest.MemoryDir(t)
		for i, keys := range []bool{false, true, true, false, true} {
			c := Config{Dir: dir, Client: w.client()}
			if keys {
				c.Publishers = own.Keys(t)
			}
			n := start(t, c)
			if st := n.Status(a); keys && (st.Unsigned == nil || st.State == Ready) {
				t.Errorf("start %d: used before it was read: %+v", i, st)
			}
			n.Want(wants{a})
			if st := n.ready(a, data); st.Unsigned != nil || w.requests("/f") != 1 {
				t.Errorf("start %d: %+v after %d requests", i, st, w.requests("/f"))
			}
			n.stop()
			if i == 2 { // the next, without publishers, verifies it anew, and keeps no digest
				must(t, os.Chtimes(n.where(a), time.Time{}, time.Unix(1, 0)))
			}
		}
	})
}
