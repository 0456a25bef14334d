// The planned graph, lit up as it executes. Laid out by the server; only what is in sight is in the document.
import { html, useEffect, useRef, useState } from "./html.js";
import { cut, duration, safe } from "./text.js";

const MARGIN = 300; // pixels beyond the window that are drawn as well, so that scrolling shows no gaps
const ZOOMS = [0.25, 0.5, 0.75, 1, 1.5];

export function Graph({ layout, actions, selected, select }) {
  const box = useRef(null);
  const [zoom, setZoom] = useState(1);
  const [sight, setSight] = useState({ left: 0, top: 0, right: 1600, bottom: 1000 });
  const look = () => {
    const element = box.current;
    if (!element) return;
    setSight({
      left: element.scrollLeft / zoom - MARGIN, top: element.scrollTop / zoom - MARGIN,
      right: (element.scrollLeft + element.clientWidth) / zoom + MARGIN, bottom: (element.scrollTop + element.clientHeight) / zoom + MARGIN,
    });
  };
  useEffect(() => {
    if (!box.current) return undefined; // nothing is laid out yet
    look();
    const observer = new ResizeObserver(look);
    observer.observe(box.current);
    return () => observer.disconnect();
  }, [zoom, layout]);
  if (!layout) return null;
  const places = layout.places ??= placed(layout);
  const inSight = (node) => node.x + node.w >= sight.left && node.x <= sight.right && node.y + node.h >= sight.top && node.y <= sight.bottom;
  const nodes = places.filter(inSight);
  const edges = layout.edges.filter(([from, to]) => crosses(places[from], places[to], sight)).slice(0, 4000);
  return html`<div class="graphbox"><div class="zoom" role="group" aria-label="Zoom">
      <button aria-label="Smaller" disabled=${zoom === ZOOMS[0]} onClick=${() => setZoom(ZOOMS[ZOOMS.indexOf(zoom) - 1])}>−</button>
      <button aria-label="Larger" disabled=${zoom === ZOOMS.at(-1)} onClick=${() => setZoom(ZOOMS[ZOOMS.indexOf(zoom) + 1])}>+</button></div>
    <div class="graph" ref=${box} onScroll=${look} tabindex="0" aria-label="Graph of actions">
    <svg width=${layout.width * zoom} height=${layout.height * zoom} viewBox=${`0 0 ${layout.width} ${layout.height}`}>
      ${edges.map(([from, to]) => html`<path key=${`${from}>${to}`} class="edge" data-status=${actions[places[from].key]?.status} d=${curve(places[from], places[to])} />`)}
      ${nodes.map((node) => html`<${Node} key=${node.key} node=${node} action=${actions[node.key]} selected=${selected === node.key} select=${select} plain=${zoom < 0.5} />`)}
    </svg></div></div>`;
}

// All boxes have one size, which the server sends once.
const placed = ({ keys, x, y, node_width: w, node_height: h }) => keys.map((key, place) => ({ key, x: x[place], y: y[place], w, h }));

// A `plain` one is too small for words.
function Node({ node, action, selected, select, plain }) {
  const status = action?.status ?? "proposed";
  const code = action?.exit_code ? `exit code ${action.exit_code}` : ""; // it ran, and did not do what it should
  const room = Math.max(4, Math.floor((node.w - 20) / 8));
  const name = safe(action?.id ?? node.key);
  const pick = () => select(selected ? null : node.key);
  return html`<g class="node" data-status=${status} data-key=${node.key} data-nonzero=${code !== ""} data-selected=${selected} transform=${`translate(${node.x} ${node.y})`} role="button" tabindex="0"
      aria-label=${`${name}: ${status} ${code}`.trim()} onClick=${pick} onKeyDown=${(event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pick(); } }}>
    <rect width=${node.w} height=${node.h} rx="8" />
    ${!plain && html`<text x="10" y=${node.h / 2 - 3} class="name">${cut(name, room)}</text>
    <text x="10" y=${node.h / 2 + 13} class="tool">${cut(`${action?.tool ?? action?.type ?? ""} ${code || (action?.duration_ms != null ? duration(action.duration_ms) : "")}`.trim(), room + 4)}</text>`}
    <title>${`${name}: ${status} ${code}`.trim()}</title>
  </g>`;
}

function crosses(from, to, sight) {
  return Math.max(from.x + from.w, to.x + to.w) >= sight.left && Math.min(from.x, to.x) <= sight.right
    && Math.max(from.y + from.h, to.y + to.h) >= sight.top && Math.min(from.y, to.y) <= sight.bottom;
}

function curve(from, to) {
  const [x1, y1, x2, y2] = [from.x + from.w, from.y + from.h / 2, to.x, to.y + to.h / 2];
  const bend = Math.max(20, (x2 - x1) / 2);
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}
