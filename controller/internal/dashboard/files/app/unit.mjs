// What this page knows of the unit, live. One tab holds the stream, the others listen to it: the tab that has the lock
// reads /v1/live and tells each line to the others; when it goes, another gets the lock and goes on where it was.
import { ask, follow, hasToken, query, Refused, theToken, useToken } from "./api.mjs";

export const keptEntries = 500;

// unit is the state; look at it, and subscribe to hear when it changes. Rows never change in place.
export const unit = {
  rows: new Map(), // by name
  names: [], // sorted
  fleet: null,
  entries: [], // newest first, at most keptEntries
  at: "", // where the stream can be resumed
  live: false,
  note: "", // why it is not live
  self: null, // who this page is to the controller: name and role
};

const few = 50; // rows are shown without a long rest
const listeners = new Set();
let due = false;
let came = 0; // rows since the page was drawn
let drawn = 0; // when that ended
let worked = 0; // how long it took, ms

// subscribe calls f after the unit has changed, at most every 50 ms and half of the time, if much has a sixth of it; it
// returns what ends that.
export function subscribe(f) {
  listeners.add(f);
  return () => listeners.delete(f);
}

function changed() {
  if (due) return;
  due = true;
  const rest = Math.max(50, (came > few ? 5 : 1) * worked);
  setTimeout(() => {
    due = false;
    came = 0;
    const began = performance.now();
    for (const f of [...listeners]) f();
    queueMicrotask(() => { // what they change is drawn before
      drawn = performance.now();
      worked = drawn - began;
    });
  }, Math.max(0, drawn + rest - performance.now()));
}

let sorted = true;

// nodes returns the names of all nodes, in order: another list if nodes come, go or change their type.
export function nodes() {
  if (!sorted) unit.names = [...unit.rows.keys()].sort((a, b) => (a < b ? -1 : 1));
  sorted = true;
  return unit.names;
}

// take puts one line of the stream into the state.
function take(line) {
  if (line.reset) {
    unit.rows.clear();
    sorted = false;
  }
  if (line.fleet) unit.fleet = line.fleet;
  came += line.rows?.length ?? 0;
  for (const r of line.rows ?? []) {
    const was = unit.rows.get(r.node);
    if (!was || was.type !== r.type) sorted = false; // they are grouped by type
    unit.rows.set(r.node, r);
  }
  for (const name of line.gone ?? []) {
    unit.rows.delete(name);
    sorted = false;
  }
  if (line.entry) took(line.entry);
  if (line.at) unit.at = line.at;
  if (line.complete || !unit.live) changed(); // what belongs together is shown together
  if (line.complete) unit.live = true;
}

function took(entry) {
  if (unit.entries.length > 0 && entry.seq <= unit.entries[0].seq) return;
  unit.entries.unshift(entry);
  if (unit.entries.length > keptEntries) unit.entries.length = keptEntries;
}

// tabs is how the tabs of this page talk. Only pages of this origin hear it.
const tabs = new BroadcastChannel("tandem");
let leads = false;
let waits = null; // is called with the token of another tab

tabs.addEventListener("message", ({ data }) => {
  if (data.want === "token" && hasToken()) tabs.postMessage({ token: theToken() });
  if (data.want === "unit" && leads) {
    const { fleet, entries, at, live, note } = unit;
    tabs.postMessage({ all: { rows: [...unit.rows.values()], fleet, entries, at, live, note } });
  }
  if (data.token && waits && !hasToken()) {
    waits(data.token);
    waits = null;
  }
  if (leads || !hasToken()) return;
  if (data.all) {
    Object.assign(unit, data.all, { rows: new Map(data.all.rows.map((r) => [r.node, r])) });
    sorted = false;
    changed();
  }
  if (data.lines) data.lines.forEach(take);
  if (data.state) {
    Object.assign(unit, data.state);
    changed();
  }
});

// askTabs asks the other tabs for their token; found gets it, if one has it.
export function askTabs(found) {
  waits = found;
  tabs.postMessage({ want: "token" });
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

function say(live, note) {
  Object.assign(unit, { live, note });
  tabs.postMessage({ state: { live, note } });
  changed();
}

// lead reads the stream until the token does not count any more.
async function lead(refused) {
  leads = true;
  let batch = [];
  for (let wait = 1; hasToken();) {
    try {
      await follow(`/v1/live${query({ after: unit.at, events: true })}`, (line) => {
        take(line);
        batch.push(line);
        if (line.complete) {
          wait = 1;
          tabs.postMessage({ lines: batch });
          batch = [];
          if (unit.note) say(true, "");
        }
      });
    } catch (e) {
      batch = [];
      if (e instanceof Refused) {
        leads = false;
        return refused(e);
      }
      say(false, `${e.message}; trying again in ${wait} s`);
    }
    await pause(wait * 1000);
    wait = Math.min(wait * 2, 30);
  }
  leads = false;
}

// begin makes the state follow the unit. refused is called if the token does not count.
export async function begin(refused) {
  try {
    unit.self = await ask("/v1/self");
  } catch (e) {
    if (e instanceof Refused) return refused(e);
    say(false, e.message);
  }
  if (!navigator.locks) return lead(refused); // a page without TLS: each tab has a stream of its own
  tabs.postMessage({ want: "unit" });
  navigator.locks.request("tandem-live", () => lead(refused));
}

// end forgets the token and the unit.
export function end() {
  useToken("");
  Object.assign(unit, { rows: new Map(), names: [], fleet: null, entries: [], at: "", live: false, note: "",
    self: null });
  changed();
}

const ranks = { view: 1, operate: 2, admin: 3 };

// may reports whether this page's token may do what needs a role.
export const may = (role) => (ranks[unit.self?.role] ?? 0) >= ranks[role];
