// "Code": coding sessions.
import { html, useEffect } from "./html.js";
import { get } from "./api.js";
import { on } from "./live.js";
import { Chip, Empty, Problem, Status, When, useFetched } from "./parts.js";
import { link } from "./state.js";
import { cut, plural, safe, usd } from "./text.js";

export function Code() {
  const { data, error, again } = useFetched(() => get("/code?limit=100"), "code");
  useEffect(() => { const stops = [on("runs", again), on("reconnected", again)]; return () => stops.forEach((stop) => stop()); }, []);
  return html`<section><h2>Coding sessions</h2><${Problem} error=${error} />
    ${data?.sessions.length === 0 && html`<${Empty}>No sessions yet. <code>placet code "what is wrong" --check "pytest -q"</code> begins one, or <a href=${link("start", null, { kind: "code" })}>New</a>.</${Empty}>`}
    <div class="cards">${data?.sessions.map((each) => html`<a class="card" key=${each.id} href=${link("runs", each.id)} data-session=${each.id}>
      <div class="chips"><${Status} value=${each.state} />${each.green && html`<${Chip} tone="good">checks pass</${Chip}>`}<${When} at=${each.created_at} /></div>
      <strong>${cut(each.intent, 160)}</strong>
      <span class="faint">${safe(each.repository)}</span>
      <span class="faint">${[plural(each.iterations ?? 0, "iteration"), each.tokens && plural(each.tokens, "token"), each.cost_usd && usd(each.cost_usd)].filter(Boolean).join(", ")}</span>
      ${each.reason && html`<span>${cut(each.reason, 200)}</span>`}
      ${each.questions?.some((one) => !one.answer) && html`<${Chip} tone="warn">asks a question</${Chip}>`}</a>`)}</div>
  </section>`;
}
