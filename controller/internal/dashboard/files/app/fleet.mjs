// The fleet: how many nodes stand how, what should be looked at, a cell and a row for each node, and a search that is
// the filter of `tandem nodes`.
import { ask, query, send } from "./api.mjs";
import { cli } from "./commands.mjs";
import { classWord, Grid } from "./grid.mjs";
import { Many } from "./many.mjs";
import { Rows } from "./rows.mjs";
import { Act, Cli, Failure, html, link, looks, Marked, say, signs, span, State, Time, useAnswer, useEffect, useMemo,
  useRef, useState, useUnit, when } from "./ui.mjs";
import { nodes, unit } from "./unit.mjs";

const classes = ["inStep", "onTheWay", "unwell", "failed", "offline", "revoked"];
export const filterOf = { inStep: "class:in-step", onTheWay: "class:on-the-way", unwell: "class:unwell",
  failed: "class:failed", offline: "class:offline", revoked: "class:revoked" };

// quoted is a value in the filter language.
export const quoted = (v) => (/^[\w.-]+$/.test(v) ? v : `"${v.replace(/(["\\])/g, "\\$1")}"`);

// useSelected asks the controller which nodes a filter selects: one language, judged in one place. null: all.
export function useSelected(q) {
  const rev = unit.fleet?.rev ?? 0;
  const { value, error } = useAnswer(() => (q ? ask(`/v1/nodes${query({ q, fields: "node" })}`) : null), [q], q ? rev
    : 0);
  const names = useMemo(() => (value ? value.nodes.map((n) => n.node) : null), [value]);
  return { names, error };
}

// Strip says what the unit is, and what is under way in all of it.
export function Strip() {
  const u = useUnit();
  const { value: s, error, again } = useAnswer(() => ask("/v1/unit/status"), [], u.fleet?.rev ?? 0);
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const t = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(t);
  }, []);
  if (!s) return html`<section class="strip" aria-label="unit"><${Failure} error=${error} /></section>`;
  const c = s.config;
  return html`<section class="strip" aria-label="unit">
    <dl>
      <div><dt>Unit</dt><dd>${s.unit}</dd></div>
      <div><dt>Controller</dt><dd>${s.version}, for ${span(now - Date.parse(s.started))}</dd></div>
      <div><dt>Configuration</dt><dd><${State} of=${c.state} /> ${c.version}</dd></div>
      <div><dt>Broker</dt><dd><${Marked} look=${s.broker.up ? "good" : "bad"}>${s.broker.up ? "up"
        : `down: ${s.broker.error}`}<//></dd></div>
      <div><dt>Journal</dt><dd>record ${s.rev}</dd></div>
      ${s.maintenance ? html`<div><dt>Maintenance</dt><dd><${Marked}
        look="wait">until ${when(s.maintenance.until)}: ${s.maintenance.reason}<//>
        <${Act} label="End it" cli=${cli.endMaintenance} act=${() => send("POST", "/v1/unit/maintenance/end")}
          done=${again} /></dd></div>` : null}
      ${c.trial ? html`<div><dt>On trial</dt><dd><${Marked}
        look="wait">${c.trial.version}, ${span(Date.parse(c.trial.deadline) - now)} left<//>
        <${Act} label="Keep it" cli=${cli.confirmConfig} act=${() => send("POST", "/v1/config/confirm")} done=${again}
          text="Left alone, every node goes back by itself when the time is over." /></dd></div>` : null}
    </dl>
    ${(s.trouble ?? []).length ? html`<ul class="trouble">${s.trouble.map((t) => html`<li><${Marked}
      look="bad">${t}<//></li>`)}</ul>` : null}
  </section>`;
}

function Tiles({ fleet, q, setQ }) {
  const press = (f) => setQ(q === f ? "" : f);
  const some = (all, name) => Object.entries(all ?? {}).sort((a, b) => b[1] - a[1]).slice(0, 12).map(([value, n]) => {
    const f = `${name}:${quoted(value)}`;
    return html`<button class="chip" aria-pressed=${q === f} onClick=${() => press(f)} disabled=${value === ""}
      >${value === "" ? "not told" : value} <b>${n}</b></button>`;
  });
  return html`<section aria-labelledby="h-tiles"><h2 id="h-tiles" class="unseen">Nodes by how they stand</h2>
    <div class="tiles">${classes.map((c) => html`<button class=${`tile ${looks[c]}`} aria-pressed=${q === filterOf[c]}
      onClick=${() => press(filterOf[c])}><b>${fleet.counts[c]}</b> <span><span
        aria-hidden="true">${signs[looks[c]]} </span>${classWord(c)}</span></button>`)}</div>
    <p class="chips"><span>Types</span> ${some(fleet.types, "type")}</p>
    <p class="chips"><span>Versions</span> ${some(fleet.versions, "version")}</p></section>`;
}

