// Trust and settings: certificates by the end of their validity, keys, CAs, tokens, maintenance, the journal.
import { ask, path, query, send } from "./api.mjs";
import { cli } from "./commands.mjs";
import { Act, Cli, count, Failure, html, link, Marked, Simple, span, State, Time, useAnswer, useState,
  useUnit } from "./ui.mjs";
import { may } from "./unit.mjs";

const day = 86400e3;
const left = (at) => Date.parse(at) - Date.now();
const end = (at) => html`<${Marked} look=${left(at) < 7 * day ? "bad" : left(at) < 21 * day ? "wait"
  : "good"}>${left(at) > 0 ? `in ${span(left(at))}` : "it has ended"}<//>`;

// Next says which certificate ends next, of the nodes, the soonest first, and the CAs.
function Next({ nodes, cas }) {
  const all = [...nodes.slice(0, 1).map((n) => ({ at: n.identity.expires, of: html`that of <a
    href=${link(`nodes/${n.node}`)}>${n.node}</a>` })),
    ...cas.filter((c) => c.expires).map((c) => ({ at: c.expires, of: `that of the CA ${c.id}` }))];
  const next = all.sort((a, b) => Date.parse(a.at) - Date.parse(b.at))[0];
  return next && html`<p>The next certificate ends ${end(next.at)}: ${next.of}, on <${Time} at=${next.at} />.</p>`;
}

function Certificates({ cas }) {
  const { value, error } = useAnswer(() => ask(`/v1/nodes${query({ fields: "node,identity" })}`), []);
  const list = (value?.nodes ?? []).filter((n) => n.identity?.expires && n.identity.state === "joined")
    .sort((a, b) => Date.parse(a.identity.expires) - Date.parse(b.identity.expires));
  return html`<section aria-labelledby="h-certs"><h2 id="h-certs">Certificates of nodes</h2><${Failure}
    error=${error} />
    <${Next} nodes=${list} cas=${cas?.cas ?? []} />
    <${Simple} caption="certificates of nodes" empty="No node has one." head=${["Node", "Ends", "That is"]} rows=${value
      && list.slice(0, 50).map((n) => ({ key: n.node,
      cells: [html`<a href=${link(`nodes/${n.node}`)}>${n.node}</a>`, html`<${Time} at=${n.identity.expires} />`,
        end(n.identity.expires)] }))} />
    ${list.length > 50 ? html`<p class="faint">${list.length - 50} that end later are not shown.</p>`
      : null}</section>`;
}

function Authorities({ cas, error }) {
  const { value: keys } = useAnswer(() => ask("/v1/keys"), []);
  return html`<section aria-labelledby="h-cas"><h2 id="h-cas">Authorities and keys</h2>
    ${error?.error?.code === "not-supported" ? html`<p class="faint">${error.error.message}</p>` : html`<${Failure}
      error=${error} />`}
    ${error ? null : html`<${Simple} caption="CAs" head=${["CA", "State", "Ends", "Believed by", "Fingerprint"]}
      rows=${cas?.cas.map((c) => ({ key: c.id,
      cells: [c.id, html`<${State} of=${c.state} />`, html`<${Time} at=${c.expires} />`,
        `${count(c.nodes)}${c.missing?.length ? `, not by ${c.missing.slice(0, 3).join(", ")}` : ""}`,
          html`<code>${c.fingerprint}</code>`] }))} />`}
    <${Cli} line=${cli.cas()} />
    <${Simple} caption="signing keys" head=${["Signing key", "State", "Believed by"]} rows=${keys?.keys.map((k) =>
      ({ key: k.kid,
      cells: [k.kid, html`<${State} of=${k.state} />`, `${count(k.nodes)}${k.missing?.length
        ? `, not by ${k.missing.slice(0, 3).join(", ")}` : ""}`] }))} /><${Cli} line=${cli.keys()} /></section>`;
}

function Tokens() {
  const { value, error, again } = useAnswer(() => ask("/v1/tokens"), []);
  return html`<section aria-labelledby="h-tokens"><h2 id="h-tokens">Tokens of operators</h2><${Failure}
    error=${error} />
    <${Simple} caption="tokens" empty="There is none." head=${["Token", "Role", "Made", "By", "Ends", ""]}
      rows=${value?.tokens.map((t) => ({ key: t.name,
      cells: [t.name, t.role, html`<${Time} at=${t.created} />`, t.by ?? "", t.expires ? html`<${Time}
        at=${t.expires} />` : "never",
        html`<${Act} label="Revoke" role="admin" danger cli=${() => cli.revokeToken(t)} done=${again} act=${() =>
          send("POST", `${path("v1", "tokens", t.name)}/revoke`)} />`] }))} />
    <${Cli} line=${cli.tokens()} /></section>`;
}

function Maintenance() {
  const [said, setSaid] = useState("");
  return html`<section aria-labelledby="h-maint"><h2 id="h-maint">Maintenance</h2>
    <p>While it is announced, time without contact does not count on the nodes. ${said}</p>
    <${Act} label="Announce" fields=${[{ name: "length", label: "For how long, such as PT2H", value: "PT2H",
      need: true }, { name: "reason", label: "Reason", need: true }]}
      cli=${cli.maintenance} act=${async (v) => { await send("POST", "/v1/unit/maintenance", { for: v.length,
        reason: v.reason }); setSaid("It is announced."); }} /></section>`;
}

function Journal() {
  const [proof, setProof] = useState(null);
  const check = () => ask("/v1/journal/verify").then(setProof, (failure) => setProof({ failure }));
  return html`<section aria-labelledby="h-journal"><h2 id="h-journal">Journal</h2>
    <button onClick=${check}>Check every record</button> <${Failure} error=${proof?.failure} />
    ${proof?.report ? html`<pre role="status" tabindex="0" aria-label="what was found">${proof.report}</pre>` : null}
    <${Cli} line=${cli.verify()} /></section>`;
}

export function Trust() {
  const u = useUnit();
  const { value: s } = useAnswer(() => ask("/v1/unit/status"), []);
  const { value: cas, error } = useAnswer(() => ask("/v1/ca"), []);
  return html`<h1>Trust and settings</h1><${Certificates} cas=${cas} /><${Authorities} cas=${cas} error=${error} />
    ${may("admin") ? html`<${Tokens} />` : null}<${Maintenance} /><${Journal} />
    <section aria-labelledby="h-about"><h2 id="h-about">About</h2><dl class="facts">
      <div><dt>Unit</dt><dd>${s?.unit}</dd></div><div><dt>Controller</dt><dd>${s?.version}</dd></div><div>
        <dt>Epoch</dt><dd>${s?.epoch}</dd></div>
      <div><dt>You</dt><dd>${u.self ? `${u.self.name}, with the role ${u.self.role}` : ""}</dd></div></dl>
      <p class="faint">This page is made with Preact (MIT), htm (Apache-2.0) and uPlot (MIT).</p></section>`;
}
