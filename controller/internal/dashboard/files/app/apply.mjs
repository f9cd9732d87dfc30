// Apply: a file is checked, compared, judged by the nodes, and then applied, tried or rolled out; what went before can
// be compared and brought back.
import { ask, Problem, query, send, text as get, words } from "./api.mjs";
import { cli } from "./commands.mjs";
import { Act, Cli, Failure, html, link, looks, Marked, Simple, State, Time, useAnswer, useEffect, useMemo, useRef,
  useState, useUnit } from "./ui.mjs";
import { may } from "./unit.mjs";

const kinds = { config: "Unit configuration", workloads: "Workloads", components: "Components" };
const command = { config: "config", workloads: "workload", components: "component" };

const textOf = (v) => (v === undefined ? "–" : JSON.stringify(v));

// changes lists the values that differ between two JSON values, at most 500: [{pointer, before, after}].
export function changes(before, after, pointer = "", out = []) {
  if (out.length >= 500 || JSON.stringify(before) === JSON.stringify(after)) return out;
  const whole = (v) => v !== null && typeof v === "object";
  if (!whole(before) || !whole(after) || Array.isArray(before) !== Array.isArray(after)) {
    out.push({ pointer, before, after });
    return out;
  }
  for (const k of new Set([...Object.keys(before), ...Object.keys(after)])) {
    changes(before[k], after[k], `${pointer}/${k.replaceAll("~", "~0").replaceAll("/", "~1")}`, out);
  }
  return out;
}