// Look shows what is wrong first, each with what it is about.
export function Look({ look }) {
  const text = (look ?? []).map((s) => s.text).join(" ");
  useEffect(() => { if (text) say(text.slice(0, 200)); }, [text]);
  if (!look?.length) return html`<p class="fine"><${Marked} look="good">Nothing needs a look.<//></p>`;
  return html`<ul class="look">${look.map((s) => html`<li><${Marked} look=${looks[s.level] ?? "note"}>${s.filter
    ? html`<a href=${link("fleet", { q: s.filter })}>${s.text}</a>` : s.text}<//></li>`)}</ul>`;
}

function Cards({ names, rows }) {
  return html`<ul class="cards">${names.map((name) => {
    const r = rows.get(name);
    return html`<li key=${name} class=${looks[r.class]}><a href=${link(`nodes/${name}`)}>${name}</a>
      <span><${Marked} look=${looks[r.class]}>${classWord(r.class)}<//></span>
      <span class="faint">${r.type}${r.version ? `, runs ${r.version}` : ""}</span>${r.why
        ? html`<span>${r.why}</span>` : null}</li>`;
  })}</ul>`;
}

const few = 12;

export function Fleet({ params, set }) {
  const u = useUnit();
  const q = params.q ?? "";
  const setQ = (text) => set({ ...params, q: text });
  const { names: chosen, error } = useSelected(q);
  const all = nodes();
  const names = useMemo(() => (chosen ? chosen.filter((n) => u.rows.has(n)) : all), [chosen, all]);
  const groups = useMemo(() => {
    const by = new Map();
    for (const n of names) {
      const t = u.rows.get(n)?.type || "type not told";
      if (!by.has(t)) by.set(t, []);
      by.get(t).push(n);
    }
    return [...by].sort((a, b) => b[1].length - a[1].length).map(([t, list]) => ({ title: `${t} (${list.length})`,
      names: list }));
  }, [names]);
  const open = (n) => { location.hash = link(`nodes/${n}`); };
  const useful = u.fleet && all.length > 0; // measured by a test
  useEffect(() => { if (useful) requestAnimationFrame(() => performance.mark("useful")); }, [useful]);
  if (!u.fleet) return html`<p class="faint">…</p>`;
  return html`<h1 class="unseen">Fleet</h1><${Strip} />
    <${Tiles} fleet=${u.fleet} q=${q} setQ=${setQ} />
    <section aria-labelledby="h-look"><h2 id="h-look">Look at this</h2><${Look} look=${u.fleet.look} /></section>
    <section aria-labelledby="h-nodes"><h2 id="h-nodes">Nodes</h2>
      <${Search} q=${q} setQ=${setQ} error=${error} found=${q ? names.length : undefined} of=${u.rows.size} />
      ${q ? html`<${Cli} line=${cli.nodes({ q })} /><${Many} q=${q} />` : null}
      ${names.length <= few ? html`<${Cards} names=${names} rows=${u.rows} />`
        : html`<${Grid} groups=${groups} rows=${u.rows} open=${open} />`}
      <${Rows} caption="nodes" head=${["Node", "Type", "Stands", "State", "Runs", "Should run", "Since", "Alerts",
        "Why"]}
        keys=${names} open=${open} cells=${(n) => {
          const r = u.rows.get(n) ?? {};
          return [html`<a href=${link(`nodes/${n}`)}>${n}</a>`, r.type, html`<${Marked}
            look=${looks[r.class]}>${classWord(r.class)}<//>`, r.state,
            r.version, r.desired, html`<${Time} at=${r.since} />`, r.alerts ? String(r.alerts) : "", r.why];
        }} /></section>`;
}

// Search is the field for the filter. What is typed counts after a pause.
export function Search({ q, setQ, error, found, of }) {
  const [text, setText] = useState(q);
  const timer = useRef(0);
  useEffect(() => setText(q), [q]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const typed = (t) => {
    setText(t);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setQ(t.trim()), 250);
  };
  return html`<form role="search" class="search"
    onSubmit=${(e) => { e.preventDefault(); clearTimeout(timer.current); setQ(text.trim()); }}>
    <label for="search">Search</label>
    <input id="search" type="search" value=${text} onInput=${(e) => typed(e.target.value)} autocomplete="off"
      spellcheck=${false}
      placeholder="state:offline type:press version:<2.1" aria-describedby="found" />
    <span id="found" role="status">${error ? html`<span class="failure">${error.message}</span>`
      : found === undefined ? `${of} nodes` : `${found} of ${of} nodes`}</span></form>`;
}
