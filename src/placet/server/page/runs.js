// "Runs": the list, live, by status and folder.
import { html, useEffect, useMemo, useState } from "./html.js";
import { get, query } from "./api.js";
import { on } from "./live.js";
import { Chip, Empty, LongList, Problem, Status, When } from "./parts.js";
import { go, link, me, route } from "./state.js";
import { cut, duration, plural, safe, titleOf } from "./text.js";

const STATUSES = ["running", "waiting", "succeeded", "partial", "aborted", "refused", "canceled", "budget", "interrupted"];
const PAGE = 100;

export function Runs() {
  const { status = "", folder = "" } = route.value;
  const [rows, setRows] = useState([]);
  const [next, setNext] = useState(null);
  const [error, setError] = useState(null);
  const [loaded, setLoaded] = useState(false);
  const [busy, setBusy] = useState(false);
  const page = (after) => get(query("/runs", { status, folder, limit: PAGE, after }));
  const merge = (fresh, old) => {
    const known = new Map(old.map((row) => [row.run_id, row]));
    for (const row of fresh) known.set(row.run_id, row);
    return [...known.values()].sort((one, other) => other.begun - one.begun || (one.run_id < other.run_id ? 1 : -1));
  };
  const first = () => page().then((data) => { setRows((old) => merge(data.runs, old)); setNext((old) => old ?? data.next); setError(null); setLoaded(true); }, setError);
  const more = () => {
    if (!next || busy) return;
    setBusy(true);
    page(next).then((data) => { setRows((old) => merge(data.runs, old)); setNext(data.next); }, setError).finally(() => setBusy(false));
  };
  useEffect(() => { setRows([]); setNext(null); setLoaded(false); first(); }, [status, folder]);
  useEffect(() => {
    let waiting = null;
    // Many rows may change within one moment; the list is fetched once for all of them.
    const soon = () => { waiting ??= setTimeout(() => { waiting = null; first(); }, 250); };
    const stops = [on("runs", soon), on("reconnected", soon)];
    return () => { clearTimeout(waiting); stops.forEach((stop) => stop()); };
  }, [status, folder]);
  const folders = useMemo(() => [...new Set([...(me.value?.folders ?? []), ...rows.map((row) => row.folder).filter(Boolean)])].sort(), [rows]);
  const choose = (more) => go("runs", null, Object.fromEntries(Object.entries({ status, folder, ...more }).filter(([, value]) => value)));
  return html`<section class="fill"><div class="toolbar"><h2>Runs</h2>
      <select aria-label="Status" value=${status} onChange=${(event) => choose({ status: event.target.value })}><option value="">any status</option>${STATUSES.map((each) => html`<option value=${each}>${each}</option>`)}</select>
      <select aria-label="Folder" value=${folder} onChange=${(event) => choose({ folder: event.target.value })}><option value="">any folder</option>${folders.map((each) => html`<option value=${each}>${safe(each)}</option>`)}</select>
      <span class="faint">${plural(rows.length, "run")}${next ? " and more" : ""}</span></div>
    <${Problem} error=${error} />
    ${loaded && rows.length === 0 && html`<${Empty}>No runs here yet. Start one with <a href=${link("start")}>New</a>, or with <code>placet run</code> or <code>placet do</code>.</${Empty}>`}
    <${LongList} items=${rows.map((row) => ({ ...row, key: row.run_id }))} height=${48} row=${Row} onEnd=${more} label="Runs" />
  </section>`;
}

export const Row = (run) => html`<a class="run" href=${link("runs", run.run_id)} data-run=${run.run_id}>
  <${Status} value=${run.status} />
  <span class="title" title=${safe(run.title)}>${cut(titleOf(run), 200)}</span>
  <span><${Chip}>${run.kind}</${Chip}></span>
  <span class="faint folder"><bdi>${safe(run.folder ?? "")}</bdi></span>
  <span class="faint">${run.ended ? duration((run.ended - run.begun) * 1000) : ""}</span>
  <${When} at=${run.begun} />
  <code class="id">${safe(run.run_id)}</code>
</a>`;
