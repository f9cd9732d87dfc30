package browser

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"tandem.internal/controller/app"
)

// where are the pages, with what each shows at the end.
var where = []struct{ address, shows string }{ // texts, with ; between
	{"#/fleet", "an alert on cpu;Journal"}, {"#/nodes/node-00000", "All samples as a table"},
	{"#/apply", "Go back to this"},
	{"#/rollouts", "None has ended yet."}, {"#/rollouts/ROLLOUT", "those that hold it up first"},
	{"#/workloads", "Ask the nodes"}, {"#/workloads/camera@node-00000", "Show and follow"}, {"#/events", "accepted"},
	{"#/alerts", "Falls below"}, {"#/trust", "Authorities and keys"},
}

// TestPages: every page comes, in both colour schemes and in colours that are forced; axe-core finds nothing that keeps
// anybody out, and the keyboard alone reaches everything.
func TestPages(t *testing.T) {
	r := newRig(t, 24)
	r.works()
	r.busy()
	rollout := r.failing()
	ctx, _ := chromium(t)
	axe, err := os.ReadFile("testdata/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	page(t, ctx, r, "admin", "#/rollouts/"+rollout, "paused")
	for _, look := range []struct{ name, scheme, forced string }{
		{"light", "light", "none"}, {"dark", "dark", "none"}, {"forced", "dark", "active"},
	} {
		media(t, ctx, look.scheme, look.forced)
		for i, p := range where {
			address := strings.ReplaceAll(p.address, "ROLLOUT", rollout)
			eval[string](t, ctx, `location.hash = "`+address+`"`)
			has(t, ctx, strings.Split(p.shows, ";")...)
			picture(t, ctx, fmt.Sprintf("%02d-%s", i, look.name))
			if look.name != "forced" {
				accessible(t, ctx, p.address+" "+look.name, string(axe), look.name == "light" || *ship)
			}
			if look.name == "light" {
				walk(t, ctx, p.address)
			}
		}
	}
	eval[string](t, ctx, `location.hash = "#/nodes/node-00000"`)
	until(t, ctx, painted("0.99", "bad")) // forced
	if *pictures != "" {
		media(t, ctx, "light", "none")
		do(t, ctx, chromedp.EmulateViewport(390, 844))
		for i, p := range where {
			eval[string](t, ctx, `location.hash = "`+strings.ReplaceAll(p.address, "ROLLOUT", rollout)+`"`)
			has(t, ctx, strings.Split(p.shows, ";")...)
			picture(t, ctx, fmt.Sprintf("%02d-phone", i))
		}
	}
}

// failing begins a rollout that stops because nodes refuse what it brings; it returns the rollout's ID.
func (r *rig) failing() string {
	r.t.Helper()
	r.refuses.Store(true)
	res, err := r.app.Unit().Submit(r.ctx, app.Submission{Kind: "config", Document: document("1.1.0", 5),
		Who: "uid:1000(ann)", Via: "cli", Rollout: []byte(`{"waves":[{"name":"presses","type":"press"},
 {"name":"mills","type":"mill"},{"percent":100}],"maxUnavailable":{"percent":50},"failureBudget":{"count":2}}`)})
	if err != nil || res.Rollout == "" {
		r.t.Fatalf("%+v %v", res, err)
	}
	return res.Rollout
}

// walk presses Tab until it has been everywhere, and fails for each link, button and field that it has not reached.
func walk(t *testing.T, ctx context.Context, what string) {
	t.Helper()
	n := eval[int](t, ctx, `(() => {
  window.reached = new Set();
  document.addEventListener("focusin", (e) => window.reached.add(e.target));
  document.querySelector(".skip").focus();
  window.all = () => [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]
    .filter((e) => e.checkVisibility() && !e.disabled);
  return window.all().length;
})()`)
	for range n + 2 {
		do(t, ctx, chromedp.KeyEvent(kb.Tab))
	}
	for _, missed := range eval[[]string](t, ctx, `window.all().filter((e) => !window.reached.has(e)).map((e) =>
 e.outerHTML.slice(0, 160))`) {
		t.Errorf("%s: the keyboard does not reach %s", what, missed)
	}
}

// TestKeyboard: what is chosen, opened, ordered and closed again needs no mouse, and the focus is never lost.
func TestKeyboard(t *testing.T) {
	r := newRig(t, 24)
	ctx, _ := chromium(t)
	page(t, ctx, r, "operate", "#/fleet", "Look at this")
	press := func(keys ...string) {
		t.Helper()
		for _, k := range keys {
			do(t, ctx, chromedp.KeyEvent(k))
		}
	}
	until(t, ctx, `document.querySelector(".grid canvas")?.clientHeight > 50`)
	press("?")
	until(t, ctx, `document.querySelector("dialog[open]")`)
	press(kb.Escape)
	until(t, ctx, `!document.querySelector("dialog")`)
	press("/")
	until(t, ctx, `document.activeElement.id === "search"`)
	press(kb.Tab) // to the picture of all nodes
	until(t, ctx, `document.activeElement.matches(".grid")`)
	press(kb.ArrowRight, kb.ArrowRight)
	until(t, ctx, `document.querySelector("#cell").innerText.startsWith("node-00004")`)
	press(kb.Enter)
	has(t, ctx, "What it runs, and should")
	until(t, ctx, `location.hash === "#/nodes/node-00004" && document.activeElement.id === "main"`)
	until(t, ctx, `[...document.querySelectorAll(".act button")].some((b) => b.innerText === "Restart the machine")`)
	for range 40 {
		press(kb.Tab)
		if eval[bool](t, ctx, `document.activeElement.innerText === "Restart the machine"`) {
			break
		}
	}
	press(kb.Enter)
	until(t, ctx, `document.activeElement.matches("form.act input")`)
	press(kb.Escape)
	until(t, ctx, `document.activeElement.innerText === "Restart the machine"`)
	press("g", "e")
	until(t, ctx, `location.hash === "#/events"`)
}

// accessible fails for each thing that axe-core finds on the page, of all that it knows or of colours alone.
func accessible(t *testing.T, ctx context.Context, what, axe string, all bool) {
	t.Helper()
	rules := ""
	if !all {
		rules = `, runOnly: ["color-contrast"]`
	}
	do(t, ctx, func(ctx context.Context, tab *chromedp.Target) (chromedp.Void, error) {
		_, err := chromedp.Evaluate[any](`typeof axe === "undefined" ? (() => {`+axe+`;})() ?? null : null`)(ctx, tab)
		return chromedp.Void{}, err
	})
	found := eval[[]string](t, ctx, `axe.run(document, {resultTypes: ["violations"]`+rules+`}).then((r) =>
 r.violations.map((v) =>
 v.id + " (" + v.impact + "): " + v.help + ": " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(" | ")))`)
	for _, f := range found {
		t.Errorf("%s: %s", what, f)
	}
}
