// "Memory": facts with where they come from and how long they hold; skills with both arms of their trial.
import { html, useState } from "./html.js";
import { get, query } from "./api.js";
import { Chip, Empty, Problem, Status, useFetched } from "./parts.js";
import { moment, plural, safe } from "./text.js";

export function Memory() {
  const [text, setText] = useState("");
  const [past, setPast] = useState(false);
  const { data, error } = useFetched(() => get(query("/memory/facts", { q: text, past: past && !text ? "true" : null, limit: 200 })), `${past} ${text}`);
  const facts = data?.facts ?? [];
  return html`<section><div class="toolbar"><h2>Memory</h2><input type="search" aria-label="Search facts" placeholder="Ask in words" onChange=${(event) => setText(event.target.value.trim())} /><label class="faint"><input type="checkbox" checked=${past} disabled=${text !== ""} onChange=${(event) => setPast(event.target.checked)} /> also what is no longer believed</label><span class="faint">${data ? plural(facts.length, "fact") : ""}</span></div>
    <${Problem} error=${error} />
    ${data && facts.length === 0 && html`<${Empty}>${text ? "No fact answers that." : html`Nothing is remembered yet. <code>placet memory add</code> stores a fact.`}</${Empty}>`}
    <div class="cards wide">${facts.map((fact) => html`<div class="card" key=${fact.id} data-fact=${fact.id}>
      <div class="chips"><strong>${safe(fact.subject)}</strong>${fact.key && html`<code>${safe(fact.key)}</code>`}${(fact.labels ?? []).map((each) => html`<${Chip} tone="warn">${safe(each)}</${Chip}>`)}${(fact.invalidated ?? fact.superseded_by) != null && html`<${Chip} tone="bad">no longer believed</${Chip}>`}</div>
      <p>${safe(fact.body)}</p>
      <span class="faint">from ${safe(fact.source)}, learned ${moment(fact.learned)}${fact.valid_from ? `, holds from ${moment(fact.valid_from)}` : ""}${fact.valid_until ? ` until ${moment(fact.valid_until)}` : ""}</span></div>`)}</div>
    <${Skills} /></section>`;
}

function Skills() {
  const { data, error } = useFetched(() => get("/memory/skills"), "skills");
  if (!data?.skills.length) return html`<${Problem} error=${error} />`;
  const arm = ({ successes, failures }) => (successes + failures ? `${successes} of ${successes + failures}` : "no run yet");
  return html`<h3>Skills</h3><div class="tablebox"><table><thead><tr><th>skill</th><th>standing</th><th class="number">succeeded with it</th><th class="number">succeeded without it</th><th>description</th></tr></thead><tbody>
    ${data.skills.map((skill) => html`<tr key=${skill.name}><td>${safe(skill.name)}</td><td><${Status} value=${skill.state} />${skill.degraded && html` <${Chip} tone="bad">degraded</${Chip}>`}</td><td class="number">${arm(skill.trial.offered)}</td><td class="number">${arm(skill.trial.withheld)}</td><td class="text">${safe(skill.description)}</td></tr>`)}</tbody></table></div>`;
}
