package fetch

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/fetch/plan"
	"tandem.internal/shared/filetest"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// overwrite changes a file as a bad disk would, and nothing else.
func overwrite(t *testing.T, path string, data []byte) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, data, 0o600), os.Chmod(path, 0o555),
		os.Chtimes(path, time.Time{}, info.ModTime())); err != nil {
		t.Fatal(err)
	}
}

// What is checked regularly is repaired; the check is slow, and nobody waits for it.
func TestRecheck(t *testing.T) {
	for _, summed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newSite(t)
			data := content(1, 200_000)
			a := named("x", artifact("", 0, w.file("/f", data)))
			if summed {
				a.Verification.Checksum = md(data)
			}
			a.Verification.CheckPeriod = workload.CheckPeriod(time.Hour)
			n := start(t, Config{Dir: filetest.MemoryDir(t), Client: w.client(), Recheck: 10_000})
			n.Want(wants{a})
			st := n.ready(a, data)
			time.Sleep(10*time.Hour + time.Minute) // of the bubble
			n.ready(a, data)
			if got := w.requests("/f"); got != 1 {
				t.Errorf("%d requests", got)
			}
			bad := bytes.Clone(data)
			bad[100_000] ^= 1
			overwrite(t, st.Path, bad)
			begun := time.Now()
			st = n.await(a, "repaired", func(st Status) bool { return st.Repaired == 1 && st.State == Ready })
			n.ready(a, data)
			if took := time.Since(begun); took > 2*time.Hour || w.requests("/f") != 2 {
				t.Errorf("%+v after %v, %d requests", st, took, w.requests("/f"))
			}

			// What is gone comes back, too; meanwhile the trouble is told.
			w.put("/f", func(rw http.ResponseWriter, r *http.Request) { rw.WriteHeader(503) })
			if err := os.Remove(st.Path); err != nil {
				t.Fatal(err)
			}
			n.fails(a, "answers 503")
			w.file("/f", data)
			n.ready(a, data)
		})
	}
}

