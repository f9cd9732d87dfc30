// Rollouts: waves as lanes, what holds each up and why. Policies: how far the nodes are.
import { ask, path, query, send } from "./api.mjs";
import { cli } from "./commands.mjs";
import { Act, Because, Cli, count, Failure, html, link, looks, Marked, Simple, Time, useAnswer,
  useUnit } from "./ui.mjs";

const ended = (r) => Boolean(r.ended);
const phase = (r) => html`<${Marked} look=${r.held ? "wait" : looks[r.phase] ?? (ended(r) ? "note"
  : "wait")}>${r.phase}<//>`;

export function RolloutActs({ rollout, done }) {
  if (ended(rollout)) return null;
  const of = { id: rollout.id }, to = path("v1", "rollouts", rollout.id), paused = rollout.phase === "paused";
  return html`${paused ? html`<${Act} label="Resume" cli=${() => cli.resume(of)} act=${() => send("POST",
    `${to}/resume`)} done=${done} />`
    : html`<${Act} label="Pause" fields=${[{ name: "reason", label: "Reason" }]} cli=${(v) => cli.pause({ ...of,
      ...v })} done=${done}
      act=${(v) => send("POST", `${to}/pause`, v.reason ? v : {})} />`}
    <${Act} label="Abort" danger cli=${() => cli.abort(of)}
      text="Nothing more is issued; whether nodes go back is as the plan says." done=${done}
      act=${() => send("POST", `${to}/abort`, {})} />`;
}

const kinds = [["passed", "good"], ["soaking", "wait"], ["issued", "wait"], ["queued", "note"], ["failed", "bad"],
  ["stuck", "bad"], ["silent", "off"],
  ["back", "wait"], ["restored", "note"], ["absent", "off"], ["gone", "off"]];

// Lane shows the nodes of a wave as parts of a bar, and in words.
function Lane({ wave, number }) {
  const n = wave.nodes, parts = kinds.filter(([k]) => n[k]);
  return html`<li class="lane"><span>${wave.name ?? `wave ${number}`}${wave.open ? "" : html`<span
    class="faint">, not open</span>`}</span>
    <span class="bar" aria-hidden="true">${parts.map(([k, look]) => html`<span class=${look}
      style=${{ flexGrow: n[k] }} title=${`${n[k]} ${k}`}></span>`)}</span>
    <span>${wave.open || n.all ? count(n.all) : ""}${parts.map(([k]) => `, ${n[k]} ${k}`).join("")}</span></li>`;
}

