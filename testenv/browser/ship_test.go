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
	const n = 10_000
	r := newRig(t, n)
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

	late, all := time.Duration(0), []time.Duration(nil)
	for i := range 10 {
		seq, at := r.maintain(fmt.Sprint(i))
		until(t, ctx, fmt.Sprintf(`Number(document.querySelector(".live").dataset.at.split("-")[1]) >= %d &&
 (window.seen = Date.now())`, seq))
		took := time.UnixMilli(int64(eval[float64](t, ctx, `window.seen`))).Sub(at)
		late, all = max(late, took), append(all, took.Round(time.Millisecond))
	}
	t.Log("changes were seen after", all)
	report(t, "latest of ten changes, after the journal", late, liveWithin)
}

// maintain announces a maintenance; it returns the number and time of the journal's record.
func (r *rig) maintain(reason string) (seq uint64, at time.Time) {
	r.t.Helper()
	r.post("/v1/unit/maintenance", map[string]any{"for": "PT1H", "reason": reason})
	all, err := r.app.Unit().Entries(r.ctx, app.EntryFilter{Types: []string{"unit-maintenance"}, Reverse: true,
		Limit: 1})
	if err != nil || len(all) != 1 {
		r.t.Fatal(all, err)
	}
	return all[0].Seq, all[0].At
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
