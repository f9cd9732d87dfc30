package browser

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"tandem.internal/controller/app"
	node "tandem.internal/nodeagent/app"
)

// page opens the dashboard with a role, and one of its pages.
func page(t *testing.T, ctx context.Context, r *rig, role, address, shows string) {
	t.Helper()
	do(t, ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(r.link(role)))
	has(t, ctx, "Look at this")
	eval[string](t, ctx, `location.hash = "`+address+`"`)
	has(t, ctx, shows)
}

// click clicks the button with a text; within is a selector of what it is in.
func click(t *testing.T, ctx context.Context, within, text string) {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	until(t, ctx, `(() => { const b = [...document.querySelectorAll("`+within+` button")].find((b) =>
 b.innerText.trim() === `+
		string(quoted)+` && !b.disabled); b?.click(); return b; })()`)
}

// put puts a text where a person would paste it.
func put(t *testing.T, ctx context.Context, selector, text string) {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	eval[bool](t, ctx, `(() => { const f = document.querySelector("`+selector+`"); f.value = `+string(quoted)+
		`; f.dispatchEvent(new Event("input", {bubbles: true})); return true; })()`)
}

// TestQuestions: what a person asks is answered by the page alone.
func TestQuestions(t *testing.T) {
	r := newRig(t, 24)
	r.works()
	ctx, _ := chromium(t)

	t.Run("what would this file change", func(t *testing.T) {
		page(t, ctx, r, "operate", "#/apply", "History")
		put(t, ctx, "#doc", string(document("1.1.0", 7)))
		has(t, ctx, "/nodes/0/priority")
		click(t, ctx, ".acts", "Check")
		has(t, ctx, "24 nodes were asked: 24 agree")
		put(t, ctx, "#doc", "{\n \"formatVersion\": \"7\",\n oops\n}")
		click(t, ctx, ".acts", "Check")
		has(t, ctx, "line 3")
	})
	t.Run("apply it, and who did", func(t *testing.T) {
		put(t, ctx, "#doc", string(document("1.1.0", 7)))
		click(t, ctx, ".acts", "Apply")
		has(t, ctx, "tandem config apply unit.json")
		click(t, ctx, "form.act", "Apply")
		has(t, ctx, "24 of 24 nodes run it")
		eval[string](t, ctx, `location.hash = "#/events"`)
		has(t, ctx, "uid:1000(ann)")
		until(t, ctx, `[...document.querySelectorAll("tbody tr")].some((r) => r.innerText.includes("accepted") &&
 r.innerText.includes("1.1.0") && r.innerText.includes("token/t"))`)
	})
	t.Run("put this node back", func(t *testing.T) {
		eval[string](t, ctx, `location.hash = "#/nodes/node-00004"`)
		until(t, ctx, `(() => { const a = [...document.querySelectorAll("a")].find((a) =>
 a.innerText.startsWith("Put this node back to 1.0.0")); a?.click(); return a; })()`)
		has(t, ctx, "This file puts node-00004 back to what it had with 1.0.0")
		has(t, ctx, "What this file would change")
		click(t, ctx, ".acts", "Apply")
		click(t, ctx, "form.act", "Apply")
		has(t, ctx, "24 of 24 nodes run it")
		has(t, ctx, "1.1.1 by token/t")
		for node, priority := range map[string]string{"node-00004": "1", "node-00000": "7"} {
			got := eval[string](t, ctx, `import("/app/api.mjs").then((m) => m.ask("/v1/config/resolved?node=`+node+
				`")).then((v) => String(v.document.priority))`)
			if got != priority {
				t.Errorf("%s has the priority %s, want %s", node, got, priority)
			}
		}
		eval[string](t, ctx, `location.hash = "#/nodes/node-00004"`)
		has(t, ctx, "Nothing differs.")
	})
	t.Run("which workload eats the memory", func(t *testing.T) {
		for _, at := range []string{"#/workloads", "#/nodes/node-00000"} {
			eval[string](t, ctx, `location.hash = "`+at+`"`)
			click(t, ctx, "main", "Ask the nodes")
			has(t, ctx, "camera@node-00000 uses the most memory: 1.4 GiB of the 1.5 GiB that they use together.")
			until(t, ctx, `[...document.querySelectorAll("tbody th")].find((c) => c.innerText === "camera@node-00000" &&
 c.nextElementSibling.innerText === "1.4 GiB")`)
		}
	})
	t.Run("stop that rollout", func(t *testing.T) {
		res, err := r.app.Unit().Submit(r.ctx, app.Submission{Kind: "config", Document: document("1.2.0", 9),
			Who: "uid:1000(ann)", Via: "cli",
			Rollout: []byte(`{"waves":[{"count":1,"canary":true},{"percent":100}],"gate":{"soak":"PT10M"}}`)})
		if err != nil || res.Rollout == "" {
			t.Fatalf("%+v %v", res, err)
		}
		eval[string](t, ctx, `location.hash = "#/rollouts"`)
		has(t, ctx, res.Rollout)
		click(t, ctx, ".card", "Abort")
		has(t, ctx, "tandem rollout abort "+res.Rollout)
		click(t, ctx, "form.act", "Abort")
		until(t, ctx, `!document.querySelector(".card")`)
		has(t, ctx, "aborted")
	})
	t.Run("a token that only views is offered no order", func(t *testing.T) {
		page(t, ctx, r, "view", "#/nodes/node-00000", "What it runs, and should")
		if eval[bool](t, ctx, `document.body.innerText.includes("Restart the machine")`) {
			t.Error("there is a button that it may not use")
		}
	})
	t.Run("which nodes are not as they should be", func(t *testing.T) {
		page(t, ctx, r, "view", "#/fleet", "Look at this")
		r.nodes.Close()
		has(t, ctx, "24 nodes are offline")
		until(t, ctx, `(() => { const a = [...document.querySelectorAll(".look a")].find((a) =>
 a.innerText.includes("offline"));
 a?.click(); return a; })()`)
		has(t, ctx, "24 of 24 nodes")
		until(t, ctx, `location.hash.includes("offline")`)
	})
}

