// What the pages are made of: hooks on the unit, text for times, tables, buttons that show their command.
import { h, render } from "/vendor/preact.mjs";
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "/vendor/hooks.mjs";
import htm from "/vendor/htm.mjs";
import { Refused, words } from "./api.mjs";
import { may, subscribe, unit } from "./unit.mjs";

export const html = htm.bind(h);
export { render, useEffect, useLayoutEffect, useMemo, useRef, useState };

// useUnit draws a component anew when the unit has changed.
export function useUnit() {
  const [, again] = useReducer((n) => n + 1, 0);
  useEffect(() => subscribe(again), []);
  return unit;
}

// useAnswer asks for something when on changes, and again when often changes, at most once a second. It returns
// {value, error, again}.
export function useAnswer(get, on, often = /** @type {any} */ (0)) {
  const [state, set] = useState({});
  const run = useRef({ last: 0, timer: 0, wanted: 0 });
  const load = () => {
    const r = run.current, mine = ++r.wanted;
    r.last = Date.now();
    Promise.resolve().then(get).then(
      (value) => r.wanted === mine && set({ value }),
      (error) => r.wanted === mine && set((s) => ({ value: error instanceof Refused ? undefined : s.value, error })),
    );
  };
  useEffect(() => {
    set({});
    load();
    return () => { run.current.wanted++; };
  }, on);
  useEffect(() => {
    const r = run.current;
    if (!often || r.timer) return undefined;
    r.timer = setTimeout(() => { r.timer = 0; load(); }, Math.max(50, r.last + 1000 - Date.now()));
    return undefined;
  }, [often]);
  useEffect(() => () => clearTimeout(run.current.timer), []);
  return { ...state, again: load };
}

// link is the address of a page: "nodes/press-1", with parameters.
export const link = (to, params = {}) => {
  const q = new URLSearchParams(Object.entries(params).filter(([, v]) => v)).toString();
  return `#/${to.split("/").map(encodeURIComponent).join("/")}${q ? `?${q}` : ""}`;
};

// place reads the address: {page, parts, params}.
export function place() {
  const [where, q] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = where.split("/").filter(Boolean).map(decodeURIComponent);
  return { page: parts[0] ?? "fleet", parts: parts.slice(1), params: Object.fromEntries(new URLSearchParams(q ?? "")) };
}

const two = (n) => String(n).padStart(2, "0");

