// Requests to the controller. The token is kept for this tab (sessionStorage), so that a reload does not ask for it
// again; a second tab gets it from one that is open (tabs.mjs). Whatever comes from the controller is shown as text.

const kept = "tandem.token";

// turns are the characters that turn the direction of the text around them, as they are and as JSON may write them.
const turns = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|\\u(?:061c|200[ef]|202[a-e]|206[6-9])/gi;

// written are the same in JSON, and before them its other escapes, which stay: \\u202e is a backslash and letters.
const written = new RegExp(String.raw`\\[^u]|${turns.source}`, "gi");

// Refused says that the token does not count: there is no use in trying again with it.
export class Refused extends Error {}

// Problem is an error that the controller has answered with, or a refused submission.
export class Problem extends Error {
  constructor(error, answer) {
    super(words(error));
    this.error = error;
    this.answer = answer;
  }
}

// words is an error of the controller in a line: what, and at which place.
export function words(e) {
  if (!e) return "";
  const at = [e.node && `node ${e.node}`, e.path, e.line && `line ${e.line}${e.column ? `, column ${e.column}` : ""}`];
  const place = at.filter(Boolean).join(", ");
  return `${e.code}: ${e.message}${place ? ` (${place})` : ""}`;
}

let token = sessionStorage.getItem(kept) ?? "";

export const hasToken = () => token !== "";
export const theToken = () => token;

// useToken sets the token of this tab; "" forgets it.
export function useToken(text) {
  token = text;
  if (text) sessionStorage.setItem(kept, text);
  else sessionStorage.removeItem(kept);
}

// parse reads JSON of the controller, without what turns text.
export const parse = (text) => JSON.parse(text.replace(written, (found) => (found.length === 2 ? found : "\ufffd")));

// plain is text without what turns it and without control characters other than tab and newline.
export const plain = (s) => s.replace(turns, "\ufffd").replace(/\r\n?/g,
  "\n").replace(/[\0-\b\v\f\x0e-\x1f\x7f-\x9f]/g, "");

// query is "?a=1&b=2"; what is undefined, "" or false is left out, true is 1, a list is repeated.
export function query(of = {}) {
  const q = new URLSearchParams();
  for (const [name, v] of Object.entries(of)) {
    for (const one of Array.isArray(v) ? v : [v]) {
      if (one !== undefined && one !== "" && one !== false) q.append(name, one === true ? "1" : String(one));
    }
  }
  const text = q.toString();
  return text ? `?${text}` : "";
}

// path joins the parts of a path: "v1", "nodes", name.
export const path = (...parts) => parts.map((p) => `/${encodeURIComponent(p)}`).join("");

async function request(method, url, body, signal) {
  const headers = { Authorization: `Bearer ${token}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const res = await fetch(url, { method, headers, body, signal, cache: "no-store", credentials: "omit" });
  if (res.ok) return res;
  let answer = { error: { code: `status ${res.status}`, message: "the controller gives no reason" } };
  try {
    answer = parse(await res.text());
  } catch { /* not an answer of a controller: the status says it */ }
  const error = answer.error ?? answer.problems?.[0] ?? { code: `status ${res.status}`, message: "" };
  if (res.status === 401) throw new Refused(words(error));
  throw new Problem(error, answer);
}

// ask gets JSON.
export async function ask(url, signal) {
  return parse(await (await request("GET", url, undefined, signal)).text());
}

// text gets a document as it is, or lines.
export async function text(url, signal) {
  return (await request("GET", url, undefined, signal)).text();
}

// send orders something. body is text as it is, or a value that is sent as JSON.
export async function send(method, url, body) {
  const sent = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
  const answer = await (await request(method, url, sent)).text();
  return answer.trim() === "" ? {} : parse(answer);
}

// limits.silence is after how many ms without a byte a stream counts as cut: three times how long the controller lets
// one be idle without a blank line.
export const limits = { silence: 45_000 };

// follow calls each with every line of a stream until that ends or is silent. It never returns without an error.
export async function follow(url, each) {
  const cut = new AbortController();
  let last = performance.now();
  const watch = setInterval(() => {
    const silent = new Error("nothing comes from the controller: it hangs, or the network between is cut");
    if (performance.now() - last > limits.silence) cut.abort(silent);
  }, 1000);
  try {
    await read(await request("GET", url, undefined, cut.signal), (line) => {
      if (line !== undefined) each(line);
      last = performance.now();
    });
  } finally {
    clearInterval(watch);
    cut.abort();
  }
}

// read calls each with every line of a stream, and without one whenever something came.
async function read(res, each) {
  const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the controller has ended the stream");
    each();
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line.trim() === "") continue; // it keeps the connection alive
      const v = parse(line);
      if (v.error && v.error.code && !v.seq) {
        throw v.error.code === "not-allowed" ? new Refused(words(v.error)) : new Problem(v.error, v);
      }
      each(v);
    }
  }
}