function Verdict({ result, mark }) {
  if (!result) return null;
  const problems = result.problems ?? (result.error ? [result.error] : []);
  const c = result.checks ?? {};
  return html`<div class="verdict" role="status"><p><${Marked} look=${result.state === "refused" ? "bad"
    : "good"}>${result.state}<//> ${result.version ?? ""}
      ${result.issued ? ` ${result.issued} nodes get it.` : ""}</p>
    ${problems.length ? html`<ul>${problems.slice(0, 50).map((p) => html`<li>${p.line ? html`<button type="button"
      onClick=${() => mark(p)}>line ${p.line}</button> ` : null}${words(p)}</li>`)}</ul>` : null}
    ${result.quarantined ? html`<p><${Marked} look="wait">${words(result.quarantined)}<//></p>` : null}
    ${c.asked !== undefined
      ? html`<p>${c.asked} nodes were asked: ${c.agreed} agree,
        ${" "}${c.refused?.length ?? 0} refuse, ${c.silent?.length ?? 0} are silent;
        ${" "}${c.unchecked?.length ?? 0} are offline and judge it later.</p>` : null}
    ${c.refused?.length ? html`<ul>${c.refused.slice(0, 20).map((r) => html`<li><a
      href=${link(`nodes/${r.node}`)}>${r.node}</a>: ${words(r.errors[0])}</li>`)}</ul>` : null}
    ${result.placed ? html`<p>${result.placed.slots} slots on ${result.placed.nodes} nodes.${result.placed.stops?.length
      ? ` Stops: ${result.placed.stops.join(", ")}.` : ""}</p>` : null}
    ${result.rollout ? html`<p>It goes out in <a
      href=${link(`rollouts/${result.rollout}`)}>${result.rollout}</a>.</p>` : null}</div>`;
}

function Changes({ kind, file }) {
  const { value: now } = useAnswer(() => get(`/v1/${kind}`).catch((e) => (e instanceof Problem ? ""
    : Promise.reject(e))), [kind]);
  const list = useMemo(() => {
    try {
      return file.trim() === "" || now === undefined ? null : changes(now ? JSON.parse(now) : {}, JSON.parse(file));
    } catch {
      return null; // the check says where
    }
  }, [now, file]);
  if (!list) return null;
  return html`<section aria-labelledby="h-change"><h2 id="h-change">What this file would change</h2><${Simple}
    caption="changes" empty="Nothing."
    head=${["Value", "Is", "Would be"]} rows=${list.map((c) => ({ key: c.pointer, cells: [c.pointer || "(all of it)",
      textOf(c.before), textOf(c.after)] }))} /></section>`;
}

// nodeBack is a unit configuration with which one node gets again what it had with a version, and others what they
// have: an entry for that node alone.
async function nodeBack(node, to) {
  const [text, was] = await Promise.all([get("/v1/config"), ask(`/v1/config/resolved${query({ node, version: to })}`)]);
  if (/\d{16}/.test(text)) {
    throw new Error("the configuration has numbers that a browser does not keep: edit it as a file");
  }
  const now = JSON.parse(text), { formatVersion, version, ...entry } = was.document;
  const [, major, minor, patch] = /^(\d+)\.(\d+)\.(\d+)/.exec(now.version);
  return JSON.stringify({ ...now, version: `${major}.${minor}.${Number(patch) + 1}`, nodes: [
    { ...entry, node: { codename: node }, nodeGroupSubject: entry.nodeGroupSubject ?? { codename: was.type } },
    ...now.nodes.filter((e) => e.node?.codename !== node)] }, null, 2);
}

function Editor({ kind, node, to }) {
  const [file, setFile] = useState(""), [name, setName] = useState("unit.json"), [result, setResult] = useState(null),
    [error, setError] = useState(null);
  const [plan, setPlan] = useState(""), [within, setWithin] = useState("");
  const area = useRef(null);
  useEffect(() => {
    if (node && to) nodeBack(node, to).then(setFile, setError);
  }, [node, to]);
  const mark = (p) => {
    const lines = file.split("\n"), from = lines.slice(0, p.line - 1).join("\n").length + (p.line > 1 ? 1 : 0);
    area.current.focus();
    area.current.setSelectionRange(from, from + (lines[p.line - 1] ?? "").length);
  };
  const take = async (f) => {
    if (!f) return;
    setName(f.name);
    setFile(await f.text());
    setResult(null);
  };
  const submit = async (more) => {
    setError(null);
    try {
      setResult(await send("POST", `/v1/${kind}${query(more)}`, file));
    } catch (e) {
      if (e.answer?.state) setResult(e.answer);
      else setError(e);
      throw e;
    }
  };
  const at = { kind: command[kind], file: name }, empty = file.trim() === "";
  return html`${node && to ? html`<p>This file puts <a href=${link(`nodes/${node}`)}>${node}</a> back to what it had
    ${" "}with ${to}, and changes no other node but in its version. Nothing is done before it is applied.</p>` : null}
    <div class="editor" onDragOver=${(e) => e.preventDefault()}
    onDrop=${(e) => { e.preventDefault(); take(e.dataTransfer.files[0]).catch(setError); }}>
    <label for="doc">${kinds[kind]}: paste it, drop a file here, or <input type="file" aria-label="choose a file"
      onChange=${(e) => take(e.target.files[0]).catch(setError)} /></label>
    <textarea id="doc" ref=${area} rows="14" spellcheck=${false} value=${file}
      onInput=${(e) => { setFile(e.target.value); setResult(null); }}></textarea>
    <p class="acts"><button disabled=${empty || !may("operate")} onClick=${() =>
      submit({ dryRun: true }).catch(() => {})}>Check</button>
      <${Act} label="Apply" disabled=${empty} cli=${() => cli.apply(at)}
        act=${async () => { await submit({}); return "applied"; }} />
      ${kind === "config" ? html`<${Act} label="Try" disabled=${empty} fields=${[{ name: "within",
        label: "For how long, such as PT10M", value: within || "PT10M", need: true }]}
        text="It goes back by itself unless it is kept in time." cli=${(v) => cli.tryConfig({ ...at,
          within: v.within })}
        act=${async (v) => { setWithin(v.within); await submit({ mode: "try",
          confirmWithin: v.within }); return "on trial"; }} />` : null}
      <${Act} label="Roll out" disabled=${empty || plan.trim() === ""} text="The plan is in the field below."
        cli=${() => cli.apply({ ...at, rollout: "plan.json" })}
        act=${async () => {
          await submit({ rollout: JSON.stringify(JSON.parse(plan)) });
          return "the rollout has begun";
        }} /></p>
    ${may("operate") ? null : html`<p
      class="faint">To check and apply, this page needs a token with the role operate.</p>`}
    <${Failure} error=${error} /><${Verdict} result=${result} mark=${mark} />
    <details><summary>Plan of a rollout: to roll out, put it here</summary><textarea rows="6"
      aria-label="plan of a rollout" spellcheck=${false}
      value=${plan} onInput=${(e) => setPlan(e.target.value)}></textarea></details>
    <${Cli} line=${cli.check(at)} /><${Changes} kind=${kind} file=${file} /></div>`;
}

function Progress({ kind }) {
  const u = useUnit();
  const { value: s, error, again } = useAnswer(() => ask(`/v1/${kind}/status`), [kind], u.fleet?.rev ?? 0);
  if (!s) return html`<${Failure} error=${error} />`;
  const p = s.progress;
  return html`<section aria-labelledby="h-progress"><h2 id="h-progress">How far the nodes are</h2>
    <p><${State} of=${s.state} /> ${s.version}${s.who ? ` by ${s.who}` : ""} <${Time} at=${s.since} /></p>
    <progress max=${p.nodes || 1} value=${p.installed} aria-label="nodes that run it"></progress>
    <p>${p.installed} of ${p.nodes} nodes run it, ${p.online} are connected, ${p.failed} have failed at it.</p>
    ${s.attempted ? html`<p><${Marked}
      look="bad">${s.attempted.version ?? ""} was refused: ${words(s.attempted.error)}<//></p>` : null}
    ${p.missing?.length ? html`<${Simple} caption="nodes that do not run it" head=${["Node", "Connected", "State",
      "Why"]} rows=${p.missing.slice(0, 20).map((m) => ({ key: m.node,
      cells: [html`<a href=${link(`nodes/${m.node}`)}>${m.node}</a>`, m.online ? "yes" : "no", html`<${Marked}
        look=${looks[m.state] ?? "wait"}>${m.state ?? "not told"}<//>`, words(m.error)] }))} />` : null}
    ${p.failed ? html`<${Act} label="Send it again to those that failed" cli=${() =>
      cli.retry({ kind: command[kind] })} done=${again}
      act=${async () => `${(await send("POST", `/v1/${kind}/retry`)).issued} nodes get it again`} />`
        : null}</section>`;
}

function Compare({ kind, from, to }) {
  const { value, error } = useAnswer(() => ask(`/v1/${kind}/diff${query({ from, to })}`), [kind, from, to]);
  return html`<${Failure} error=${error} />${value ? html`<h3>From ${value.from} to ${value.to}</h3><${Simple}
    caption="changes between versions" empty="Nothing differs."
    head=${["Value", "Before", "After"]} rows=${value.changes.map((c) => ({ key: `${c.entry} ${c.pointer}`,
      cells: [`${c.entry ? `${c.entry} ` : ""}${c.pointer}`, textOf(c.before), textOf(c.after)] }))} />` : null}`;
}

function History({ kind }) {
  const u = useUnit();
  const [pair, setPair] = useState(null);
  const { value, error, again } = useAnswer(() => ask(`/v1/${kind}/history`), [kind], u.fleet?.rev ?? 0);
  const list = [...(value?.versions ?? [])].reverse().slice(0, 50);
  const good = list.filter((v) => v.state === "accepted" || v.state === "imported");
  const before = (v) => good[good.indexOf(v) + 1];
  return html`<section aria-labelledby="h-past"><h2 id="h-past">History</h2><${Failure} error=${error} />
    <${Simple} caption="history" empty="Nothing was submitted yet." head=${["Version", "When", "What", "By", "Why",
      ""]} rows=${value && list.map((v) => ({ key: v.seq,
      cells: [v.version ?? "", html`<${Time} at=${v.at} />`, html`<${Marked} look=${v.state === "accepted" ? "good"
        : v.state === "refused" || v.state === "failed" ? "bad" : "note"}>${v.state}<//>`, v.who ?? "", words(v.error),
        good.includes(v) ? html`${before(v) ? html`<button onClick=${() => setPair([before(v).version,
          v.version])}>Changes</button>` : null}
          <${Act} label="Go back to this" fields=${[{ name: "as", label: "As version", need: true }]} done=${again}
            cli=${(f) => cli.rollback({ kind: command[kind], version: v.version, as: f.as })}
            act=${(f) => send("POST", `/v1/${kind}/rollback`, { version: v.version, as: f.as })} />` : ""] }))} />
    ${pair ? html`<${Compare} kind=${kind} from=${pair[0]} to=${pair[1]} /><${Cli}
      line=${cli.diff({ kind: command[kind], from: pair[0], to: pair[1] })} />` : null}
    <${Cli} line=${cli.history({ kind: command[kind] })} /></section>`;
}

export function Apply({ params, set }) {
  const kind = params.kind in kinds ? params.kind : "config";
  return html`<h1>Apply</h1><p class="chips" role="group" aria-label="of what">${Object.entries(kinds).map(([k,
    title]) => html`<button class="chip" aria-pressed=${k === kind}
      onClick=${() => set({ kind: k })}>${title}</button>`)}</p>
    <${Editor} key=${kind} kind=${kind} node=${params.node} to=${params.to} /><${Progress} kind=${kind} />
    <${History} key=${`h${kind}`} kind=${kind} />`;
}
