// One run: conversation, graph, timeline, story, events; live while it goes on.
import { html, signal, useEffect, useMemo, useRef, useState } from "./html.js";
import { get, post, query, segment } from "./api.js";
import { Asked, Call, CallCount, callsOf } from "./calls.js";
import { Graph } from "./graph.js";
import { on, watch } from "./live.js";
import { Chip, Diff, Empty, LongList, Problem, Status, Value, When, now, toast, useFetched } from "./parts.js";
import { Row } from "./runs.js";
import { go, link, may, needs, route } from "./state.js";
import { clock, cut, duration, plural, safe, stamp, titleOf, usd } from "./text.js";
import { Decision } from "./decision.js";
import { decide } from "./needs.js";
import { CodingParts, RoundParts } from "./work.js";
import { EventList } from "./events.js";

const LONG = 500; // actions of a plan that is worth drawing before its state is known
const HARNESS = "harness"; // in the place of a model: the runtime itself asked for the calls
const OPEN = new Set(["running", "waiting", "interrupted"]);

// The state of the run that is shown: fetched once, then kept up by deltas.
function useRunView(id) {
  const [state, setState] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    let gone = false;
    const load = () => get(`/runs/${segment(id)}`).then((data) => { if (!gone) { setState(data); setError(null); watch([id], data.cursor); } }, (failed) => !gone && setError(failed));
    setState(null);
    load();
    const stops = [
      on("view", (delta) => delta.run_id === id && setState((old) => (old && delta.seq > (old.view.seq ?? 0) ? { ...old, view: merged(old.view, delta) } : old))),
      on("runs", ({ run_ids }) => run_ids.includes(id) && get(`/runs/${segment(id)}`).then((data) => !gone && setState((old) => (old && old.view.seq > data.view.seq ? { ...old, run: data.run, started: data.started } : data)), () => {})),
      on("reconnected", load),
    ];
    return () => { gone = true; watch([]); stops.forEach((stop) => stop()); };
  }, [id]);
  return { state, error };
}

const KEYED = ["actions", "approvals"]; // items by key
const LISTS = ["proposals", "asked", "turns", "checks", "notes"]; // items by position

// The view with what became different in it; see `RunDelta`.
function merged(view, delta) {
  const made = { ...view, ...delta };
  for (const name of KEYED) made[name] = delta[name] ? { ...view[name], ...delta[name] } : view[name];
  for (const name of LISTS) made[name] = delta[name] ? Object.assign([...view[name]], delta[name]) : view[name];
  return made;
}

export function Run() {
  const { id, tab } = route.value;
  const { state, error } = useRunView(id);
  if (error && !state) return html`<section><${Problem} error=${error} /></section>`;
  if (!state) return html`<${Planned} id=${id} />`;
  const { run, view, started } = state;
  const tabs = tabsOf(run, view, started);
  const shown = tabs.some(([key]) => key === tab) ? tab : tabs[0][0];
  const here = (needs.value ?? []).filter((item) => item.run_id === id || started.some((each) => each.run_id === item.run_id));
  return html`<section class="run-page fill">
    <${Head} run=${run} view=${view} needsPerson=${here.length > 0 || run.waits_for_message} />
    ${view.error && run.status !== "waiting" && html`<p class="problem">${safe(view.error)}</p>`}
    ${here.map((item) => html`<${Decision} key=${item.id} item=${item} decide=${decide} allowed=${may("decide")} />`)}
    <nav class="tabs" role="tablist">${tabs.map(([key, label]) => html`<a role="tab" aria-selected=${shown === key} href=${link("runs", id, { tab: key })}>${label}</a>`)}</nav>
    <div class="tab fill">${tabs.find(([key]) => key === shown)[2]()}</div>
  </section>`;
}

// Until the state of a long run is there, its plan; it stays as it is when the state comes.
let drawn = { id: null, layout: null };
function Planned({ id }) {
  const { data } = useFetched(() => get(`/runs/${segment(id)}/graph`), id);
  if (data) drawn = { id, layout: data };
  return html`<section class="run-page fill"><${Empty}>Loading</${Empty}>${data?.keys.length > LONG && html`<${Graph} layout=${data} actions=${{}} select=${() => {}} />`}</section>`;
}

