// A table of many rows, of which the page has those that are seen, and a few more. To assistive technology it is one.
import { html, useLayoutEffect, useRef, useState } from "./ui.mjs";

const high = 28; // px of a row, as in style.css
const around = 8; // rows above and below what is seen

// Rows shows keys, in order; cells(key) returns the cells of a row, the first of which names it.
export function Rows({ caption, head, keys, cells, open }) {
  const box = useRef(null);
  const [from, setFrom] = useState(0);
  const [seen, setSeen] = useState(20);
  useLayoutEffect(() => {
    const see = () => setSeen(Math.ceil(box.current.clientHeight / high) + around);
    const size = new ResizeObserver(see);
    size.observe(box.current);
    see();
    return () => size.disconnect();
  }, []);
  const scrolled = () => setFrom(Math.max(0, Math.floor(box.current.scrollTop / high) - around));
  const begin = Math.min(from, Math.max(0, keys.length - seen));
  const part = keys.slice(begin, begin + seen + around);
  const after = keys.length - begin - part.length;
  return html`<div class="rows wide" ref=${box} onScroll=${scrolled} tabindex="0" role="region"
    aria-label=${`table of ${caption}`}>
    <table aria-rowcount=${keys.length + 1}><caption class="unseen">${caption}</caption>
    <thead><tr aria-rowindex="1">${head.map((t) => html`<th scope="col">${t}</th>`)}</tr></thead>
    <tbody>
      ${begin > 0 ? html`<tr key="before" aria-hidden="true" style=${{ height: `${begin * high}px` }}><td
        colspan=${head.length}></td></tr>` : null}
      ${part.map((k, i) => html`<tr key=${k} aria-rowindex=${begin + i + 2} onClick=${() =>
        open(k)}>${cells(k).map((c, n) => (n === 0
        ? html`<th scope="row">${c}</th>` : html`<td title=${typeof c === "string" ? c
          : undefined}>${c}</td>`))}</tr>`)}
      ${after > 0 ? html`<tr key="after" aria-hidden="true" style=${{ height: `${after * high}px` }}><td
        colspan=${head.length}></td></tr>` : null}
    </tbody></table></div>`;
}
