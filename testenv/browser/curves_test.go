package browser

import (
	"strings"
	"testing"
	"time"
)

// TestCurves: the page of a node shows what it has measured, with rules and alerts, in words and as a table, too. It
// asks the node for it while somebody looks, and no other page loads what paints it.
func TestCurves(t *testing.T) {
	r := newRig(t, 3)
	r.works()
	r.busy()
	ctx, _ := chromium(t)
	begin := time.Now()
	page(t, ctx, r, "view", "#/fleet", "Look at this")
	if eval[bool](t, ctx, `performance.getEntriesByType("resource").some((e) => e.name.includes("uplot") ||
 e.name.includes("curves"))`) {
		t.Error("the fleet's page loads what paints curves")
	}
	// An agent that has measured nothing yet says so, and an older one is no fault.
	r.asked.none.Store(true)
	eval[string](t, ctx, `location.hash = "#/nodes/node-00001"`)
	has(t, ctx, "It has measured nothing yet")
	r.asked.old.Store(true)
	eval[string](t, ctx, `location.hash = "#/nodes/node-00002"`)
	has(t, ctx, "does not show what it has measured")
	if eval[bool](t, ctx, `Boolean(document.querySelector(".curve"))`) {
		t.Error("there is a curve of nothing")
	}
	r.asked.none.Store(false)
	r.asked.old.Store(false)
	before := r.asked.samples.Load()
	eval[string](t, ctx, `location.hash = "#/nodes/node-00000"`)
	for _, text := range []string{"CPU", "RAM", "Partition services", "Download", "Upload",
		"Its rule raises an alert at 80 %, which falls below 50 %.", "No rule watches it.", "Raised since ",
		"Raised from ", "Inodes 12 % (dashed)", "tandem node samples node-00000"} {
		has(t, ctx, text)
	}
	until(t, ctx, `document.querySelectorAll(".curve canvas").length === 5`)

	for _, of := range []string{"light", "dark"} {
		media(t, ctx, of, "none")
		until(t, ctx, painted("0.5", "bad"))  // an alert that fell
		until(t, ctx, painted("0.99", "bad")) // one that is raised
		until(t, ctx, "!"+painted("0.7", "bad"))
		until(t, ctx, strings.Replace(painted("0.7", "bad"), "> 250", "=== 33", 1)) // the band where alerts are raised
		eval[bool](t, ctx, `document.querySelector("#h-curves").scrollIntoView({block: "start"}), true`)
		picture(t, ctx, "curves-"+of)
	}

	// The table is there when it is asked for, with the newest sample first.
	eval[bool](t, ctx, `[...document.querySelectorAll("summary")].find((s) =>
 s.innerText.startsWith("All samples")).click() ?? true`)
	until(t, ctx, `[...document.querySelectorAll("table")].find((t) =>
 t.caption?.textContent.startsWith("samples"))?.rows.length === 331`) // with the head

	// A tab that nobody sees asks nothing, and one that is seen again asks at once.
	eval[int](t, ctx, `import("/app/curves.mjs").then((m) => m.limits.pause = 20)`)
	hidden := func(is string) {
		eval[bool](t, ctx, `Object.defineProperty(document, "hidden", {value: `+is+`, configurable: true}) &&
 document.dispatchEvent(new Event("visibilitychange"))`)
	}
	eval[int](t, ctx, `(() => {
  window.asked = 0;
  const real = fetch;
  window.fetch = (url, ...more) => { window.asked += url.endsWith("/samples") ? 1 : 0; return real(url, ...more); };
  return 1;
})()`)
	hidden("true")
	hidden("false")
	until(t, ctx, `window.asked > 3`)
	hidden("true")
	since := eval[int](t, ctx, `new Promise((r) => setTimeout(r, 300, window.asked)).then((n) => window.asked - n)`)
	if since != 0 {
		t.Errorf("a hidden tab has asked %d times", since)
	}
	eval[int](t, ctx, `window.asked = 0`)
	hidden("false")
	until(t, ctx, `window.asked > 0`)
	if n, most := r.asked.samples.Load()-before, 2+int64(time.Since(begin)/(5*time.Second)); n < 1 || n > most {
		t.Errorf("the node was asked %d times, at most %d are due: an answer counts for 5 s for all who look", n, most)
	}

	// Nothing of it needs a look at the picture, and nothing of it moves by itself.
	if n := eval[int](t, ctx, `document.getAnimations().length`); n != 0 {
		t.Errorf("%d things move", n)
	}
	r.nodes.Drop()
	has(t, ctx, "It is not connected: nobody can ask it now.")
}

// painted is true in the page when the first curve's canvas has the page's colour of a name at a part of its width, at
// the upper edge, where alerts are.
func painted(part, name string) string {
	return strings.NewReplacer("PART", part, "NAME", name).Replace(`(() => {
  const canvas = document.querySelector(".curve canvas"), box = canvas.getBoundingClientRect();
  const over = document.querySelector(".curve .u-over").getBoundingClientRect(), k = canvas.width / box.width;
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.color = "var(--NAME)";
  const want = getComputedStyle(probe).color.match(/\d+/g).map(Number);
  probe.remove();
  const x = (over.left - box.left + over.width * PART) * k, y = (over.top - box.top + 2) * k;
  const got = [...canvas.getContext("2d").getImageData(Math.round(x), Math.round(y), 1, 1).data];
  return got[3] > 250 && want.slice(0, 3).every((v, i) => Math.abs(v - got[i]) < 8);
})()`)
}
