// One thing that waits for a person, with all that is known about it and the answers it takes.
// Used by "Needs you" and, alone, by a decision link on a phone.
import { html, useRef, useState } from "./html.js";
import { get, segment } from "./api.js";
import { Chip, Diff, Problem, Value, When, useFetched } from "./parts.js";
import { safe } from "./text.js";

const WORDS = { approval: "wants to run", round: "a loop's change", question: "a question", contract: "checks to confirm", change: "a change to publish", outcome: "outcome unknown" };

// `decide(item, answer)` sends an answer; it throws what the server objects.
// A link decides `once`: nothing that reaches further than this one thing.
export function Decision({ item, decide, allowed, selected, runLink, once }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const [reason, setReason] = useState("");
  const send = async (answer) => {
    setBusy(true);
    setError(null);
    try { await decide(item, { reason: reason || undefined, ...(typeof answer === "function" ? answer() : answer) }); } catch (failed) { setError(failed); } finally { setBusy(false); }
  };
  return html`<article class="decision" data-kind=${item.kind} data-id=${item.id} aria-selected=${selected} tabindex="0">
    <header>
      <span class="kind">${WORDS[item.kind] ?? item.kind}</span>
      <h3 title=${safe(item.title)}>${safe(item.title)}</h3>
      <${When} at=${item.asked_at} />
    </header>
    <${Facts} item=${item} runLink=${runLink} />
    <${Problem} error=${error} />
    ${allowed ? html`<${Answers} ...${{ item, busy, send, reason, setReason, once }} />` : html`<p class="faint">You may look, not decide: your token lacks the right “decide”.</p>`}
  </article>`;
}

const DIFFS = { round: "rounds", change: "code" }; // kinds whose diff is an endpoint of its own

function Change({ path }) {
  const { data, error } = useFetched(() => get(path), path);
  return html`<${Problem} error=${error} /><${Diff} text=${data?.diff} />`;
}

function Facts({ item, runLink }) {
  return html`<div class="facts">
    <div class="chips">
      ${item.risk && html`<${Chip} tone=${item.risk === "destructive" ? "bad" : "plain"}>risk: ${safe(item.risk)}</${Chip}>`}
      ${item.recovery ? html`<${Chip} tone=${item.can_undo ? "good" : "bad"}>${item.can_undo ? "can be undone" : "cannot be undone"}</${Chip}>` : item.reversibility && html`<${Chip} tone=${item.reversibility === "irreversible" ? "bad" : "good"}>${safe(item.reversibility)}</${Chip}>`}
      ${item.confinement && html`<${Chip} tone=${item.is_confined ? "good" : "bad"}>${item.is_confined ? "confined" : "not confined"}</${Chip}>`}
      ${item.branch && html`<${Chip}>to the branch ${safe(item.branch)}</${Chip}>`}
      ${item.agent && html`<${Chip}>agent: ${safe(item.agent)}</${Chip}>`}
      ${item.tier && html`<${Chip}>${safe(item.tier).replaceAll("_", " ")}</${Chip}>`}
      ${item.expires_at && html`<${Chip}>expires <${When} at=${item.expires_at} exact /></${Chip}>`}
      ${runLink && item.run_id && html`<a class="chip" href=${runLink(item.run_id)}>run ${safe(item.run_id)}</a>`}
    </div>
    ${item.reasons?.length > 0 && html`<div class="why"><span class="label">Why you are asked</span><ul>${item.reasons.map((each) => html`<li>${safe(each)}</li>`)}</ul></div>`}
    ${item.trail?.length > 0 && html`<div class="why"><span class="label">Path of the data</span><ol class="trail">${item.trail.map((each) => html`<li>${safe(each)}</li>`)}</ol></div>`}
    ${item.confinement_text && html`<p><span class="label">Confinement</span> ${safe(item.confinement_text)}</p>`}
    ${item.recovery_text && html`<p><span class="label">Undo</span> ${safe(item.recovery_text)}</p>`}
    ${item.text && html`<p class="question">${safe(item.text)}</p>`}
    ${item.summary && html`<p>${safe(item.summary)}</p>`}
    ${item.verdict && html`<${Value} label="Checker's verdict" value=${item.verdict} />`}
    ${item.reason && html`<p><span class="label">What is known</span> ${safe(item.reason)}</p>`}
    ${item.checks?.length > 0 && html`<div class="why"><span class="label">Checks</span><ul>${item.checks.map((each) => html`<li><strong>${safe(each.name)}</strong> <code>${safe(each.command)}</code></li>`)}</ul></div>`}
    ${item.needs_person && Object.keys(item.needs_person).length > 0 && html`<div class="why warn"><span class="label">Look at these yourself</span><ul>${Object.entries(item.needs_person).map(([path, why]) => html`<li><code>${safe(path)}</code> ${safe(why)}</li>`)}</ul></div>`}
    <${Value} label="Parameters" value=${item.parameters} open=${!item.preview} />
    ${DIFFS[item.kind] && item.diff === undefined ? html`<${Change} path=${`/${DIFFS[item.kind]}/${segment(item.run_id)}/diff`} />` : html`<${Diff} text=${item.preview ?? item.diff} />`}
    ${item.preview === "" && html`<p class="faint">It changes nothing: the file has this text already.</p>`}
    ${item.diff_missing && html`<p class="faint">The diff cannot be shown: ${safe(item.diff_missing)}</p>`}
    ${item.hidden > 0 && html`<p class="faint">${item.hidden} secret values are hidden here. <code>placet approvals show ${safe(item.id)} --reveal</code> shows them.</p>`}
  </div>`;
}