function tabsOf(run, view, started) {
  const count = Object.keys(view.actions).length;
  const talks = view.asked.length + view.turns.length > 0 || run.kind === "chat";
  return [
    talks && ["talk", "Conversation", () => html`<${Talk} run=${run} view=${view} />`],
    view.coding && ["work", "Iterations", () => html`<${CodingParts} view=${view} id=${run.run_id} />`],
    view.round && ["round", "Round", () => html`<${RoundParts} view=${view} id=${run.run_id} />`],
    count > 0 && ["graph", `Graph (${count})`, () => html`<${Actions} run=${run} view=${view} />`],
    count > 0 && ["timeline", "Timeline", () => html`<${Timeline} view=${view} />`],
    ["story", "Story", () => html`<${Story} id=${run.run_id} seq=${view.seq} />`],
    ["events", "Events", () => html`<${EventList} path=${`/runs/${segment(run.run_id)}/events`} run=${run.run_id} />`],
    started.length > 0 && ["runs", `Runs inside (${started.length})`, () => html`<div>${started.map((each) => html`<div class="row" key=${each.run_id}>${Row(each)}</div>`)}</div>`],
  ].filter(Boolean);
}

function Head({ run, view, needsPerson }) {
  const stop = () => post(`/runs/${segment(run.run_id)}/cancel`, {}).then(({ accepted }) => toast(accepted === false ? "The run does not listen; its process may be gone." : "Asked to stop."), (error) => toast(error.message, "bad"));
  const resume = () => post(`/runs/${segment(run.run_id)}/resume`, {}).then(() => toast("Resumed."), (error) => toast(error.message, "bad"));
  const cost = view.cost;
  return html`<header class="head">
    <div><h2 title=${safe(run.title)}>${cut(titleOf(run), 300)}</h2>
      <div class="chips"><${Status} value=${run.status} /><${Chip}>${run.kind}</${Chip}>${view.model && html`<${Chip}>${safe(view.model)}</${Chip}>`}
        <span>began <${When} at=${run.begun} /></span>
        ${(run.status === "running" || (run.ended && run.status !== "waiting")) && html`<span>${run.ended ? "took" : "for"} ${duration(((run.ended ?? now.value) - run.begun) * 1000)}</span>`}
        <${CallCount} view=${view} />
        ${cost.input_tokens + cost.output_tokens > 0 && html`<span>${plural(cost.input_tokens + cost.output_tokens, "token")}${cost.unknown_cost ? ", price not known" : `, ${usd(cost.cost_usd)}`}</span>`}
        <code class="id">${safe(run.run_id)}</code>
        ${run.parent && html`<a class="chip" href=${link("runs", run.parent)}>inside ${safe(run.parent)}</a>`}</div></div>
    ${may("start") && html`<div class="buttons">${run.status === "running" && html`<button class="bad" data-act="stop" onClick=${stop}>Stop</button>`}
      ${(run.status === "interrupted" || run.status === "waiting") && !needsPerson && html`<button data-act="resume" onClick=${resume}>Resume</button>`}</div>`}
  </header>`;
}

function Actions({ run, view }) {
  const [selected, select] = useState(null);
  const count = Object.keys(view.actions).length;
  const { data, error } = useFetched(() => get(`/runs/${segment(run.run_id)}/graph`), `${run.run_id}/${count}`);
  const [layout, setLayout] = useState(drawn.id === run.run_id ? drawn.layout : null);
  useEffect(() => { if (data) setLayout(data); }, [data]);
  const action = selected && view.actions[selected];
  return html`<div class="split fill"><div class="fill"><${Problem} error=${error} /><${Legend} counts=${view.counts} /><${Graph} layout=${layout} actions=${view.actions} selected=${selected} select=${select} /></div>
    ${action && html`<aside><${ActionFacts} key=${selected} run=${run} action=${action} close=${() => select(null)} approval=${view.approvals[action.approval]} /></aside>`}</div>`;
}