// TestNextCertificate: when the next certificate ends, and whose it is, stands on the page with what is trusted.
func TestNextCertificate(t *testing.T) {
	r := newRig(t, 2, func(c *app.Config) {
		c.ListenTLS, c.JoinListen, c.Advertise = "127.0.0.1:0", "127.0.0.1:0", []string{"127.0.0.1"}
	})
	e, err := r.app.Unit().Enroll(app.As(r.ctx, "ann"), app.EnrollIn{NodeIn: app.NodeIn{Node: "press-7"}})
	r.ok(err)
	joined, err := node.Join(r.ctx, node.JoinConfig{Controller: r.app.JoinURL(), Token: e.Token, StateDir: t.TempDir()},
		node.JoinDeps{})
	r.ok(err)
	ctx, _ := chromium(t)
	page(t, ctx, r, "view", "#/trust", "that of press-7")
	text := eval[string](t, ctx, `[...document.querySelectorAll("p")].find((p) =>
 p.innerText.startsWith("The next certificate ends")).querySelector("time").dateTime`)
	if at, err := time.Parse(time.RFC3339, text); err != nil || at.Sub(joined.Expires).Abs() > time.Second {
		t.Errorf("it ends %s, and the page says %s: %v", joined.Expires, text, err)
	}
	has(t, ctx, "The next certificate ends ✓ in ")
	picture(t, ctx, "trust")
}

// TestSession: a link logs in once; loading again asks for nothing, a second tab gets the session from the first, and a
// revoked token shows nothing any more.
func TestSession(t *testing.T) {
	r := newRig(t, 3)
	ctx, tab := chromium(t)
	link := r.link("view")
	do(t, ctx, chromedp.Navigate(link))
	has(t, ctx, "Look at this")
	if hash := eval[string](t, ctx, `location.href`); strings.Contains(hash, "tdo1") {
		t.Errorf("the token is in the address: %s", hash)
	}
	do(t, ctx, chromedp.Reload())
	has(t, ctx, "Look at this")
	second := tab()
	do(t, second, chromedp.Navigate(r.url+"/#/nodes/node-00001"))
	has(t, second, "What it runs, and should")
	stranger := tab()
	do(t, stranger, chromedp.Navigate("about:blank"), chromedp.Navigate(link))
	has(t, stranger, "This link was used before")
	name := strings.TrimPrefix(eval[string](t, ctx, `fetch("/v1/self", {headers: {Authorization: "Bearer " +
 sessionStorage.getItem("tandem.token")}}).then((r) => r.json()).then((s) => s.who)`), "token/")
	r.post("/v1/tokens/"+name+"/revoke", nil)
	has(t, ctx, "The controller says no")
}

// TestHostileText: what looks like markup, or turns text, is shown as it is, and does nothing.
func TestHostileText(t *testing.T) {
	r := newRig(t, 3)
	ctx, _ := chromium(t)
	const text = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script> \u202e \\u202e`
	r.post("/v1/unit/maintenance", map[string]any{"for": "PT1H", "reason": text})
	page(t, ctx, r, "view", "#/fleet", text)
	eval[string](t, ctx, `location.hash = "#/events"`)
	has(t, ctx, text)
	if n := eval[int](t, ctx, `document.querySelectorAll("img, script:not([src])").length`); n != 0 {
		t.Errorf("%d elements were made of text", n)
	}
	if title := eval[string](t, ctx, `document.title`); title != "plant-7 – Tandem" {
		t.Errorf("the title is %q", title)
	}
	// Even a mistake of the page's own would not help: the browser refuses.
	refused := eval[string](t, ctx, `(() => {
  try { document.body.innerHTML = "<b>x</b>"; return "done"; } catch (e) { return e.name; }
})()`)
	if refused != "TypeError" {
		t.Errorf("markup of text: %s", refused)
	}
}

// TestTabs: ten tabs hold one stream, and when the one that has it goes, another goes on where it was.
func TestTabs(t *testing.T) {
	r := newRig(t, 12)
	ctx, tab := chromium(t)
	first, cancel := chromedp.NewContext(ctx)
	if err := chromedp.Do(first); err != nil { // the tab lives as long as the context of this call
		t.Fatal(err)
	}
	do(t, first, chromedp.Navigate(r.link("view")))
	has(t, first, "Look at this")
	var others []context.Context
	for range 9 {
		o := tab()
		do(t, o, chromedp.Navigate(r.url))
		has(t, o, "Look at this")
		others = append(others, o)
	}
	streams := 0
	for _, o := range append([]context.Context{first}, others...) {
		streams += eval[int](t, o, `performance.getEntriesByType("resource").filter((e) =>
 e.name.includes("/v1/live")).length`) // ended ones
		until(t, o, `document.querySelector(".live")?.innerText === "Live"`)
	}
	if streams != 0 {
		t.Errorf("%d streams have begun and ended", streams)
	}
	r.apply("2.0.0", 3)
	for _, o := range others {
		until(t, o, `document.body.innerText.includes("2.0.0 12")`)
	}
	cancel() // the tab with the stream
	r.apply("3.0.0", 4)
	begin := time.Now()
	for _, o := range others {
		until(t, o, `document.body.innerText.includes("3.0.0 12")`)
	}
	t.Logf("all nine have it %v after", time.Since(begin).Round(time.Millisecond))
}
