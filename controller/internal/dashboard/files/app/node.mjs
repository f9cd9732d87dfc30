// One node: how it stands and why, what it runs against what it should, its health, workloads, components and story.
import { ask, path, send, words } from "./api.mjs";
import { cli } from "./commands.mjs";
import { Entries } from "./events.mjs";
import { classWord } from "./grid.mjs";
import { Act, Because, Cli, Failure, html, link, looks, Marked, measure, Simple, State, Time, useAnswer, useEffect,
  useState, useUnit, when } from "./ui.mjs";
import { may, unit } from "./unit.mjs";
import { Memory, SlotActs } from "./workloads.mjs";

// changedOf grows whenever something was heard of the node.
function changedOf(name) {
  const newest = unit.entries.find((e) => e.node === name);
  const r = unit.rows.get(name);
  return r ? `${newest?.seq ?? 0} ${r.class} ${r.state} ${r.version} ${r.alerts} ${r.why}` : String(newest?.seq ?? 0);
}

const value = (v) => (v === undefined ? "–" : typeof v === "string" ? v : JSON.stringify(v));

function Documents({ node }) {
  const rows = Object.entries(node.documents ?? {}).map(([kind, d]) => ({ key: kind, cells: [kind,
    d.desired ? `${d.desired.version}${d.desired.mode === "try" ? ", on trial" : ""}` : "", d.running?.version ?? "",
    html`<${Marked} look=${d.inSync ? "good" : looks[d.last?.state] ?? "wait"}>${d.last?.state ?? "not told"}<//>`,
    words(d.error ?? d.last?.error), html`<${Time} at=${d.reportedAt} />`] }));
  return html`<${Simple} caption="documents" head=${["Kind", "Should run", "Runs", "State", "Error", "Told"]}
    rows=${rows}
    empty="Nothing was issued to it yet." />`;
}

const few = 8; // differing values that are shown unasked

function Differences({ diff }) {
  if (!diff?.kinds) return null;
  const rows = diff.kinds.flatMap((k) => (k.changes ?? []).map((c) => ({ key: `${k.kind} ${c.pointer}`,
    cells: [`${k.kind} ${c.pointer}`, value(c.before), value(c.after)] })));
  const table = (caption, of) => html`<${Simple} caption=${caption} head=${["Value", "Runs", "Should run"]} rows=${of}
    empty="Nothing differs." />`;
  const more = rows.slice(few);
  return html`<h3>Differs from what it should run</h3>${table("differing values", rows.slice(0, few))}
    ${more.length ? html`<details><summary>${more.length} more values</summary>${table("more differing values", more)}
      </details>` : null}`;
}

function HealthOf({ health, node }) {
  const r = health?.report;
  const raised = health?.raised ?? node.raised ?? [];
  const checks = (r?.checks ?? []).map((c) => ({ key: c.name, cells: [c.name,
    html`<${Marked} look=${c.ok ? "good" : "bad"}>${c.ok ? "passes" : "fails"}<//>`, c.message ?? "", html`<${Time}
      at=${c.since} />`] }));
  return html`<section aria-labelledby="h-health"><h2 id="h-health">Health</h2>
    ${node.health ? html`<p><${Marked} look=${node.health.state === "ok" ? "good" : "bad"}>${node.health.text}<//>
      <span class="faint"> told <${Time} at=${node.health.reportedAt} /></span></p>` : html`<p
        class="faint">It has told nothing of its health.</p>`}
    ${raised.length ? html`<${Simple} caption="alerts" head=${["Alert", "Value", "Raises at", "Falls below",
      "Since"]}
      rows=${raised.map((a) => ({ key: a.parameter, cells: [a.parameter, ...[a.value, a.maxThreshold,
        a.minThreshold].map((v) => measure(a.parameter, v)), html`<${Time} at=${a.since} />`] }))} />` : null}
    ${checks.length ? html`<${Simple} caption="checks" head=${["Check", "State", "Text", "Since"]} rows=${checks} />`
      : null}
    <${Trial} trial=${r?.trial} /><${AgentSlots} slots=${r?.slots} current=${r?.current} />
    <${Cli} line=${cli.health({ node: node.node })} /></section>`;
}

// styles puts a style sheet of this page's own server in place, once.
function styles(address) {
  const known = [...document.styleSheets].some((s) => s.href === new URL(address, location.href).href);
  return known ? undefined : new Promise((onload, onerror) => {
    document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href: address, onload,
      onerror: () => onerror(new Error("the controller does not send what curves look like")) }));
  });
}

// Measured loads the curves with what paints them, which no other page needs.
function Measured({ node, changed }) {
  const [got, set] = useState({});
  useEffect(() => {
    Promise.all([import("/app/curves.mjs"), styles("/vendor/uplot.css")])
      .then(([{ Curves }]) => set({ Curves }), (error) => set({ error }));
  }, []);
  return got.Curves ? html`<${got.Curves} node=${node} changed=${changed} />` : html`<${Failure} error=${got.error} />`;
}

function Trial({ trial }) {
  if (!trial) return null;
  return html`<p><${Marked} look="wait">${trial.component ?? "the agent"} ${trial.version} is on trial since <${Time}
    at=${trial.since} /><//></p>
    ${trial.waitsFor?.length ? html`<ul>${trial.waitsFor.map((w) =>
      html`<li>${w.text ?? w.reason ?? JSON.stringify(w)}</li>`)}</ul>` : null}`;
}

function AgentSlots({ slots, current }) {
  if (!slots?.length) return null;
  return html`<${Simple} caption="slots of the agent" head=${["Slot of the agent", "State", "Version", "Verified"]}
    rows=${slots.map((s) => ({ key: s.id,
    cells: [`${s.id}${s.id === current ? ", runs" : ""}`, s.state, s.version ?? "", s.verified ? "yes" : "no"] }))} />`;
}