function output(text) {
  try { return JSON.parse(text); } catch { throw new Error('Say what it answered, as JSON: "done" needs it. Texts stand in double quotes.'); }
}

function Answers({ item, busy, send, reason, setReason, once }) {
  const text = useRef(null);
  const button = (label, answer, tone, key) => html`<button class=${tone} disabled=${busy} data-answer=${key ?? answer.decision} onClick=${() => send(answer)}>${label}</button>`;
  const why = html`<input type="text" placeholder="Reason (optional)" aria-label="Reason" value=${reason} maxlength="1000" onInput=${(event) => setReason(event.target.value)} />`;
  switch (item.kind) {
    case "approval":
      return html`<footer>${button("Approve once", { decision: "once" }, "good")}${!once && button("Always", { decision: "always" }, "")}
        ${!once && item.offers_edits && button("All edits of this run", { decision: "edits" }, "")}${button("Deny", { decision: "deny" }, "bad")}${why}</footer>`;
    case "round":
      return html`<footer>${button("Approve", { decision: "once" }, "good")}${button("Deny", { decision: "deny" }, "bad")}${why}</footer>`;
    case "contract":
    case "change":
      return html`<footer>${button("Approve", { decision: "approve" }, "good")}${button("Deny", { decision: "deny" }, "bad")}${why}</footer>`;
    case "outcome":
      return html`<footer>${item.needs_output && html`<textarea ref=${text} rows="2" aria-label="What it answered" placeholder=${'What it answered, as JSON: others use it. Such as "text" or {"id": 7}'}></textarea>`}
        <span class="label">What happened?</span>${button("It was done", item.needs_output ? () => ({ choice: "done", output: output(text.current.value) }) : { choice: "done" }, "", "done")}${button("Run it again", { choice: "retry" }, "", "retry")}${button("Count it as failed", { choice: "fail" }, "bad", "fail")}</footer>`;
    case "question":
      return html`<footer><textarea ref=${text} rows="2" aria-label="Your answer" placeholder="Your answer"></textarea>
        <button class="good" data-answer="answer" disabled=${busy} onClick=${() => text.current.value.trim() && send({ text: text.current.value })}>Answer</button></footer>`;
    default:
      return null;
  }
}
