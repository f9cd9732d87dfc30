// A cell for each node, on a canvas: colour and shape say how it stands. Arrow keys move, Enter opens; a screen reader
// hears what the keyboard is on, an option of a list box.
import { colours, html, looks, onColours, useEffect, useLayoutEffect, useRef, useState } from "./ui.mjs";

const words = { inStep: "in step", onTheWay: "on the way", unwell: "unwell", failed: "failed", offline: "offline",
  revoked: "revoked" };
export const classWord = (c) => words[c] ?? c;
const heading = 20; // px above a group

// layout places groups of nodes, [{title, names}], in a width. Cells have a side of px.
function layout(groups, width, px) {
  const across = Math.max(1, Math.floor(width / px));
  const all = [];
  let y = 0, first = 0;
  for (const g of groups) {
    const rows = Math.ceil(g.names.length / across);
    all.push({ ...g, y, first, rows });
    y += heading + rows * px + 6;
    first += g.names.length;
  }
  return { of: groups, groups: all, across, width, height: y, px };
}

// at is the number of the node at a point, -1: there is none.
function at(l, x, y) {
  for (const g of l.groups) {
    const row = Math.floor((y - g.y - heading) / l.px), column = Math.floor(x / l.px);
    const i = row * l.across + column;
    if (y >= g.y + heading && row < g.rows && column < l.across && i < g.names.length) return g.first + i;
  }
  return -1;
}

// spot is where the node of a number is: {x, y}.
function spot(l, n) {
  for (const g of l.groups) {
    const i = n - g.first;
    if (i >= 0 && i < g.names.length) {
      return { x: (i % l.across) * l.px, y: g.y + heading + Math.floor(i / l.across) * l.px };
    }
  }
  return { x: 0, y: 0 };
}

// cell paints one: full, half, triangle, cross, ring, bar.
function cell(c, look, kind, x, y, side, colours) {
  c.fillStyle = c.strokeStyle = colours[look];
  const m = side / 2;
  if (kind === "inStep") c.fillRect(x, y, side, side);
  else if (kind === "onTheWay") {
    c.strokeRect(x + 0.5, y + 0.5, side - 1, side - 1);
    c.fillRect(x, y + m, side, m);
  } else if (kind === "unwell") {
    c.beginPath();
    c.moveTo(x + m, y);
    c.lineTo(x + side, y + side);
    c.lineTo(x, y + side);
    c.fill();
  } else if (kind === "failed") {
    c.lineWidth = Math.max(1.5, side / 5);
    c.beginPath();
    c.moveTo(x + 1, y + 1);
    c.lineTo(x + side - 1, y + side - 1);
    c.moveTo(x + side - 1, y + 1);
    c.lineTo(x + 1, y + side - 1);
    c.stroke();
    c.lineWidth = 1;
  } else if (kind === "offline") {
    c.strokeRect(x + 0.5, y + 0.5, side - 1, side - 1);
  } else c.fillRect(x, y + m - 0.5, side, 1.5);
}

// paint shows how nodes stand. was is what it returned last: if nothing else differs, only the cells are painted whose
// class does, mostly none of thousands; all if pixels are so large that cells share some.
function paint(canvas, l, rows, current, focused, was) {
  const scale = devicePixelRatio || 1, colour = colours(canvas.parentElement);
  const { groups, of, px, width } = l, side = px - 2, c = canvas.getContext("2d");
  const on = [of, px, width, scale, colour];
  const anew = focused || !was || was.focused || scale < 1 || on.some((v, i) => v !== was.on[i]);
  const classes = anew ? [] : was.classes;
  if (anew) {
    const height = Math.min(l.height, 30000 / scale);
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    c.scale(scale, scale);
    c.font = "12px system-ui, sans-serif";
    c.textBaseline = "middle";
    c.fillStyle = colour.text;
    for (const g of groups) c.fillText(g.title, 0, g.y + heading / 2);
  }
  for (const g of groups) {
    g.names.forEach((name, i) => {
      const kind = rows.get(name)?.class, n = g.first + i;
      if (!anew && classes[n] === kind) return;
      classes[n] = kind;
      const x = (i % l.across) * px, y = g.y + heading + Math.floor(i / l.across) * px;
      if (!anew) c.clearRect(x - 1, y - 1, px, px);
      cell(c, looks[kind] ?? "off", kind, x, y, side, colour);
    });
  }
  if (focused && current >= 0) {
    const { x, y } = spot(l, current);
    c.strokeStyle = colour.text;
    c.lineWidth = 2;
    c.strokeRect(x - 1, y - 1, side + 2, side + 2);
  }
  return { on, classes, focused };
}

// Grid shows groups of nodes of rows by name. open gets a node's name.
export function Grid({ groups, rows, open }) {
  const canvas = useRef(null), box = useRef(null), picture = useRef(null);
  const [width, setWidth] = useState(0);
  const [current, setCurrent] = useState(0);
  const [focused, setFocused] = useState(false);
  const names = groups.flatMap((g) => g.names);
  const px = names.length > 4000 ? 9 : names.length > 800 ? 12 : 16;
  const l = layout(groups, width || 1, px);
  useLayoutEffect(() => {
    const see = () => setWidth(canvas.current.clientWidth); // without the edges of the box
    const seen = new ResizeObserver(see);
    seen.observe(box.current);
    see();
    return () => seen.disconnect();
  }, []);
  const show = () => {
    if (width) picture.current = paint(canvas.current, l, rows, current, focused, picture.current);
  };
  useEffect(() => { // each time: the map of rows changes in place
    show();
    return onColours(show);
  });
  const now = names[Math.min(current, names.length - 1)];
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: l.across, ArrowUp: -l.across, Home: -names.length,
    End: names.length };
  const key = (e) => {
    if (e.key === "Enter" && now) open(now);
    if (!(e.key in steps)) return;
    e.preventDefault();
    const next = Math.max(0, Math.min(names.length - 1, current + steps[e.key]));
    setCurrent(next);
    const { y } = spot(l, next), b = box.current;
    if (y < b.scrollTop) b.scrollTop = y - heading;
    if (y + px > b.scrollTop + b.clientHeight) b.scrollTop = y + px - b.clientHeight;
  };
  const under = (e) => at(l, e.offsetX, e.offsetY);
  const row = rows.get(now);
  return html`<div class="grid" ref=${box} tabindex="0" role="listbox" aria-label="nodes, a cell each"
      aria-activedescendant="cell" onKeyDown=${key} onFocus=${() => setFocused(true)} onBlur=${() => setFocused(false)}>
    <canvas ref=${canvas} aria-hidden="true" style=${{ height: `${l.height}px` }} onContextRestored=${() => {
        picture.current = null;
        show();
      }}
      onClick=${(e) => under(e) >= 0 && open(names[under(e)])}
      onMouseMove=${(e) => { const n = under(e); e.target.title = n < 0 ? "" : tip(names[n], rows.get(names[n])); }}>
        </canvas>
    <span id="cell" role="option" aria-selected="true" class="unseen">${now ? tip(now, row) : "no nodes"}</span></div>`;
}

const tip = (name, row) => [name, row && classWord(row.class), row?.version && `runs ${row.version}`,
  row?.why].filter(Boolean).join(", ");
