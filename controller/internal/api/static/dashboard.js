// The dashboard: what a token may view of a unit, live. It changes nothing. Whatever comes from the
// controller is shown as text; the token is in a variable of this file and nowhere else.
"use strict";

const kept = 50; // events shown
const nodes = new Map(); // by name
const events = []; // newest first
let token = "";
let link = false; // the token is a link's: it counts once, for another one
let last = 0; // newest event seen
let asked = false; // a status is on its way
let again = false; // and another is wanted after it
let live = false; // the unit was shown since the last failure

const at = (id) => document.getElementById(id);

// turns are the characters that turn the direction of the text around them.
const turns = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

// make builds an element that holds text.
function make(tag, text, look) {
  const e = document.createElement(tag);
  e.textContent = String(text ?? "").replace(turns, "\ufffd");
  if (look) e.className = look;
  return e;
}

function row(...cells) {
  const tr = document.createElement("tr");
  tr.append(...cells.map((c) => (c instanceof Node ? c : make("td", c))));
  return tr;
}

const when = (t) => (t ? new Date(t).toLocaleString() : "");
const why = (e) => (e ? `${e.code}: ${e.message}` : "");

// Refused says that there is no use in trying again.
class Refused extends Error {}

// get asks for something; the answer is a Response.
async function get(path, signal, method = "GET") {
  const res = await fetch(path, { method, headers: { Authorization: `Bearer ${token}` }, cache: "no-store", credentials: "omit", signal });
  if (res.ok) return res;
  let text = `status ${res.status}`;
  try {
    text = why((await res.json()).error);
  } catch { /* not an answer of a controller */ }
  throw res.status === 401 || res.status === 403 ? new Refused(text) : new Error(text);
}

// follow calls each with every line of a stream until it ends.
async function follow(path, each, signal) {
  const res = await get(path, signal);
  const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the controller has ended the stream");
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line.trim() === "") continue; // it keeps the connection alive
      const v = JSON.parse(line);
      if (v.error && !v.seq) throw v.error.code === "not-allowed" ? new Refused(why(v.error)) : new Error(why(v.error));
      each(v);
    }
  }
}

function showStatus(s) {
  at("unit").textContent = s.unit;
  document.title = `Tandem ${s.unit}`;
  const c = s.config, p = c.progress;
  const rows = [
    ["Controller", `version ${s.version}, since ${when(s.started)}`],
    ["Broker", `${s.broker.address}, ${s.broker.up ? "up" : `down ${s.broker.error ?? ""}`} since ${when(s.broker.since)}`, s.broker.up ? "good" : "bad"],
    ["Configuration", `${c.state} ${c.version} ${why(c.error)}`, c.state === "failed" ? "bad" : ""],
    ["Nodes", `${p.nodes} known, ${p.online} online, ${p.installed} up to date, ${p.failed} failed`, p.failed ? "bad" : p.installed < p.nodes ? "wait" : "good"],
    ["Journal", `newest record ${s.rev}, epoch ${s.epoch}`],
  ];
  const m = s.maintenance;
  if (m) rows.push(["Maintenance", `until ${when(m.until)}: ${m.reason ?? ""}, by ${m.who ?? ""}`, "wait"]);
  if (c.trial) rows.push(["On trial", `${c.trial.version} until ${when(c.trial.deadline)}`, "wait"]);
  if (c.attempted) rows.push(["Refused", `${c.attempted.version ?? ""} ${why(c.attempted.error)}`, "bad"]);
  at("status").replaceChildren(...rows.flatMap(([k, v, look]) => [make("dt", k), make("dd", v, look)]));
  const trouble = s.trouble ?? [];
  at("trouble").hidden = trouble.length === 0;
  at("trouble").querySelector("ul").replaceChildren(...trouble.map((t) => make("li", t)));
}

// askStatus asks for the unit's state, one request at a time.
async function askStatus(signal) {
  if (asked) {
    again = true;
    return;
  }
  asked = true;
  try {
    showStatus(await (await get("/v1/unit/status", signal)).json());
  } finally {
    asked = false;
  }
  if (again) {
    again = false;
    setTimeout(() => askStatus(signal).catch(() => {}), 1000);
  }
}

const looks = { installed: "good", rejected: "bad", failed: "bad", rolledback: "bad" };
const healthLooks = { ok: "good", check: "bad", error: "bad" };