const Legend = ({ counts }) => html`<div class="chips legend">${Object.entries(counts).filter(([, count]) => count).map(([status, count]) => html`<span><${Status} value=${status} /> ${count.toLocaleString("en")}</span>`)}</div>`;

const RAN = new Set(["succeeded", "failed", "unknown"]);

// Of a call that a model made the log has the result; of an action of a plan the record of the run has it.
function Output({ run, action }) {
  const { data, error } = useFetched(() => get(query(`/runs/${segment(run.run_id)}/output`, { action: action.key })), `${run.run_id}/${action.key}/${run.status}`);
  return html`<${Problem} error=${error} /><${Value} label=${data?.is_cut ? "Result (the beginning)" : "Result"} value=${data?.output} />${data?.missing && html`<p class="faint">${safe(data.missing)}</p>`}`;
}

function ActionFacts({ run, action, approval, close }) {
  return html`<div class="action-facts"><button class="close" aria-label="Close" onClick=${close}>×</button><h3>${safe(action.id)}</h3>
    <div class="chips"><${Status} value=${action.status ?? "proposed"} />${action.tool && html`<${Chip}>${safe(action.tool)}</${Chip}>`}${action.tier && html`<${Chip}>${safe(action.tier).replaceAll("_", " ")}</${Chip}>`}
      ${action.attempt > 1 && html`<${Chip}>attempt ${action.attempt}</${Chip}>`}${action.cached && html`<${Chip}>from cache</${Chip}>`}${action.rolled_back && html`<${Chip} tone="warn">rolled back</${Chip}>`}
      ${action.exit_code != null && html`<${Chip} tone=${action.exit_code ? "bad" : "good"}>exit code ${action.exit_code}</${Chip}>`}${action.isolation && html`<${Chip}>${safe(action.isolation)}</${Chip}>`}</div>
    <p class="faint">${action.begun ? `${clock(action.begun)} ` : ""}${duration(action.duration_ms ?? (action.ended && action.begun ? (action.ended - action.begun) * 1000 : null))}</p>
    ${action.error && html`<p class="problem">${safe(action.error)}</p>`}
    ${action.progress && html`<p>${safe(action.progress.message ?? "")} ${action.progress.total ? `${action.progress.done} of ${action.progress.total}` : action.progress.done ?? ""}</p>`}
    ${action.gates?.length > 0 && html`<div class="why"><span class="label">Decisions</span><ul>${action.gates.map((gate) => html`<li><strong>${safe(gate.by)}</strong> ${safe(gate.decision)}${gate.text ? `: ${safe(gate.text)}` : ""}</li>`)}</ul></div>`}
    ${approval && html`<p>Approval <code>${safe(approval.id)}</code>: ${approval.decision ? html`${safe(approval.decision)} by <strong>${safe(approval.by)}</strong> ${approval.reason ? `“${safe(approval.reason)}”` : ""}` : "waiting"}</p>`}
    ${approval && !action.parameters ? html`<${Asked} approval=${approval} />` : html`<${Value} label="Parameters" value=${action.parameters} />`}
    ${action.text != null ? html`<${Value} label="Result" value=${action.text} />` : RAN.has(action.status) && run.kind === "plan" && html`<${Output} run=${run} action=${action} />`}
    ${action.deps?.length > 0 && html`<p><span class="label">After</span> ${action.deps.map((each) => html`<code>${safe(each.slice(action.proposal.length + 1))}</code> `)}</p>`}
    ${action.changes?.length > 0 && html`<p><span class="label">Changed state</span> ${action.changes.map((each) => html`<code>${safe(each)}</code> `)}</p>`}
  </div>`;
}

