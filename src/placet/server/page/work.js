// Work with checks: coding sessions and rounds of loops, as parts of a run's page and in views of their own.
import { html } from "./html.js";
import { get, segment } from "./api.js";
import { Chip, Diff, Problem, Status, Value, When, useFetched } from "./parts.js";
import { link } from "./state.js";
import { cut, duration, plural, safe, usd } from "./text.js";

export const CheckLine = ({ check }) => html`<details class="check" data-status=${check.status ?? (check.passed ? "passed" : "failed")}>
  <summary><${Status} value=${check.status ?? (check.passed ? "passed" : "failed")} /> <strong>${safe(check.name)}</strong> <code>${cut(check.command ?? "", 100)}</code>
    ${check.exit_code != null && html`<span class="faint">exit code ${check.exit_code}</span>`} <span class="faint">${duration(check.duration_ms)}</span></summary>
  ${check.why && html`<p>${safe(check.why)}</p>`}${check.output && html`<pre>${safe(check.output)}</pre>`}
</details>`;

export function CodingParts({ view, id }) {
  const { data: session } = useFetched(() => get(`/code/${segment(id)}`), `${id}/${view.seq}`);
  const coding = view.coding;
  return html`<div class="scroll"><div class="chips"><${Status} value=${coding.state} />${coding.branch && html`<${Chip}>${safe(coding.branch)}</${Chip}>`}<span class="faint">${safe(coding.repository)}</span></div>
    <p>${safe(coding.intent)}</p>
    <${Iterations} iterations=${coding.iterations} />
    ${session?.checks?.length > 0 && html`<h3>Checks</h3>${session.checks.map((each) => html`<${CheckLine} check=${each} />`)}`}
    ${!session?.checks?.length && view.checks.length > 0 && html`<h3>Checks</h3>${view.checks.slice(-12).map((each) => html`<${CheckLine} check=${each} />`)}`}
    ${session?.has_change && session.state !== "needs_approval" && html`<${SessionDiff} id=${id} state=${session.state} />`}</div>`;
}

const Iterations = ({ iterations }) => (iterations?.length ? html`<h3>Iterations</h3><div class="tablebox"><table><thead><tr><th>attempt</th><th>iteration</th><th>turns ended</th><th>checks</th><th>turns</th><th>why it ended</th></tr></thead><tbody>
  ${iterations.map((each) => html`<tr><td>${each.attempt}</td><td>${each.run ? html`<a href=${link("runs", each.run)}>${each.iteration ?? each.number}</a>` : each.iteration}</td><td>${each.status ? html`<${Status} value=${each.status} />` : "…"}</td>
    <td>${each.green ? html`<${Status} value="passed" />` : each.red?.length ? `red: ${cut(each.red.join(", "), 80)}` : ""}</td><td>${each.turns ?? ""}</td><td class="faint text">${cut(each.why_no_further ?? "", 120)}</td></tr>`)}</tbody></table></div>` : null);

function SessionDiff({ id, state }) {
  const { data, error } = useFetched(() => get(`/code/${segment(id)}/diff`), `${id}/${state}`);
  return html`<h3>Change</h3><${Problem} error=${error} /><${Diff} text=${data?.diff} />`;
}

export function RoundParts({ view, id }) {
  const round = view.round;
  const { data: stored } = useFetched(() => get(`/rounds/${segment(id)}`), `${id}/${round.phase}/${round.outcome}`);
  const { data: change } = useFetched(() => (round.tree ? get(`/rounds/${segment(id)}/diff`) : Promise.resolve(null)), `${id}/${round.tree}`);
  return html`<div class="scroll"><div class="chips"><strong>${safe(round.loop)}</strong> round ${round.number} <${Chip}>${safe(round.level)}</${Chip}>${round.outcome ? html`<${Status} value=${round.outcome} />` : html`<${Status} value="running" />`}
      ${round.verified != null && html`<${Chip} tone=${round.verified ? "good" : "warn"}>${round.verified ? "verified" : "not verified"}</${Chip}>`}<span class="faint">${round.tokens ? plural(round.tokens, "token") : ""} ${usd(round.cost)}</span></div>
    <ol class="phases">${round.phases?.map((each) => html`<li data-now=${each.phase === round.phase && !round.outcome}>${safe(each.phase)} <${When} at=${each.at} exact /></li>`)}</ol>
    ${round.reason && html`<p>${safe(round.reason)}</p>`}${round.why && html`<p class="faint">${safe(Array.isArray(round.why) ? round.why.join("; ") : round.why)}</p>`}
    ${round.workers?.length > 0 && html`<p>${round.workers.map((each) => html`<a class="chip" href=${link("runs", each.run)}>${safe(each.role)}: ${each.turns ?? 0} turns</a> `)}</p>`}
    ${stored?.summary && html`<p>${safe(stored.summary)}</p>`}
    <${Value} label="Verdict" value=${stored?.verdict ?? round.verdict} open />
    ${stored?.checks?.length > 0 && html`<h3>Checks</h3>${stored.checks.map((each) => html`<${CheckLine} check=${each} />`)}`}
    ${change?.diff && html`<h3>Change</h3><${Diff} text=${change.diff} />`}</div>`;
}
