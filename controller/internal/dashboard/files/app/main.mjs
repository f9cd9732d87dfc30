// The dashboard: who looks, which page, and the frame around it.
import { hasToken, send, theToken, useToken } from "./api.mjs";
import { Alerts } from "./alerts.mjs";
import { Apply } from "./apply.mjs";
import { Events } from "./events.mjs";
import { Fleet } from "./fleet.mjs";
import { NodePage } from "./node.mjs";
import { PolicyPage, RolloutPage, Rollouts } from "./rollouts.mjs";
import { Trust } from "./trust.mjs";
import { html, link, place, render, useEffect, useRef, useState, useUnit } from "./ui.mjs";
import { askTabs, begin, end, unit } from "./unit.mjs";
import { SlotPage, Workloads } from "./workloads.mjs";

const pages = [["fleet", "Fleet"], ["apply", "Apply"], ["rollouts", "Rollouts and policies"], ["workloads",
  "Workloads and items"],
  ["events", "Events"], ["alerts", "Alerts"], ["trust", "Trust and settings"]];

const within = { nodes: "fleet", policies: "rollouts" }; // pages that stand below others

const keys = [["/", "to the search"], ["?", "this help"], ["g, then a page's first letter", "to that page"],
  ["arrow keys, Enter", "in the picture of all nodes: move, and open one"],
  ["Escape", "closes what is open"]];

const example = "state:offline type:press version:<2.1";
const withoutTLS = "This page came WITHOUT TLS: whoever is on the network in between can read the token "
  + "that you type here.";
const usedUp = "This link was used before, or its time is over. "
  + "On the controller's machine, tandem dashboard makes a new one.";

function Page({ at, set }) {
  const [what] = at.parts;
  switch (at.page) {
    case "fleet": return html`<${Fleet} params=${at.params} set=${set} />`;
    case "nodes": return what ? html`<${NodePage} key=${what} name=${what} />` : html`<${Fleet} params=${at.params}
      set=${set} />`;
    case "apply": return html`<${Apply} params=${at.params} set=${set} />`;
    case "rollouts": return what ? html`<${RolloutPage} key=${what} id=${what} />` : html`<${Rollouts} />`;
    case "policies": return what ? html`<${PolicyPage} key=${what} name=${what} />` : html`<${Rollouts} />`;
    case "workloads": return what ? html`<${SlotPage} key=${what} slot=${what} />` : html`<${Workloads} />`;
    case "events": return html`<${Events} params=${at.params} set=${set} />`;
    case "alerts": return html`<${Alerts} />`;
    case "trust": return html`<${Trust} />`;
  }
  return html`<h1>There is no such page</h1><p><a href=${link("fleet")}>To the fleet</a></p>`;
}

function Help({ close }) {
  const box = useRef(null);
  useEffect(() => { box.current.showModal(); }, []);
  return html`<dialog ref=${box} onClose=${close} aria-labelledby="h-help"><h2 id="h-help">Keys</h2>
    <dl class="facts">${keys.map(([k, v]) => html`<div><dt><kbd>${k}</kbd></dt><dd>${v}</dd></div>`)}</dl>
    <h2>Search</h2><p>As in <code>tandem nodes</code>: <code>${example}</code>:
      ${" "}words are joined by and, <code>-</code> is not, a comma is or, a word alone is a part of a name.</p>
    <form method="dialog"><button>Close</button></form></dialog>`;
}

function useKeys(help) {
  useEffect(() => {
    let goes = false;
    const pressed = (e) => {
      if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, textarea, select")) return;
      if (goes) {
        const to = pages.find(([p]) => p[0] === e.key);
        goes = false;
        if (to) location.hash = link(to[0]);
        return;
      }
      if (e.key === "g") goes = true;
      if (e.key === "?") help();
      if (e.key === "/") {
        e.preventDefault();
        const field = document.getElementById("search");
        if (field) field.focus();
        else {
          location.hash = link("fleet");
          setTimeout(() => document.getElementById("search")?.focus(), 200);
        }
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

function Enter({ note, enter }) {
  const [text, setText] = useState("");
  const near = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
  return html`<main class="enter"><h1>Tandem</h1>
    ${location.protocol !== "https:" && !near ? html`<p class="failure"
      role="alert">${withoutTLS}</p>` : null}
    ${note ? html`<p class="failure" role="alert">${note}</p>` : null}
    <form onSubmit=${(e) => { e.preventDefault(); enter(text.trim()); }}><label for="token">Token</label>
      <input id="token" type="password" required autocomplete="off" spellcheck=${false} placeholder="tdo1.…"
        aria-describedby="hint" value=${text} onInput=${(e) => setText(e.target.value)} />
      <button>Show the unit</button>
      <p id="hint">On the controller's machine <code>tandem dashboard</code> opens this page without one,
        ${" "}and <code>tandem token create NAME --role view</code> makes one.
        ${" "}It is kept until this tab is closed.</p></form></main>`;
}

function App() {
  useUnit();
  const [at, setAt] = useState(place());
  const [note, setNote] = useState("");
  const [inside, setInside] = useState(false);
  const [help, setHelp] = useState(false);
  const main = useRef(null);
  useKeys(() => setHelp(true));
  const refused = (e) => {
    end();
    setInside(false);
    setNote(`The controller says no: ${e.message}`);
  };
  const enter = async (token, once) => {
    useToken(token);
    try {
      if (once) useToken((await send("POST", "/v1/tokens/redeem")).token);
    } catch (e) {
      useToken("");
      setNote(usedUp);
      return;
    }
    setNote("");
    setInside(true);
    begin(refused);
  };
  useEffect(() => {
    // A link may bring the token behind #, which no server and no log sees; it does not stay in the address.
    const brought = /^#(once=)?(tdo1\.[\w-]+)$/.exec(location.hash);
    if (brought) {
      history.replaceState(null, "", location.pathname);
      setAt(place());
      enter(brought[2], brought[1] !== undefined);
    } else if (hasToken()) enter(theToken());
    else askTabs(enter);
    const moved = () => {
      setAt(place());
      main.current?.focus();
      scrollTo(0, 0);
    };
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  useEffect(() => { // where there is no room for all pages
    document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [at.page, inside]);
  useEffect(() => { document.title = unit.fleet ? `${unit.fleet.unit} – Tandem` : "Tandem"; });
  const set = (params) => {
    const to = link([at.page, ...at.parts].join("/"), params);
    history.replaceState(null, "", to);
    setAt(place());
  };
  if (!inside) return html`<${Enter} note=${note} enter=${enter} />`;
  return html`<a class="skip" href="#main"
    onClick=${(e) => { e.preventDefault(); main.current.focus(); }}>To the content</a>
    <header><b>Tandem</b> <nav aria-label="pages">${pages.map(([p, title]) => html`<a href=${link(p)}
      aria-current=${(within[at.page] ?? at.page) === p ? "page" : undefined}>${title}</a>`)}</nav>
      <span class=${`live ${unit.live ? "good" : "bad"}`} role="status" data-at=${unit.at}>${unit.live
        ? "Live" : unit.note ? `NOT LIVE: ${unit.note}` : "…"}</span>
      <button onClick=${() => setHelp(true)} aria-label="help">?</button></header>
    <main id="main" ref=${main} tabindex="-1"><${Page} at=${at} set=${set} /></main>
    ${help ? html`<${Help} close=${() => setHelp(false)} />` : null}`;
}

render(html`<${App} />`, document.getElementById("app"));
