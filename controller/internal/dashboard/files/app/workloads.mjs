// What runs where: services by nodes, one slot with its why and its logs, update items, subjects and what is desired.
import { ask, path, plain, query, send, words } from "./api.mjs";
import { cli } from "./commands.mjs";
import { Act, Because, Cli, Failure, html, link, looks, Marked, Simple, size, span, State, Time, useAnswer, useEffect,
  useState, useUnit, when } from "./ui.mjs";
import { may } from "./unit.mjs";

// parts of a slot, service@node.
const parts = (slot) => {
  const i = slot.lastIndexOf("@");
  return { service: slot.slice(0, i), node: slot.slice(i + 1) };
};

const slotPath = (slot) => path("v1", "nodes", parts(slot).node, "slots", parts(slot).service);

export function SlotActs({ slot, done }) {
  const to = slotPath(slot.slot), of = { slot: slot.slot };
  return html`<${Act} label="Restart" cli=${() => cli.restart(of)} act=${() => send("POST", `${to}/restart`)}
    done=${done} />
    ${slot.stopped ? html`<${Act} label="Start" cli=${() => cli.start(of)} act=${() => send("POST", `${to}/start`)}
      done=${done} />`
      : html`<${Act} label="Stop" cli=${() => cli.stop(of)} act=${() => send("POST", `${to}/stop`)} done=${done} />`}`;
}