function Timeline({ view }) {
  const rows = useMemo(() => Object.values(view.actions).filter((each) => each.begun != null).sort((one, other) => one.begun - other.begun), [view.actions]);
  const from = rows[0]?.begun ?? 0;
  const endOf = (each) => (each.duration_ms != null ? each.begun + each.duration_ms / 1000 : each.ended ?? now.value);
  const to = rows.reduce((latest, each) => Math.max(latest, endOf(each)), from + 0.001);
  const share = (at) => ((at - from) / (to - from)) * 100;
  if (!rows.length) return html`<${Empty}>Nothing has begun yet.</${Empty}>`;
  return html`<div class="bar-row axis"><span></span><span class="faint"><span>${stamp(from)}</span><span>+ ${duration((to - from) * 1000)}</span></span><span></span></div>
  <${LongList} items=${rows} height=${28} label="Timeline" row=${(each) => {
    const begun = share(each.begun);
    return html`<div class="bar-row" data-status=${each.status} data-nonzero=${each.exit_code > 0}><span class="name" title=${safe(each.id)}>${cut(each.id, 40)}</span><span class="lane"><span class="bar" style=${{ left: `${begun}%`, width: `max(3px, ${share(endOf(each)) - begun}%)` }}></span></span><span class="faint">${duration(each.duration_ms ?? (now.value - each.begun) * 1000)}</span></div>`;
  }} />`;
}

function Story({ id, seq }) {
  const { data, error, again } = useFetched(() => get(`/runs/${segment(id)}/story`), id);
  useEffect(() => { const later = setTimeout(again, 400); return () => clearTimeout(later); }, [seq]);
  return html`<div><${Problem} error=${error} />${data && html`<pre class="story">${data.lines.map(safe).join("\n")}</pre>`}</div>`;
}

const spoken = signal({}); // run id -> what a model says just now
on("text", ({ run_id, speech, text, at, thinking }) => {
  const old = spoken.value[run_id];
  const before = !thinking && old?.speech === speech ? old.text : "";
  if (at + text.length <= before.length) return; // heard already, over another stream
  spoken.value = { ...spoken.value, [run_id]: { speech, text: thinking ? "" : before.slice(0, at) + text, thinking } };
});

// Whether an answer in the log is what was heard; the log may have it cut.
const heardIn = (turn, live) => live.text.trim() && (turn.text.startsWith(live.text.trim()) || live.text.trim().startsWith(turn.text.slice(0, 200)));

function Talk({ run, view }) {
  const box = useRef(null);
  const text = useRef(null);
  const [busy, setBusy] = useState(false);
  const lines = useMemo(() => [...view.asked.map((each) => ({ at: each.at, who: "you", text: each.text })), ...view.turns.map((each) => ({ at: each.at, who: "model", ...each }))].sort((one, other) => one.at - other.at), [view.asked, view.turns]);
  const live = OPEN.has(run.status) ? spoken.value[run.run_id] : null;
  const fresh = live && !view.turns.slice(-2).some((each) => each.text && heardIn(each, live)) ? live : null;
  useEffect(() => { box.current.scrollTop = box.current.scrollHeight; }, [lines.length, fresh?.text]);
  const send = async () => {
    const words = text.current.value.trim();
    if (!words) return;
    setBusy(true);
    try { await post(`/runs/${segment(run.run_id)}/messages`, { text: words }); text.current.value = ""; } catch (error) { toast(error.message, "bad"); } finally { setBusy(false); }
  };
  return html`<div class="talk fill"><div class="messages" ref=${box}>
      ${lines.map((each) => html`<div class="message" data-who=${each.who}><div class="body">${each.text && html`<p>${safe(each.text)}</p>`}${each.calls?.length > 0 && html`<ul class="calls">${callsOf(each, view).map((call) => html`<${Call} ...${call} />`)}</ul>`}${each.error && html`<p class="problem">${safe(each.error)}</p>`}</div><span class="faint">${clock(each.at)} ${each.model === HARNESS ? "read by the runtime for a small model, before it was asked" : each.output_tokens ? plural(each.input_tokens + each.output_tokens, "token") : ""}</span></div>`)}
      ${fresh && html`<div class="message" data-who="model" data-live><div class="body"><p>${safe(fresh.text)}<span class="caret"></span></p>${fresh.thinking && html`<p class="faint">thinking</p>`}</div></div>`}
    </div>
    ${run.kind === "chat" && may("start") && html`<footer class="say"><textarea ref=${text} rows="2" aria-label="Message" placeholder="Message (Enter sends)" onKeyDown=${(event) => { if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); send(); } }}></textarea><button class="good" disabled=${busy} onClick=${send}>Send</button></footer>`}</div>`;
}