// health says what a node told of its health; of one that is away, what it was.
function health(n) {
  const h = n.health;
  if (!h) return make("td", "");
  const text = h.alerts ? `${h.text}, ${h.alerts} alert${h.alerts === 1 ? "" : "s"}` : h.text;
  if (!n.online && h.state !== "unknown") return make("td", `was ${text}`);
  return make("td", text, h.state === "ok" && h.alerts ? "wait" : healthLooks[h.state] ?? "wait");
}

function showNodes() {
  const sorted = [...nodes.values()].sort((a, b) => (a.node < b.node ? -1 : 1));
  at("nodes").replaceChildren(...sorted.map((n) => {
    const d = n.documents?.config ?? {};
    const revoked = n.identity?.state === "revoked";
    const state = (revoked ? "revoked" : d.last?.state ?? (n.firstSeen ? "" : n.identity?.state)) ?? "";
    const look = revoked ? "bad" : looks[state] ?? "wait";
    const name = make("th", n.node);
    name.scope = "row";
    return row(name, n.type, make("td", n.since ? `${n.online ? "yes" : "no"}, since ${when(n.since)}` : "not yet", n.online ? "good" : "wait"),
      make("td", n.inSync || !n.firstSeen ? state : `${state} (not as it should be)`, look === "good" && !(n.inSync && n.online) ? "wait" : look),
      d.running?.version, d.desired?.version, health(n), n.info?.agentVersion, make("td", why(d.last?.error), "bad"));
  }));
}

function showEvents() {
  at("events").replaceChildren(...events.map((e) => row(String(e.seq), when(e.at), e.type, e.node, e.who, JSON.stringify(e.data ?? "").slice(0, 400))));
}

let due = false; // the tables will be drawn soon

function draw() {
  if (due) return;
  due = true;
  setTimeout(() => { due = false; showNodes(); showEvents(); }, 200);
}

function sawNode(c, signal) {
  if (c.node) nodes.set(c.node.node, c.node);
  if (c.gone) nodes.delete(c.gone);
  draw();
  if (c.complete) askStatus(signal).catch(() => {});
}

function sawEvent(e, signal) {
  last = Math.max(last, e.seq);
  events.unshift(e);
  events.length = Math.min(events.length, kept);
  draw();
  askStatus(signal).catch(() => {});
}

// session shows the unit until something fails.
async function session(signal) {
  if (link) {
    token = (await (await get("/v1/tokens/redeem", signal, "POST")).json()).token;
    link = false;
  }
  await askStatus(signal);
  if (last === 0) {
    const text = await (await get(`/v1/events?newest=1&limit=${kept}`, signal)).text();
    for (const line of text.split("\n").filter((l) => l.trim() !== "").reverse()) sawEvent(JSON.parse(line), signal);
  }
  live = true;
  at("live").textContent = "Live.";
  at("enter").hidden = true;
  at("shown").hidden = false;
  nodes.clear();
  await Promise.race([
    follow("/v1/nodes?watch=1", (c) => sawNode(c, signal), signal),
    follow(`/v1/events?follow=1&after=${last}`, (e) => sawEvent(e, signal), signal),
  ]);
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// run shows the unit, again and again, until the token does not count any more.
async function run() {
  for (let wait = 1; token !== ""; wait = Math.min(wait * 2, 30)) {
    const ended = new AbortController();
    try {
      await session(ended.signal);
    } catch (e) {
      if (e instanceof Refused) {
        token = "";
        at("shown").hidden = true;
        at("enter").hidden = false;
        at("live").textContent = link
          ? "This link was used before, or its time is over. On the controller's machine, this makes a new one: tandem token create NAME --role view --link"
          : `The controller says no: ${e.message}`;
        link = false;
        return;
      }
      if (live) wait = 1;
      live = false;
      at("live").textContent = `NOT LIVE: ${e.message}; trying again in ${wait} s.`;
    } finally {
      ended.abort();
    }
    await pause(wait * 1000);
  }
}

// A link may bring the token behind #, which no server and no log sees; it does not stay in the address.
const brought = /^#(once=)?(tdo1\.[\w-]+)$/.exec(location.hash);
if (brought) {
  link = brought[1] !== undefined;
  token = brought[2];
  history.replaceState(null, "", location.pathname);
  run();
}

const near = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
at("insecure").hidden = location.protocol === "https:" || near;
at("enter").addEventListener("submit", (e) => {
  e.preventDefault();
  if (token !== "") return; // it is being tried
  token = at("token").value.trim();
  at("token").value = "";
  run();
});