export function Rollouts() {
  const u = useUnit(), rev = u.fleet?.rev ?? 0;
  const { value: all, error, again } = useAnswer(() => ask("/v1/rollouts"), [], rev);
  const { value: policies, again: newly } = useAnswer(() => ask("/v1/policies"), [], rev);
  const list = [...(all?.rollouts ?? [])].reverse();
  return html`<h1>Rollouts and policies</h1><${Failure} error=${error} />
    <section aria-labelledby="h-rollouts"><h2 id="h-rollouts">Rollouts</h2>
      ${list.filter((r) => !ended(r)).map((r) => html`<article key=${r.id} class=${`card ${r.nodes.failed ? "bad"
        : "wait"}`}><h3><a
        href=${link(`rollouts/${r.id}`)}>${r.id}</a> ${phase(r)}</h3>
        <p>${r.why}</p><ol class="lanes">${r.waves.map((w, i) => html`<${Lane} wave=${w} number=${i + 1} />`)}</ol>
        <p class="acts"><${RolloutActs} rollout=${r} done=${again} /></p></article>`)}
      <${Simple} caption="rollouts that have ended" empty="None has ended yet." head=${["Rollout", "Brings", "State",
        "Nodes", "Began", "By", "What became of it"]} rows=${all && list.filter(ended).map((r) => ({ key: r.id,
        cells: [html`<a href=${link(`rollouts/${r.id}`)}>${r.id}</a>`, `${r.kind} ${r.version ?? ""}`, phase(r),
          `${r.nodes.passed ?? 0} of ${r.nodes.all}`, html`<${Time} at=${r.at} />`, r.who ?? "", r.why] }))} /><${Cli}
            line=${cli.rollouts()} /></section>
    <section aria-labelledby="h-policies"><h2 id="h-policies">Policies</h2>
      <${Simple} caption="policies" empty="There is none." head=${["Policy", "Enabled", "Matches", "States",
        "Changed", "By", ""]}
        rows=${policies?.policies.map((p) => ({ key: p.name, cells: [html`<a
          href=${link(`policies/${p.name}`)}>${p.name}</a>`,
          html`<${Marked} look=${p.enabled ? "good" : "off"}>${p.enabled ? "yes" : "no"}<//>`, count(p.matching),
          (p.states ?? []).map((s) => `${s.nodes} ${s.state}`).join(", "), html`<${Time} at=${p.at} />`, p.who ?? "",
            html`<${PolicyActs} policy=${p} done=${newly} />`] }))} />
      <${Cli} line=${cli.policies()} /></section>`;
}

export function RolloutPage({ id }) {
  const u = useUnit();
  const { value: r, error, again } = useAnswer(() => ask(`${path("v1", "rollouts", id)}${query({ limit: 200 })}`),
    [id], u.fleet?.rev ?? 0);
  const { value: why } = useAnswer(() => ask(`${path("v1", "rollouts", id)}/why`).catch(() => null), [id],
    u.fleet?.rev ?? 0);
  if (!r) return html`<h1>${id}</h1><${Failure} error=${error} />`;
  return html`<h1>${id} ${phase(r)}</h1><${Failure} error=${error} />${why ? null : html`<p>${r.why}</p>`}
    <p class="faint">${r.kind} ${r.version ?? ""}, begun ${r.who ? `by ${r.who} ` : ""}<${Time} at=${r.at} /></p>
    ${why ? html`<${Because} why=${why} />` : null}
    <ol class="lanes">${r.waves.map((w, i) => html`<${Lane} wave=${w} number=${i + 1} />`)}</ol>
    ${r.opening?.length ? html`<p>Its next windows open ${r.opening.map((t, i) => html`${i ? ", " : ""}<${Time}
      at=${t} />`)}.</p>` : null}
    <p class="acts"><${RolloutActs} rollout=${r} done=${again} /></p>
    <section aria-labelledby="h-list"><h2 id="h-list">Nodes, those that hold it up first</h2><${Simple}
      caption="nodes of the rollout"
      head=${["Node", "Is", "Wave", "Connected", "Issued", "Why"]} rows=${r.list.map((n) => ({ key: n.node,
        cells: [html`<a href=${link(`nodes/${n.node}`)}>${n.node}</a>`,
        html`<${Marked} look=${(kinds.find(([k]) => k === n.status) ?? [])[1] ?? "note"}>${n.status}<//>`, n.wave
          || "", n.online ? "yes" : "no", html`<${Time} at=${n.issued} />`, n.why ?? ""] }))} />
      ${r.omitted ? html`<p class="faint">${r.omitted} more are not shown.</p>` : null}</section>
    <details><summary>The plan</summary><pre tabindex="0">${JSON.stringify(r.plan, null, 2)}</pre></details><${Cli}
      line=${cli.rollout({ id })} />`;
}

function PolicyActs({ policy, done }) {
  const to = path("v1", "policies", policy.name), of = { policy: policy.name };
  const all = { name: "all", label: "If it may hit every node, type its name" };
  return policy.enabled ? html`<${Act} label="Disable" cli=${() => cli.disable(of)} act=${() => send("POST",
    `${to}/disable`)} done=${done} />`
    : html`<${Act} label="Enable" cli=${() => cli.enable(of)} fields=${[all]} done=${done}
      act=${(v) => send("POST", `${to}/enable${query({ allNodes: v.all === policy.name })}`)} />`;
}

export function PolicyPage({ name }) {
  const u = useUnit(), rev = u.fleet?.rev ?? 0, to = path("v1", "policies", name);
  const { value: p, error, again } = useAnswer(() => ask(to), [name], rev);
  const { value: s } = useAnswer(() => ask(`${to}/status`), [name], rev);
  const { value: past } = useAnswer(() => ask(`${to}/history`), [name], rev);
  if (!p) return html`<h1>${name}</h1><${Failure} error=${error} />`;
  return html`<h1>${name} <${Marked} look=${p.enabled ? "good" : "off"}>${p.enabled ? "enabled" : "not enabled"}<//>
    </h1>
    <p>It matches ${count(p.matching)}.${p.rollout ? html` It goes out in <a
      href=${link(`rollouts/${p.rollout}`)}>${p.rollout}</a>.` : null}</p>
    <p class="acts"><${PolicyActs} policy=${p} done=${again} /></p>
    <section aria-labelledby="h-far"><h2 id="h-far">How far the nodes are</h2><p>${(s?.states ?? []).map((c) =>
      `${c.nodes} ${c.state}`).join(", ")}</p>
      <${Simple} caption="nodes of the policy" head=${["Node", "Connected", "State", "Text"]}
        rows=${s?.nodes?.map((n) => ({ key: n.node,
        cells: [html`<a href=${link(`nodes/${n.node}`)}>${n.node}</a>`, n.online ? "yes" : "no", n.state ?? "",
          n.text ?? n.error?.message ?? ""] })) ?? (s && [])} /></section>
    <section aria-labelledby="h-past"><h2 id="h-past">History</h2><${Simple} caption="history of the policy"
      head=${["Version", "When", "What", "By"]}
      rows=${past && [...past.versions].reverse().map((v) => ({ key: v.rev, cells: [v.rev, html`<${Time}
        at=${v.at} />`, v.state, v.who ?? ""] }))} /></section>
    <details><summary>The policy</summary><pre tabindex="0">${JSON.stringify(p.document, null, 2)}</pre></details>
      <${Cli} line=${cli.policy({ policy: name })} />`;
}