// What a restart finds is used if it is as it was left, verified if there is any doubt, and else
// removed.
func TestReopen(t *testing.T) {
	data := content(1, 5000)
	for _, c := range []struct {
		name    string
		summed  bool
		spoil   func(t *testing.T, path string)
		fetched bool
	}{
		{"nothing", true, func(*testing.T, string) {}, false},
		{"nothing, no checksum", false, func(*testing.T, string) {}, false},
		{"touched", true, func(t *testing.T, p string) { must(t, os.Chtimes(p, time.Time{}, time.Unix(1, 0))) }, false},
		{"touched, no checksum", false,
			func(t *testing.T, p string) { must(t, os.Chtimes(p, time.Time{}, time.Unix(1, 0))) }, false},
		{"changed", true, func(t *testing.T, p string) {
			overwrite(t, p, content(2, 5000))
			must(t, os.Chtimes(p, time.Time{}, time.Unix(1, 0)))
		}, true},
		{"changed, no checksum", false, func(t *testing.T, p string) {
			overwrite(t, p, content(2, 5000))
			must(t, os.Chtimes(p, time.Time{}, time.Unix(1, 0)))
		}, true},
		{"shorter", true, func(t *testing.T, p string) { overwrite(t, p, data[:4000]) }, true},
		{"gone", true, func(t *testing.T, p string) { must(t, os.Remove(p)) }, true},
		{"a directory", true, func(t *testing.T, p string) { must(t, os.Remove(p)); must(t, os.Mkdir(p, 0o700)) },
			true},
		{"a link", true, func(t *testing.T, p string) { must(t, os.Rename(p, p+".x")); must(t, os.Symlink(p+".x", p)) },
			true},
		{"meta gone", true, func(t *testing.T, p string) { must(t, os.Remove(p+asJSON)) }, false},
		{"meta gone, no checksum", false, func(t *testing.T, p string) { must(t, os.Remove(p+asJSON)) }, true},
		{"meta gone and changed", true, func(t *testing.T, p string) {
			must(t, os.Remove(p+asJSON))
			overwrite(t, p,
				content(2, 5000))
		}, true},
		{"meta empty", true, func(t *testing.T, p string) { must(t, os.WriteFile(p+asJSON, nil, 0o600)) }, false},
		{"meta garbage", true, func(t *testing.T,
			p string) {
			must(t, os.WriteFile(p+asJSON, []byte(`{"format":1,"key":"x"`), 0o600))
		}, false},
		{"meta of another", true, func(t *testing.T, p string) {
			must(t, os.WriteFile(p+asJSON, metaOf(data), 0o600))
		}, false},
		{"meta huge", true, func(t *testing.T,
			p string) {
			must(t, os.WriteFile(p+asJSON, make([]byte, 2*metaMost), 0o600))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSite(t)
				a := named("x", artifact("", 5000, w.file("/f", data)))
				if c.summed {
					a.Verification.Checksum = sha(data)
				}
				n := start(t, Config{Dir: filetest.MemoryDir(t), Client: w.client()})
				n.Want(wants{a})
				path := n.ready(a, data).Path
				n.stop()
				c.spoil(t, path)
				must(t, os.WriteFile(filepath.Join(n.Dir, copies, "stray"), nil, 0o600))
				must(t, os.MkdirAll(filepath.Join(n.Dir, parts, strings.Repeat("ab", 32), "deep"), 0o700))
				n = start(t, Config{Dir: n.Dir, Client: w.client()})
				if st := n.Status(a); st.State == Ready && c.fetched {
					t.Errorf("%+v", st)
				}
				n.Want(wants{a})
				n.ready(a, data)
				if got := w.requests("/f") == 2; got != c.fetched {
					t.Errorf("%d requests", w.requests("/f"))
				}
				synctest.Wait()
				if got := files(t, n.Dir); strings.Count(got, "\n") != 2 {
					t.Errorf("files:\n%s", got)
				}
				entries, err := os.ReadDir(filepath.Join(n.Dir, parts))
				if err != nil || len(entries) != 0 {
					t.Errorf("%v %v", entries, err)
				}
			})
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A copy that nobody wants survives a restart if it is cached, and is there at once when it is
// wanted again.
func TestCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSite(t)
		data, other := content(1, 1000), content(2, 1000)
		a, b := artifact(sha(data), 1000, w.file("/f", data)), artifact(sha(other), 1000, w.file("/g", other))
		a.Cached = true
		n := start(t, Config{Dir: filetest.MemoryDir(t), Client: w.client()})
		n.Want(wants{a, b})
		n.ready(a, data)
		n.ready(b, other)
		n.stop()
		n = start(t, Config{Dir: n.Dir, Client: w.client()})
		n.Want(nil)
		synctest.Wait()
		if got := files(t, n.Dir); strings.Count(got, "\n") != 2 {
			t.Errorf("files:\n%s", got)
		}
		n.stop()
		n = start(t, Config{Dir: n.Dir, Client: w.client()})
		n.Want(wants{a})
		if st := n.Status(a); st.State != Ready || w.requests("/f") != 1 {
			t.Errorf("%+v, %d requests", st, w.requests("/f"))
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	file := filepath.Join(filetest.MemoryDir(t), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if _, err := Open(Config{Dir: file}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("%v", err)
	}
}

func TestArtifactWithoutAName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, Config{Dir: filetest.MemoryDir(t)})
		a := artifact("", 1, "http://host.test/x")
		n.Want(wants{a})
		if st := n.fails(a, "needs a checksum or a uuid"); st.Err.Code != wire.CodeMissing || st.State != Failed {
			t.Errorf("%+v", st)
		}
	})
}

// metaOf describes a file with this content as one of uuid:y.
func metaOf(data []byte) []byte {
	return []byte(`{"format":1,"key":"uuid:y","sum":"` + sha(data) + `","size":5000,"checked":"2026-01-01T00:00:00Z",` +
		`"used":"2026-01-01T00:00:00Z","modified":"2026-01-01T00:00:00Z"}`)
}

func FuzzMeta(f *testing.F) {
	k := plan.Key("uuid:y")
	f.Add(metaOf(nil), k.Name())
	f.Add([]byte(`{"format":2}`), "")
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		m, err := parseMeta(data, name)
		if err == nil && (m.Key.Name() != name || m.Size < 0 || m.Sum == "" || !isName(name)) {
			t.Errorf("%+v", m)
		}
	})
}

func FuzzOrigin(f *testing.F) {
	k := plan.Key("uuid:y")
	f.Add([]byte(`{"format":1,"key":"uuid:y","url":"http://h/","etag":"\"a\"","total":5}`), k.Name())
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		o, err := parseOrigin(data, name)
		if err == nil && (o.Key.Name() != name || o.Total < 0) {
			t.Errorf("%+v", o)
		}
	})
}

func FuzzContentRange(f *testing.F) {
	f.Add("bytes 5-9/10", int64(5))
	f.Add("bytes 5-9/*", int64(5))
	f.Add("bytes -1-9/10", int64(-1))
	f.Fuzz(func(t *testing.T, s string, from int64) {
		total, last, err := contentRange(s, from)
		if err == nil && (from < 0 || last < from || last >= total) {
			t.Errorf("%q: %d-%d of %d", s, from, last, total)
		}
	})
}
