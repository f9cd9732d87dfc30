package browser

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// gridAlone puts a picture on the page whose rows change as the test wants, and compares it with one that is new.
const gridAlone = `(async () => {
  const { Grid } = await import("/app/grid.mjs");
  const { html, render } = await import("/app/ui.mjs");
  const all = ["inStep", "onTheWay", "unwell", "failed", "offline", "revoked", "unheard-of"];
  const rows = new Map();
  const shown = async (groups, at) => {
    render(html` + "`<${Grid} groups=${groups} rows=${rows} open=${() => {}} />`" + `, at);
    await new Promise((done) => setTimeout(() => requestAnimationFrame(() => setTimeout(done, 20)), 40));
  };
  const room = () => {
    const at = document.createElement("div");
    at.style.width = "703px";
    document.body.append(at);
    return at;
  };
  const pixels = (at) => {
    const c = at.querySelector("canvas");
    return c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
  };
  window.differ = async (n, lost) => {
    const names = Array.from({ length: n }, (_, i) => "n" + i);
    const groups = [{ title: "a", names: names.slice(0, 40) }, { title: "b", names: names.slice(40) }];
    const kept = room(), other = room();
    names.forEach((name, i) => rows.set(name, { class: all[i % all.length] }));
    await shown(groups, kept);
    const before = pixels(kept);
    for (let step = 0; step < 3; step++) {
      names.forEach((name, i) => i % 5 === step && rows.set(name, { class: all[(i + i % 4 + step) % all.length] }));
      rows.delete("n" + step);
      await shown(groups, kept);
    }
    if (lost) {
      const c = kept.querySelector("canvas");
      c.width = c.width;
      c.dispatchEvent(new Event("contextrestored"));
    }
    await shown(groups, other);
    const is = pixels(kept), want = pixels(other);
    for (const at of [kept, other]) {
      render(null, at);
      at.remove();
    }
    if (before.every((v, i) => v === is[i])) return -1;
    return is.length === want.length ? is.filter((v, i) => v !== want[i]).length : -2;
  };
  return 1;
})()`

// TestCells: whatever becomes of some cells, the picture is as one that is new, also if the browser has lost it, and
// however large a pixel is.
func TestCells(t *testing.T) {
	r := newRig(t, 2)
	ctx, _ := chromium(t)
	page(t, ctx, r, "view", "#/fleet", "Look at this")
	eval[int](t, ctx, gridAlone)
	for _, c := range []struct {
		scale float64
		lost  bool
	}{{1, false}, {1.25, false}, {0.25, false}, {1, true}} {
		do(t, ctx, func(ctx context.Context, tab *chromedp.Target) (chromedp.Void, error) {
			return cdp.Call(ctx, tab, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
				Width: 1280, Height: 900, DeviceScaleFactor: c.scale})
		})
		if n := eval[int](t, ctx, fmt.Sprintf(`window.differ(900, %v)`, c.lost)); n != 0 {
			t.Errorf("%+v: %d bytes are others; -1: nothing was painted", c, n)
		}
	}
}