// when is a point in time for people: today's without the day.
export function when(t) {
  if (!t) return "";
  const d = new Date(t), now = new Date();
  const clock = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
  if (d.toDateString() === now.toDateString()) return clock;
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${clock}`;
}

// colours are those of the page as they are now, for a canvas: of the user's scheme, or of what the user forces.
let kept = null;
export function colours(at) {
  if (kept) return kept;
  const probe = document.createElement("span"), all = {};
  probe.style.setProperty("forced-color-adjust", "none");
  at.append(probe);
  for (const name of ["good", "wait", "bad", "off", "note", "text", "faint", "line", "link"]) {
    probe.style.color = `var(--${name})`;
    all[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  kept = all;
  return all;
}

// onColours calls f when they have changed; it returns what ends that.
export function onColours(f) {
  const all = ["(prefers-color-scheme: dark)", "(forced-colors: active)"].map((q) => matchMedia(q));
  for (const m of all) m.addEventListener("change", f);
  return () => all.forEach((m) => m.removeEventListener("change", f));
}
onColours(() => { kept = null; }); // before all others hear of it

export const Time = ({ at }) => (at ? html`<time datetime=${at} title=${new Date(at).toString()}>${when(at)}</time>`
  : null);

// span is a length of time: "3 m 20 s".
export function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  /** @type {[number, string][]} */
  const parts = [[Math.floor(s / 86400), "d"], [Math.floor(s / 3600) % 24, "h"], [Math.floor(s / 60) % 60, "m"],
    [s % 60, "s"]];
  const first = parts.findIndex(([n]) => n > 0);
  if (first < 0) return "0 s";
  return parts.slice(first, first + 2).filter(([n]) => n > 0).map(([n, u]) => `${n} ${u}`).join(" ");
}

// size is a number of bytes for people.
export function size(n) {
  if (n === undefined || n === null) return "";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return `${n >= 10 || i === 0 ? Math.round(n) : n.toFixed(1)} ${units[i]}`;
}

// measure is a measured value for people, by what it is of: a share, or bytes a second.
export function measure(parameter, v) {
  if (v === undefined || v === null) return "–";
  if (parameter === "download" || parameter === "upload") return `${size(v)}/s`;
  return `${(100 * v).toFixed(v > 0 && v < 0.0995 ? 1 : 0)} %`;
}

// count is "1 node", "2 nodes".
export const count = (n, what = "node") => `${n} ${what}${n === 1 ? "" : "s"}`;

// say tells a screen reader something, seldom.
let saidAt = 0;
export function say(text) {
  if (Date.now() - saidAt < 5000) return;
  saidAt = Date.now();
  document.getElementById("said").textContent = text;
}

export const Failure = ({ error }) => (error ? html`<p class="failure" role="alert">${error.message}</p>` : null);

// Marked is a word with its colour and sign; look is good, wait, bad, off or "".
export const signs = { good: "✓", wait: "…", bad: "✕", off: "○", note: "·" };
export const Marked = ({ look, children }) => html`<span class=${`mark ${look}`}>${look && signs[look]
  ? html`<span aria-hidden="true">${signs[look]} </span>` : null}${children}</span>`;

// looks are how states and classes look.
export const looks = {
  inStep: "good", onTheWay: "wait", unwell: "bad", failed: "bad", offline: "off", revoked: "off",
  installed: "good", running: "good", completed: "good", rejected: "bad", rolledback: "bad", error: "bad",
    warning: "wait",
  good: "good", bad: "bad", waits: "wait", note: "note", succeeded: "good", aborted: "bad", paused: "wait",
    done: "good", signing: "good",
};

export const State = ({ of }) => html`<${Marked} look=${looks[of] ?? "wait"}>${of}<//>`;

// Because shows why something is as it is: sentences with where each is known from and what would change it.
export function Because({ why }) {
  if (!why) return null;
  return html`<ol class="why">${(why.sentences ?? []).map((s) => html`<li>
    <p>${s.text}</p>
    ${s.source || s.changes ? html`<p class="faint">${[s.source && `Known from ${s.source}`,
      s.changes && `until ${s.changes}`].filter(Boolean).join("; ")}</p>` : null}</li>`)}</ol>`;
}

// Simple is a small table. head has the names of the columns, rows the cells; the first cell names the row.
export function Simple({ caption, head, rows, empty = "nothing" }) {
  if (!rows) return html`<p class="faint">…</p>`;
  if (rows.length === 0) return html`<p class="faint">${empty}</p>`;
  return html`<div class="wide" tabindex="0" role="region" aria-label=${`table of ${caption}`}><table>
    <caption class="unseen">${caption}</caption>
    <thead><tr>${head.map((t) => html`<th scope="col">${t || html`<span class="unseen">orders</span>`}</th>`)}</tr>
      </thead>
    <tbody>${rows.map((cells) => html`<tr key=${cells.key}>${(cells.cells ?? cells).map((c, i) => (i === 0
      ? html`<th scope="row">${c}</th>` : html`<td>${c}</td>`))}</tr>`)}</tbody></table></div>`;
}

// Act is a button for an order: it shows the command that it equals, asks before it does it, and says what came of it.
// fields are what a person gives: {name, label, value, need}; act gets their values.
export function Act({ label, role = "operate", cli, fields = [], act, danger, done, text, disabled }) {
  const [open, setOpen] = useState(false);
  const [given, setGiven] = useState({});
  const [said, setSaid] = useState(null);
  const first = useRef(null), button = useRef(null), was = useRef(false);
  useEffect(() => {
    if (open) first.current?.focus();
    else if (was.current) button.current?.focus(); // nobody who has a keyboard alone begins anew
    was.current = open;
  }, [open]);
  if (!may(role)) return null;
  const values = Object.fromEntries(fields.map((f) => [f.name, given[f.name] ?? f.value ?? ""]));
  const run = async (e) => {
    e.preventDefault();
    setSaid({ wait: true });
    try {
      const answer = await act(values);
      setSaid({ text: typeof answer === "string" ? answer : "done" });
      setOpen(false);
      done?.();
    } catch (error) {
      setSaid({ error });
    }
  };
  const shown = said && !said.wait ? html`<span role="status" class=${said.error ? "failure" : "fine"}>${said.error
    ? said.error.answer?.checks?.refused?.length ? said.error.answer.checks.refused.map((r) =>
      `${r.node}: ${words(r.errors[0])}`).join("; ") : said.error.message : said.text}</span>` : null;
  if (!open) {
    return html`<span class="act"><button ref=${button} class=${danger ? "danger" : ""} disabled=${disabled}
      onClick=${() => { setOpen(true); setSaid(null); }}
      >${label}</button> ${shown}</span>`;
  }
  return html`<form class="act open" onSubmit=${run} onKeyDown=${(e) => e.key === "Escape" && setOpen(false)}>
    ${text ? html`<p>${text}</p>` : null}
    ${fields.map((f, i) => html`<label>${f.label} <input ref=${i === 0 ? first : null} value=${values[f.name]}
      required=${f.need} onInput=${(e) => setGiven({ ...given, [f.name]: e.target.value })} /></label>`)}
    <code class="cli">${cli(values)}</code>
    <button ref=${fields.length === 0 ? first : null} class=${danger ? "danger" : ""}>${label}</button>
    <button type="button" onClick=${() => setOpen(false)}>Cancel</button> ${shown}</form>`;
}

// Cli shows the command that says the same as the page.
export const Cli = ({ line }) => html`<p class="clis"><code>${line}</code></p>`;
