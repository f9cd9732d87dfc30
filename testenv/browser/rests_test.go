package browser

import (
	"fmt"
	"testing"
)

// TestRests: the page rests for as long as it has worked if little has changed, for five times that if much has; and
// what is on the page of events is drawn when it has changed, not whenever the unit has.
func TestRests(t *testing.T) {
	r := newRig(t, 60)
	ctx, _ := chromium(t)
	page(t, ctx, r, "view", "#/events", "Save as JSON lines")
	until(t, ctx, `document.querySelectorAll(".entries tbody tr").length > 100`)
	eval[int](t, ctx, `import("/app/unit.mjs").then(({ subscribe }) => {
  const later = setTimeout;
  let now = performance.now();
  window.draws = 0;
  window.rests = [];
  window.written = 0;
  window.fetched = 0;
  performance.now = () => now;
  setTimeout = (f, ms, ...more) => {
    rests.push(Math.round(ms));
    return later(f, ms, ...more);
  };
  const write = Date.prototype.toString, get = fetch;
  Date.prototype.toString = function () {
    written++;
    return write.call(this);
  };
  fetch = (...of) => {
    fetched++;
    return get(...of);
  };
  subscribe(() => {
    now += 400;
    draws++;
  });
  return 1;
})`)
	property := func(value int) {
		r.post("/v1/nodes/node-00007/properties/line", map[string]any{"value": fmt.Sprint(value)})
	}
	for i := range 5 {
		draws := eval[int](t, ctx, `window.draws`)
		property(i)
		until(t, ctx, fmt.Sprintf(`window.draws > %d`, draws))
	}
	until(t, ctx, `window.rests.includes(400)`)
	rows := eval[int](t, ctx, `document.querySelectorAll(".entries tbody tr").length`)
	if written, fetched := eval[int](t, ctx, `window.written`), eval[int](t, ctx, `window.fetched`); written >
		(fetched+1)*rows {
		t.Errorf("%d of %d rows were written, %d answers have come", written, rows, fetched)
	}
	if eval[bool](t, ctx, `window.rests.includes(2000)`) {
		t.Error("a long rest, and little has changed")
	}
	r.apply("2.0.0", 2)
	property(9)
	until(t, ctx, `window.rests.includes(2000)`)
}
