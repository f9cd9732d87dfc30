package duty

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/shared/workload"
	"tandem.internal/testenv/proc"
)

// layer serves an archive of programs and files, and returns it as a resource that is unpacked.
func (s *site) layer(name string, files ...string) string {
	s.t.Helper()
	var archive, blob bytes.Buffer
	w, z := tar.NewWriter(&archive), gzip.NewWriter(&blob)
	for i := 0; i < len(files); i += 2 {
		h := &tar.Header{Format: tar.FormatUSTAR, Name: files[i], Mode: 0o755, Size: int64(len(files[i+1]))}
		if err := w.WriteHeader(h); err != nil {
			s.t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[i+1])); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		s.t.Fatal(err)
	}
	if _, err := z.Write(archive.Bytes()); err != nil {
		s.t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	s.files["/"+name] = blob.String()
	s.mu.Unlock()
	sum, diffID := sha256.Sum256(blob.Bytes()), sha256.Sum256(archive.Bytes())
	return fmt.Sprintf(`{"@class":"Resource","urls":[%q],"size":%d,"unpack":{"diffId":"sha256:%s","size":%d},`+
		`"verification":{"checksum":"SHA256:%s","checkPeriod":"0d0h0m"}}`, s.server.URL+"/"+name, blob.Len(),
		hex.EncodeToString(diffID[:]), archive.Len(), hex.EncodeToString(sum[:]))
}

// uses is a start hook that writes down what it finds in its layer, and what it may do there.
const uses = `#!/bin/sh
cd "$TANDEM_DIR" || exit 1
{
	ls layer/app
	cat layer/app/greeting
	layer/app/run.sh
	(echo x >layer/app/greeting) 2>/dev/null && echo written
	touch layer/app/more 2>/dev/null && echo made
	ls "$TANDEM_PROPERTY_state/layers" >/dev/null 2>&1 && echo listed
} >result.new
mv result.new result
exec sleep 1000
`

// TestLayers: services find the tree of a layer as a directory beside them, read and execute what is there, and change
// nothing, confined by Landlock and as users of their own; it was fetched once. A version with another layer that does
// not stay up goes back to the one before, whose tree is still there; in the end none is.
func TestLayers(t *testing.T) {
	t.Parallel()
	t.Run("landlock", func(t *testing.T) { sharedLayer(t) })
	t.Run("users", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("NOT TRIED: layers for slots with users of their own. It takes root")
		}
		sharedLayer(t, "--workload-users", slotUsers())
	})
}

func sharedLayer(t *testing.T, flags ...string) {
	s := newSite(t)
	s.open(t)
	s.strictNode("n1", flags...)
	state := s.StateDir("n1")
	greeting := "#!/bin/sh\necho ran\n"
	one := s.layer("one", "app/run.sh", greeting, "app/greeting", "hello\n")
	with := func(service, layer, start string) string {
		return instance("Instance", service+"@n1", fmt.Sprintf(`"state":%q`, state), named("layer", layer),
			named(workload.HookStart, start))
	}
	start := s.artifact("Resource", "start", uses)
	s.apply("1.0.0", with("web", one, start), with("db", one, start))
	s.awaitSettled("web@n1", "db@n1")
	result := func(service string) string {
		var found []string
		proc.Until(t, service+" has tried everything", func() string {
			if found, _ = filepath.Glob(filepath.Join(state, "workloads/slots", service, "*/result")); len(found) == 0 {
				return "not yet: " + s.Tandem("workload", "logs", service+"@n1").Out
			}
			return ""
		})
		text, err := os.ReadFile(found[0])
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const want = "greeting\nrun.sh\nhello\nran\n"
	level := s.await("web@n1", "is said to be confined",
		func(o slot) bool { return o.Report != nil && o.Report.Confined != "" }).Report.Confined
	for _, service := range []string{"web", "db"} {
		got := result(service)
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s found:\n%s", service, got)
		}
		if kept := strings.HasPrefix(level, "landlock") || len(flags) > 0; kept && got != want {
			t.Errorf("%s, confined to %s, did:\n%s", service, level, strings.TrimPrefix(got, want))
		} else if !kept {
			t.Logf("NOT TRIED: what may be done to a layer; this kernel confines to %q", level)
		}
	}
	s.mu.Lock()
	if s.gets["/one"] != 1 {
		t.Errorf("the layer was fetched %d times", s.gets["/one"])
	}
	s.mu.Unlock()
	before, err := filepath.Glob(filepath.Join(state, "workloads/slots/web/*/result"))
	if err != nil || len(before) != 1 || os.Remove(before[0]) != nil { // it is written again when it is back
		t.Fatal(before, err)
	}
	two := s.layer("two", "app/run.sh", greeting, "app/greeting", "hello again\n")
	bad := s.artifact("Resource", "bad", "#!/bin/sh\nexit 1\n")
	s.apply("1.0.1", with("web", two, bad))
	s.await("web@n1", "is back", func(o slot) bool {
		return o.Report != nil && o.Report.State == "running" && o.Report.Wanted != "" && o.Report.Doing == ""
	})
	if got := result("web"); !strings.HasPrefix(got, want) {
		t.Errorf("what is back found:\n%s", got)
	}
	s.emptied("n1")
	proc.Until(t, "no tree is left", func() string {
		left, err := os.ReadDir(filepath.Join(state, "layers"))
		if err != nil || len(left) > 0 {
			return fmt.Sprint(left, err)
		}
		return ""
	})
}
