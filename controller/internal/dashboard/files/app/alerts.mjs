// Alerts that are raised now, by rule.
import { ask } from "./api.mjs";
import { cli } from "./commands.mjs";
import { Cli, count, Failure, html, link, measure, Simple, Time, useAnswer, useMemo, useUnit } from "./ui.mjs";

export function Alerts() {
  const u = useUnit();
  const { value, error } = useAnswer(() => ask("/v1/alerts"), [], u.fleet?.rev ?? 0);
  const rules = useMemo(() => {
    const by = new Map();
    for (const a of value?.alerts ?? []) by.set(a.parameter, [...(by.get(a.parameter) ?? []), a]);
    return [...by].sort((a, b) => b[1].length - a[1].length);
  }, [value]);
  return html`<h1>Alerts</h1><${Failure} error=${error} />
    ${value && rules.length === 0 ? html`<p>No alert is raised.</p>` : null}
    ${rules.map(([parameter, list]) => html`<section key=${parameter} aria-label=${parameter}><h2>${parameter} <span
      class="faint">on ${count(list.length)}</span></h2>
      <${Simple} caption=${`alerts of ${parameter}`} head=${["Node", "Value", "Raises at", "Falls below", "Since"]}
        rows=${list.slice(0, 100).map((a) => ({ key: a.node,
        cells: [html`<a href=${link(`nodes/${a.node}`)}>${a.node}</a>`, measure(parameter, a.value),
          measure(parameter, a.maxThreshold), measure(parameter, a.minThreshold),
          html`<${Time} at=${a.since} />`] }))} />
      ${list.length > 100 ? html`<p class="faint">${list.length - 100} more are not shown.</p>` : null}</section>`)}
    ${value?.omitted ? html`<p class="faint">${value.omitted} more are not listed.</p>` : null}<${Cli}
      line=${cli.alerts()} />`;
}
