// "Runs": the list, live, by status and folder.
import { html, useEffect, useMemo, useState } from "./html.js";
import { get, query } from "./api.js";
import { on } from "./live.js";
import { Chip, Empty, LongList, Problem, Status, When, useFetched } from "./parts.js";
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
    <${Queue} folder=${folder} />
    ${loaded && rows.length === 0 && html`<${Empty}>No runs here yet. Start one with <a href=${link("start")}>New</a>, or with <code>placet run</code> or <code>placet do</code>.</${Empty}>`}
    <${LongList} items=${rows.map((row) => ({ ...row, key: row.run_id }))} height=${48} row=${Row} onEnd=${more} label="Runs" />
  </section>`;
}

// A submission has no event before it begins, so the queue is asked for now and then.
const QUEUE_MS = 5000;

function Queue({ folder }) {
  const { data, again } = useFetched(() => Promise.all([get(query("/submissions", { folder })), get("/workers")]), folder);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || again(), QUEUE_MS);
    const stops = [on("runs", again), on("reconnected", again)];
    return () => { clearInterval(timer); stops.forEach((stop) => stop()); };
  }, [folder]);
  if (!data) return null;
  const [{ submissions }, { workers, queues }] = data;
  const alive = workers.filter((each) => each.state !== "gone");
  if (!submissions.length && !alive.length) return null;
  return html`<details class="queue" open=${submissions.length > 0}><summary>${[submissions.length > 0 && `${plural(submissions.length, "submission")} without a worker`, alive.length > 0 && plural(alive.length, "worker")].filter(Boolean).join(", ")}</summary>
    <ul>${submissions.map((each) => html`<li key=${each.run_id} data-submission=${each.run_id}><${Status} value=${each.state} /> ${each.kind} ${each.has_begun ? html`<a href=${link("runs", each.run_id)}><code>${safe(each.run_id)}</code></a>` : html`<code>${safe(each.run_id)}</code>`} in ${safe(each.queue)}, <${When} at=${each.submitted} />${each.why && html`<span class="faint">: ${cut(each.why, 300)}</span>`}</li>`)}
      ${alive.map((each) => html`<li key=${each.id} data-worker=${each.id}><${Status} value=${each.state} /> <code>${safe(each.id)}</code> serves ${safe(each.queue)}: ${each.running} of ${plural(each.concurrency, "run")}</li>`)}
      ${queues.map((each) => html`<li key=${`queue ${each.queue}`} class="faint" data-queue=${each.queue}>queue ${safe(each.queue)}: ${Object.entries(each.states).sort().map(([state, number]) => `${number} ${state}`).join(", ")}</li>`)}</ul></details>`;
}

export const Row = (run) => html`<a class="run" href=${link("runs", run.run_id)} data-run=${run.run_id}>
  <${Status} value=${run.status} />
  <span class="title" title=${safe(run.title)}>${cut(titleOf(run), 200)}</span>
  <span><${Chip}>${run.kind}</${Chip}></span>
  <span class="faint folder"><bdi>${safe(run.folder ?? "")}</bdi></span>
  <span class="faint took">${run.ended && run.status !== "waiting" ? duration((run.ended - run.begun) * 1000) : ""}</span>
  <${When} at=${run.begun} />
  <code class="id">${safe(run.run_id)}</code>
</a>`;
