package fetch

import (
	"testing"
	"testing/synctest"

	"tandem.internal/shared/workload"
)

func TestFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSite(t)
		one, two, three := content(1, 300_000), content(2, 10), content(3, 0)
		a, b, c := artifact(sha(one), 300_000, w.file("/one", one)), artifact(md(two), 0, w.file("/two", two)), named("x", artifact("", 5, w.file("/three", three)))
		n := start(t, Config{Dir: t.TempDir(), Client: w.client()})
		n.Want([]workload.Artifact{a, b, c})
		n.ready(a, one)
		n.ready(b, two)
		n.ready(c, three)
	})
}
