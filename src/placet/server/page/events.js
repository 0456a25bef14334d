// Events as a long list: pages are fetched as they are scrolled to, new ones are appended as they come.
import { html, useEffect, useRef, useState } from "./html.js";
import { get, query } from "./api.js";
import { on } from "./live.js";
import { Empty, LongList, Problem, Value } from "./parts.js";
import { clock, cut, plural, safe } from "./text.js";

const PAGE = 500;

export function EventList({ path, run, kind = "" }) {
  const [events, setEvents] = useState([]);
  const [error, setError] = useState(null);
  const [opened, open] = useState(null);
  const [filter, setFilter] = useState("");
  const wanted = kind || filter;
  const cursor = useRef(0);
  const atEnd = useRef(false);
  const busy = useRef(false);
  const [loaded, setLoaded] = useState(false);
  const more = () => {
    if (busy.current || atEnd.current) return;
    busy.current = true;
    get(query(path, { after: cursor.current || null, limit: PAGE, kind: wanted })).then((data) => {
      atEnd.current = data.next == null;
      cursor.current = data.next ?? data.events.at(-1)?.seq ?? cursor.current;
      setEvents((old) => [...old, ...data.events.filter((each) => !old.length || each.seq > old.at(-1).seq)]);
      setError(null);
    }, setError).finally(() => { busy.current = false; setLoaded(true); });
  };
  useEffect(() => { setEvents([]); cursor.current = 0; atEnd.current = false; busy.current = false; setLoaded(false); more(); }, [path, wanted]);
  useEffect(() => on("log", (fresh) => {
    if (!atEnd.current) return;
    const mine = fresh.filter((each) => (!run || each.run_id === run) && (!wanted || each.kind === wanted));
    if (mine.length) setEvents((old) => { const last = old.at(-1)?.seq ?? 0; return [...old, ...mine.filter((each) => each.seq > last)]; });
  }), [path, wanted]);
  const row = (event) => html`<button class="event" data-kind=${event.kind} aria-expanded=${opened?.seq === event.seq} onClick=${() => open(opened?.seq === event.seq ? null : event)}>
    <span class="faint seq">${event.seq}</span><span class="faint">${clock(event.time)}</span><span class="kind">${safe(event.kind)}</span><span class="what">${cut(event.action_id ?? "", 40)}</span><span class="faint data">${cut(event.data, 160)}</span></button>`;
  return html`<div class="fill split"><div class="fill">
    <div class="toolbar">${!kind && html`<input type="search" placeholder="Kind, such as action_failed" aria-label="Kind of event" onChange=${(event) => setFilter(event.target.value.trim())} />`}<span class="faint">${plural(events.length, "event")}${atEnd.current ? "" : " and more"}</span></div>
    <${Problem} error=${error} />
    ${loaded && events.length === 0 && html`<${Empty}>No events.</${Empty}>`}
    <${LongList} items=${events} height=${28} row=${row} onEnd=${more} label="Events" tail /></div>
    ${opened && html`<aside><div class="action-facts"><button class="close" aria-label="Close" onClick=${() => open(null)}>×</button><h3>${safe(opened.kind)}</h3><p class="faint">${opened.seq}, ${new Date(opened.time * 1000).toLocaleString()}</p>
      ${["run_id", "proposal_id", "action_id", "trace_id", "span_id", "tenant"].map((key) => opened[key] && html`<${Value} label=${key} value=${opened[key]} />`)}<${Value} label="data" value=${opened.data} open /></div></aside>`}
  </div>`;
}
