// The calls of a model: what each was given, who decided about it, how it ended, and what came of it.
//
// Keep true:
// 1. All of it is from fields of the state of the run; no sentence is read.
// 2. A call that did not do what was asked never looks like one that did.
import { html } from "./html.js";
import { get, segment } from "./api.js";
import { Chip, Status, Value, useFetched } from "./parts.js";
import { cut, duration, plural, pretty, safe } from "./text.js";

const GIVEN = new Set(["once", "always", "edits"]); // answers that let a call run
const ENDED = new Set(["succeeded", "failed"]);
const SHORT = 60; // characters of one parameter

// The calls of a turn in order. One that became no action waits for those before it, or is left out for good.
export function callsOf(turn, view) {
  const isNewest = turn.turn === view.turns.at(-1)?.turn;
  const left = isNewest && view.status !== "ended" ? "proposed" : "skipped";
  return turn.calls.map((tool, place) => {
    const action = view.actions[turn.actions?.[place]] ?? null;
    return { tool, action, status: statusOf(action, left), approval: action && view.approvals[action.approval] };
  });
}

// A rule, a permission or a person denies; all else that keeps a call from running rejects it.
function statusOf(action, left) {
  if (!action) return left;
  const status = action.status ?? "proposed";
  return status === "rejected" && action.gates?.some((each) => each.decision === "deny" && each.by !== "check") ? "denied" : status;
}

export function Call({ tool, action, status, approval }) {
  const given = action?.parameters && Object.entries(action.parameters).map(([name, value]) => `${name}=${cut(value, SHORT).replaceAll("\n", "⏎")}`).join(", ");
  return html`<li class="call" data-status=${status} data-tool=${safe(tool)}>
    <div class="chips"><${Status} value=${status} /><strong>${safe(tool)}</strong>${given && html`<code class="given" title=${cut(pretty(action.parameters), 2000)}>${cut(given, 4 * SHORT)}</code>`}
      ${action?.exit_code ? html`<${Chip} tone="bad">exit code ${action.exit_code}</${Chip}>` : null}${action?.cached && html`<${Chip}>from cache</${Chip}>`}<span class="faint">${ENDED.has(status) ? duration(action.duration_ms) : ""}</span></div>
    ${approval && !given && html`<${Asked} approval=${approval} />`}<${Decided} approval=${approval} />
    ${action?.error && approval?.decision !== "deny" && html`<p class="why">${safe(action.error)}</p>`}
    ${action?.text && ENDED.has(status) && !(action.error && action.text.endsWith(action.error)) && html`<details class="value"><summary><span class="label">Output</span> <span class="faint">${cut(action.text, 60)}</span></summary><pre>${safe(action.text)}</pre></details>`}
  </li>`;
}

// What a call was to be given, of one that did not run: the log has it of those that ran, the approval of the others.
export function Asked({ approval }) {
  const { data } = useFetched(() => get(`/approvals/${segment(approval.id)}`), approval.id);
  return html`<${Value} label="Parameters" value=${data?.item.parameters} />`;
}

function Decided({ approval }) {
  if (!approval) return null;
  if (!approval.decision) return html`<p class="faint">Waits for a person: approval <code>${safe(approval.id)}</code></p>`;
  const isGiven = GIVEN.has(approval.decision);
  const word = isGiven ? "approved" : approval.decision === "deny" ? "denied" : safe(approval.decision);
  return html`<p class=${isGiven ? "faint" : "why"}>${word}${approval.by && html` by <strong>${safe(approval.by)}</strong>`}${approval.reason ? `: ${safe(approval.reason)}` : ""}</p>`;
}

// How many calls were asked for, and what became of them; of a plan, how many were made, and what was rejected.
export function CallCount({ view }) {
  const { tool_calls: made, retries } = view.cost;
  const again = retries ? `, ${plural(retries, "retry", "retries")}` : "";
  const asked = view.turns.flatMap((turn) => callsOf(turn, view));
  if (!asked.length) {
    const rejected = view.counts.rejected ?? 0;
    return made + rejected > 0 && html`<span class="callcount">${plural(made, "call")}${again}${rejected ? `, ${plural(rejected, "action")} rejected` : ""}</span>`;
  }
  const counts = {};
  for (const { status } of asked) {
    const word = status === "denied" ? "rejected" : status; // a count does not say by whom
    counts[word] = (counts[word] ?? 0) + 1;
  }
  const parts = Object.entries(counts).sort(([, one], [, other]) => other - one).map(([word, count]) => `${count.toLocaleString("en")} ${word}`);
  return html`<span class="callcount">${plural(asked.length, "call")} (${parts.join(", ")})${again}</span>`;
}
