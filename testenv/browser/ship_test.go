package browser

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"tandem.internal/controller/app"
)

// What is allowed with 10,000 nodes.
const (
	firstPaint   = 600 * time.Millisecond // until all nodes are counted and the first rows are there
	applyCosts   = 500 * time.Millisecond // of the page's main thread
	liveWithin   = 200 * time.Millisecond // of the journal
	mostElements = 3000
	growth       = 4 << 20 // bytes of the heap, after 100,000 rows that have changed
)

// TestTenThousandNodes takes the times of the page with -ship, and says them.
func TestTenThousandNodes(t *testing.T) {
	if !*ship {
		t.Skip("it takes minutes: -ship")
	}
	r := newRig(t, manyNodes)
	ctx, _ := chromium(t)
	page(t, ctx, r, "view", "#/fleet", "Look at this")
	until(t, ctx, shown("1.0.0"))
	has(t, ctx, "Journal")
	picture(t, ctx, "ten-thousand")

	do(t, ctx, chromedp.Reload())
	until(t, ctx, shown("1.0.0")+` && performance.getEntriesByName("useful").length > 0`)
	paint := time.Duration(eval[float64](t, ctx, `performance.getEntriesByName("useful")[0].startTime`) * 1e6)
	report(t, "first useful paint", paint, firstPaint)
	if e := eval[int](t, ctx, `document.querySelectorAll("*").length`); e > mostElements {
		t.Errorf("%d elements", e)
	}

	before, heap := metric(t, ctx, "TaskDuration"), 0.0
	r.apply("2.0.0", 2)
	until(t, ctx, shown("2.0.0"))
	report(t, "main thread of an apply", time.Duration((metric(t, ctx, "TaskDuration")-before)*1e9), applyCosts)
	for i := range 11 {
		version := fmt.Sprintf("3.0.%d", i)
		r.apply(version, i%9+1)
		until(t, ctx, shown(version))
		if i == 0 {
			heap = collected(t, ctx)
		}
	}
	grown := collected(t, ctx) - heap
	t.Logf("the heap grew by %.1f MB with 100,000 rows, to %.1f MB", grown/1e6, (heap+grown)/1e6)
	if grown > growth {
		t.Error("that is too much")
	}

	r.latest(ctx, "a node", "settings", func(i int) {
		r.post("/v1/nodes/node-00007/properties/line", map[string]any{"value": fmt.Sprint(i)})
	})
	r.latest(ctx, "the unit, of which every node is told", "unit-maintenance", func(i int) {
		r.post("/v1/unit/maintenance", map[string]any{"for": "PT1H", "reason": fmt.Sprint(i)})
	})
}

// shownAt is the number of the newest record that the page shows.
const shownAt = `document.querySelector(".live").dataset.at.split("-")[1]`

// newest is the newest record of a type.
func (r *rig) newest(record string) app.Entry {
	r.t.Helper()
	all, err := r.app.Unit().Entries(r.ctx, app.EntryFilter{Types: []string{record}, Reverse: true, Limit: 1})
	if err != nil || len(all) != 1 {
		r.t.Fatal(all, err)
	}
	return all[0]
}

// showing has the page note when it shows what it has been told up to a record: in the frame after it knows.
const showing = `(() => {
  const live = document.querySelector(".live");
  window.shows = [];
  new MutationObserver(() => {
    const at = Number(` + shownAt + `);
    requestAnimationFrame(() => window.shows.push([at, Date.now()]));
  }).observe(live, { attributeFilter: ["data-at"] });
  return 1;
})()`

// latest takes the times until the page shows ten changes, from those that their records have. The page notes them by
// itself: to be asked takes time, while a controller tells ten thousand nodes.
func (r *rig) latest(ctx context.Context, of, record string, change func(i int)) {
	r.t.Helper()
	eval[int](r.t, ctx, showing)
	late, took := time.Duration(0), []time.Duration(nil)
	for i := range 10 {
		change(i)
		newest := r.newest(record)
		seen := fmt.Sprintf(`window.shows.find(([at]) => at >= %d)`, newest.Seq)
		until(r.t, ctx, seen)
		d := time.UnixMilli(eval[int64](r.t, ctx, seen+"[1]")).Sub(newest.At)
		late, took = max(late, d), append(took, d.Round(time.Millisecond))
	}
	r.t.Logf("changes of %s were seen after %v", of, took)
	report(r.t, "latest of ten changes of "+of+", after the journal", late, liveWithin)
}

// shown is true in the page when all 10,000 nodes are counted with a version.
func shown(version string) string {
	return `[...document.querySelectorAll(".chip")].some((c) => c.innerText.trim() === "` + version + ` 10000") &&
 document.querySelectorAll(".rows tbody tr").length > 5`
}

func report(t *testing.T, what string, took, most time.Duration) {
	t.Helper()
	t.Logf("%s: %v (%v)", what, took.Round(time.Millisecond), most)
	if took > most {
		t.Errorf("%s: %v is more than %v", what, took.Round(time.Millisecond), most)
	}
}

// metric is a number that the browser keeps of a tab.
func metric(t *testing.T, ctx context.Context, name string) float64 {
	t.Helper()
	var all performance.GetMetricsResult
	do(t, ctx, func(ctx context.Context, tab *chromedp.Target) (v chromedp.Void, err error) {
		if _, err = cdp.Call(ctx, tab, performance.Enable, performance.EnableParams{}); err == nil {
			all, err = cdp.Call(ctx, tab, performance.GetMetrics, cdp.Empty{})
		}
		return v, err
	})
	for _, m := range all.Metrics {
		if m.Name == name {
			return m.Value
		}
	}
	t.Fatalf("the browser has no %s", name)
	return 0
}

// collected is the size of a tab's heap after what is not needed was thrown away.
func collected(t *testing.T, ctx context.Context) float64 {
	t.Helper()
	do(t, ctx, func(ctx context.Context, tab *chromedp.Target) (v chromedp.Void, err error) {
		_, err = cdp.Call(ctx, tab, heapprofiler.CollectGarbage, cdp.Empty{})
		return v, err
	})
	return metric(t, ctx, "JSHeapUsedSize")
}
