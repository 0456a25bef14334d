// "Agents": their specifications, scenarios with what came of them, and a way to run one.
import { html, useState } from "./html.js";
import { get, post, segment } from "./api.js";
import { Chip, Empty, Problem, Status, Value, toast, useFetched } from "./parts.js";
import { go, may, me } from "./state.js";
import { cut, safe } from "./text.js";

export function Agents() {
  const { data, error } = useFetched(() => get("/agents"), "agents");
  return html`<section><h2>Agents</h2><${Problem} error=${error} />
    ${data?.agents.length === 0 && html`<${Empty}>No agents in the folders of this server. <code>placet agent new NAME</code> makes one.</${Empty}>`}
    <div class="cards wide">${data?.agents.map((agent) => html`<${Agent} key=${`${agent.folder}/${agent.id}`} agent=${agent} />`)}</div></section>`;
}

function Agent({ agent }) {
  const [text, setText] = useState("");
  const run = () => post("/runs", { kind: "agent", agent: agent.id, folder: agent.folder ?? me.value.folders[0], text }).then(({ run_id }) => go("runs", run_id), (error) => toast(error.message, "bad"));
  const history = agent.history;
  return html`<div class="card" data-agent=${agent.id}><div class="chips"><strong>${safe(agent.name || agent.id)}</strong><code class="id">${safe(agent.id)}</code>${agent.enabled === false && html`<${Chip} tone="warn">disabled</${Chip}>`}${agent.model && html`<${Chip}>${safe(agent.model)}</${Chip}>`}
      ${history?.passed != null && html`<${Chip} tone=${history.passed === history.runs ? "good" : "warn"}>pass^${history.k ?? history.runs}: ${history.passed} of ${history.total ?? history.runs}</${Chip}>`}</div>
    <p>${cut(agent.identity ?? "", 400)}</p>
    <div class="chips">${(agent.tools ?? []).map((each) => html`<${Chip}>${safe(each)}</${Chip}>`)}</div>
    ${agent.scenarios?.length > 0 && html`<details><summary>${agent.scenarios.length} scenarios</summary>${agent.scenarios.map((each) => html`<div class="scenario">${each.status && html`<${Status} value=${each.status} />`}<${Value} label="input" value=${each.input} /><${Value} label="expect" value=${each.expect} /></div>`)}</details>`}
    ${may("start") && agent.enabled !== false && html`<div class="say"><input type="text" aria-label=${`Task for ${agent.id}`} placeholder="Task" value=${text} onInput=${(event) => setText(event.target.value)} onKeyDown=${(event) => event.key === "Enter" && text.trim() && run()} /><button disabled=${!text.trim()} onClick=${run}>Run</button></div>`}
  </div>`;
}
