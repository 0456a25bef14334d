// "Agents": their specifications, their scenarios, how their runs went, and a way to run one.
import { html, useEffect, useState } from "./html.js";
import { get, post, segment } from "./api.js";
import { on } from "./live.js";
import { Chip, Empty, Problem, Status, Value, When, toast, useFetched } from "./parts.js";
import { go, may, me } from "./state.js";
import { cut, plural, safe } from "./text.js";

export function Agents() {
  const { data, error, again } = useFetched(() => get("/agents"), "agents");
  useEffect(() => {
    const tested = (events) => events.filter((each) => each.kind === "agent_tested").forEach((each) => {
      again();
      if (each.data.error) toast(`${each.data.agent} could not be tested: ${each.data.error}`, "bad");
    });
    const stops = [on("log", tested), on("runs", again), on("reconnected", again)];
    return () => stops.forEach((stop) => stop());
  }, []);
  return html`<section><h2>Agents</h2><${Problem} error=${error} />
    ${data?.problems.map((each) => html`<p class="problem">${safe(each)}</p>`)}
    ${data?.agents.length === 0 && html`<${Empty}>No agents in the folders of this server. <code>placet agent new NAME</code> makes one.</${Empty}>`}
    <div class="cards wide">${data?.agents.map((agent) => html`<${Agent} key=${agent.path} agent=${agent} again=${again} />`)}</div></section>`;
}

function Agent({ agent, again }) {
  const spec = agent.spec ?? {};
  return html`<div class="card" data-agent=${agent.id}><div class="chips"><strong>${safe(spec.name || agent.id)}</strong>${spec.enabled === false && html`<${Chip} tone="warn">disabled</${Chip}>`}${spec.model && html`<${Chip}>${safe(spec.model)}</${Chip}>`}
      ${agent.runs > 0 && html`<${Chip} tone=${agent.succeeded === agent.runs ? "good" : "warn"}>${agent.succeeded} of ${plural(agent.runs, "run")} succeeded</${Chip}>`}
      ${agent.test && html`<${Chip} tone=${agent.test.passed === agent.test.of ? "good" : "warn"}>pass^${agent.test.k}: ${agent.test.passed} of ${plural(agent.test.of, "scenario")}</${Chip}>`}</div>
    ${agent.error && html`<p class="problem">${safe(agent.error)}</p>`}
    ${spec.description && html`<p>${safe(spec.description)}</p>`}
    ${spec.identity && html`<p class="faint">${cut(spec.identity, 400)}</p>`}
    ${spec.tools?.length > 0 && html`<div class="chips"><span class="label">Tools</span>${spec.tools.map((each) => html`<${Chip}>${safe(each)}</${Chip}>`)}</div>`}
    ${spec.goal && html`<${Value} label="Goal" value=${spec.goal.check ?? spec.goal} />`}
    ${spec.scenarios?.length > 0 && html`<${Scenarios} agent=${agent} again=${again} />`}
    <span class="faint path">${safe(agent.path)}</span>
    ${may("start") && me.value.folders.length > 0 && agent.spec && spec.enabled !== false && html`<${Task} agent=${agent} />`}
  </div>`;
}

// An agent of a project works in that project, one of the person wherever the server may.
const folderOf = (agent) => (agent.where === "user" ? me.value.folders[0] : agent.where);

function Scenarios({ agent, again }) {
  const [k, setK] = useState(3);
  const { test, testing, spec } = agent;
  const run = () => post(`/agents/${segment(agent.id)}/test`, { folder: folderOf(agent), k }).then(again, (error) => toast(error.message, "bad"));
  return html`<details open=${test != null}><summary>${plural(spec.scenarios.length, "scenario")}</summary>
    ${test && html`<p class="faint">Each ran ${plural(test.k, "time")} with ${safe(test.model)}, <${When} at=${test.at} />. ${!test.is_current && html`<strong>The agent has been changed since.</strong>`}</p>`}
    ${spec.scenarios.map((each, index) => html`<${Scenario} scenario=${each} went=${test?.is_current ? test.scenarios[index] : test?.scenarios.find((one) => one.name === each.name)} />`)}
    ${may("start") && me.value.folders.length > 0 && html`<div class="buttons"><label>times <input type="number" min="1" max="20" value=${k} aria-label="Times" onInput=${(event) => setK(Number(event.target.value))} /></label>
      <button data-act="test" disabled=${testing || !(k >= 1 && k <= 20)} onClick=${run}>${testing ? "Testing" : "Test"}</button></div>`}</details>`;
}

function Scenario({ scenario: { name, input, turns, files, ...expected }, went }) {
  return html`<div class="scenario"><div class="chips">${name && html`<strong>${safe(name)}</strong>`}${went && html`<${Status} value=${went.passed ? "passed" : "failed"} /><span class="faint">${went.times} of ${plural(went.of, "run")}</span>`}</div>
    <${Value} label="Input" value=${input || turns} /><${Value} label="Files" value=${files} /><${Value} label="Expected" value=${expected} />
    ${went?.failures.map((each) => html`<p class="problem">${safe(each)}</p>`)}</div>`;
}

function Task({ agent }) {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const run = async (event) => {
    event.preventDefault();
    setBusy(true);
    try { go("runs", (await post("/runs", { kind: "agent", agent: agent.id, folder: folderOf(agent), text })).run_id); } catch (error) { toast(error.message, "bad"); } finally { setBusy(false); }
  };
  return html`<form class="say" onSubmit=${run}><input type="text" required aria-label=${`Task for ${safe(agent.id)}`} placeholder="Task" value=${text} onInput=${(event) => setText(event.target.value)} /><button disabled=${busy}>Run</button></form>`;
}
