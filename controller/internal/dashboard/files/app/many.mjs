// Orders to all nodes that a search selects: which they are is asked first, and the order is for those alone.
import { parse, send, words } from "./api.mjs";
import { cli } from "./commands.mjs";
import { Act, count, Failure, html, useEffect, useState } from "./ui.mjs";
import { may } from "./unit.mjs";

const order = (body) => send("POST", "/v1/nodes/order", body);

// valued reads a value as the command does: JSON, or else a text as it is.
function valued(text) {
  try {
    return parse(text);
  } catch {
    return text;
  }
}

// outcome says what came of an order, and first at which nodes nothing.
function outcome(v) {
  const not = v.nodes.filter((n) => n.error).slice(0, 5).map((n) => `${n.node}: ${words(n.error)}`);
  const more = v.failed > not.length ? [`and ${v.failed - not.length} more`] : [];
  return [`taken by ${v.done} of ${count(v.selected)}`, ...not, ...more].join("; ");
}

// Many is the orders for what a search selects.
export function Many({ q }) {
  const [seen, setSeen] = useState({});
  useEffect(() => setSeen({}), [q]);
  if (!q || !may("operate")) return null;
  const look = async () => {
    try {
      setSeen({ of: await order({ where: q, dryRun: true, try: {} }) });
    } catch (error) {
      setSeen({ error });
    }
  };
  const of = seen.of;
  return html`<div class="acts"><button onClick=${look}>${of ? "Count them again" : "Order something of these"}</button>
    <${Failure} error=${seen.error} />
    <span role="status">${of ? `${count(of.selected)}${of.offline ? `, ${of.offline} of them offline` : ""}${of.allNodes
      ? ": all that there are" : ""}` : ""}</span>
    ${of?.selected ? html`<${Orders} q=${q} n=${of.selected} expect=${of.expect} all=${of.allNodes}
      again=${look} />` : null}</div>`;
}

function Orders({ q, n, expect, all, again }) {
  const to = { where: q, expect, allNodes: all };
  const text = `${count(n)} get this order${all ? ", all that there are" : ""}: if others are found by then, none.`;
  const act = (body) => async (v) => { // what is done is told before the nodes are counted again
    const what = outcome(await order({ ...to, ...body(v) }));
    again();
    return what;
  };
  const line = (make) => (v) => make({ q, expect, all, ...v });
  const reason = { name: "reason", label: "Reason", need: true }, version = { name: "version",
    label: "Version (empty: whatever is staged)" }, name = { name: "name", label: "Property", need: true };
  return html`
    <${Act} label="Restart the machines" fields=${[reason]} text=${text} cli=${line(cli.rebootMany)}
      act=${act((v) => ({ reboot: v }))} />
    <${Act} label="Try what is staged" fields=${[version]} text=${text} cli=${line(cli.tryMany)}
      act=${act((v) => ({ try: v.version ? v : {} }))} />
    <${Act} label="Keep what is on trial" fields=${[{ ...version, label: "Version", need: true }]} text=${text}
      cli=${line(cli.approveMany)} act=${act((v) => ({ approve: v }))} />
    <${Act} label="Set a property" fields=${[name, { name: "value", label: "Value", need: true }]} text=${text}
      cli=${line(cli.setMany)} act=${act((v) => ({ set: { name: v.name, value: valued(v.value) } }))} />
    <${Act} label="Unset a property" fields=${[name]} text=${text} cli=${line(cli.unsetMany)}
      act=${act((v) => ({ unset: v }))} />
    <${Act} label="Revoke them" role="admin" danger fields=${[reason]} cli=${line(cli.revokeMany)}
      text=${`${text} They are let in no more, at once. To come back each has to join again.`}
      act=${act((v) => ({ revoke: v }))} />`;
}
