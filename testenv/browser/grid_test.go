package browser

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"tandem.internal/controller/app"
)

// tiles are the numbers of nodes by how they stand.
const tiles = `[...document.querySelectorAll(".tile b")].map((b) => b.innerText).join(" ")`

// picturePNG is the picture of all nodes.
const picturePNG = `document.querySelector(".grid canvas").toDataURL()`

// painting waits until what the page shows is painted, too: that is done behind the next frame.
const painting = `(async () => {
  for (let i = 0; i < 3; i++) await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return 1;
})()`

// TestPictureOfNodes: what is painted of the nodes whose class has changed leaves the picture as one that is painted
// anew, and what changes no class paints nothing.
func TestPictureOfNodes(t *testing.T) {
	r := newRig(t, 24)
	ctx, _ := chromium(t)
	page(t, ctx, r, "view", "#/fleet", "Look at this")
	until(t, ctx, `document.querySelector(".grid canvas")?.clientHeight > 50`)
	until(t, ctx, tiles+` === "24 0 0 0 0 0"`)
	eval[int](t, ctx, `(() => {
  window.painted = {};
  for (const name of ["clearRect", "fillRect", "strokeRect", "fill", "stroke"]) {
    const was = CanvasRenderingContext2D.prototype[name];
    CanvasRenderingContext2D.prototype[name] = function (...of) {
      window.painted[name] = (window.painted[name] ?? 0) + 1;
      return was.apply(this, of);
    };
  }
  return 1;
})()`)
	fine := eval[string](t, ctx, picturePNG)

	r.post("/v1/nodes/node-00007/properties/line", map[string]any{"value": "B"})
	until(t, ctx, fmt.Sprintf(`Number(%s) >= %d`, shownAt, r.newest("settings").Seq))
	eval[int](t, ctx, painting)
	if painted := eval[string](t, ctx, `JSON.stringify(window.painted)`); painted != "{}" {
		t.Errorf("a change of no class paints %s", painted)
	}

	r.refuses.Store(true)
	if _, err := r.app.Unit().Submit(r.ctx, app.Submission{Kind: "config", Document: document("1.1.0", 5),
		Who: "uid:1000(ann)", Via: "cli"}); err != nil {
		t.Fatal(err)
	}
	until(t, ctx, tiles+` === "17 0 0 7 0 0"`)
	eval[int](t, ctx, painting)
	if n := eval[int](t, ctx, `window.painted.clearRect ?? 0`); n < 7 || n > 24*4 {
		t.Errorf("%d cells were cleared", n)
	}
	failed := eval[string](t, ctx, picturePNG)
	do(t, ctx, chromedp.KeyEvent("/"))
	until(t, ctx, `document.activeElement.id === "search"`)
	do(t, ctx, chromedp.KeyEvent(kb.Tab))
	until(t, ctx, picturePNG+` !== `+strconv.Quote(failed))
	do(t, ctx, chromedp.KeyEvent(kb.Tab)) // it is painted anew without the mark
	until(t, ctx, picturePNG+` === `+strconv.Quote(failed))
	if fine == failed {
		t.Error("the nodes that have failed look as before")
	}
}
