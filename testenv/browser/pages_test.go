package browser

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/chromedp"
)

// where are the pages, with something that each shows.
var where = []struct{ address, shows string }{
	{"#/fleet", "in step"}, {"#/nodes/node-00000", "What it runs, and should"}, {"#/apply", "History"},
	{"#/rollouts", "Policies"}, {"#/workloads", "What runs where"}, {"#/events", "accepted"},
	{"#/alerts", "No alert is raised"},
	{"#/trust", "Authorities and keys"},
}

// TestPages: every page comes, in both colour schemes, and axe-core finds nothing that keeps anybody out.
func TestPages(t *testing.T) {
	r := newRig(t, 24)
	ctx, _ := chromium(t)
	axe, err := os.ReadFile("testdata/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	do(t, ctx, chromedp.Navigate(r.link("operate")))
	has(t, ctx, "Look at this")
	for _, of := range []string{"light", "dark"} {
		scheme(t, ctx, of)
		for i, p := range where {
			eval[string](t, ctx, `location.hash = "`+p.address+`"`)
			has(t, ctx, p.shows)
			picture(t, ctx, fmt.Sprintf("%d-%s", i+1, of))
			accessible(t, ctx, p.address+" "+of, string(axe))
		}
	}
}

// accessible fails for each thing that axe-core finds on the page.
func accessible(t *testing.T, ctx context.Context, what, axe string) {
	t.Helper()
	do(t, ctx, func(ctx context.Context, tab *chromedp.Target) (chromedp.Void, error) {
		_, err := chromedp.Evaluate[any](`typeof axe === "undefined" ? (() => {`+axe+`;})() ?? null : null`)(ctx, tab)
		return chromedp.Void{}, err
	})
	found := eval[[]string](t, ctx, `axe.run(document, {resultTypes: ["violations"]}).then((r) =>
 r.violations.map((v) =>
 v.id + " (" + v.impact + "): " + v.help + ": " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(" | ")))`)
	for _, f := range found {
		t.Errorf("%s: %s", what, f)
	}
}
