// Small pieces that several views draw: status, time, folded values, diffs, tables, long lists.
import { html, signal, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { ago, cut, moment, pretty, safe } from "./text.js";

export const now = signal(Date.now() / 1000);
setInterval(() => { now.value = Date.now() / 1000; }, 1000);

const MARKS = {
  succeeded: "✓", success: "✓", merged: "✓", passed: "✓", proceeded: "✓", verified: "✓", approved: "✓", reported: "✓", kept: "✓",
  failed: "✗", aborted: "✗", rejected: "✗", refused: "✗", error: "✗", denied: "✗",
  running: "●", executing: "●", waiting: "?", unknown: "?", escalated: "?", needs_approval: "?", contract_proposed: "?", provisional: "○", retired: "–",
  skipped: "–", canceled: "–", proposed: "○", validated: "○", interrupted: "!", partial: "!", budget: "!",
};

export function Status({ value }) {
  const word = safe(value ?? "unknown").replaceAll("_", " ");
  return html`<span class="status" data-status=${value}><span class="mark" aria-hidden="true">${MARKS[value] ?? "·"}</span> ${word}</span>`;
}

export const Chip = ({ tone, title, children }) => html`<span class="chip" data-tone=${tone} title=${title}>${children}</span>`;

export const When = ({ at, exact }) =>
  at == null ? null : html`<time datetime=${new Date(at * 1000).toISOString()} title=${new Date(at * 1000).toLocaleString()}>${exact ? moment(at) : now.value - at < 86400 ? ago(at, now.value) : moment(at)}</time>`;

// A value of any shape, folded when it is long.
export function Value({ label, value, open }) {
  if (value == null) return null;
  const text = typeof value === "string" ? safe(value) : pretty(value);
  const lines = text.split("\n").length;
  if (lines <= 3 && text.length <= 160) return html`<div class="value"><span class="label">${label}</span><code>${text}</code></div>`;
  return html`<details class="value" open=${open}><summary><span class="label">${label}</span> <span class="faint">${lines} lines</span></summary><pre>${text}</pre></details>`;
}

const LONG_DIFF = 400;

export function Diff({ text }) {
  const [whole, setWhole] = useState(false);
  if (!text) return null;
  const lines = safe(text).split("\n");
  const shown = whole ? lines : lines.slice(0, LONG_DIFF);
  return html`<div class="diff" role="region" aria-label="Diff" tabindex="0"><pre>${shown.map((line) => html`<span class=${kindOf(line)}>${line}\n</span>`)}</pre>
    ${lines.length > shown.length && html`<button onClick=${() => setWhole(true)}>Show ${lines.length - shown.length} more lines</button>`}</div>`;
}

function kindOf(line) {
  if (/^(diff |index |--- |\+\+\+ )/.test(line)) return "file";
  if (line.startsWith("@@")) return "hunk";
  if (line.startsWith("+")) return "added";
  if (line.startsWith("-")) return "removed";
  return "same";
}

export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;
export const Problem = ({ error }) => (error ? html`<p class="problem" role="alert">${safe(error.message)}</p>` : null);

// Fetch when `key` changes; `again()` fetches once more and keeps what is shown until the answer is there.
export function useFetched(fetching, key) {
  const [state, setState] = useState({ data: null, error: null, loading: true });
  const asked = useRef(0);
  const again = () => {
    const mine = ++asked.current;
    return fetching().then(
      (data) => mine === asked.current && setState({ data, error: null, loading: false }),
      (error) => mine === asked.current && setState((old) => ({ data: old.data, error, loading: false })),
    );
  };
  useEffect(() => { setState({ data: null, error: null, loading: true }); again(); }, [key]);
  return { ...state, again };
}

const keyOf = (item) => item.key ?? item.seq;

// A list of which only the rows in sight are in the document. Rows have one height. `tail` begins at the end, and
// stays there while rows are appended; rows that are put before the ones in sight, or taken away there, move nothing.
export function LongList({ items, height, row, onStart, onEnd, label, tail }) {
  const box = useRef(null);
  const [range, setRange] = useState([0, 60]);
  const follow = useRef(false);
  const measure = () => {
    const element = box.current;
    if (!element) return;
    const first = Math.max(0, Math.floor(element.scrollTop / height) - 12);
    const last = Math.ceil((element.scrollTop + element.clientHeight) / height) + 12;
    follow.current = tail && element.scrollTop + element.clientHeight >= element.scrollHeight - height;
    setRange((old) => (old[0] === first && old[1] === last ? old : [first, last]));
    if (onStart && first === 0) onStart();
    if (onEnd && last >= items.length) onEnd();
  };
  const before = useRef([]);
  useLayoutEffect(() => {
    const element = box.current;
    if (follow.current) element.scrollTop = element.scrollHeight;
    else if (before.current[0] && items[0] && keyOf(items[0]) !== keyOf(before.current[0])) {
      const place = Math.floor(element.scrollTop / height);
      const kept = before.current[place] && keyOf(before.current[place]);
      const moved = items.findIndex((each) => keyOf(each) === kept);
      if (moved >= 0) element.scrollTop += (moved - place) * height;
    }
    before.current = items;
    measure();
  }, [items]);
  useEffect(() => {
    const observer = new ResizeObserver(measure);
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const [first, last] = range;
  return html`<div class="longlist" ref=${box} onScroll=${measure} tabindex="0" role="list" aria-label=${label}>
    <div class="span" style=${{ height: `${items.length * height}px` }}>
      <div class="window" style=${{ transform: `translateY(${first * height}px)` }}>
        ${items.slice(first, last).map((item, index) => html`<div role="listitem" class="row" style=${{ height: `${height}px` }} key=${keyOf(item) ?? first + index}>${row(item, first + index)}</div>`)}
      </div>
    </div>
  </div>`;
}

// Short messages at the edge of the window; they go by themselves.
export const toasts = signal([]);
export function toast(text, tone = "info") {
  const one = { id: crypto.randomUUID?.() ?? Math.random(), text: cut(text, 300), tone };
  toasts.value = [...toasts.value, one];
  setTimeout(() => { toasts.value = toasts.value.filter((each) => each !== one); }, 8000);
}

export const Toasts = () => html`<div class="toasts" role="status" aria-live="polite">${toasts.value.map((each) => html`<div class="toast" data-tone=${each.tone} key=${each.id}>${each.text}</div>`)}</div>`;
