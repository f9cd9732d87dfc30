// What happened: live, by level, type, node and who; how much of it when; to take away as lines of JSON.
import { query, parse, text } from "./api.mjs";
import { cli } from "./commands.mjs";
import { Cli, Failure, html, link, looks, Marked, Time, useAnswer, useMemo, useUnit, when } from "./ui.mjs";
import { unit } from "./unit.mjs";

// load gets entries, the newest first.
async function load(of) {
  const lines = await text(`/v1/events${query(of)}`);
  return lines.split("\n").filter((l) => l.trim() !== "").map(parse).sort((a, b) => b.seq - a.seq);
}

function Table({ entries, empty = "nothing yet" }) {
  if (!entries) return html`<p class="faint">…</p>`;
  if (entries.length === 0) return html`<p class="faint">${empty}</p>`;
  return html`<div class="wide entries" tabindex="0" role="region" aria-label="table of events"><table><caption
    class="unseen">what happened</caption>
    <thead><tr><th scope="col">Time</th><th scope="col">Type</th><th scope="col">What</th><th scope="col">Node</th><th
      scope="col">Who</th><th scope="col">No.</th></tr></thead>
    <tbody>${entries.map((e) => html`<tr key=${e.seq}><th scope="row"><${Time} at=${e.at} /></th>
      <td><${Marked} look=${e.level === "info" ? "note" : looks[e.level] ?? "note"}>${e.kind && e.type === "event"
        ? e.kind : e.type}<//></td>
      <td>${e.text ?? ""}</td>
      <td>${e.node ? html`<a href=${link(`nodes/${e.node}`)}>${e.node}</a>` : ""}</td><td>${e.who ?? ""}</td>
        <td>${e.seq}</td></tr>`)}</tbody></table></div>`;
}

export const Entries = { load, Table };

// bars counts entries in equal parts of the time that they cover.
function bars(entries, n) {
  if (entries.length < 2) return [];
  const last = Date.parse(entries[0].at), first = Date.parse(entries.at(-1).at), step = Math.max(1, (last - first) / n);
  const all = Array.from({ length: n }, (_, i) => ({ from: first + i * step, to: first + (i + 1) * step, n: 0,
    bad: 0 }));
  for (const e of entries) {
    const b = all[Math.min(n - 1, Math.floor((Date.parse(e.at) - first) / step))];
    b.n++;
    if (e.level === "error") b.bad++;
  }
  return all;
}

function Histogram({ entries, params, set }) {
  const all = useMemo(() => bars(entries, 48), [entries]);
  const most = Math.max(1, ...all.map((b) => b.n));
  const chosen = (b) => params.from && b.from < Number(params.until) && b.to > Number(params.from);
  if (all.length === 0) return null;
  return html`<div class="histogram" role="group" aria-label="how much happened when">${all.map((b) => html`<button
    key=${b.from}
    class=${b.bad ? "bad" : ""} aria-pressed=${Boolean(chosen(b))} style=${{ height: `${4 + (36 * b.n) / most}px` }}
    aria-label=${`${b.n} from ${when(b.from)} to ${when(b.to)}${b.bad ? `, ${b.bad} errors` : ""}`}
    title=${`${b.n}, ${when(b.from)} – ${when(b.to)}`}
    onClick=${() => set({ ...params, ...(chosen(b) ? { from: "", until: "" } : { from: String(Math.floor(b.from)),
      until: String(Math.ceil(b.to)) }) })}></button>`)}</div>`;
}

function save(entries) {
  const blob = new Blob(entries.map((e) => `${JSON.stringify(e)}\n`), { type: "application/x-ndjson" });
  const a = document.createElement("a");
  a.download = "events.jsonl";
  a.href = URL.createObjectURL(blob);
  a.click();
  URL.revokeObjectURL(a.href);
}

const levels = { info: 0, warning: 1, error: 2 };

export function Events({ params, set }) {
  useUnit();
  const newest = unit.entries[0]?.seq ?? 0;
  const asked = { node: params.node, type: params.type ? params.type.split(/[\s,]+/) : undefined, newest: true,
    limit: 1000 };
  const { value, error } = useAnswer(() => load(asked), [params.node, params.type], newest);
  const shown = useMemo(() => (value ?? []).filter((e) => (!params.level || levels[e.level] >= levels[params.level])
    && (!params.who || (e.who ?? "").includes(params.who))), [value, params.level, params.who]);
  const seen = useMemo(() => (params.from ? shown.filter((e) => Date.parse(e.at) >= Number(params.from)
    && Date.parse(e.at) <= Number(params.until)) : shown), [shown, params.from, params.until]);
  const table = useMemo(() => html`<${Table} entries=${value && seen.slice(0, 400)} empty="Nothing of this kind." />`,
    [value, seen]); // the unit changes more often
  const field = (name, label, more = {}) => html`<label>${label} <input value=${params[name] ?? ""} ...${more}
    onChange=${(e) => set({ ...params, [name]: e.target.value.trim() })} /></label>`;
  return html`<h1>Events</h1>
    <form class="fields" onSubmit=${(e) => e.preventDefault()}>
      <label>Level <select value=${params.level ?? ""} onChange=${(e) => set({ ...params, level: e.target.value })}>
        <option value="">all</option><option value="warning">warnings and errors</option><option
          value="error">errors</option></select></label>
      ${field("type", "Type", { placeholder: "alert, accepted" })}${field("node", "Node")}${field("who", "Who")}
      <button type="button" onClick=${() => save(seen)}>Save as JSON lines</button></form>
    <${Failure} error=${error} /><${Histogram} entries=${shown} params=${params} set=${set} />
    ${table}
    ${seen.length > 400 ? html`<p class="faint">${seen.length - 400} older ones are not shown.</p>` : null}
    <${Cli} line=${cli.events({ node: params.node, type: params.type, follow: true })} />`;
}
