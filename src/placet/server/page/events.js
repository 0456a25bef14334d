// Events as a long list, the newest at its end: older ones are fetched as they are scrolled to, new ones are
// appended as they come.
//
// Keep true:
// 1. No event of those in the list is missing between two others.
// 2. However long the log is, only a part of it is held: what was let go is fetched again.
import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import { get, query } from "./api.js";
import { on } from "./live.js";
import { Empty, LongList, Problem, Value } from "./parts.js";
import { link } from "./state.js";
import { cut, plural, safe, stamp } from "./text.js";

const PAGE = 500;
const MOST = 20_000; // events that are held while new ones come
const SPANS = [["", "any time"], ["3600", "last hour"], ["86400", "last day"], ["604800", "last week"]];

// `run`: only of that run. `whole`: of all, with more to search by.
export function EventList({ path, run, whole }) {
  const [search, setSearch] = useState({});
  const [events, setEvents] = useState([]);
  const [error, setError] = useState(null);
  const [opened, open] = useState(null);
  const [loaded, setLoaded] = useState(false);
  const held = useRef(null); // of what is searched for now: the events, whether the first is there, what came meanwhile
  const filter = () => ({ kind: search.kind, run: search.run, tool: search.tool, since: search.since && Date.now() / 1000 - Number(search.since) });
  const filtered = Object.values(search).some(Boolean);
  const show = (mine, all) => {
    mine.events = all;
    setEvents(all);
  };
  const append = (mine, fresh) => {
    const all = [...mine.events, ...fresh.filter((each) => each.seq > (mine.events.at(-1)?.seq ?? 0))];
    const spilled = mine.events.length <= MOST && all.length > MOST; // whoever has scrolled to more wants to see it
    mine.isWhole &&= !spilled;
    show(mine, spilled ? all.slice(-MOST) : all);
  };
  const fetched = (mine, more, take) => {
    mine.busy = true;
    get(query(path, { ...filter(), limit: PAGE, ...more })).then((data) => {
      if (held.current === mine) { setError(null); take(data); }
    }, (failed) => held.current === mine && setError(failed)).finally(() => {
      mine.busy = false;
      if (held.current !== mine) return;
      setLoaded(true);
      if (mine.again) newer(mine);
    });
  };
  const older = (mine) => mine && !mine.busy && !mine.isWhole && fetched(mine, { newest: true, before: mine.events[0]?.seq }, (data) => {
    mine.isWhole = data.next == null;
    mine.began = true;
    show(mine, [...data.events.reverse(), ...mine.events]);
    append(mine, mine.missed.splice(0));
  });
  const newer = (mine) => {
    mine.again = mine.busy;
    if (!mine.busy) fetched(mine, { after: mine.events.at(-1)?.seq ?? 0 }, (data) => { append(mine, data.events); mine.again ||= data.next != null; });
  };
  useEffect(() => {
    const mine = held.current = { events: [], isWhole: false, began: false, busy: false, again: false, missed: [] };
    setEvents([]);
    setLoaded(false);
    open(null);
    older(mine);
    const stops = [on("reconnected", () => mine.began || older(mine)), on("log", (fresh) => {
      const ours = run ? fresh.filter((each) => each.run_id === run) : fresh;
      if (!ours.length) return;
      if (filtered) newer(mine); // the server knows what matches
      else if (mine.began) append(mine, ours);
      else mine.missed.push(...ours);
    })];
    return () => { stops.forEach((stop) => stop()); held.current = null; };
  }, [path, JSON.stringify(search)]);
  const field = (name, hint, options) => html`<input type="search" placeholder=${hint} aria-label=${hint} list=${options} onChange=${(event) => setSearch((old) => ({ ...old, [name]: event.target.value.trim() }))} />`;
  const kinds = useMemo(() => [...new Set(events.map((each) => each.kind))].sort(), [events]);
  const row = (event) => html`<button class=${whole ? "event whole" : "event"} data-kind=${event.kind} aria-expanded=${opened?.seq === event.seq} onClick=${() => open(opened?.seq === event.seq ? null : event)}>
    <span class="faint seq">${event.seq}</span><span class="faint">${stamp(event.time)}</span><span class="kind">${safe(event.kind)}</span>${whole && html`<span class="faint of">${cut(event.run_id ?? "", 40)}</span>`}<span class="what">${cut(event.action_id ?? "", 40)}</span><span class="faint data">${cut(event.data, 160)}</span></button>`;
  return html`<div class="fill split"><div class="fill">
    <div class="toolbar">${field("kind", "Kind", "kinds")}<datalist id="kinds">${kinds.map((each) => html`<option value=${each} />`)}</datalist>
      ${whole && html`${field("run", "Run")}${field("tool", "Tool")}<select aria-label="Time" onChange=${(event) => setSearch((old) => ({ ...old, since: event.target.value }))}>${SPANS.map(([value, label]) => html`<option value=${value}>${label}</option>`)}</select>`}
      <span class="faint">${plural(events.length, "event")}${held.current?.isWhole ? "" : " and older ones"}</span></div>
    <${Problem} error=${error} />
    ${loaded && !error && events.length === 0 && html`<${Empty}>${filtered ? "No event matches." : "No events."}</${Empty}>`}
    <${LongList} items=${events} height=${28} row=${row} onStart=${() => older(held.current)} label="Events" tail /></div>
    ${opened && html`<aside><div class="action-facts"><button class="close" aria-label="Close" onClick=${() => open(null)}>×</button><h3>${safe(opened.kind)}</h3><p class="faint">${opened.seq}, ${new Date(opened.time * 1000).toLocaleString()}</p>
      ${whole && opened.run_id && html`<a href=${link("runs", opened.run_id)}>the run ${cut(opened.run_id, 60)}</a>`}
      ${["run_id", "proposal_id", "action_id", "trace_id", "span_id", "tenant"].map((key) => opened[key] && html`<${Value} label=${key} value=${opened[key]} />`)}<${Value} label="data" value=${opened.data} open /></div></aside>`}
  </div>`;
}
