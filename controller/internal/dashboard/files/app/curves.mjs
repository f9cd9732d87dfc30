// What a node has measured in the last hour: a curve of each value, with the bounds of its alert rule and with the
// alerts that were raised, and all of it as a table. It comes with uPlot, when somebody looks at a node.
import uPlot from "/vendor/uplot.mjs";
import { ask, path, query } from "./api.mjs";
import { cli } from "./commands.mjs";
import { Entries } from "./events.mjs";
import { Cli, colours, html, Marked, measure, onColours, Simple, Time, useAnswer, useEffect, useLayoutEffect, useMemo,
  useRef, useState, when } from "./ui.mjs";

// limits.pause is how long the page waits before it asks the node again, in ms, and limits.retry after an error.
export const limits = { pause: 20_000, retry: 60_000 };

const leastSpan = 600_000; // ms that a picture covers, also of a node that has just started
const height = 150; // px of a picture, as in style.css
const charts = 24; // at most

// useSamples asks a node for what it has measured, again and again while the page is seen.
function useSamples(url, online) {
  const [state, set] = useState({});
  useEffect(() => {
    if (!online) return undefined;
    const end = new AbortController();
    let timer = 0, busy = false, old = false;
    const look = async () => {
      clearTimeout(timer);
      if (document.hidden || busy || old) return;
      busy = true;
      let pause = limits.pause;
      try {
        const value = await ask(url, end.signal);
        if (!end.signal.aborted) set({ value });
      } catch (error) {
        if (!end.signal.aborted) set((s) => ({ value: s.value, error }));
        old = error.error?.code === "not-supported"; // an agent from before: it is another one when it comes again
        pause = limits.retry;
      }
      busy = false;
      if (!end.signal.aborted) timer = setTimeout(look, pause);
    };
    document.addEventListener("visibilitychange", look);
    look();
    return () => {
      end.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, [url, online]);
  return state;
}

// rulesOf are the alert rules of a node's configuration, by what they watch.
export function rulesOf(config) {
  const { partitions, ...all } = config?.alertRules ?? {};
  for (const p of partitions ?? []) all[`partition:${p.name}`] = p;
  return all;
}

// alertsOf are a node's alerts by parameter, [{from, to}] by the node's clock: those of its events, the newest first,
// and those that are raised now. to is undefined of one that has not fallen.
export function alertsOf(entries, raised) {
  const by = {};
  const of = (parameter, from) => {
    const all = by[parameter] ??= [];
    const known = all.find((a) => a.from === from);
    if (!known) all.push({ from });
    return known ?? all.at(-1);
  };
  for (const e of [...(entries ?? [])].reverse()) {
    const d = e.data?.detail;
    if (!d?.parameter || !d.since) continue;
    const a = of(d.parameter, Date.parse(d.since));
    if (d.state === "fall") a.to = Date.parse(d.timestamp ?? e.data.at ?? e.at);
  }
  for (const r of raised ?? []) of(r.parameter, Date.parse(r.since));
  return by;
}

const titles = { cpu: "CPU", ram: "RAM", download: "Download", upload: "Upload" };

// chartsOf are the pictures of samples, [{parameter, title, text, values, more}]. more is a second curve: of a
// partition its inodes. Where nothing was measured for three periods the curve has a hole.
export function chartsOf(s) {
  const at = [], from = [];
  const hole = 3 * Math.min(...s.at.slice(1).map((t, i) => t - s.at[i]));
  s.at.forEach((t, i) => {
    if (i > 0 && t - s.at[i - 1] > hole) {
      at.push(s.at[i - 1] + 1);
      from.push(-1);
    }
    at.push(t);
    from.push(i);
  });
  const values = (p) => {
    const all = s.values[s.parameters.indexOf(p)];
    return all && from.map((i) => (i < 0 ? null : all[i]));
  };
  const rank = (p) => ["cpu", "ram", "", "download", "upload"].indexOf(p.includes(":") ? "" : p);
  const shown = s.parameters.filter((p) => !p.startsWith("inodes:")).sort((a, b) => rank(a) - rank(b));
  return shown.map((p) => ({ parameter: p, at, values: values(p),
    title: titles[p] ?? p.replace("partition:", "Partition "), text: (v) => measure(p, v),
    more: p.startsWith("partition:") ? values(p.replace("partition:", "inodes:")) : undefined }));
}

const traffic = (parameter) => parameter === "download" || parameter === "upload";

// topOf is how far up a picture goes: shares to 1, traffic to what was measured, and to its rule if that is near.
export function topOf({ parameter, values }, rule) {
  if (!traffic(parameter)) return 1;
  const most = Math.max(1024, ...values);
  return 1.1 * (rule && rule.maxThreshold <= 4 * most ? Math.max(most, rule.maxThreshold) : most);
}

const clock = (t) => when(t).slice(-8, -3);

// bounds paints where the rule of a picture raises an alert, and what it has to fall below.
function bounds(u, { rule, colour }) {
  if (!rule) return;
  const c = u.ctx, { left, top, width, height } = u.bbox;
  const y = (v) => Math.min(top + height, Math.max(top, u.valToPos(v, "y", true)));
  const high = y(rule.maxThreshold), low = y(rule.minThreshold);
  c.save();
  const parts = [[colour.bad, top, high, [6, 3]], [colour.wait, high, low, [2, 3]]];
  for (const [fill, from, to, dash] of parts) {
    c.fillStyle = c.strokeStyle = fill;
    c.globalAlpha = 0.13;
    c.fillRect(left, from, width, to - from);
    c.globalAlpha = 1;
    c.lineWidth = devicePixelRatio;
    c.setLineDash(dash.map((n) => n * devicePixelRatio));
    if (to <= top || to >= top + height) continue; // it is not in the picture
    c.beginPath();
    c.moveTo(left, to);
    c.lineTo(left + width, to);
    c.stroke();
  }
  c.restore();
}

// marks paints the alerts: a triangle where one was raised, and a bar until it fell.
function marks(u, { alerts, colour }) {
  const c = u.ctx, { left, top, width } = u.bbox, px = devicePixelRatio;
  const x = (t) => Math.min(left + width, Math.max(left, u.valToPos(t, "x", true)));
  c.save();
  c.fillStyle = colour.bad;
  for (const a of alerts ?? []) {
    if (a.to < u.scales.x.min || a.from > u.scales.x.max) continue;
    const from = x(a.from), to = a.to === undefined ? left + width : x(a.to);
    c.fillRect(from, top, Math.max(2 * px, to - from), 4 * px);
    if (a.from < u.scales.x.min) continue;
    c.beginPath();
    c.moveTo(from - 5 * px, top);
    c.lineTo(from + 5 * px, top);
    c.lineTo(from, top + 10 * px);
    c.fill();
  }
  c.restore();
}

// options is a picture for uPlot. now is {chart, rule, alerts, colour} as they are when it paints; tell gets the number
// of the sample that is pointed at.
function options(width, now, tell) {
  const line = () => now().colour.line, text = () => now().colour.faint;
  const axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { show: false },
    font: "11px system-ui, sans-serif" };
  const curve = { points: { show: false }, width: 1.5 };
  const powers = Array.from({ length: 60 }, (_, i) => 2 ** i);
  const wide = traffic(now().chart.parameter);
  return {
    width, height, ms: 1, padding: [10, 10, 0, 0], legend: { show: false },
    cursor: { sync: { key: "curves" }, drag: { x: false, y: false }, y: false },
    scales: { x: { range: (_, from, to) => [Math.min(from, to - leastSpan), to] },
      y: { range: () => [0, topOf(now().chart, now().rule)] } },
    axes: [{ ...axis, size: 26, space: 70, values: (_, all) => all.map(clock) },
      { ...axis, size: wide ? 76 : 48, space: 32, incrs: wide ? powers : [0.25, 0.5],
        values: (_, all) => all.map((v) => now().chart.text(v)) }],
    series: [{}, { ...curve, stroke: () => now().colour.link }, { ...curve, stroke: text, dash: [4, 3] }],
    hooks: { drawClear: [(u) => bounds(u, now())], draw: [(u) => marks(u, now())],
      setCursor: [(u) => tell(u.cursor.idx)] },
  };
}

// Picture is one chart on a canvas, which is as wide as there is room.
function Picture({ chart, rule, alerts, tell }) {
  const box = useRef(null), plot = useRef(null), now = useRef({});
  Object.assign(now.current, { chart, rule, alerts, tell });
  const data = () => [chart.at, chart.values, chart.more ?? chart.at.map(() => null)];
  useLayoutEffect(() => {
    const paint = () => {
      const kept = plot.current?.data ?? data();
      plot.current?.destroy();
      now.current.colour = colours(box.current);
      plot.current = new /** @type {any} */ (uPlot)(options(box.current.clientWidth, () => now.current,
        (i) => now.current.tell(i)), kept, box.current);
    };
    paint();
    const seen = new ResizeObserver(() => plot.current.setSize({ width: box.current.clientWidth, height }));
    seen.observe(box.current);
    const ended = onColours(paint);
    return () => {
      ended();
      seen.disconnect();
      plot.current.destroy();
    };
  }, []);
  useEffect(() => plot.current.setData(data()), [chart, rule, alerts]);
  return html`<div class="plot" ref=${box} aria-hidden="true"></div>`;
}

// sayRule is a rule in words.
const sayRule = ({ text }, rule) => (rule
  ? `Its rule raises an alert at ${text(rule.maxThreshold)}, which falls below ${text(rule.minThreshold)}.`
  : "No rule watches it.");

// Curve is a picture with what it says in words.
function Curve({ chart, rule, alerts }) {
  const pointed = useRef(null);
  const { text, values, at, title, more } = chart;
  const last = values.at(-1), high = values.reduce((best, v, i) => (v !== null && !(v <= values[best]) ? i : best), -1);
  const open = alerts?.some((a) => a.to === undefined), past = alerts?.filter((a) => a.to >= at[0]) ?? [];
  const tell = (i) => {
    pointed.current.textContent = i === null || i === undefined ? "" : `${when(at[i])}: ${text(values[i])}${more
      ? `, inodes ${text(more[i])}` : ""}`;
  };
  const raised = alerts?.filter((a) => a.to === undefined).map((a) => `Raised since ${when(a.from)}. `);
  return html`<figure class="curve"><figcaption><b>${title}</b> <${Marked} look=${open ? "bad" : ""}><b
      class="now">${text(last)}</b><//> <span class="pointed faint" ref=${pointed} aria-hidden="true"></span>
      </figcaption>
    <${Picture} chart=${chart} rule=${rule} alerts=${alerts} tell=${tell} />
    <p class="faint">${open ? html`<span class="failure">${raised}</span>` : null}${past.slice(-2).map((a) =>
      `Raised from ${when(a.from)} to ${when(a.to)}. `)}${high >= 0
      ? `Highest ${text(values[high])} at ${when(at[high])}. ` : ""}${more ? `Inodes ${text(more.at(-1))} (dashed). `
        : ""}${sayRule(chart, rule)}</p></figure>`;
}

// Numbers is every sample as a table, the newest first.
function Numbers({ all }) {
  const [open, setOpen] = useState(false);
  const columns = all.flatMap((c) => [[c.title, c.values, c.text], ...(c.more ? [[`${c.title}, inodes`, c.more,
    c.text]] : [])]);
  const rows = () => all[0].at.map((t, i) => ({ key: t, cells: [html`<${Time} at=${new Date(t).toISOString()} />`,
    ...columns.map(([, values, text]) => text(values[i]))] }))
    .filter((_, i) => columns.some(([, values]) => values[i] !== null)).reverse();
  return html`<details onToggle=${(e) => setOpen(e.target.open)}><summary>All samples as a table</summary>${open
    ? html`<${Simple} caption="samples, the newest first" head=${["Time", ...columns.map(([name]) => name)]}
      rows=${rows()} />` : null}</details>`;
}

// Curves is the section of a node's page.
export function Curves({ node, changed }) {
  const name = node.node;
  const { value: samples, error } = useSamples(`${path("v1", "nodes", name)}/samples`, node.online);
  const { value: config } = useAnswer(() => ask(`/v1/config/resolved${query({ node: name, type: node.type })}`)
    .catch(() => null), [name], changed);
  const { value: events } = useAnswer(() => Entries.load({ node: name, type: "alert", newest: true, limit: 200 }),
    [name], changed);
  const all = useMemo(() => (samples?.at.length ? chartsOf(samples) : []), [samples]);
  const rules = useMemo(() => rulesOf(config?.document), [config]);
  const alerts = useMemo(() => alertsOf(events, node.raised), [events, node.raised]);
  const note = !node.online ? "It is not connected: nobody can ask it now." : error ? error.message : !samples ? "…"
    : all.length === 0 ? "It has measured nothing yet: the first sample comes a period after the start of its agent."
      : `Asked of the node every ${limits.pause / 1000} s while this page is seen.`;
  return html`<section aria-labelledby="h-curves"><h2 id="h-curves">What it has measured</h2>
    <p class="faint">${note}</p>
    ${all.length ? html`<div class="curves">${all.slice(0, charts).map((c) => html`<${Curve} key=${c.parameter}
      chart=${c} rule=${rules[c.parameter]} alerts=${alerts[c.parameter]} />`)}</div>
      ${all.length > charts ? html`<p class="faint">${all.length - charts} more are in the table only.</p>` : null}
      <${Numbers} all=${all} />` : null}<${Cli} line=${cli.samples({ node: name })} /></section>`;
}