function Slots({ node, again }) {
  const all = node.slots ?? [];
  if (all.length === 0) return null;
  return html`<section aria-labelledby="h-slots"><h2 id="h-slots">Workloads</h2>
    <${Simple} caption="workload slots" head=${["Slot", "State", "Runs", "Why", ""]}
      rows=${all.map((s) => ({ key: s.slot, cells: [
        html`<a href=${link(`workloads/${s.slot}`)}>${s.slot}</a>`,
        html`<${Marked} look=${s.settled ? "good" : looks[s.state] ?? "wait"}>${s.state}<//>`, s.report?.id ?? "",
          s.why ?? "", html`<${SlotActs} slot=${s} done=${again} />`] }))} /><${Memory} slots=${all} /></section>`;
}

function Components({ node }) {
  const all = node.components ?? [];
  if (all.length === 0) return null;
  return html`<section aria-labelledby="h-parts"><h2 id="h-parts">Components</h2><${Simple} caption="components"
    head=${["Component", "Runs", "Next", "State", "Text"]} rows=${all.map((c) => ({ key: c.name,
      cells: [c.name, c.running ?? c.version ?? "", c.next ?? "", html`<${State} of=${c.state} />`,
        c.text ?? ""] }))} /></section>`;
}

function Orders({ node, again }) {
  const n = node.node, to = path("v1", "nodes", n);
  const reason = { name: "reason", label: "Reason", need: true }, version = { name: "version",
    label: "Version (empty: whatever is staged)" };
  return html`<p class="acts">
    <${Act} label="Restart the machine" fields=${[reason]} cli=${(v) => cli.reboot({ node: n, ...v })} done=${again}
      act=${async (v) => { await send("POST", `${to}/reboot`, v); return "the node has taken the order"; }} />
    <${Act} label="Try what is staged" fields=${[version]} cli=${(v) => cli.tryIt({ node: n, ...v })} done=${again}
      act=${(v) => send("POST", `${to}/try`, v.version ? v : {})} />
    <${Act} label="Keep what is on trial" fields=${[{ ...version, label: "Version", need: true }]} cli=${(v) =>
      cli.approve({ node: n, ...v })}
      done=${again} act=${(v) => send("POST", `${to}/approve`, v)} />
    <${Act} label="Revoke" role="admin" danger fields=${[reason]} cli=${(v) => cli.revoke({ node: n, ...v })}
      done=${again}
      text="It is let in no more, at once. To come back it has to join again." act=${(v) => send("POST",
        `${to}/revoke`, v)} />
    <${Act} label="Forget" role="admin" danger cli=${() => cli.forget({ node: n })}
      text="It is none of the unit any more, with all that was known of it."
      act=${async () => { await send("POST", "/v1/nodes/forget", { nodes: [n] }); location.hash = link("fleet"); }} />
        </p>`;
}

// Back leads to a unit configuration with which this node gets what it had before: what it runs, if that is not what it
// should run, or else what it should have run with the version before.
function Back({ node }) {
  const { desired, running } = node.documents?.config ?? {};
  const { value } = useAnswer(() => ask("/v1/config/history"), [], desired?.version);
  const good = (value?.versions ?? []).filter((v) => v.state === "accepted" || v.state === "imported");
  const before = good[good.findLastIndex((v) => v.version === desired?.version) - 1]?.version;
  const to = running && running.version !== desired?.version ? running.version : before;
  if (!to || !may("operate")) return null;
  return html`<p><a href=${link("apply", { node: node.node, to })}>Put this node back to ${to}…</a></p>`;
}

export function NodePage({ name }) {
  useUnit();
  const changed = changedOf(name), url = path("v1", "nodes", name);
  const { value: node, error, again } = useAnswer(() => ask(url), [name], changed);
  const { value: why } = useAnswer(() => ask(`${url}/why`), [name], changed);
  const { value: diff } = useAnswer(() => ask(`${url}/diff`), [name], changed);
  const { value: health } = useAnswer(() => ask(`${url}/health`).catch(() => null), [name], changed);
  const row = unit.rows.get(name);
  if (!node) return html`<h1>${name}</h1><${Failure} error=${error} />`;
  return html`<h1>${name} ${row ? html`<${Marked} look=${looks[row.class]}>${classWord(row.class)}<//>` : null}</h1>
    <p class="faint">${[node.type, node.online ? "connected" : "not connected", node.info?.agentVersion
      && `agent ${node.info.agentVersion}`,
      node.identity?.expires
        && `certificate until ${when(node.identity.expires)}`].filter(Boolean).join(", ")}</p>
    <${Failure} error=${error} />
    <section aria-labelledby="h-why"><h2 id="h-why">Why</h2><${Because} why=${why} /></section>
    <${Orders} node=${node} again=${again} />
    <section aria-labelledby="h-docs"><h2 id="h-docs">What it runs, and should</h2><${Documents} node=${node} />
      <${Back} node=${node} /><${Differences} diff=${diff} /></section>
    <${HealthOf} health=${health} node=${node} /><${Measured} node=${node} changed=${changed} />
    <${Slots} node=${node} again=${again} /><${Components} node=${node} />
    <${Story} name=${name} changed=${changed} /><${Cli} line=${cli.node({ node: name })} />`;
}

function Story({ name, changed }) {
  const { value, error } = useAnswer(() => Entries.load({ node: name, newest: true, limit: 100 }), [name], changed);
  return html`<section aria-labelledby="h-story"><h2 id="h-story">What happened</h2><${Failure} error=${error} />
    <${Entries.Table} entries=${value} /><${Cli} line=${cli.events({ node: name })} /></section>`;
}