function Matrix({ slots }) {
  const services = [...new Set(slots.map((s) => parts(s.slot).service))].sort();
  const hosts = [...new Set(slots.map((s) => s.node))].sort();
  const by = new Map(slots.map((s) => [s.slot, s]));
  if (services.length * hosts.length > 2000 || hosts.length > 40) {
    return html`<${Simple} caption="workload slots" head=${["Slot", "State", "Should run", "Why"]}
      rows=${slots.slice(0, 500).map((s) => ({
      key: s.slot, cells: [html`<a href=${link(`workloads/${s.slot}`)}>${s.slot}</a>`,
        html`<${Marked} look=${s.settled ? "good" : looks[s.state] ?? "wait"}>${s.state}<//>`, s.desired ?? "",
          s.why ?? ""] }))} />
      ${slots.length > 500 ? html`<p class="faint">${slots.length - 500} more are not shown.</p>` : null}`;
  }
  return html`<${Simple} caption="services by node" head=${["Service", ...hosts]} rows=${services.map((v) => ({ key: v,
    cells: [v, ...hosts.map((n) => {
      const s = by.get(`${v}@${n}`);
      return s ? html`<a href=${link(`workloads/${s.slot}`)} title=${s.why ?? s.state}><${Marked} look=${s.settled
        ? "good" : looks[s.state] ?? "wait"}>${s.state}<//></a>` : "";
    })] }))} empty="No workload is wanted." />`;
}

export function Workloads() {
  const u = useUnit();
  const rev = u.fleet?.rev ?? 0;
  const { value: slots, error } = useAnswer(() => ask("/v1/workloads/slots"), [], rev);
  const { value: items } = useAnswer(() => ask("/v1/items"), [], rev);
  const { value: subjects } = useAnswer(() => ask("/v1/subjects"), [], rev);
  const { value: desired } = useAnswer(() => ask("/v1/desired"), [], rev);
  return html`<h1>Workloads and items</h1><${Failure} error=${error} />
    <section aria-labelledby="h-what"><h2 id="h-what">What runs where</h2>${slots ? html`<${Matrix}
      slots=${slots.slots} />` : html`<p class="faint">…</p>`}
      <${Cli} line=${cli.slots()} /></section>
    ${slots ? html`<${Memory} slots=${slots.slots} />` : null}
    <section aria-labelledby="h-desired"><h2 id="h-desired">What is desired of items</h2><${Simple}
      caption="instances" empty="No item is desired."
      head=${["Item", "Version", "Subject", "Node", "State", "Why"]} rows=${desired?.instances?.map((i) =>
        ({ key: [i.type, i.codename, i.subject, i.index, i.node].join("/"),
        cells: [`${i.type} ${i.codename}`, i.version, i.subject ?? "", i.node, html`<${State} of=${i.state} />`,
          i.why ?? words(i.error)] }))} />
      <${Cli} line=${cli.desired()} /></section>
    <section aria-labelledby="h-items"><h2 id="h-items">Items</h2><${Simple} caption="update items"
      empty="There is none." head=${["Item", "Versions", "Owner"]}
      rows=${items?.items.map((i) => ({ key: i.id, cells: [`${i.type} ${i.codename}`,
        i.versions.map((v) => `${v.version} ${v.state}`).join(", "), i.owner ?? ""] }))} /><${Cli}
          line=${cli.items()} /></section>
    <section aria-labelledby="h-subjects"><h2 id="h-subjects">Subjects</h2><${Simple} caption="subjects"
      empty="There is none." head=${["Subject", "Type", "Priority", "Nodes", "Items"]}
      rows=${subjects?.subjects.map((s) => ({ key: s.codename, cells: [s.codename, s.type, s.priority, s.nodes
        || "all", s.items] }))} />
      <${Cli} line=${cli.subjects()} /></section>`;
}

// atOnce asks about slots, a few at a time, so that many of them do not crowd out others.
async function atOnce(slots, ask1) {
  const left = [...slots], got = [];
  const worker = async () => {
    for (let s = left.shift(); s; s = left.shift()) {
      try {
        got.push({ slot: s.slot, process: (await ask1(s)).process });
      } catch (error) {
        got.push({ slot: s.slot, error });
      }
    }
  };
  await Promise.all([worker(), worker(), worker(), worker()]);
  return got;
}

// eats says which of some slots uses the most memory.
function eats(got) {
  const known = got.filter((g) => g.process?.memory), [first] = known;
  if (!first) return "None of them says what it uses.";
  const all = known.reduce((sum, g) => sum + g.process.memory, 0);
  return known.length === 1 ? `${first.slot} uses ${size(all)} of memory.`
    : `${first.slot} uses the most memory: ${size(first.process.memory)} of the ${size(all)} that they use together.`;
}

const most = 64; // slots that are asked at once

// Memory asks the nodes what the processes of slots use, when somebody wants to know.
export function Memory({ slots }) {
  const [got, setGot] = useState(null), [busy, setBusy] = useState(false);
  const running = slots.filter((s) => s.online && s.state === "running");
  if (!may("operate") || running.length === 0) return null;
  const run = async () => {
    setBusy(true);
    const all = await atOnce(running.slice(0, most), (s) => ask(`${slotPath(s.slot)}/logs${query({ tail: 1 })}`));
    setGot(all.sort((a, b) => (b.process?.memory ?? -1) - (a.process?.memory ?? -1)));
    setBusy(false);
  };
  return html`<section aria-labelledby="h-memory"><h2 id="h-memory">What they use</h2>
    <button onClick=${run} disabled=${busy}>${busy ? "Asking the nodes…" : "Ask the nodes"}</button>
    ${running.length > most ? html`<p class="faint">The first ${most} of ${running.length} are asked.</p>` : null}
    ${got ? html`<p role="status">${eats(got)}</p><${Simple} caption="what workloads use"
      head=${["Slot", "Memory", "Processor time", "Processes"]}
      rows=${got.map((g) => ({ key: g.slot,
      cells: [html`<a href=${link(`workloads/${g.slot}`)}>${g.slot}</a>`, g.error ? g.error.message
        : size(g.process?.memory ?? 0),
        g.process ? span(g.process.cpuMs ?? 0) : "", g.process?.processes ?? ""] }))} />` : null}</section>`;
}

const decoded = (data) => new TextDecoder().decode(Uint8Array.from(atob(data), (c) => c.charCodeAt(0)));

// Logs asks the node for what the slot has written, while somebody looks.
function Logs({ slot }) {
  const [text, setText] = useState(""), [error, setError] = useState(null), [on, setOn] = useState(false);
  useEffect(() => {
    if (!on) return undefined;
    let cursor = "", ended = false, timer = 0;
    const more = async () => {
      try {
        const l = await ask(`${slotPath(slot)}/logs${query(cursor ? { cursor } : { tail: 16384 })}`);
        cursor = l.cursor;
        if (l.data && !ended) setText((t) => shown(t + (l.skipped ? "\n(some of it is gone)\n"
          : "") + decoded(l.data)));
        setError(null);
      } catch (e) {
        setError(e);
      }
      if (!ended) timer = setTimeout(more, 2000);
    };
    more();
    return () => { ended = true; clearTimeout(timer); };
  }, [slot, on]);
  if (!may("operate")) return null;
  return html`<section aria-labelledby="h-logs"><h2 id="h-logs">Logs</h2>
    <button onClick=${() => setOn(!on)}>${on ? "Stop following" : "Show and follow"}</button> <${Failure}
      error=${error} />
    ${text ? html`<pre tabindex="0" aria-label="logs">${text}</pre>` : null}<${Cli} line=${cli.logs({ slot })} />
      </section>`;
}

// shown is the end of a log, without what turns text or moves a cursor.
const shown = (t) => plain(t.slice(-200000));

export function SlotPage({ slot }) {
  const u = useUnit();
  const heard = u.entries.find((e) => e.node === parts(slot).node)?.seq ?? 0;
  const { value: why, error, again } = useAnswer(() => ask(`${slotPath(slot)}/why`), [slot], heard);
  if (!why) return html`<h1>${slot}</h1><${Failure} error=${error} />`;
  const r = why.slot.report;
  return html`<h1>${slot} <${Marked} look=${why.slot.settled ? "good"
    : looks[why.slot.state] ?? "wait"}>${why.slot.state}<//></h1>
    ${why.sentences ? null : html`<p>${why.answer}</p>`}
    <p class="acts"><${SlotActs} slot=${why.slot} done=${again} /></p>
    <section aria-labelledby="h-known"><h2 id="h-known">What is known</h2>${why.sentences ? html`<${Because}
      why=${why} />` : html`<ol class="why">${why.findings.map((f) => html`<li><p><${Marked}
        look=${looks[f.state]}>${f.text}<//></p>
      ${f.at ? html`<p class="faint"><${Time} at=${f.at} /></p>` : null}</li>`)}</ol>`}</section>
    ${r ? html`<dl class="facts">${[["Runs", r.id], ["Since", when(r.since)], ["Restarts",
      r.restarts], ["Confined", r.confined]].filter(([, v]) => v)
      .map(([k, v]) => html`<div><dt>${k}</dt><dd>${v}</dd></div>`)}</dl>` : null}
    <p>Node <a href=${link(`nodes/${why.slot.node}`)}>${why.slot.node}</a></p><${Logs} slot=${slot} /><${Cli}
      line=${cli.slot({ slot })} />`;
}
