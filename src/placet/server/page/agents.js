// "Agents": their specifications, their scenarios, how their runs went, and a way to run one.
import { html, useState } from "./html.js";
import { get, post } from "./api.js";
import { Chip, Empty, Problem, Value, toast, useFetched } from "./parts.js";
import { go, may, me } from "./state.js";
import { cut, plural, safe } from "./text.js";

export function Agents() {
  const { data, error } = useFetched(() => get("/agents"), "agents");
  return html`<section><h2>Agents</h2><${Problem} error=${error} />
    ${data?.problems.map((each) => html`<p class="problem">${safe(each)}</p>`)}
    ${data?.agents.length === 0 && html`<${Empty}>No agents in the folders of this server. <code>placet agent new NAME</code> makes one.</${Empty}>`}
    <div class="cards wide">${data?.agents.map((agent) => html`<${Agent} key=${agent.path} agent=${agent} />`)}</div></section>`;
}

function Agent({ agent }) {
  const spec = agent.spec ?? {};
  return html`<div class="card" data-agent=${agent.id}><div class="chips"><strong>${safe(spec.name || agent.id)}</strong>${spec.enabled === false && html`<${Chip} tone="warn">disabled</${Chip}>`}${spec.model && html`<${Chip}>${safe(spec.model)}</${Chip}>`}
      ${agent.runs > 0 && html`<${Chip} tone=${agent.succeeded === agent.runs ? "good" : "warn"}>${agent.succeeded} of ${plural(agent.runs, "run")} succeeded</${Chip}>`}</div>
    ${agent.error && html`<p class="problem">${safe(agent.error)}</p>`}
    ${spec.description && html`<p>${safe(spec.description)}</p>`}
    ${spec.identity && html`<p class="faint">${cut(spec.identity, 400)}</p>`}
    ${spec.tools?.length > 0 && html`<div class="chips"><span class="label">Tools</span>${spec.tools.map((each) => html`<${Chip}>${safe(each)}</${Chip}>`)}</div>`}
    ${spec.goal && html`<${Value} label="Goal" value=${spec.goal.check ?? spec.goal} />`}
    ${spec.scenarios?.length > 0 && html`<details><summary>${plural(spec.scenarios.length, "scenario")}</summary>${spec.scenarios.map((each) => html`<${Scenario} scenario=${each} />`)}
      <p class="faint"><code>placet agent test ${safe(agent.id)}</code> runs them, each several times.</p></details>`}
    <span class="faint path">${safe(agent.path)}</span>
    ${may("start") && me.value.folders.length > 0 && agent.spec && spec.enabled !== false && html`<${Task} agent=${agent} />`}
  </div>`;
}

function Scenario({ scenario: { name, input, turns, files, ...expected } }) {
  return html`<div class="scenario">${name && html`<strong>${safe(name)}</strong>`}<${Value} label="Input" value=${input || turns} /><${Value} label="Files" value=${files} /><${Value} label="Expected" value=${expected} /></div>`;
}

function Task({ agent }) {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  // An agent of a project works in that project, one of the person wherever the server may.
  const folder = agent.where === "user" ? me.value.folders[0] : agent.where;
  const run = async (event) => {
    event.preventDefault();
    setBusy(true);
    try { go("runs", (await post("/runs", { kind: "agent", agent: agent.id, folder, text })).run_id); } catch (error) { toast(error.message, "bad"); } finally { setBusy(false); }
  };
  return html`<form class="say" onSubmit=${run}><input type="text" required aria-label=${`Task for ${agent.id}`} placeholder="Task" value=${text} onInput=${(event) => setText(event.target.value)} /><button disabled=${busy}>Run</button></form>`;
}
