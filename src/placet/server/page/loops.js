// "Loops": what recurs, its rounds, its spend; pause, stop, and the switch that stops all.
import { html, useEffect, useState } from "./html.js";
import { get, post, query, segment } from "./api.js";
import { Chart } from "./chart.js";
import { on } from "./live.js";
import { Chip, Empty, Problem, Status, When, toast, useFetched } from "./parts.js";
import { go, link, may, me, route } from "./state.js";
import { cut, plural, safe, usd } from "./text.js";

export function Loops() {
  const { data, error, again } = useFetched(() => get("/loops"), "loops");
  useEffect(() => { const stops = [on("runs", again), on("reconnected", again)]; return () => stops.forEach((stop) => stop()); }, []);
  const change = (call) => call.then(again, (failed) => toast(failed.message, "bad"));
  const state = (loop, wanted) => change(post(`/loops/${segment(loop.key)}/state`, { state: wanted }));
  const now = (loop) => post("/runs", { kind: "round", loop: loop.name, folder: loop.repository }).then(({ run_id }) => go("runs", run_id), (failed) => toast(failed.message, "bad"));
  const runnable = (loop) => !loop.stopped && me.value.folders.some((each) => loop.repository === each || loop.repository.startsWith(`${each}/`));
  const stopped = data?.switch;
  const chosen = data?.loops.find((each) => each.key === route.value.id);
  return html`<section><div class="toolbar"><h2>Loops</h2>
      ${may("start") && data && (stopped
        ? html`<button data-act="switch-off" onClick=${() => change(post("/loops-switch", { on: false }))}>Allow loops again</button>`
        : html`<button class="bad" data-act="switch-on" onClick=${() => change(post("/loops-switch", { on: true }))}>Stop all loops</button>`)}</div>
    ${stopped && html`<p class="problem">All loops are stopped${stopped.by ? ` by ${safe(stopped.by)}` : ""}${stopped.reason ? `: ${safe(stopped.reason)}` : ""}.</p>`}
    <${Problem} error=${error} />
    ${data?.loops.length === 0 && html`<${Empty}>No loops yet. <code>placet loop new ci-sweeper</code> makes one, <code>placet loop start</code> runs what is due.</${Empty}>`}
    <div class="cards">${data?.loops.map((loop) => html`<div class="card" key=${loop.key} data-loop=${loop.name}>
      <div class="chips"><a href=${link("loops", loop.key)}><strong>${safe(loop.name)}</strong></a>
        ${loop.stopped ? html`<${Chip} tone="bad">stopped</${Chip}>` : loop.paused ? html`<${Chip} tone="warn">paused</${Chip}>` : loop.running ? html`<${Status} value="running" />` : html`<${Chip} tone="good">scheduled</${Chip}>`}
        <${Chip}>${safe(loop.cadence)}</${Chip}></div>
      <span class="faint">${safe(loop.repository)}</span>
      <span>${loop.due ? html`due <${When} at=${loop.due} exact />` : ""} ${loop.last && html`last: <${Status} value=${loop.last} />`} ${loop.failures ? plural(loop.failures, "failure") : ""}</span>
      ${(loop.stopped ?? loop.paused)?.reason && html`<span>${safe((loop.stopped ?? loop.paused).reason)}</span>`}
      ${loop.round && html`<a href=${link("runs", loop.round)}>round under way</a>`}
      ${may("start") && html`<div class="buttons">${runnable(loop) && !stopped && html`<button data-act="now" disabled=${loop.running} onClick=${() => now(loop)}>Run now</button>`}${loop.paused || loop.stopped ? html`<button data-act="run" onClick=${() => state(loop, "running")}>Resume</button>` : html`<button data-act="pause" onClick=${() => state(loop, "paused")}>Pause</button><button class="bad" data-act="stop" onClick=${() => state(loop, "stopped")}>Stop</button>`}</div>`}
    </div>`)}</div>
    ${chosen ? html`<${Rounds} loop=${chosen} />` : data?.loops.length > 0 && html`<${Rounds} />`}
  </section>`;
}

function Rounds({ loop }) {
  const { data, error, again } = useFetched(() => get(query("/rounds", { loop: loop?.key, limit: 200 })), loop?.key ?? "all");
  useEffect(() => { const stops = [on("runs", again), on("reconnected", again)]; return () => stops.forEach((stop) => stop()); }, [loop?.key]);
  const rounds = data?.rounds ?? [];
  const ended = [...rounds].filter((each) => each.ended_at != null).sort((one, other) => one.ended_at - other.ended_at);
  const times = ended.map((each) => each.ended_at);
  const spent = sums(ended.map((each) => each.spend.cost_usd ?? 0));
  return html`<h3>Rounds${loop ? ` of ${safe(loop.name)}` : ""}</h3><${Problem} error=${error} />
    ${ended.length > 1 && html`<div class="charts"><${Chart} title="Tokens per round" times=${times} series=${[{ label: "tokens", values: ended.map((each) => each.spend.total_tokens) }]} />
      ${spent.at(-1) > 0 && html`<${Chart} title="Spend, added up (USD)" times=${times} format=${usd} series=${[{ label: "USD", values: spent }]} />`}</div>`}
    <div class="tablebox"><table><thead><tr><th>loop</th><th>round</th><th>level</th><th>outcome</th><th>verdict</th><th class="number">tokens</th><th class="number">cost</th><th>ended</th><th>why</th></tr></thead><tbody>
    ${rounds.map((each) => html`<tr key=${each.id}><td>${safe(each.loop)}</td><td><a href=${link("runs", each.id, { tab: "round" })}>${each.number}</a></td><td>${safe(each.level)}</td><td><${Status} value=${each.outcome ?? "running"} /></td>
      <td>${safe(each.verdict?.verdict ?? "")}</td><td class="number">${each.spend.total_tokens.toLocaleString("en")}</td><td class="number">${usd(each.spend.cost_usd)}</td><td><${When} at=${each.ended_at} /></td><td class="text">${cut(each.reason || each.summary || "", 120)}</td></tr>`)}</tbody></table></div>`;
}

function sums(values) {
  let total = 0;
  return values.map((each) => (total += each));
}
